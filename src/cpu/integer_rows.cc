// SPDX-License-Identifier: Apache-2.0
#include "cpu/integer_rows.h"

#include <algorithm>

namespace octet::cpu {
namespace {

template <int64_t kBlock>
bool is_exact_row(const float* x, int64_t num_blocks) {
  digits::Integers<kBlock> a;
  for (int64_t b = 0; b < num_blocks; ++b, x += kBlock) {
    if (!digits::to_digit_integers<kBlock, 3>(x, a)) return false;
    if (a.has_third && !digits::is_exact<kBlock>(x, a.shift, a.values)) return false;
  }
  return true;
}
bool is_exact_row(const IntegerLayout& layout, const float* x) {
  return layout.format == WeightFormat::kMxfp4 ? is_exact_row<kMxBlock>(x, layout.num_blocks)
                                               : is_exact_row<kNvBlock>(x, layout.num_blocks);
}

}  // namespace

void encode_integers(const RowDot& dot, const IntegerLayout& layout,
                     std::span<const ExpertRun> runs, const IntegerRows& rows, Executor& executor) {
  if (dot.few == nullptr) return;
  constexpr int64_t kUnitBlocks = 512;  // some 10 us: less is not worth another thread
  const auto is_many = [&](const ExpertRun& run) { return takes_many(dot, run); };
  const bool any_many = std::any_of(runs.begin(), runs.end(), is_many);
  const bool any_few = !std::all_of(runs.begin(), runs.end(), is_many);
  const int64_t width = layout.num_blocks * scale_block(layout.format);
  const int64_t unit_rows = std::max<int64_t>(1, kUnitBlocks / layout.num_blocks);
  parallel_for(executor, ceil_div(rows.rows, unit_rows), [&](int64_t unit, int) {
    const int64_t end = std::min((unit + 1) * unit_rows, rows.rows);
    for (int64_t row = unit * unit_rows; row < end; ++row) {
      if (rows.hold[row] != Hold::kNone) continue;
      const float* const x = rows.x + row * width;
      if (rows.must_be_exact && !is_exact_row(layout, x)) continue;
      uint8_t* const out = rows.out + row * layout.row_bytes();
      const bool held =
          (!any_few || dot.few->encode(x, layout.num_blocks, out)) &&
          (!any_many || dot.many->encode(x, layout.num_blocks, out + layout.digit_bytes()));
      if (held) rows.hold[row] = Hold::kIntegers;
    }
  });
}

}  // namespace octet::cpu
