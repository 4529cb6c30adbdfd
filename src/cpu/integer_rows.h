// SPDX-License-Identifier: Apache-2.0
// Rows of activations as the kernels on integers read them: a row has its digits (digits.h), then, a multiple of 64
// bytes further, its words (words.h). Experts of few rows read the former, of many the latter where the instruction set has
// kernels for them; there is room for both with every set, so that a workspace serves any.
#pragma once

#include <cstdint>
#include <span>

#include "core/executor.h"
#include "core/shape.h"
#include "cpu/digits.h"
#include "cpu/panel_dot.h"
#include "cpu/quantize.h"
#include "cpu/words.h"

namespace octet::cpu {

// Entries first ... first + count - 1 of the lists of rows belong to one expert.
struct ExpertRun {
  int64_t expert, first, count;
};

// How many planes x and h take. MXFP8 numbers are never rounded, nor x but for numbers far below their block's largest: what
// x lost would move h over ties of its own rounding to BF16, where a little is a whole step.
constexpr int kXPlanes = 3;
constexpr int h_planes(Activations activations, Precision precision) {
  return activations == Activations::kMxfp8 || precision == Precision::kExact ? 3 : 2;
}

struct IntegerLayout {
  WeightFormat format;
  int planes;
  int64_t num_blocks;
  int64_t digit_bytes() const {
    return round_up(num_blocks * digit_record_bytes(format, planes), 64);
  }
  int64_t row_bytes() const {
    return digit_bytes() + round_up(num_blocks * word_block_bytes(format, planes), 64);
  }
};

// Which kernel an expert's rows take.
inline bool takes_many(const RowDot& dot, const ExpertRun& run) {
  return dot.many != nullptr && run.count >= kManyRows;
}
// The form in which the runs' rows are read, `out` [rows of the runs]: row i is the row_of(i)-th of `rows` [.., row_bytes()].
template <class RowOf>
void find_integer_rows(const RowDot& dot, const IntegerLayout& layout,
                       std::span<const ExpertRun> runs, const uint8_t* rows, const RowOf& row_of,
                       const uint8_t** out) {
  for (const ExpertRun& run : runs) {
    const int64_t form = takes_many(dot, run) ? layout.digit_bytes() : 0;
    for (int64_t i = run.first; i < run.first + run.count; ++i)
      out[i] = rows + row_of(i) * layout.row_bytes() + form;
  }
}

// Fills `out` with the forms that the runs need; rows of Hold::kNone that integers hold become Hold::kIntegers. Nothing
// where the instruction set has no kernel for them.
//
// `must_be_exact`: rows that integers would round stay as they are. For MXFP8 numbers whose blocks are not the weights': two
// scales may meet in a block, wider apart than three planes.
struct IntegerRows {
  const float* x;  // [rows, num_blocks * G]
  int64_t rows;
  uint8_t* out = nullptr;  // [rows, row_bytes()]
  Hold* hold = nullptr;    // [rows]
  bool must_be_exact = false;
};
void encode_integers(const RowDot& dot, const IntegerLayout& layout,
                     std::span<const ExpertRun> runs, const IntegerRows& rows, Executor& executor);

}  // namespace octet::cpu
