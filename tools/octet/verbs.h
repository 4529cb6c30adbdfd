// SPDX-License-Identifier: Apache-2.0
// The verbs of the command line: one row a verb, one file a verb. cli-contract: `octet VERB --help`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tools {

using Args = std::vector<std::string>;  // the words after the verb

// The process's exit status.
enum Exit : int {
  kDone = 0,     // done
  kFailed = 1,   // the input is wrong or a check failed: one line on stderr
  kMisused = 2,  // the command line is wrong: unknown verb, option, operation, setting
};

int run_verb(const Args& args);
int op_verb(const Args& args);
int inspect_verb(const Args& args);
int validate_verb(const Args& args);
int synth_verb(const Args& args);
int pack_verb(const Args& args);
int check_verb(const Args& args);
int bench_verb(const Args& args);
int list_verb(const Args& args);
int explain_verb(const Args& args);

struct Verb {
  std::string_view name;
  std::string_view summary;  // one line
  int (*run)(const Args& args);
};

inline constexpr Verb kVerbs[] = {
    {"run", "one MoE layer of a checkpoint: x in, y out", run_verb},
    {"op", "one operation of the library on tensors from a file", op_verb},
    {"inspect", "the MoE layers of a checkpoint, and which kernels take them", inspect_verb},
    {"validate", "read every weight and scale of a checkpoint; list what is wrong", validate_verb},
    {"synth", "make a checkpoint with a real model's names and made-up values", synth_verb},
    {"pack", "write a layer in the library's own streaming layout", pack_verb},
    {"check", "run a layer and compare it with the float64 reference", check_verb},
    {"bench", "time a layer with cold weights, beside the memory's read ceiling", bench_verb},
    {"list", "the kernels there are", list_verb},
    {"explain", "which kernel a problem gets, and why not each of the others", explain_verb},
};

}  // namespace octet::tools
