// SPDX-License-Identifier: Apache-2.0
// One expert's matrices as they stand in memory, whatever file or layout they come from.
//
//   WeightView    [rows, cols] of E2M1 pairs with their scales: a checkpoint's tensor, every second row of an
//                 interleaved one (gpt-oss), a tensor-parallel slice, also one that begins inside a scale block.
//   ExpertWeights gate, up [I, H], down [H, I], factors, biases, the clamp.
#pragma once

#include <cstdint>
#include <limits>

#include "core/dtype.h"
#include "core/shape.h"
#include "formats/e2m1.h"
#include "formats/mxfp4.h"
#include "formats/nvfp4.h"

namespace octet::layouts {

// Columns first_col ... first_col + cols - 1 of rows that begin `code_stride` and `scale_stride` bytes apart.
// Codes and scales of a row are contiguous along K. scale column = (first_col + c) / block.
struct WeightView {
  WeightFormat format = WeightFormat::kMxfp4;
  const uint8_t* codes = nullptr;   // E2M1 pairs of row 0, from column 0 of the stored row
  const uint8_t* scales = nullptr;  // UE8M0 or E4M3 of row 0, from scale column 0 of the stored row
  int64_t code_stride = 0;          // bytes
  int64_t scale_stride = 0;         // bytes
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t first_col = 0;

  int64_t block() const { return scale_block(format); }
  // Which element of its scale block column 0 is.
  int64_t start_in_block() const { return first_col % block(); }
  // Scale blocks that the columns touch.
  int64_t num_blocks() const { return cols == 0 ? 0 : ceil_div(start_in_block() + cols, block()); }

  uint8_t code(int64_t row, int64_t col) const {
    return formats::e2m1_at(codes + row * code_stride, first_col + col);
  }
  uint8_t scale(int64_t row, int64_t col) const {
    return scales[row * scale_stride + (first_col + col) / block()];
  }
  // Element times block scale, exact (infinite from 2^128 on); without the expert's factor.
  float value(int64_t row, int64_t col) const {
    return format == WeightFormat::kMxfp4 ? formats::mxfp4_to_f32(code(row, col), scale(row, col))
                                          : formats::nvfp4_to_f32(code(row, col), scale(row, col));
  }

  WeightView slice_rows(int64_t first, int64_t count) const {
    WeightView v = *this;
    v.codes += first * code_stride;
    v.scales += first * scale_stride;
    v.rows = count;
    return v;
  }
  WeightView slice_cols(int64_t first, int64_t count) const {
    WeightView v = *this;
    v.first_col += first;
    v.cols = count;
    return v;
  }
};

// BF16 numbers `stride` elements apart; null: all zero.
struct BiasView {
  const Bf16* data = nullptr;
  int64_t stride = 1;
};

struct ExpertWeights {
  WeightView gate, up;      // [I, H]
  WeightView down;          // [H, I]
  float gate_alpha = 1.0F;  // fp32 factor of each matrix; NVFP4 only
  float up_alpha = 1.0F;
  float down_alpha = 1.0F;
  BiasView gate_bias, up_bias;                      // [I]
  BiasView down_bias;                               // [H]; rank 0 only under tensor parallelism
  float limit = std::numeric_limits<float>::max();  // the clamp of semantics.md section 7
};

}  // namespace octet::layouts
