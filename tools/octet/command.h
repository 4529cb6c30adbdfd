// SPDX-License-Identifier: Apache-2.0
// What every verb does alike: parse its words, end with an exit status and at most one line on stderr.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "octet/status.hpp"
#include "verbs.h"

namespace octet::tools {

using Json = nlohmann::ordered_json;

// An application of one verb: `purpose` is one paragraph, `example` one command line.
void describe_verb(CLI::App& app, std::string_view verb, std::string_view purpose,
                   std::string_view example);

// Parses; the exit status if the verb ends here (--help, misuse), else nothing.
std::optional<int> parse(CLI::App& app, const Args& args);

// The exit status of a finished verb; a failure is one line on stderr. kMisuse adds a hint to `octet VERB --help`.
int finish(const Status& status, std::string_view verb);

// One line on stderr that is no failure: "octet: note: ...".
void note(std::string_view text);

// "OPTION: found 0, want 1..8".
struct Range {
  int64_t least, most;
};
Status check_range(std::string_view option, int64_t found, Range range);

// Rows of a call made up here: 16 GB of x for the widest model.
constexpr int64_t kMaxRows = int64_t{1} << 20;

// Whether a file can be put there: asked before the work, so that a mistyped folder costs no time.
Status check_output_folder(const std::filesystem::path& output);

void print_json(const Json& json);

}  // namespace octet::tools
