// SPDX-License-Identifier: Apache-2.0
// cvt to and from pairs: PTX ISA 9.7.9.21.
//
//   to a pair     .f16x2 .bf16x2 .e4m3x2 .e5m2x2 .e2m3x2 .e3m2x2 .e2m1x2 .ue8m0x2 of two f32: the first is the upper half
//                 .e4m3x2 .e5m2x2 of .f16x2
//   from a pair   .f16x2 of .e4m3x2 .e5m2x2 .e2m3x2 .e3m2x2 .e2m1x2; .bf16x2 of .ue8m0x2
// Modelled: .rn, .rz, .rp, .satfinite, .relu.
#include "ptxsim/insn/convert.h"
#include "ptxsim/insn/elementwise.h"
#include "ptxsim/insn/numeric.h"

namespace octet::ptxsim::insn {
namespace {

struct Pair {
  std::string_view name;
  const Format* format;
  Type type;      // of the register
  int half_bits;  // between the two
};
constexpr Pair kPairs[] = {
    {"f16x2", &kF16, Type::kB32, 16},  {"bf16x2", &kBf16, Type::kB32, 16},
    {"e4m3x2", &kE4m3, Type::kB16, 8}, {"e5m2x2", &kE5m2, Type::kB16, 8},
    {"e2m3x2", &kE2m3, Type::kB16, 8}, {"e3m2x2", &kE3m2, Type::kB16, 8},
    {"e2m1x2", &kE2m1, Type::kB8, 4},  {"ue8m0x2", &kUe8m0, Type::kB16, 8},
};

int take_pair(Binder& b) {
  for (size_t i = 0; i < std::size(kPairs); ++i) {
    if (b.take(kPairs[i].name)) return int(i);
  }
  return -1;
}

enum Mod { kTo, kFrom, kRounding, kSaturates, kRelu };

uint32_t encode(const Insn& insn, double value) {
  // NaN stays what it is: relu is for what is below zero.
  if (insn.mods[kRelu] != 0 && value < 0) value = 0;
  if (insn.mods[kRelu] != 0 && value == 0) value = 0;
  return encode_float(*kPairs[insn.mods[kTo]].format, value, Rounding(insn.mods[kRounding]),
                      insn.mods[kSaturates] != 0);
}

uint32_t paired(const Insn& insn, double upper, double lower) {
  return encode(insn, upper) << kPairs[insn.mods[kTo]].half_bits | encode(insn, lower);
}

Outcome of_two(Exec& x, const Insn& insn) {
  const uint32_t *a = x.words(insn.args[1]), *c = x.words(insn.args[2]);
  machine::for_each_lane(x.lanes, [&](int lane) {
    x.set(insn.args[0].slot, insn.args[0].bits, lane,
          paired(insn, double(f32(a[lane])), double(f32(c[lane]))));
  });
  return Outcome::kNext;
}

Outcome of_pair(Exec& x, const Insn& insn) {
  const uint32_t* a = x.words(insn.args[1]);
  const Pair& from = kPairs[insn.mods[kFrom]];
  const uint32_t mask = (1u << from.half_bits) - 1;
  machine::for_each_lane(x.lanes, [&](int lane) {
    const double upper = decode_float(*from.format, a[lane] >> from.half_bits & mask);
    const double lower = decode_float(*from.format, a[lane] & mask);
    x.set(insn.args[0].slot, insn.args[0].bits, lane, paired(insn, upper, lower));
  });
  return Outcome::kNext;
}

// What GEMMs store most of.
Outcome bf16_of_two(Exec& x, const Insn& insn) {
  if (insn.args[0].slot == machine::kNoSlot) return Outcome::kNext;
  uint32_t* d = x.words(insn.args[0]);
  const uint32_t *a = x.words(insn.args[1]), *c = x.words(insn.args[2]);
  over_lanes(x.lanes, [=](int lane) {
    d[lane] = bf16_of_f32(f32(a[lane])) << 16 | bf16_of_f32(f32(c[lane]));
  });
  return Outcome::kNext;
}

}  // namespace

bool is_packed_conversion(const Binder& b) {
  for (const Pair& pair : kPairs) {
    if (b.has(pair.name)) return true;
  }
  return false;
}

Status bind_packed_conversion(Binder& b) {
  Insn& insn = b.insn();
  OCTET_ASSIGN_OR_RETURN(const int rounding, b.expect_one_of({"rn", "rz", "rp"}));
  bool relu = b.take("relu");
  const bool saturates = b.take("satfinite");
  relu |= b.take("relu");
  const int to = take_pair(b);
  if (to < 0) return b.unmodelled("want a pair to convert to");
  const bool is_of_two = b.take("f32");
  const int from = is_of_two ? 0 : take_pair(b);
  if (from < 0) return b.unmodelled("want .f32 or a pair to convert from");
  OCTET_RETURN_IF_ERROR(b.done(is_of_two ? 3 : 2));
  OCTET_RETURN_IF_ERROR(b.result(0, kPairs[to].type));
  OCTET_RETURN_IF_ERROR(b.source(1, is_of_two ? Type::kF32 : kPairs[from].type));
  if (is_of_two) OCTET_RETURN_IF_ERROR(b.source(2, Type::kF32));
  const bool is_narrow = kPairs[to].half_bits <= 8;
  if (is_of_two && is_narrow && !saturates) return b.refuse("want .satfinite");
  if (kPairs[to].name == "ue8m0x2" ? rounding == 0 : rounding == 2)
    return b.refuse("the rounding is not one of this form's");
  insn.mods = {to, from,
               int(rounding == 0   ? Rounding::kNearest
                   : rounding == 1 ? Rounding::kZero
                                   : Rounding::kUp),
               saturates, relu};
  insn.run = is_of_two ? of_two : of_pair;
  if (is_of_two && kPairs[to].name == "bf16x2" && rounding == 0 && !relu && !saturates)
    insn.run = bf16_of_two;
  return {};
}

}  // namespace octet::ptxsim::insn
