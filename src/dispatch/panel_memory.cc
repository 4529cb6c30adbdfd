// SPDX-License-Identifier: Apache-2.0
#include "dispatch/panel_memory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <new>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/shape.h"
#include "layouts/panel.h"

namespace octet::dispatch {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
// Smaller layers with default options lie in the heap: huge pages gain nothing there, and sanitizers watch its ends.
constexpr int64_t kLeastMapped = 4 * kHugePage;

uint8_t* map(size_t bytes) {
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  return static_cast<uint8_t*>(p);
}

// `bytes` of whole pages that begin with a huge one: the system aligns by small ones, so what is too much is given back.
uint8_t* map_aligned(size_t bytes) {
  constexpr auto kHuge = static_cast<size_t>(kHugePage);
  uint8_t* p = map(bytes + kHuge);
  const size_t before = (kHuge - reinterpret_cast<uintptr_t>(p) % kHuge) % kHuge;
  if (before > 0) ::munmap(p, before);
  ::munmap(p + before + bytes, kHuge - before);
  return p + before;
}

// libnuma would be one more library for two calls.
Status interleave(uint8_t* p, size_t bytes) {
  constexpr unsigned long kMostNodes = 4096;
  std::array<unsigned long, kMostNodes / (8 * sizeof(unsigned long))> nodes{};
  if (::syscall(SYS_get_mempolicy, nullptr, nodes.data(), kMostNodes, nullptr,
                MPOL_F_MEMS_ALLOWED) == 0 &&
      // The kernel takes one bit less than it is told.
      ::syscall(SYS_mbind, p, bytes, MPOL_INTERLEAVE, nodes.data(), kMostNodes + 1, 0U) == 0) {
    return {};
  }
  return io_error(
      fmt::format("numa: found interleave, which the system refuses ({}), want first-touch",
                  std::strerror(errno)));
}

}  // namespace

void PanelMemory::Free::operator()(uint8_t* p) const {
  if (mapped_bytes == 0) {
    std::free(p);
  } else {
    ::munmap(p, mapped_bytes);
  }
}

Result<PanelMemory> PanelMemory::allocate(int64_t bytes, const MemoryOptions& options) {
  const bool is_plain = options.pages == Pages::kHuge && options.numa == Numa::kFirstTouch;
  const bool in_heap = is_plain && bytes < kLeastMapped;
  const int64_t page = in_heap ? layouts::kPanelAlignment : ::sysconf(_SC_PAGESIZE);
  PanelMemory memory;
  memory.resident_bytes_ = round_up(std::max<int64_t>(bytes, 1), page);
  const auto size = static_cast<size_t>(memory.resident_bytes_);
  if (in_heap) {
    void* p = std::aligned_alloc(layouts::kPanelAlignment, size);
    if (p == nullptr) throw std::bad_alloc();
    memory.data_ = {static_cast<uint8_t*>(p), Free{0}};
    return memory;
  }
  memory.data_ = {map_aligned(size), Free{size}};
  // Where the system has no huge pages it refuses both, and all pages are small.
  ::madvise(memory.data(), size, options.pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  if (options.numa == Numa::kInterleave) {
    OCTET_RETURN_IF_ERROR(interleave(memory.data(), size));
  }
  return memory;
}

}  // namespace octet::dispatch
