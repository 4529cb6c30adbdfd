// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/machine/exec.h"

#include <fmt/format.h>

namespace octet::ptxsim::machine {
namespace {

std::string at_insn(const Program& program, const Insn& insn, std::string_view what,
                    const std::string& who) {
  return fmt::format("line {}, column {}: '{}': {} ({})", insn.place.line, insn.place.column,
                     program.texts[insn.index], what, who);
}

// kLate: instructions after which an operation is performed all the same, since warps that ask for a word of memory in a loop go on for ever.
constexpr uint64_t kLatest = 20000;
constexpr uint64_t kLongestDelay = 2000;  // instructions of the machine; 0 is as likely as 1999

}  // namespace

Outcome Exec::fail(const Insn& insn, std::string_view what, int lane) {
  std::string who = fmt::format("block {}, warp {}", cta.number, warp.index);
  if (lane >= 0) who += fmt::format(", lane {}", lane);
  error = {Code::kInvalidArgument, at_insn(program(), insn, what, who)};
  return Outcome::kFailed;
}

Status async_error(const Cta& cta, const Insn& insn, std::string_view what) {
  return {Code::kInvalidArgument, at_insn(*cta.grid->program, insn, what,
                                          fmt::format("block {}, performed later", cta.number))};
}

namespace {

// What the checker says, with the lines of the instructions that it names by #index.
std::string with_lines(const Program& program, const std::string& what) {
  const size_t at = what.find('#');
  if (at == std::string::npos) return what;
  const size_t end = what.find_first_not_of("0123456789", at + 1);
  const size_t index = std::stoul(what.substr(at + 1, end - at - 1));
  const std::string line =
      fmt::format("line {} ('{}')", program.code[index].place.line, program.texts[index]);
  return what.substr(0, at) + line + (end == std::string::npos ? "" : what.substr(end));
}

// Reports are told apart by what is said, not by the byte that it is said of: there would be one for each.
std::string without_byte(const std::string& what) {
  constexpr std::string_view kByte = "shared byte ";
  const size_t at = what.find(kByte);
  if (at == std::string::npos) return what;
  const size_t end = what.find_first_not_of("0123456789", at + kByte.size());
  return what.substr(0, at) + "shared memory" + (end == std::string::npos ? "" : what.substr(end));
}

bool is_kept(Machine& machine, const Program& program, const Insn& insn, const std::string& what) {
  if (machine.settings().order != OrderCheck::kReport) return false;
  machine.report(fmt::format("line {}: '{}': {}", insn.place.line, program.texts[insn.index],
                             without_byte(what)));
  return true;
}

}  // namespace

bool Exec::is_out_of_order(const Insn& insn, const std::string& what, int lane) {
  if (what.empty()) return false;
  const std::string said = with_lines(program(), what);
  if (is_kept(machine, program(), insn, said)) return false;
  fail(insn, said, lane);
  return true;
}

Status async_order(Machine& machine, const Cta& cta, const Insn& insn, const std::string& what) {
  if (what.empty()) return {};
  const std::string said = with_lines(*cta.grid->program, what);
  return is_kept(machine, *cta.grid->program, insn, said) ? Status{} : async_error(cta, insn, said);
}

Outcome Exec::post(const Insn& insn, int channel, std::function<Status()> perform,
                   std::vector<uint64_t> after, uint64_t* id, uint64_t bytes) {
  if (id != nullptr) *id = 0;
  ++machine.counts().async_ops;
  if (machine.settings().time == Time::kEager) {
    error = perform();
    return error.ok() ? Outcome::kNext : Outcome::kFailed;
  }
  AsyncOp op{&insn, warp.index, channel, 0, 0, std::move(after), bytes, std::move(perform)};
  const bool is_late = machine.settings().time == Time::kLate;
  op.due = machine.now() + (is_late ? kLatest : machine.random().below(kLongestDelay));
  const uint64_t given = cta.pending.push(std::move(op));
  if (id != nullptr) *id = given;
  return Outcome::kNext;
}

}  // namespace octet::ptxsim::machine
