// SPDX-License-Identifier: Apache-2.0
// Memory for a loaded layer's panels: which pages, on which NUMA nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "octet/status.hpp"

namespace octet::dispatch {

// Panels are streamed, and small pages cost walks: 6-7 % at one row.
enum class Pages {
  kHuge,   // 2 MB pages where the system has any to give (MADV_HUGEPAGE), small ones else
  kSmall,  // the system's smallest (MADV_NOHUGEPAGE)
};
enum class Numa {
  kFirstTouch,  // each page on the node of the thread that packs into it first
  kInterleave,  // page by page over all nodes that the process may use (mbind)
};
// Of a layer from a packed file.
enum class PackedUse {
  kMmap,  // panels are read where the file is mapped: shared with other processes, loaded at once
  kCopy,  // they are copied into memory of the layer's own, for which `pages` and `numa` hold
};

constexpr std::string_view name_of(Pages p) { return p == Pages::kHuge ? "huge" : "small"; }
constexpr std::string_view name_of(Numa n) {
  return n == Numa::kFirstTouch ? "first-touch" : "interleave";
}
constexpr std::string_view name_of(PackedUse u) { return u == PackedUse::kMmap ? "mmap" : "copy"; }

struct MemoryOptions {
  Pages pages = Pages::kHuge;
  Numa numa = Numa::kFirstTouch;
  PackedUse packed = PackedUse::kMmap;
};

// Bytes that lie as asked, given back with the object.
class PanelMemory {
 public:
  PanelMemory() = default;
  // Aligned to layouts::kPanelAlignment. No page of it is touched, so none lies anywhere yet. kIo where the system refuses to
  // interleave; what is asked of pages is a wish.
  static Result<PanelMemory> allocate(int64_t bytes, const MemoryOptions& options);

  uint8_t* data() const { return data_.get(); }
  int64_t resident_bytes() const { return resident_bytes_; }  // once all is touched

 private:
  struct Free {
    size_t mapped_bytes;  // 0: of the heap
    void operator()(uint8_t* p) const;
  };
  std::unique_ptr<uint8_t[], Free> data_;
  int64_t resident_bytes_ = 0;
};

}  // namespace octet::dispatch
