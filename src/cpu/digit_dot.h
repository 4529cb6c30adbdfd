// SPDX-License-Identifier: Apache-2.0
// The kernels on digits (digits.h), written once for all instruction sets.
//
// Rounding. A block's sum of digits times weights is exact in int32 and rounded once to binary32 (with two planes it has at
// most 24 bits: exact); times the activations' scale is exact; one fma with the weights' scale adds it to the output, block
// after block. So the tree depends on the shape alone, and every instruction set gives the same bytes.
//
// An instruction set is a struct `Isa`, in an unnamed namespace, so that nothing compiled for it is taken for another's:
//   Floats, Ints                  vectors of kLanes binary32 and int32 numbers; kVectors of them are a panel's 16 lanes
//   register_rows<planes>()       rows whose sums its registers hold
//   vectors_together<planes>(n)   vectors whose block sums they hold at once, of n rows
//   Weights decode(line)          a vector's part of a tile's line, as bytes: lanes x 8 elements
//   Digits load_digits(at, plane) eight digits of each of kPlanesTogether planes, for all lanes
//   Sums<kPlanes>                 of a row, a vector and a block; start() with the record's offset, add() lines in order,
//                                 total() as int32; block_sums.h has two that fit most
//   scales<kFormat>(codes)        kLanes ordinary scales, NVFP4's times 2^-120
//   is_ordinary<kFormat>(codes)   whether 64 scale codes are all ordinary
//   to_floats, multiply, fma, broadcast, zero, load, store
//
// Weight scales that a shift does not decode (UE8M0 0 and 253 on; negative E4M3, NaN) are looked for a group at a time; such
// a group goes lane by lane through plain code with the same tree. semantics.md section 1.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "cpu/digits.h"
#include "cpu/integer_dot.h"
#include "cpu/panel_dot.h"
#include "cpu/unroll.h"
#include "layouts/panel.h"

namespace octet::cpu::digits {

// `kRows` rows times the panels. One panel's sums stay in registers; of several, each has a group's turn.
template <class Isa, WeightFormat kFormat, int kPlanes, int kRows>
class Kernel {
  static constexpr int64_t kBlock = scale_block(kFormat);
  static constexpr int kLines = static_cast<int>(kBlock) / 8;
  static constexpr int64_t kTile = layouts::panel_tile_bytes(kFormat);
  using Record = DigitRecord<kBlock, kPlanes>;
  using Floats = typename Isa::Floats;
  // Vectors whose block sums are held at once: all while they fit.
  static constexpr int kTogether = Isa::template vectors_together<kPlanes>(kRows);

 public:
  static void run(std::span<const PanelStream> panels, int64_t num_blocks,
                  const uint8_t* const* rows, float* out) {
    constexpr int64_t kOut = kRows * layouts::kPanelRows;
    std::memset(out, 0, panels.size() * kOut * sizeof(float));
    const int64_t turn = panels.size() == 1 ? num_blocks : layouts::kPanelGroup;
    for (int64_t first = 0; first < num_blocks; first += turn) {
      float* to = out;
      for (const PanelStream& stream : panels) {
        Kernel kernel(rows, first, stream.ahead, to);
        kernel.add(
            stream.panel + layouts::panel_group_offset(kFormat, first / layouts::kPanelGroup),
            std::min(turn, num_blocks - first));
        kernel.store(to);
        to += kOut;
      }
    }
  }

