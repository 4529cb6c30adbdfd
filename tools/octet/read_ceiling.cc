// SPDX-License-Identifier: Apache-2.0
#include "read_ceiling.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "core/shape.h"
#include "report.h"

namespace octet::tools {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kWord = sizeof(uint64_t);
constexpr int64_t kLineWords = 8;  // 64 bytes

// Eight sums of a line's words: the compiler keeps them in vectors, so that the loads are all there is.
uint64_t sum_lines(const uint64_t* p, int64_t words) {
  uint64_t sums[kLineWords] = {};
  for (int64_t i = 0; i + kLineWords <= words; i += kLineWords) {
    for (int64_t j = 0; j < kLineWords; ++j) sums[j] += p[i + j];
  }
  uint64_t all = 0;
  for (const uint64_t s : sums) all += s;
  return all;
}

// Whole pieces go to whichever thread is free, as a kernel's panels do.
int64_t piece_words(int64_t words, int threads) {
  constexpr int64_t kLeast = (64 << 10) / kWord;
  constexpr int64_t kMost = (1 << 20) / kWord;
  return round_up(std::clamp(words / (8 * threads), kLeast, kMost), kLineWords);
}

}  // namespace

int64_t last_cache_bytes() {
  const long level3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const long level2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  constexpr int64_t kUnknown = int64_t{32} << 20;
  return level3 > 0 ? level3 : level2 > 0 ? level2 : kUnknown;
}

void ReadCeiling::Free::operator()(uint64_t* p) const { std::free(p); }

ReadCeiling::ReadCeiling(int64_t buffer_bytes)
    : words_(round_up(std::max(buffer_bytes, kHugePage), kHugePage) / kWord) {
  const auto bytes = static_cast<size_t>(words_ * kWord);
  void* p = std::aligned_alloc(static_cast<size_t>(kHugePage), bytes);
  if (p == nullptr) throw std::bad_alloc();
  madvise(p, bytes, MADV_HUGEPAGE);  // a wish: without it the pages are small
  std::memset(p, 1, bytes);
  data_.reset(static_cast<uint64_t*>(p));
}

double ReadCeiling::read(int64_t bytes, Executor& executor) {
  const int64_t words = std::min(round_up(bytes, 64) / kWord, words_);
  if (position_ + words > words_) position_ = 0;
  const int64_t piece = piece_words(words, executor.num_threads());
  const uint64_t* const begin = data_.get() + position_;
  std::vector<uint64_t> sums(static_cast<size_t>(executor.num_threads()));
  const Stopwatch watch;
  parallel_for(executor, ceil_div(words, piece), [&](int64_t unit, int worker) {
    const int64_t first = unit * piece;
    sums[static_cast<size_t>(worker)] += sum_lines(begin + first, std::min(piece, words - first));
  });
  const double seconds = watch.seconds();
  position_ += words;
  volatile uint64_t keep = 0;  // or the compiler would read nothing
  for (const uint64_t sum : sums) keep = keep + sum;
  return static_cast<double>(words * kWord) / seconds;
}

}  // namespace octet::tools
