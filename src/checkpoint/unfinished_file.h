// SPDX-License-Identifier: Apache-2.0
// The files that are being written, so that a process that is told to end can remove them: a signal runs no destructor.
#pragma once

#include <filesystem>

namespace octet::checkpoint {

// Its path is one of those files for as long as it lives.
class UnfinishedFile {
 public:
  UnfinishedFile() = default;
  explicit UnfinishedFile(const std::filesystem::path& path);
  UnfinishedFile(UnfinishedFile&& other) noexcept;
  UnfinishedFile& operator=(UnfinishedFile&& other) noexcept;
  ~UnfinishedFile();

 private:
  const char* path_ = nullptr;
};

// Unlinks them all. Async-signal-safe: only atomics and unlink().
void remove_unfinished_files() noexcept;

}  // namespace octet::checkpoint