 private:
  // From block `first` on, on top of the sums so far.
  OCTET_INLINE Kernel(const uint8_t* const* rows, int64_t first, const Ahead& ahead,
                      const float* sums)
      : ahead_(ahead) {
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row) {
      x_[row] = rows[row] + first * Record::kBytes;
      OCTET_UNROLL
      for (int v = 0; v < Isa::kVectors; ++v)
        acc_[row][v] = Isa::load(sums + row * layouts::kPanelRows + v * Isa::kLanes);
    }
  }
  OCTET_INLINE void store(float* sums) const {
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row) {
      OCTET_UNROLL
      for (int v = 0; v < Isa::kVectors; ++v)
        Isa::store(sums + row * layouts::kPanelRows + v * Isa::kLanes, acc_[row][v]);
    }
  }

  OCTET_INLINE void add(const uint8_t* group, int64_t num_blocks) {
    for (; num_blocks >= layouts::kPanelGroup; num_blocks -= layouts::kPanelGroup) {
      add_group(group, Isa::template is_ordinary<kFormat>(group));
      group += layouts::panel_payload_bytes(kFormat, layouts::kPanelGroup);
    }
    if (num_blocks > 0) add_tail(group, num_blocks);
  }

  // Four blocks, scales first.
  OCTET_INLINE void add_group(const uint8_t* group, bool is_ordinary) {
    const uint8_t* const codes = group + layouts::kPanelGroup * layouts::kPanelRows;
    const uintptr_t next = later(group, ahead_);
    prefetch_line(next, ahead_.into_first);
    if (__builtin_expect(!is_ordinary, 0)) {
      add_odd_group(group, codes, layouts::kPanelGroup);
    } else {
      OCTET_UNROLL
      for (int b = 0; b < layouts::kPanelGroup; ++b) {
        // A few lines a block: all of a group's at once would fill the miss buffers.
        OCTET_UNROLL
        for (int line = 0; line < kLines; ++line)
          prefetch_line(next + static_cast<uintptr_t>(kLineBytes * (1 + b * kLines + line)),
                        ahead_.into_first);
        add_block(group + b * layouts::kPanelRows, codes + b * kTile, b * Record::kBytes);
      }
    }
    step(layouts::kPanelGroup);
  }

  // The last, shorter group.
  OCTET_INLINE void add_tail(const uint8_t* group, int64_t num_blocks) {
    const uint8_t* const codes = group + num_blocks * layouts::kPanelRows;
    prefetch(group, layouts::panel_payload_bytes(kFormat, num_blocks), ahead_);
    if (!is_ordinary_group<Isa, kFormat>(group, num_blocks)) {
      add_odd_group(group, codes, num_blocks);
      return;
    }
    for (int64_t b = 0; b < num_blocks; ++b) {
      add_block(group + b * layouts::kPanelRows, codes + b * kTile, 0);
      step(1);
    }
  }

  OCTET_INLINE void step(int64_t blocks) {
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row) x_[row] += blocks * Record::kBytes;
  }

  OCTET_INLINE void add_block(const uint8_t* scales, const uint8_t* codes, int64_t at) {
    if constexpr (kPlanes == 3) {
      uint8_t any = 0;
      OCTET_UNROLL
      for (int row = 0; row < kRows; ++row) any |= x_[row][at + Record::kHasThird];
      if (any != 0) {
        add_planes<3>(scales, codes, at);
        return;
      }
    }
    add_planes<2>(scales, codes, at);
  }

  template <int kUsed>
  OCTET_INLINE void add_planes(const uint8_t* scales, const uint8_t* codes, int64_t at) {
    OCTET_UNROLL
    for (int v = 0; v < Isa::kVectors; v += kTogether) add_vectors<kUsed>(scales, codes, at, v);
  }

  // kTogether vectors from `first` on.
  template <int kUsed>
  OCTET_INLINE void add_vectors(const uint8_t* scales, const uint8_t* codes, int64_t at,
                                int first) {
    typename Isa::template Sums<kUsed> sums[kRows][kTogether];
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row) {
      OCTET_UNROLL
      for (int v = 0; v < kTogether; ++v) sums[row][v].start(x_[row] + at + Record::kOffset);
    }
    OCTET_UNROLL
    for (int line = 0; line < kLines; ++line) {
      typename Isa::Weights weights[kTogether];
      OCTET_UNROLL
      for (int v = 0; v < kTogether; ++v)
        weights[v] = Isa::decode(codes + kLineBytes * line + 4 * Isa::kLanes * (first + v));
      OCTET_UNROLL
      for (int row = 0; row < kRows; ++row) {
        OCTET_UNROLL
        for (int plane = 0; plane < kUsed; plane += Isa::kPlanesTogether) {
          const auto digits =
              Isa::load_digits(x_[row] + at + Record::digit(plane, 8 * line), plane);
          OCTET_UNROLL
          for (int v = 0; v < kTogether; ++v) sums[row][v].add(weights[v], digits, plane, line);
        }
      }
    }
    Floats scale[kTogether];
    OCTET_UNROLL
    for (int v = 0; v < kTogether; ++v)
      scale[v] = Isa::template scales<kFormat>(scales + Isa::kLanes * (first + v));
    OCTET_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const Floats unit = Isa::broadcast(x_[row] + at + Record::kScale);
      OCTET_UNROLL
      for (int v = 0; v < kTogether; ++v) {
        const Floats sum = Isa::multiply(Isa::to_floats(sums[row][v].total()), unit);
        acc_[row][first + v] = Isa::fma(sum, scale[v], acc_[row][first + v]);
      }
    }
  }

  void add_odd_group(const uint8_t* scales, const uint8_t* codes, int64_t num_blocks) {
    for (int row = 0; row < kRows; ++row) {
      alignas(64) float lanes[layouts::kPanelRows];
      for (int v = 0; v < Isa::kVectors; ++v) Isa::store(lanes + v * Isa::kLanes, acc_[row][v]);
      for (int64_t b = 0; b < num_blocks; ++b) {
        const uint8_t* const record = x_[row] + b * Record::kBytes;
        int32_t x[kBlock];
        for (int64_t k = 0; k < kBlock; ++k) x[k] = Record::value(record, k);
        add_odd_block<Isa, kFormat>(scales + b * layouts::kPanelRows, codes + b * kTile, x,
                                    load_f32(record + Record::kScale), lanes);
      }
      for (int v = 0; v < Isa::kVectors; ++v) acc_[row][v] = Isa::load(lanes + v * Isa::kLanes);
    }
  }

  const uint8_t* x_[kRows];
  Ahead ahead_;
  Floats acc_[kRows][Isa::kVectors];
};

