// SPDX-License-Identifier: Apache-2.0
#include "output_file.h"

#include <fmt/format.h>
#include <system_error>

namespace octet::tools {
namespace {

namespace fs = std::filesystem;

// Removes the file at its end unless told otherwise: also when memory runs out and an exception passes.
class Older {
 public:
  explicit Older(const fs::path& output) : path_(output) {
    std::error_code ignored;
    keep_ = !fs::is_regular_file(output, ignored);
  }
  ~Older() {
    std::error_code ignored;
    if (!keep_) fs::remove(path_, ignored);
  }
  Older(const Older&) = delete;
  Older& operator=(const Older&) = delete;
  void keep() { keep_ = true; }

 private:
  fs::path path_;
  bool keep_;
};

}  // namespace

Status write_output(const fs::path& output, std::initializer_list<fs::path> inputs,
                    const std::function<Status()>& work) {
  for (const fs::path& input : inputs) {
    std::error_code ignored;
    if (fs::equivalent(input, output, ignored)) {
      return misuse(fmt::format("--output {}: is what the command reads, want another file",
                                output.string()));
    }
  }
  Older older(output);
  Status status = work();
  if (status.ok() || status.code == Code::kMisuse) older.keep();
  return status;
}

}  // namespace octet::tools
