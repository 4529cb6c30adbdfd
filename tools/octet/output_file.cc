// SPDX-License-Identifier: Apache-2.0
#include "output_file.h"

#include <atomic>
#include <fmt/format.h>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include "checkpoint/packed_file.h"
#include "checkpoint/safetensors.h"
#include "console.h"

namespace octet::tools {
namespace {

namespace fs = std::filesystem;

std::atomic<const char*> older_output = nullptr;

constexpr const char* kResultKey = "octet_result";  // of a result's metadata

bool is_result(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  const auto file = checkpoint::SafetensorsFile::open(path);
  if (!file.ok()) return false;
  const auto& metadata = file->header().metadata;
  return metadata.count(kResultKey) > 0 ||
         metadata.count(std::string(checkpoint::kPackVersionKey)) > 0;
}

// Removes a result at its end, an older one or one that work() made, unless told otherwise: also when memory runs out and an exception
// passes.
class Result {
 public:
  explicit Result(const fs::path& output)
      : path_(checkpoint::written_path(output)), was_there_(is_result(path_)) {
    if (was_there_) older_output = path_.c_str();
  }
  ~Result() {
    older_output = nullptr;
    if (keep_) return;
    try {
      std::error_code ignored;
      if (was_there_ || is_result(path_)) fs::remove(path_, ignored);
    } catch (...) {  // no memory to look: not known as a result
    }
  }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  void keep() { keep_ = true; }

 private:
  fs::path path_;
  bool was_there_, keep_ = false;
};

bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

// Whether `output` is, or would be, an entry of the folder, or what one of its links leads to.
bool is_in(const fs::path& output, const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return false;
  if (is_same(output.has_parent_path() ? output.parent_path() : ".", folder)) return true;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (is_same(at->path(), output)) return true;
  }
  return false;
}

// config.json and the like: read beside a checkpoint that is a single file.
bool is_configuration_of(const fs::path& output, const fs::path& input) {
  const std::string name = output.filename().string();
  if (name != "config.json" && name != "hf_quant_config.json") return false;
  std::error_code ignored;
  return fs::is_regular_file(input, ignored) && is_same(output, input.parent_path() / name);
}

Status check_apart(const fs::path& output, const fs::path& input) {
  const auto refused = [&](std::string_view found, std::string_view want) {
    return misuse(fmt::format("--output {}: {}, want another {}", output.string(), found, want));
  };
  if (is_same(input, output)) return refused("is what the command reads", "file");
  if (is_in(output, input) || is_configuration_of(output, input)) {
    return refused("is in the checkpoint that the command reads", "place");
  }
  return {};
}

}  // namespace

Status save_result(const fs::path& output, const NamedViews& tensors) {
  return checkpoint::save_safetensors(output, tensors, {{kResultKey, "1"}});
}

Status write_output(const fs::path& output, std::initializer_list<fs::path> inputs,
                    const std::function<Status()>& work) {
  for (const fs::path& input : inputs) OCTET_RETURN_IF_ERROR(check_apart(output, input));
  Result result(output);
  Status status = work();
  if (status.ok()) status = flush_report();
  if (status.ok() || status.code == Code::kMisuse) result.keep();
  return status;
}

void remove_older_output() noexcept {
  if (const char* path = older_output.exchange(nullptr)) ::unlink(path);
}

}  // namespace octet::tools
