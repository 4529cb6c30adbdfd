// SPDX-License-Identifier: Apache-2.0
// gemm1 and gemm2 on prepared weights: semantics.md sections 6 to 8.
#include <vector>

#include "formats/bf16.h"
#include "reference/decode.h"
#include "reference/hidden.h"
#include "reference/index.h"
#include "reference/reference.h"
#include "reference/swiglu.h"

namespace octet::reference {
namespace {

using Matrix = std::vector<std::vector<double>>;  // a row a token of the tile

// A tile of the record: its expert and the permuted rows first ... limit - 1, which hold tokens.
struct Tile {
  int64_t expert, first, limit;
  int64_t rows() const { return limit - first; }
};

Tile tile_at(const int32_t* record, int64_t ctas, int64_t tile) {
  const RecordOffsets at(ctas);
  return {record[at.expert + tile], tile * kTileRows, record[at.limit + tile]};
}

// Stored row n of expert e in w [E, rows, cols / 2] with scales in 128x4 an expert.
void decode_prepared(const uint8_t* w, const uint8_t* scales, int64_t e, int64_t n, int64_t rows,
                     int64_t cols, double* out) {
  const int64_t blocks = cols / kMxBlock;
  const uint8_t* expert_scales = scales + e * rows * blocks;
  decode_row(
      WeightFormat::kMxfp4, w + (e * rows + n) * (cols / 2), 0, cols,
      [&](int64_t b) { return expert_scales[scale_index(ScaleLayout::k128x4, blocks, n, b)]; },
      out);
}

Matrix x_of_tile(const Gemm1Args& args, const Tile& tile, const int32_t* token) {
  const int64_t blocks = args.hidden / kMxBlock;
  Matrix x;
  for (int64_t row = tile.first; row < tile.limit; ++row) {
    std::vector<double> v(args.hidden);
    const int64_t t = token[row];
    for (int64_t k = 0; k < args.hidden; ++k) {
      v[k] =
          mxfp8_value(args.x_quant[t * args.hidden + k], args.x_scale[t * blocks + k / kMxBlock]);
    }
    x.push_back(std::move(v));
  }
  return x;
}

// h before quantisation; columns from I on are 0.
Matrix h_of_tile(const Gemm1Args& args, const Tile& tile, const Matrix& x) {
  const Swiglu act{.limit = args.clamp[tile.expert]};
  Matrix h(tile.rows(), std::vector<double>(args.padded, 0.0));
  std::vector<double> up(args.hidden);
  std::vector<double> gate(args.hidden);
  for (int64_t n = 0; n < 2 * args.padded; ++n) {
    const W13Place place = w13_place(n);
    if (place.is_gate || place.column >= args.intermediate) continue;
    for (const bool is_gate : {false, true}) {  // the gate row of a pair stands 8 rows further
      decode_prepared(args.w13, args.w13_scale, tile.expert, n + (is_gate ? 8 : 0), 2 * args.padded,
                      args.hidden, is_gate ? gate.data() : up.data());
    }
    for (int64_t r = 0; r < tile.rows(); ++r) {
      h[r][place.column] = swiglu(dot(x[r].data(), up.data(), args.hidden),
                                  dot(x[r].data(), gate.data(), args.hidden), act);
    }
  }
  return h;
}

Matrix h_from_codes(const Gemm2Args& args, const Tile& tile) {
  Matrix h;
  for (int64_t row = tile.first; row < tile.limit; ++row) {
    std::vector<double> v(args.padded);
    for (int64_t k = 0; k < args.padded; ++k) {
      v[k] = mxfp8_value(args.h_values[row * args.padded + k],
                         args.h_scales[h_scale_index(row, k / kMxBlock, args.padded)]);
    }
    h.push_back(std::move(v));
  }
  return h;
}

}  // namespace

void gemm1(const Gemm1Args& args) {
  const int64_t ctas = most_tiles(args.tokens * args.top_k, args.experts, kTileRows);
  for (int64_t i = 0; i < args.record[1]; ++i) {
    const Tile tile = tile_at(args.record, ctas, i);
    const Matrix x = x_of_tile(args, tile, args.record + RecordOffsets(ctas).token);
    const Matrix h = h_of_tile(args, tile, x);
    for (int64_t row = tile.first; row < tile.limit; ++row) {
      for (int64_t b = 0; b < args.padded / kMxBlock; ++b) {
        args.h_scales[h_scale_index(row, b, args.padded)] =
            quantize_h_block(h[row - tile.first].data() + b * kMxBlock,
                             args.h_values + row * args.padded + b * kMxBlock);
      }
    }
  }
}

void gemm2(const Gemm2Args& args) {
  const int64_t ctas = most_tiles(args.tokens * args.top_k, args.experts, kTileRows);
  std::vector<double> w(args.padded);
  for (int64_t i = 0; i < args.record[1]; ++i) {
    const Tile tile = tile_at(args.record, ctas, i);
    const Matrix h = h_from_codes(args, tile);
    for (int64_t n = 0; n < args.hidden; ++n) {
      decode_prepared(args.w2, args.w2_scale, tile.expert, n, args.hidden, args.padded, w.data());
      for (int64_t r = 0; r < tile.rows(); ++r) {
        args.gemm2_rows[(tile.first + r) * args.hidden + w2_channel(n)] =
            formats::bf16_from_f64(dot(h[r].data(), w.data(), args.padded));
      }
    }
  }
}

}  // namespace octet::reference
