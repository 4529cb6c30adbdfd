// SPDX-License-Identifier: Apache-2.0
// ptxsim FILE.ptx RUN.json: runs a kernel on the CPU (run_file.h), prints what it did (machine/counts.h; with --json as an object of one
// line) and, with --trace, each instruction.
// Exit: 0, 1 the run failed (the reason goes to stderr), 2 misused.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>

#include "ptxsim/insn/approx.h"
#include "ptxsim/insn/decode.h"
#include "ptxsim/text/parse.h"
#include "run_file.h"

namespace octet::ptxsim::tool {
namespace {

struct Flags {
  std::string ptx, run, time = "eager", tables, arithmetic = "exact";
  uint64_t seed = 1;
  uint32_t num_sms = 132;
  bool trace = false, lists = false, reads_unset = false, json = false;
  int trace_block = -1, trace_warp = -1;
};

machine::Settings settings_of(const Flags& flags) {
  machine::Settings settings;
  settings.time = flags.time == "late"     ? machine::Time::kLate
                  : flags.time == "random" ? machine::Time::kRandom
                                           : machine::Time::kEager;
  settings.seed = flags.seed;
  settings.num_sms = flags.num_sms;
  settings.refuses_unset_reads = !flags.reads_unset;
  settings.arithmetic = flags.arithmetic == "truncated" ? machine::Arithmetic::kTruncated
                                                        : machine::Arithmetic::kExact;
  return settings;
}

void list(const text::Module& module) {
  for (const auto& item : module.items) {
    const auto* function = std::get_if<text::Function>(&item);
    if (function != nullptr && function->is_entry && function->body)
      fmt::print("{}\n", function->name);
  }
}

void print_counts(const machine::Machine& machine, bool as_json) {
  const machine::Counts& counts = machine.counts();
  if (as_json) {
    for (const machine::GridCounts& grid : machine.grid_counts()) fmt::print("{}\n", json_of(grid));
    return;
  }
  fmt::print(
      "instructions {}  lanes {}  polls {}  asynchronous {}  global bytes read {}, written {}\n",
      counts.instructions, counts.lane_instructions, counts.polls, counts.async_ops,
      counts.global_read_bytes, counts.global_written_bytes);
}

Status write_buffers(const RunFile& run, machine::GlobalMemory& memory) {
  for (const auto& [name, path] : run.write) {
    OCTET_ASSIGN_OR_RETURN(const auto bytes, memory.read(run.buffers.at(name), run.sizes.at(name)));
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
    if (!out) return io_error(path + ": cannot be written");
  }
  return {};
}

Status simulate(const Flags& flags) {
  OCTET_ASSIGN_OR_RETURN(const std::string source, read_file(flags.ptx));
  OCTET_ASSIGN_OR_RETURN(const text::Module module, text::parse(source));
  if (flags.lists) {
    list(module);
    return {};
  }
  if (flags.run.empty()) return misuse("RUN.json: required, but with --list");
  if (!flags.tables.empty()) OCTET_RETURN_IF_ERROR(insn::use_approx_tables(flags.tables));
  machine::Machine machine(settings_of(flags));
  OCTET_ASSIGN_OR_RETURN(const RunFile run, read_run(flags.run, machine.memory()));
  OCTET_ASSIGN_OR_RETURN(const insn::ModuleData data,
                         insn::ModuleData::load(module, machine.memory()));
  OCTET_ASSIGN_OR_RETURN(const machine::Program program, insn::decode(module, run.kernel, data));
  if (flags.trace) {
    machine.set_trace([&](const machine::Cta& cta, const machine::Warp& warp,
                          machine::LaneMask lanes, const machine::Insn& insn) {
      if (flags.trace_block >= 0 && cta.number != uint64_t(flags.trace_block)) return;
      if (flags.trace_warp >= 0 && warp.index != flags.trace_warp) return;
      fmt::print("block {} warp {} lanes {:08x} line {}: {}\n", cta.number, warp.index, lanes,
                 insn.place.line, program.texts[insn.index]);
    });
  }
  const Status status = machine.run(machine::Launch{&program, run.grid, run.block, run.cluster,
                                                    run.shared_bytes, run.parameters, false});
  print_counts(machine, flags.json);
  OCTET_RETURN_IF_ERROR(status);
  return write_buffers(run, machine.memory());
}

}  // namespace
}  // namespace octet::ptxsim::tool

int main(int argc, char** argv) {
  using namespace octet::ptxsim::tool;
  Flags flags;
  CLI::App app("Runs a kernel of a PTX file on the CPU.", "ptxsim");
  app.add_option("ptx", flags.ptx, "the PTX file")->required();
  app.add_option("run", flags.run, "the JSON file: kernel, grid, block, buffers, parameters");
  app.add_option("--time", flags.time, "when asynchronous operations are performed")
      ->check(CLI::IsMember({"eager", "random", "late"}));
  app.add_option("--seed", flags.seed, "of every choice");
  app.add_option("--arithmetic", flags.arithmetic, "of tensor cores")
      ->check(CLI::IsMember({"exact", "truncated"}));
  app.add_option("--tables", flags.tables,
                 "a folder of a device's ex2, rcp and sqrt: ex2.i8, rcp.i8, sqrt.i8");
  app.add_flag("--read-unset", flags.reads_unset,
               "reads of bytes that nobody has written give poison and are no error");
  app.add_option("--sms", flags.num_sms, "multiprocessors of the device")
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", flags.json, "print the counts as JSON, in one line");
  app.add_flag("--trace", flags.trace, "print each instruction");
  app.add_option("--trace-block", flags.trace_block, "of this block alone");
  app.add_option("--trace-warp", flags.trace_warp, "of this warp alone");
  app.add_flag("--list", flags.lists, "print the kernels' names");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const octet::Status status = simulate(flags);
  if (status.ok()) return 0;
  fmt::print(stderr, "ptxsim: {}\n", status.why);
  return status.code == octet::Code::kMisuse ? 2 : 1;
}
