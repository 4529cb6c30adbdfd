// SPDX-License-Identifier: Apache-2.0
// mma.sync: PTX ISA 9.7.14.5, scales 9.7.14.3. d [16, 8] f32 = a [16, k] * b [8, k] + c, of one warp:
//
//   m16n8k8, m16n8k16    f16, bf16
//   m16n8k32             e4m3, e5m2; with .kind::f8f6f4 and .kind::mxf8f6f4 also e2m3, e3m2, e2m1, in 8-bit containers: e2m1 in bits 2-5,
//                        the 6-bit formats in bits 0-5
//   .block_scale         of mxf8f6f4, scale_vec::1X: a's row g from lane 4 g + 2 * thread-id, row g + 8 from the next; b's column g from lane
//                        4 g + thread-id; byte byte-id of those registers, ue8m0
//
// Which register holds what: matrix/fragments.h. Padding bits of a container are not looked at. Not modelled: d in f16, tf32, integers,
// f64, mxf4 and mxf4nvf4. Truncated sums (matrix/dot.h): 8-bit formats without a .kind, Hopper's, keep 13 bits.
#include <bit>
#include <cmath>
#include <initializer_list>

#include "ptxsim/insn/families.h"
#include "ptxsim/insn/tensor_product.h"
#include "ptxsim/matrix/fragments.h"

