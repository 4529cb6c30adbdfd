// SPDX-License-Identifier: Apache-2.0
// octet list: the kernels there are, best first.
#include <fmt/format.h>
#include <string>
#include <vector>

#include "command.h"
#include "console.h"
#include "dispatch/select.h"
#include "report.h"

namespace octet::tools {
namespace {

std::string most_tokens(const dispatch::Kernel& kernel) {
  return kernel.max_tokens == 0 ? "any" : std::to_string(kernel.max_tokens);
}

Json kernels_json() {
  Json all = Json::array();
  for (const dispatch::Kernel& k : dispatch::kernels()) {
    const std::string why_not = dispatch::machine_refusal(k.isa);
    all.push_back({{"kernel", k.name},
                   {"activations", name_of(k.activations)},
                   {"weights", name_of(k.weights)},
                   {"max_tokens", k.max_tokens},
                   {"checked", k.checked},
                   {"here", why_not.empty()},
                   {"why_not", why_not}});
  }
  return all;
}

void print_kernels() {
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "activations", "weights", "tokens", "checked on", "here"}};
  for (const dispatch::Kernel& k : dispatch::kernels()) {
    const std::string why_not = dispatch::machine_refusal(k.isa);
    rows.push_back({std::string(k.name), std::string(name_of(k.activations)),
                    std::string(name_of(k.weights)), most_tokens(k), std::string(k.checked),
                    why_not.empty() ? "yes" : "no: " + why_not});
  }
  print_table(rows);
}

}  // namespace

int list_verb(const Args& args) {
  bool markdown = false;
  bool json = false;
  CLI::App app;
  describe_verb(
      app, "list",
      "Lists the kernels in the order in which they are tried, best first, the reference\n"
      "last, and which of them this build and machine have. octet explain says which of\n"
      "them a problem gets.",
      "octet list --markdown");
  app.add_flag("--markdown", markdown, "as the table of the README");
  app.add_flag("--json", json, "as JSON");
  if (const auto exit = parse(app, args)) return *exit;
  if (json) {
    print_json(kernels_json());
  } else if (markdown) {
    write_out(dispatch::kernels_markdown());
  } else {
    print_kernels();
  }
  return kDone;
}

}  // namespace octet::tools
