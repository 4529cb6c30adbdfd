// SPDX-License-Identifier: Apache-2.0
// .f16, .bf16 and pairs of them: PTX ISA 9.7.4. Each half is computed exactly and rounded once to nearest; a NaN is 0x7FFF.
// Subnormals are kept without .ftz; bf16 has no .ftz.
#include <cmath>

#include "ptxsim/insn/elementwise.h"
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/float.h"
#include "ptxsim/insn/numeric.h"

namespace octet::ptxsim::insn {
namespace {

struct Bf16 {
  static double get(uint32_t code) { return double(f32_of_bf16(code & 0xFFFF)); }
  // A value of at most 53 bits; through f32 it is rounded twice, which is to odd the first time.
  static uint32_t put(double value) {
    const auto near = float(value);
    if (double(near) == value || std::isnan(near) || std::isinf(near)) return bf16_of_f32(near);
    auto bits = std::bit_cast<uint32_t>(near);
    const bool beyond = std::fabs(double(near)) > std::fabs(value);
    if (beyond) --bits;  // towards zero, then odd
    return bf16_of_f32(f32(bits | 1));
  }
};
struct F16 {
  static double get(uint32_t code) { return decode_float(kF16, code & 0xFFFF); }
  static uint32_t put(double value) { return encode_float(kF16, value, Rounding::kNearest, false); }
};

struct Add {
  static double of(double a, double c, double) { return fma_to_odd(a, 1, c); }
};
struct Sub {
  static double of(double a, double c, double) { return fma_to_odd(a, 1, -c); }
};
struct Mul {
  static double of(double a, double c, double) { return a * c; }
};
struct Fma {
  static double of(double a, double c, double d) { return fma_to_odd(a, c, d); }
};
struct Min {
  static double of(double a, double c, double) {
    if (a == 0 && c == 0) return std::signbit(a) ? a : c;
    return std::fmin(a, c);
  }
};
struct Max {
  static double of(double a, double c, double) {
    if (a == 0 && c == 0) return std::signbit(a) ? c : a;
    return std::fmax(a, c);
  }
};

template <class H, class Op, bool kRelu>
uint32_t one(uint32_t a, uint32_t c, uint32_t d) {
  const uint32_t code = H::put(Op::of(H::get(a), H::get(c), H::get(d)));
  return kRelu && (code & 0x8000) != 0 && code != 0x7FFF ? 0 : code;
}

template <class H, class Op, bool kPair, bool kRelu>
uint32_t lanes(uint32_t a, uint32_t c, uint32_t d) {
  const uint32_t low = one<H, Op, kRelu>(a, c, d);
  return kPair ? low | one<H, Op, kRelu>(a >> 16, c >> 16, d >> 16) << 16 : low;
}

template <class H, class Op, bool kPair, bool kRelu>
machine::Run run_of(size_t sources) {
  if (sources == 3)
    return ternary<uint32_t>(
        [](uint32_t a, uint32_t c, uint32_t d) { return lanes<H, Op, kPair, kRelu>(a, c, d); });
  return binary<uint32_t>(
      [](uint32_t a, uint32_t c) { return lanes<H, Op, kPair, kRelu>(a, c, 0); });
}

template <class Op>
machine::Run run_of(bool is_bf16, bool is_pair, bool relu, size_t sources) {
  if (is_bf16) {
    if (is_pair)
      return relu ? run_of<Bf16, Op, true, true>(sources) : run_of<Bf16, Op, true, false>(sources);
    return relu ? run_of<Bf16, Op, false, true>(sources) : run_of<Bf16, Op, false, false>(sources);
  }
  if (is_pair)
    return relu ? run_of<F16, Op, true, true>(sources) : run_of<F16, Op, true, false>(sources);
  return relu ? run_of<F16, Op, false, true>(sources) : run_of<F16, Op, false, false>(sources);
}

// neg and abs.
template <class H, bool kNegates>
uint32_t signed_one(uint32_t code) {
  if (std::isnan(H::get(code))) return 0x7FFF;
  return kNegates ? (code ^ 0x8000) & 0xFFFF : code & 0x7FFF;
}
template <class H, bool kNegates>
machine::Run sign_run(bool is_pair) {
  return is_pair ? unary<uint32_t>([](uint32_t a) {
    return signed_one<H, kNegates>(a) | signed_one<H, kNegates>(a >> 16) << 16;
  })
                 : unary<uint32_t>([](uint32_t a) { return signed_one<H, kNegates>(a); });
}

machine::Run run_of(Half op, bool is_bf16, bool is_pair, bool relu) {
  switch (op) {
    case Half::kAdd:
      return run_of<Add>(is_bf16, is_pair, relu, 2);
    case Half::kSub:
      return run_of<Sub>(is_bf16, is_pair, relu, 2);
    case Half::kMul:
      return run_of<Mul>(is_bf16, is_pair, relu, 2);
    case Half::kFma:
      return run_of<Fma>(is_bf16, is_pair, relu, 3);
    case Half::kMin:
      return run_of<Min>(is_bf16, is_pair, false, 2);
    case Half::kMax:
      return run_of<Max>(is_bf16, is_pair, false, 2);
    case Half::kNeg:
      return is_bf16 ? sign_run<Bf16, true>(is_pair) : sign_run<F16, true>(is_pair);
    case Half::kAbs:
      break;
  }
  return is_bf16 ? sign_run<Bf16, false>(is_pair) : sign_run<F16, false>(is_pair);
}

}  // namespace

bool is_half_form(const Binder& b) {
  return b.has("f16") || b.has("f16x2") || b.has("bf16") || b.has("bf16x2");
}

Status bind_half(Binder& b, Half op) {
  const bool rounds = op == Half::kAdd || op == Half::kSub || op == Half::kMul || op == Half::kFma;
  if (rounds) b.take("rn");
  const bool relu = op == Half::kFma && b.take("relu");
  OCTET_ASSIGN_OR_RETURN(const int form, b.expect_one_of({"f16", "f16x2", "bf16", "bf16x2"}));
  const bool is_pair = form % 2 == 1;
  const Type type = is_pair ? Type::kB32 : Type::kB16;
  const size_t sources = op == Half::kFma ? 3 : op == Half::kNeg || op == Half::kAbs ? 1 : 2;
  OCTET_RETURN_IF_ERROR(b.done(sources + 1));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  for (size_t i = 1; i <= sources; ++i) OCTET_RETURN_IF_ERROR(b.source(i, type));
  b.insn().run = run_of(op, form >= 2, is_pair, relu);
  return {};
}

}  // namespace octet::ptxsim::insn
