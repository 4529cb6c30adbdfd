// SPDX-License-Identifier: Apache-2.0
// octet: the routed experts of a mixture-of-experts layer, from the command line.
//
// Exit status: 0 done; 1 the input is wrong or a check failed (one line on stderr, no output file left); 2 misused.
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "build_info.h"
#include "console.h"
#include "core/nearest.h"
#include "core/printable.h"
#include "process.h"
#include "verbs.h"

namespace octet::tools {
namespace {

void print_help() {
  print_out(
      "octet: the routed experts of a mixture-of-experts layer for the few rows of a decode step,\n"
      "with 4-bit weights decoded exactly.\n\nUsage: octet VERB [OPTIONS]\n\nVerbs:\n");
  for (const Verb& verb : kVerbs) print_out("  {:<10}{}\n", verb.name, verb.summary);
  print_out(
      "\nOptions:\n  --help    this text; octet VERB --help explains a verb\n"
      "  --version version and revision\n\nExample:\n"
      "  octet synth deepseek-v4.1-flash --layers 1 --experts 16 --output ckpt\n"
      "  octet check ckpt --layer 0\n");
}

int unknown_verb(std::string_view word) {
  std::vector<std::string_view> names;
  for (const Verb& verb : kVerbs) names.push_back(verb.name);
  print_err("octet: no verb '{}'{} (octet --help lists them)\n", shown(word),
            did_you_mean(word, names));
  return kMisused;
}

int run_command(const Args& words) {
  if (words.empty()) {
    print_err("octet: no verb, want one of those that octet --help lists\n");
    return kMisused;
  }
  const std::string& word = words[0];
  if (word == "--help" || word == "-h" || word == "help") {
    print_help();
    return kDone;
  }
  if (word == "--version") {
    print_out("octet {} ({})\n", kVersion, kGitRevision);
    return kDone;
  }
  for (const Verb& verb : kVerbs) {
    if (verb.name == word) return verb.run(Args(words.begin() + 1, words.end()));
  }
  return unknown_verb(word);
}

// The same, or kFailed where the report did not reach stdout.
int end_report(int exit) {
  const Status flushed = flush_report();
  if (exit != kDone || flushed.ok()) return exit;
  print_err("octet: {}\n", flushed.why);
  return kFailed;
}

}  // namespace
}  // namespace octet::tools

int main(int argc, char** argv) {
  octet::tools::prepare_process();
  // Our code throws nothing; the standard library does when memory runs out.
  try {
    return octet::tools::end_report(octet::tools::run_command({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    octet::tools::report_exception(error);
    return octet::tools::kFailed;
  }
}
