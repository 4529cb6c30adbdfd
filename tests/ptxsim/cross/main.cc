// SPDX-License-Identifier: Apache-2.0
// ptxsim_cross: the cross-run's cases on a device and in the simulator.
//
//   ptxsim_cross texts FOLDER              writes each case's PTX
//   ptxsim_cross device FILE               runs what FILE does not have yet on a Hopper device, and puts the outcomes there
//   ptxsim_cross compare FILE REPORT.json  runs the same in the simulator and writes what differs
//   ptxsim_cross check REPORT.json         without a device: the simulator's bytes have the digests that the device's had
//   ptxsim_cross reads FILE.ptx            of a kernel that is not ours: which of its instructions the simulator does not know
//
// Exit: 0, 1 something differs or failed, 2 misused, 77 no Hopper device here.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <unistd.h>

#include "device.h"
#include "ptxsim/insn/approx.h"
#include "reads.h"
#include "report.h"

namespace octet::cross {
namespace {

struct Flags {
  std::string file, report, folder, only, but, tables, date, differing, time = "eager";
  uint64_t seed = 1;
  int threads = 1, every = 1;
};

constexpr int kNoDevice = 77;
const char kDescription[] = "device";  // a record of its own

std::vector<Case> chosen(const Flags& flags) {
  const auto has = [](const Case& one, const std::string& part) {
    return one.name.find(part) != std::string::npos;
  };
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [&](const Case& one) {
    return !has(one, flags.only) || (!flags.but.empty() && has(one, flags.but));
  });
  return cases;
}

Status write_texts(const Flags& flags) {
  std::filesystem::create_directories(flags.folder);
  int number = 0;
  for (const Case& one : chosen(flags)) {
    if (one.text.empty()) continue;
    std::ofstream out(fmt::format("{}/{:04}.ptx", flags.folder, number++));
    out << "// " << one.name << "\n" << one.text;
    if (!out) return io_error(flags.folder + ": cannot be written");
  }
  return {};
}

// A device's error ends the process, which begins anew behind the case that it came of.
Status run_cases(Device& device, const Flags& flags, char** argv) {
  OCTET_ASSIGN_OR_RETURN(const auto done, read_outcomes(flags.file));
  if (!done.contains(kDescription))
    OCTET_RETURN_IF_ERROR(append_outcome(flags.file, kDescription, {device.description(), {}}));
  for (const Case& one : chosen(flags)) {
    if (done.contains(one.name)) continue;
    bool is_lost = false;
    const Outcome outcome = device.run(one, &is_lost);
    if (!outcome.error.empty()) fmt::print("{}: {}\n", one.name, outcome.error);
    OCTET_RETURN_IF_ERROR(append_outcome(flags.file, one.name, outcome));
    if (!is_lost) continue;
    std::fflush(stdout);
    execv("/proc/self/exe", argv);
    return io_error("the program cannot be started anew");
  }
  return {};
}

Status run_device(const Flags& flags, char** argv) {
  OCTET_ASSIGN_OR_RETURN(const auto device, Device::open());
  OCTET_RETURN_IF_ERROR(run_cases(*device, flags, argv));
  if (flags.report.empty()) return {};
  OCTET_ASSIGN_OR_RETURN(const auto outcomes, read_outcomes(flags.file));
  Check asked;
  asked.run = [&](const Case& what) { return outcomes.at(what.name); };
  asked.asks_unproven = asked.has_tables = true;
  return check(chosen(flags), flags.report, asked);
}

Status run_compare(const Flags& flags) {
  Comparison comparison;
  OCTET_ASSIGN_OR_RETURN(comparison.device, read_outcomes(flags.file));
  comparison.cases = chosen(flags);
  if (comparison.device.contains(kDescription))
    comparison.device_description = comparison.device[kDescription].error;
  comparison.date = flags.date;
  comparison.command = "scripts/cross_run.sh";
  comparison.has_tables = !flags.tables.empty();
  comparison.threads = flags.threads;
  comparison.differing = flags.differing;
  return compare(comparison, flags.report);
}

Status run_check(const Flags& flags) {
  ptxsim::machine::Settings settings;
  settings.time = flags.time == "late"     ? ptxsim::machine::Time::kLate
                  : flags.time == "random" ? ptxsim::machine::Time::kRandom
                                           : ptxsim::machine::Time::kEager;
  settings.seed = flags.seed;
  std::vector<Case> cases = chosen(flags), asked;
  for (size_t i = 0; i < cases.size(); ++i)
    if (i % static_cast<size_t>(flags.every) == 0) asked.push_back(std::move(cases[i]));
  Check how;
  how.run = [&](const Case& what) { return simulate_as_needed(what, settings); };
  how.has_tables = !flags.tables.empty();
  how.threads = flags.threads;
  return check(asked, flags.report, how);
}

}  // namespace
}  // namespace octet::cross

int main(int argc, char** argv) {
  using namespace octet::cross;
  Flags flags;
  CLI::App app("The same PTX on a device and in the simulator.", "ptxsim_cross");
  app.require_subcommand(1);
  app.add_option("--only", flags.only, "cases whose names have this");
  app.add_option("--but", flags.but, "and do not have this");
  app.add_option("--tables", flags.tables,
                 "a folder of the device's ex2, rcp and sqrt: ex2.i8, rcp.i8, sqrt.i8");
  app.add_option("--threads", flags.threads, "of the simulator's runs")->check(CLI::Range(1, 256));
  CLI::App* texts = app.add_subcommand("texts", "write each case's PTX");
  texts->add_option("folder", flags.folder)->required();
  CLI::App* device = app.add_subcommand("device", "run on a device");
  device->add_option("file", flags.file)->required();
  device->add_option("--kept", flags.report, "a report whose digests the device shall have");
  CLI::App* compare =
      app.add_subcommand("compare", "simulate, and compare with a device's outcomes");
  compare->add_option("file", flags.file)->required();
  compare->add_option("report", flags.report)->required();
  compare->add_option("--date", flags.date, "of the device's run");
  compare->add_option("--differing", flags.differing, "a file for the outcomes that differ");
  CLI::App* check =
      app.add_subcommand("check", "simulate, and compare with the digests of a report");
  check->add_option("report", flags.report)->required();
  check->add_option("--time", flags.time)->check(CLI::IsMember({"eager", "random", "late"}));
  check->add_option("--seed", flags.seed);
  check->add_option("--every", flags.every, "of so many cases one alone")
      ->check(CLI::Range(1, 1000));
  CLI::App* reads = app.add_subcommand("reads", "decode a file of PTX");
  reads->add_option("file", flags.file)->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  octet::Status status;
  if (!flags.tables.empty()) status = octet::ptxsim::insn::use_approx_tables(flags.tables);
  if (status.ok() && device->parsed()) {
    status = run_device(flags, argv);
    if (status.code == octet::Code::kUnsupported) {
      fmt::print(stderr, "ptxsim_cross: {}\n", status.why);
      return kNoDevice;
    }
    if (status.ok()) return 0;
  }
  if (status.ok())
    status = texts->parsed()     ? write_texts(flags)
             : compare->parsed() ? run_compare(flags)
             : reads->parsed()   ? report_decoding(flags.file)
                                 : run_check(flags);
  if (status.ok()) return 0;
  fmt::print(stderr, "ptxsim_cross: {}\n", status.why);
  return 1;
}
