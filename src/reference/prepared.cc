// SPDX-License-Identifier: Apache-2.0
// prepare and unprepare: checkpoint order to the kernels' order and back, byte for byte. semantics.md section 6.
#include <algorithm>

#include "core/shape.h"
#include "reference/index.h"
#include "reference/reference.h"

namespace octet::reference {
namespace {

// A checkpoint tensor [E, rows, row_bytes] and the prepared one [E, stored_rows, stored_row_bytes] that holds it.
struct Pairing {
  int64_t experts, rows, row_bytes, stored_rows, stored_row_bytes;
  bool swizzled;  // scales: 128x4 an expert
};

// fn(byte in the checkpoint tensor, byte in the prepared one), each byte of the former once. row_at(n) is the row that
// stored row n holds; -1, or rows and more: none.
template <class RowAt, class Fn>
void for_each_byte(const Pairing& p, const RowAt& row_at, const Fn& fn) {
  for (int64_t e = 0; e < p.experts; ++e) {
    for (int64_t n = 0; n < p.stored_rows; ++n) {
      const int64_t row = row_at(n);
      if (row < 0 || row >= p.rows) continue;
      for (int64_t c = 0; c < p.row_bytes; ++c) {
        const int64_t stored = p.swizzled
                                   ? scale_index(ScaleLayout::k128x4, p.stored_row_bytes, n, c)
                                   : n * p.stored_row_bytes + c;
        fn((e * p.rows + row) * p.row_bytes + c, e * p.stored_rows * p.stored_row_bytes + stored);
      }
    }
  }
}

int64_t up_row(int64_t n) { return w13_place(n).is_gate ? -1 : w13_place(n).column; }
int64_t gate_row(int64_t n) { return w13_place(n).is_gate ? w13_place(n).column : -1; }

struct Sizes {
  int64_t experts, hidden, intermediate, padded;
  Pairing w13(int64_t elems_a_byte) const {
    const int64_t bytes = hidden / elems_a_byte;
    return {experts, intermediate, bytes, 2 * padded, bytes, elems_a_byte == kMxBlock};
  }
  Pairing w2(int64_t elems_a_byte) const {
    return {experts,
            hidden,
            intermediate / elems_a_byte,
            hidden,
            padded / elems_a_byte,
            elems_a_byte == kMxBlock};
  }
};
constexpr int64_t kCodes = 2;          // elements a byte
constexpr int64_t kScales = kMxBlock;  // elements a byte

auto put(const uint8_t* checkpoint, uint8_t* prepared) {
  return [=](int64_t c, int64_t p) { prepared[p] = checkpoint[c]; };
}
auto take(uint8_t* checkpoint, const uint8_t* prepared) {
  return [=](int64_t c, int64_t p) { checkpoint[c] = prepared[p]; };
}

}  // namespace

void prepare(const PrepareArgs& args) {
  const int64_t padded = round_up(args.intermediate, 128);
  const Sizes s{args.experts, args.hidden, args.intermediate, padded};
  std::fill_n(args.w13, s.experts * 2 * padded * (s.hidden / kCodes), uint8_t{0});
  std::fill_n(args.w13_scale, s.experts * 2 * padded * (s.hidden / kScales), uint8_t{0});
  std::fill_n(args.w2, s.experts * s.hidden * (padded / kCodes), uint8_t{0});
  std::fill_n(args.w2_scale, s.experts * s.hidden * (padded / kScales), uint8_t{0});
  std::fill_n(args.clamp, s.experts, args.limit);
  for_each_byte(s.w13(kCodes), up_row, put(args.up, args.w13));
  for_each_byte(s.w13(kCodes), gate_row, put(args.gate, args.w13));
  for_each_byte(s.w13(kScales), up_row, put(args.up_scale, args.w13_scale));
  for_each_byte(s.w13(kScales), gate_row, put(args.gate_scale, args.w13_scale));
  for_each_byte(s.w2(kCodes), w2_channel, put(args.down, args.w2));
  for_each_byte(s.w2(kScales), w2_channel, put(args.down_scale, args.w2_scale));
}

void unprepare(const UnprepareArgs& args) {
  const Sizes s{args.experts, args.hidden, args.intermediate, args.padded};
  for_each_byte(s.w13(kCodes), up_row, take(args.up, args.w13));
  for_each_byte(s.w13(kCodes), gate_row, take(args.gate, args.w13));
  for_each_byte(s.w13(kScales), up_row, take(args.up_scale, args.w13_scale));
  for_each_byte(s.w13(kScales), gate_row, take(args.gate_scale, args.w13_scale));
  for_each_byte(s.w2(kCodes), w2_channel, take(args.down, args.w2));
  for_each_byte(s.w2(kScales), w2_channel, take(args.down_scale, args.w2_scale));
}

}  // namespace octet::reference