namespace octet::ptxsim::insn {
namespace {

using matrix::Format;

constexpr int kRows = 16, kColumns = 8;

enum class Kind { kNone, kF8f6f4, kMxf8f6f4 };

// mods: k, a's format, b's, kind.
uint32_t element(uint32_t word, int i, Format format) {
  const int bits = matrix::format_bits(format);
  if (bits == 16) return word >> (16 * i) & 0xFFFF;
  const uint32_t byte = word >> (8 * i) & 0xFF;
  return bits == 4 ? byte >> 2 & 0xF : byte & (~0U >> (32 - bits));
}

// Codes [lines, k] from registers whose places `place` gives.
template <class PlaceOf>
std::vector<uint32_t> codes_of(const Exec& x, const machine::Arg& arg, Format format, int lines,
                               int k, PlaceOf place) {
  const int elements = matrix::format_bits(format) == 16 ? 2 : 4;
  std::vector<uint32_t> codes(static_cast<size_t>(lines * k));
  for (int reg = 0; reg < arg.count; ++reg) {
    const uint32_t* words = x.words(x.element(arg, reg));
    for (int lane = 0; lane < machine::kLanes; ++lane) {
      const matrix::Place first = place(lane, reg, 32 / elements);
      for (int i = 0; i < elements; ++i)
        codes[static_cast<size_t>(first.row * k + first.column + i)] =
            element(words[lane], i, format);
    }
  }
  return codes;
}

// The f16 of the same value.
uint32_t f16_of(Format format, uint32_t code) {
  if (format == Format::kE5m2) return code << 8;
  const uint32_t sign = (code & 0x80) << 8, exponent = code >> 3 & 15;
  uint32_t fraction = code & 7;
  if ((code & 0x7F) == 0x7F) return sign | 0x7E00;
  if (exponent != 0) return sign | (exponent + 8) << 10 | fraction << 7;
  if (fraction == 0) return sign;
  uint32_t normal = 9;
  for (; (fraction & 8) == 0; fraction <<= 1) --normal;
  return sign | normal << 10 | (fraction & 7) << 7;
}

// The factors of each product that an instruction makes: one, but of Hopper's 8-bit formats two, of f16: one of k % 4 = 0 and 1, one of the
// others.
std::vector<matrix::Factors> factors_of(Format format, const std::vector<uint32_t>& codes,
                                        int lines, int k, bool is_halved) {
  if (!is_halved) return {matrix::Factors(format, codes, lines, k, false)};
  std::vector<matrix::Factors> halves;
  for (size_t half = 0; half < 2; ++half) {
    std::vector<uint32_t> own;
    for (size_t i = 0; i < codes.size(); ++i)
      if (i % 4 / 2 == half) own.push_back(f16_of(format, codes[i]));
    halves.emplace_back(Format::kF16, own, lines, k / 2, false);
  }
  return halves;
}

// Scales of a's rows and b's columns; exponent 0 without block scales.
struct Scales {
  int a[kRows] = {}, b[kColumns] = {};
  bool a_is_nan[kRows] = {}, b_is_nan[kColumns] = {};
};

// args 4 to 7: scales of a, {byte, thread}, scales of b, {byte, thread}.
std::string take_scales(const Exec& x, const Insn& insn, Scales& scales) {
  const auto selector = [&](int arg, int i) {
    return x.words(x.element(insn.args[arg], i))[machine::first_lane(x.lanes)];
  };
  const uint32_t a_byte = selector(5, 0), a_thread = selector(5, 1), b_byte = selector(7, 0),
                 b_thread = selector(7, 1);
  if (a_byte > 3 || b_byte > 3 || a_thread > 1 || b_thread > 3)
    return "a selector of scales beyond byte-id 0 ... 3, thread-id-a 0 ... 1, thread-id-b 0 ... 3";
  const auto code = [&](int arg, int lane, uint32_t byte) {
    return static_cast<int>(x.words(insn.args[arg])[lane] >> (8 * byte) & 0xFF);
  };
  for (int row = 0; row < kRows; ++row) {
    const int lane = row % 8 * 4 + static_cast<int>(a_thread) * 2 + row / 8;
    const int found = code(4, lane, a_byte);
    scales.a[row] = found - 127;
    scales.a_is_nan[row] = found == 0xFF;
  }
  for (int column = 0; column < kColumns; ++column) {
    const int found = code(6, column * 4 + static_cast<int>(b_thread), b_byte);
    scales.b[column] = found - 127;
    scales.b_is_nan[column] = found == 0xFF;
  }
  return "";
}

float plain_sum(float a, float c) {
  const float sum = a + c;
  return std::isnan(sum) ? std::bit_cast<float>(0x7FFFFFFF) : sum;
}

// args: d, a, b, c.
Outcome run_mma(Exec& x, const Insn& insn) {
  if (x.lanes != machine::kAllLanes) return x.fail(insn, "not all 32 lanes of the warp");
  ++x.machine.counts().products;
  const int k = insn.mods[0];
  const Kind kind = Kind(insn.mods[3]);
  // Hopper makes two products of 8-bit factors, one added to the other's sum, and then adds c.
  const matrix::Arithmetic arithmetic = arithmetic_of(x.machine, false);
  const bool is_halved =
      kind == Kind::kNone && k == 32 && arithmetic.sum == matrix::Arithmetic::Sum::kTruncated;
  const auto a_format = Format(insn.mods[1]), b_format = Format(insn.mods[2]);
  const auto a =
      factors_of(a_format, codes_of(x, insn.args[1], a_format, kRows, k, matrix::a_place), kRows, k,
                 is_halved);
  const auto b =
      factors_of(b_format, codes_of(x, insn.args[2], b_format, kColumns, k, matrix::b_place),
                 kColumns, k, is_halved);
  Scales scales;
  if (kind == Kind::kMxf8f6f4) {
    if (const std::string wrong = take_scales(x, insn, scales); !wrong.empty())
      return x.fail(insn, wrong);
  }
  float sums[4][machine::kLanes];  // d may be c's or a's registers
  for (int reg = 0; reg < 4; ++reg) {
    const uint32_t* c = x.words(x.element(insn.args[3], reg));
    for (int lane = 0; lane < machine::kLanes; ++lane) {
      const auto [row, column] = matrix::accumulator_place(lane, reg);
      matrix::Term term = {row, column, scales.a[row] + scales.b[column],
                           scales.a_is_nan[row] || scales.b_is_nan[column],
                           std::bit_cast<float>(c[lane])};
      if (is_halved) term.c = 0;
      for (size_t i = 0; i < a.size(); ++i) term.c = matrix::dot(a[i], b[i], term, arithmetic);
      sums[reg][lane] = is_halved ? plain_sum(std::bit_cast<float>(c[lane]), term.c) : term.c;
    }
  }
  for (int reg = 0; reg < 4; ++reg) {
    const machine::Slot slot = x.element(insn.args[0], reg);
    for (int lane = 0; lane < machine::kLanes; ++lane)
      x.set(slot, 32, lane, std::bit_cast<uint32_t>(sums[reg][lane]));
  }
  return Outcome::kNext;
}

Result<Format> take_format(Binder& b, int k, Kind kind) {
  const auto unmodelled = [&] { return b.unmodelled("an element type that is not modelled"); };
  if (k != 32) {
    const int i = b.take_one_of({"f16", "bf16"});
    if (i < 0) return unmodelled();
    return i == 0 ? Format::kF16 : Format::kBf16;
  }
  constexpr Format kFormats[] = {Format::kE4m3, Format::kE5m2, Format::kE2m3, Format::kE3m2,
                                 Format::kE2m1};
  const int i = kind == Kind::kNone ? b.take_one_of({"e4m3", "e5m2"})
                                    : b.take_one_of({"e4m3", "e5m2", "e2m3", "e3m2", "e2m1"});
  if (i < 0) return unmodelled();
  return kFormats[i];
}

// Shape, layouts and kind, whose order nvcc and the ISA's text do not share.
Status take_shape(Binder& b, int* k, Kind* kind) {
  bool is_scaled = false;
  for (;;) {
    if (const int i = b.take_one_of({"m16n8k8", "m16n8k16", "m16n8k32"}); i >= 0) {
      *k = 8 << i;
    } else if (const int which = b.take_one_of({"kind::f8f6f4", "kind::mxf8f6f4"}); which >= 0) {
      *kind = which == 0 ? Kind::kF8f6f4 : Kind::kMxf8f6f4;
    } else if (b.take("block_scale")) {
      is_scaled = true;
    } else if (b.take_one_of({"scale_vec::1X", "row", "col"}) < 0) {
      break;
    }
  }
  if (*k == 0) return b.unmodelled("the shapes m16n8k8, m16n8k16 and m16n8k32 are modelled");
  if (is_scaled != (*kind == Kind::kMxf8f6f4) || (*kind != Kind::kNone && *k != 32))
    return b.unmodelled("a kind that is not modelled with this shape");
  return {};
}

Status bind_scales(Binder& b) {
  for (const size_t i : {4, 6}) {
    // With or without braces: the ISA's text has none, its users have.
    const text::Operand& at = b.operand(i);
    const bool is_vector = at.kind == text::Operand::Kind::kVector && at.parts.size() == 1;
    OCTET_RETURN_IF_ERROR(b.source(is_vector ? at.parts[0] : at, Type::kB32));
    OCTET_RETURN_IF_ERROR(b.source_vector(i + 1, Type::kU16, 2));
  }
  return {};
}

}  // namespace

Status bind_mma(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_RETURN_IF_ERROR(b.expect("aligned"));
  int k = 0;
  Kind kind = Kind::kNone;
  OCTET_RETURN_IF_ERROR(take_shape(b, &k, &kind));
  if (!b.take("f32")) return b.unmodelled("d in f32 alone is modelled");
  OCTET_ASSIGN_OR_RETURN(const Format a_format, take_format(b, k, kind));
  OCTET_ASSIGN_OR_RETURN(const Format b_format, take_format(b, k, kind));
  if (k != 32 && a_format != b_format) return b.refuse("a and b of different formats");
  OCTET_RETURN_IF_ERROR(b.expect("f32"));
  const bool is_scaled = kind == Kind::kMxf8f6f4;
  if (is_scaled) OCTET_RETURN_IF_ERROR(b.expect("ue8m0"));
  OCTET_RETURN_IF_ERROR(b.done(is_scaled ? 8 : 4));
  const size_t a_registers = k == 8 ? 2 : 4;
  OCTET_RETURN_IF_ERROR(b.result_vector(0, Type::kF32, 4));
  OCTET_RETURN_IF_ERROR(b.source_vector(1, Type::kB32, a_registers));
  OCTET_RETURN_IF_ERROR(b.source_vector(2, Type::kB32, a_registers / 2));
  OCTET_RETURN_IF_ERROR(b.source_vector(3, Type::kF32, 4));
  if (is_scaled) OCTET_RETURN_IF_ERROR(bind_scales(b));
  b.insn().is_aligned = true;
  b.insn().mods = {k, static_cast<int32_t>(a_format), static_cast<int32_t>(b_format),
                   static_cast<int32_t>(kind)};
  b.insn().run = run_mma;
  return {};
}

}  // namespace octet::ptxsim::insn
