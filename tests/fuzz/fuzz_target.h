// SPDX-License-Identifier: Apache-2.0
// What the targets share: the entry that libFuzzer (or standalone_main.cc) calls, and a folder in memory for those that
// read files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace octet::fuzz {

// A folder of this process, gone when it ends; in memory where the system has such a place.
class Scratch {
 public:
  Scratch() {
    namespace fs = std::filesystem;
    std::error_code none;
    const fs::path parent =
        fs::is_directory("/dev/shm", none) ? fs::path("/dev/shm") : fs::temp_directory_path();
    path_ = parent / ("octet_fuzz_" + std::to_string(::getpid()));
    fs::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const char* name, std::string_view bytes) const {
    const auto path = path_ / name;
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  std::filesystem::path path_;
};

// Keeps the compiler from dropping a read.
inline volatile uint8_t sink = 0;
inline void use(uint8_t byte) { sink = byte; }

}  // namespace octet::fuzz
