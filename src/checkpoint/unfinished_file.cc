// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/unfinished_file.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <utility>

namespace octet::checkpoint {
namespace {

// The program writes one file at a time; whoever writes more than these from as many threads leaves the others behind.
constexpr size_t kMost = 16;
std::array<std::atomic<const char*>, kMost> paths;
static_assert(std::atomic<const char*>::is_always_lock_free);

}  // namespace

UnfinishedFile::UnfinishedFile(const std::filesystem::path& path) {
  char* copy = ::strdup(path.c_str());
  for (auto& slot : paths) {
    const char* none = nullptr;
    if (copy != nullptr && slot.compare_exchange_strong(none, copy)) {
      path_ = copy;
      return;
    }
  }
  std::free(copy);
}

UnfinishedFile::UnfinishedFile(UnfinishedFile&& other) noexcept
    : path_(std::exchange(other.path_, nullptr)) {}

UnfinishedFile& UnfinishedFile::operator=(UnfinishedFile&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

UnfinishedFile::~UnfinishedFile() {
  if (path_ == nullptr) return;
  for (auto& slot : paths) {
    const char* mine = path_;
    if (slot.compare_exchange_strong(mine, nullptr)) {
      std::free(const_cast<char*>(path_));
      return;
    }
  }
  // A handler has taken the path and may be reading it: it stays.
}

void remove_unfinished_files() noexcept {
  for (auto& slot : paths) {
    if (const char* path = slot.exchange(nullptr)) ::unlink(path);
  }
}

}  // namespace octet::checkpoint
