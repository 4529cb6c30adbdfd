// SPDX-License-Identifier: Apache-2.0
// MappedFile of safetensors.h.
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"

namespace octet::checkpoint {
namespace {

Status refused(const std::filesystem::path& path, int error) {
  return io_error(fmt::format("{}: {}", path.string(), std::strerror(error)));
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe without a writer would wait for ever.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return refused(path, errno);
  struct stat info = {};
  if (::fstat(file.fd, &info) != 0) return refused(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return invalid_argument(fmt::format("{}: not a regular file", path.string()));
  }
  if (info.st_size == 0) {
    return invalid_argument(fmt::format("{}: the file is empty", path.string()));
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return refused(path, errno);
  std::shared_ptr<MappedFile> mapped(new MappedFile);
  mapped->data_ = static_cast<const std::byte*>(data);
  mapped->size_ = size;
  return std::shared_ptr<const MappedFile>(std::move(mapped));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = (begin + page - 1) / page * page;  // whole pages only
  const uintptr_t last = (begin + bytes.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace octet::checkpoint
