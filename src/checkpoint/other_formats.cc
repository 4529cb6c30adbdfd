// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/other_formats.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <string_view>
#include <system_error>

#include "checkpoint/format.h"

namespace octet::checkpoint {
namespace {

namespace fs = std::filesystem;

// A file by its first bytes, a folder by the endings of what is in it.
struct OtherFormat {
  std::string_view name;
  std::string_view magic;
  std::string_view endings[3];
};
constexpr OtherFormat kOthers[] = {
    {"gguf", "GGUF", {".gguf"}},
    {"pytorch", "PK\x03\x04", {".bin", ".pt", ".pth"}},  // a zip archive with a pickle inside
};

Status not_built(const fs::path& path, const OtherFormat& format) {
  return unsupported(fmt::format("{}: format {} is not built yet; built: {}", path.string(),
                                 format.name, kFormatsBuilt));
}

Status check_file(const fs::path& path) {
  char first[4] = {};
  std::ifstream(path, std::ios::binary).read(first, sizeof first);
  for (const OtherFormat& other : kOthers) {
    if (std::memcmp(first, other.magic.data(), other.magic.size()) == 0) {
      return not_built(path, other);
    }
  }
  return {};
}

Status check_folder(const fs::path& path) {
  const OtherFormat* found = nullptr;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string ending = it->path().extension().string();
    if (ending == ".safetensors") return {};
    for (const OtherFormat& other : kOthers) {
      const bool is_its = !ending.empty() &&
                          std::find(std::begin(other.endings), std::end(other.endings), ending) !=
                              std::end(other.endings);
      if (is_its && found == nullptr) found = &other;
    }
  }
  return found == nullptr ? Status{} : not_built(path, *found);
}

}  // namespace

Status check_is_readable_format(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return io_error(fmt::format("{}: no such file or folder", path.string()));
  }
  if (!fs::exists(status)) return io_error(fmt::format("{}: {}", path.string(), error.message()));
  if (fs::is_directory(status)) return check_folder(path);
  return fs::is_regular_file(status) ? check_file(path) : Status{};
}

}  // namespace octet::checkpoint