template <class Isa, WeightFormat kFormat, int kPlanes, int kRows = 1>
void dot(std::span<const PanelStream> panels, int64_t num_blocks, const uint8_t* const* x,
         int num_rows, float* out) {
  if (num_rows == kRows) {
    Kernel<Isa, kFormat, kPlanes, kRows>::run(panels, num_blocks, x, out);
  } else if constexpr (kRows < Isa::template register_rows<kPlanes>()) {
    dot<Isa, kFormat, kPlanes, kRows + 1>(panels, num_blocks, x, num_rows, out);
  } else {
    assert(num_rows == kRows);  // no call has more
  }
}

template <class Isa, WeightFormat kFormat, int kPlanes>
bool encode(const float* x, int64_t num_blocks, uint8_t* out) {
  return encode_row<kFormat, kPlanes>(x, num_blocks, out);
}

template <class Isa, WeightFormat kFormat, int kPlanes>
constexpr IntegerDot digit_dot() {
  return {encode<Isa, kFormat, kPlanes>, dot<Isa, kFormat, kPlanes>,
          Isa::template register_rows<kPlanes>()};
}
template <class Isa>
constexpr IntegerDots digit_dots() {
  return {{digit_dot<Isa, WeightFormat::kMxfp4, 2>(), digit_dot<Isa, WeightFormat::kMxfp4, 3>()},
          {digit_dot<Isa, WeightFormat::kNvfp4, 2>(), digit_dot<Isa, WeightFormat::kNvfp4, 3>()}};
}

}  // namespace octet::cpu::digits
