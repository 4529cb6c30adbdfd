// SPDX-License-Identifier: Apache-2.0
// How fast this machine's memory can be read, measured beside a kernel: same process, same threads, in turns with it.
#pragma once

#include <cstdint>
#include <memory>

#include "core/executor.h"

namespace octet::tools {

int64_t last_cache_bytes();  // of one core's last cache level; 32 MiB if the system does not say

class ReadCeiling {
 public:
  // A buffer of its own, on huge pages where there are any. Larger than the last cache: read in turn, it is cold.
  explicit ReadCeiling(int64_t buffer_bytes);
  // Sums the next `bytes` of the buffer (at most all of it) in 64-byte lines with every thread; bytes a second.
  double read(int64_t bytes, Executor& executor);

 private:
  struct Free {
    void operator()(uint64_t* p) const;
  };
  int64_t words_;
  int64_t position_ = 0;
  std::unique_ptr<uint64_t[], Free> data_;
};

}  // namespace octet::tools
