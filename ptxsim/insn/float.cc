// SPDX-License-Identifier: Apache-2.0
// f32 and f64, rounded to nearest: PTX ISA 9.7.3. Other roundings are not modelled. Without .ftz subnormals are kept.
#include "ptxsim/insn/float.h"

#include <algorithm>
#include <cmath>

#include "ptxsim/insn/approx.h"
#include "ptxsim/insn/elementwise.h"
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/numeric.h"

namespace octet::ptxsim::insn {
namespace {

struct Form {
  Type type = Type::kF32;  // kF32, kF64; kB64 for .f32x2
  bool ftz = false;
  bool sat = false;
};

// .rn .ftz .sat .f32 and the like.
Status take_form(Binder& b, bool may_round, Form* form) {
  if (may_round && b.take_one_of({"rz", "rm", "rp"}) >= 0)
    return b.unmodelled("only .rn is modelled");
  if (may_round) b.take("rn");
  form->ftz = b.take("ftz");
  form->sat = b.take("sat");
  if (b.take("f32x2")) {
    form->type = Type::kB64;
    return {};
  }
  OCTET_ASSIGN_OR_RETURN(form->type, b.take_type({Type::kF32, Type::kF64}));
  return {};
}

Status bind_operands(Binder& b, Type type, size_t sources) {
  OCTET_RETURN_IF_ERROR(b.done(sources + 1));
  OCTET_RETURN_IF_ERROR(b.result(0, type));
  for (size_t i = 1; i <= sources; ++i) OCTET_RETURN_IF_ERROR(b.source(i, type));
  return {};
}

template <bool kFtz, bool kSat>
uint32_t finish(float value, double exact) {
  const uint32_t bits = bits32(kSat ? saturate(value) : value);
  return kFtz ? flush_result(bits, exact) : bits;
}
template <bool kFtz>
float start(uint32_t bits) {
  return f32(kFtz ? flush(bits) : bits);
}

template <bool kFtz, bool kSat, class F>
machine::Run two_f32(F) {
  return binary<uint32_t>([](uint32_t p, uint32_t q) {
    const float a = start<kFtz>(p), c = start<kFtz>(q);
    return finish<kFtz, kSat>(F{}(a, c), F{}(double(a), double(c)));
  });
}
template <bool kFtz, bool kSat>
machine::Run fma_f32() {
  return ternary<uint32_t>([](uint32_t p, uint32_t q, uint32_t r) {
    const float a = start<kFtz>(p), c = start<kFtz>(q), d = start<kFtz>(r);
    return finish<kFtz, kSat>(std::fma(a, c, d), kFtz ? fma_to_odd(a, c, d) : 0);
  });
}

// f64: a NaN operand's bits, the last one's, made quiet.
uint64_t with_nans(uint64_t a, uint64_t c, uint64_t result) {
  return is_nan64(c) ? c | kQuiet64 : is_nan64(a) ? a | kQuiet64 : result;
}

template <class F>
Status bind_arithmetic(Binder& b, F f) {
  Form form;
  OCTET_RETURN_IF_ERROR(take_form(b, true, &form));
  OCTET_RETURN_IF_ERROR(bind_operands(b, form.type, 2));
  if (form.type == Type::kF64) {
    b.insn().run = binary<uint64_t>(
        [](uint64_t a, uint64_t c) { return with_nans(a, c, bits64(F{}(f64(a), f64(c)))); });
  } else if (form.type == Type::kB64) {
    b.insn().run = binary<uint64_t>([](uint64_t a, uint64_t c) {
      return uint64_t{bits32(F{}(f32(uint32_t(a >> 32)), f32(uint32_t(c >> 32))))} << 32 |
             bits32(F{}(f32(uint32_t(a)), f32(uint32_t(c))));
    });
  } else {
    b.insn().run = form.ftz ? (form.sat ? two_f32<true, true>(f) : two_f32<true, false>(f))
                            : (form.sat ? two_f32<false, true>(f) : two_f32<false, false>(f));
  }
  return {};
}

// A NaN that meets a number gives the number, but with .NaN; -0 is below +0 (PTX ISA 9.7.3.13, 9.7.3.14).
template <bool kIsMax, bool kFtz, bool kNaN>
machine::Run extreme() {
  return binary<uint32_t>([](uint32_t p, uint32_t q) {
    const uint32_t a = kFtz ? flush(p) : p, c = kFtz ? flush(q) : q;
    const bool a_nan = std::isnan(f32(a)), c_nan = std::isnan(f32(c));
    if (a_nan || c_nan) return (a_nan && c_nan) || kNaN ? kNan32 : a_nan ? c : a;
    const bool a_less = f32(a) < f32(c) || (f32(a) == f32(c) && (a >> 31) > (c >> 31));
    return a_less == kIsMax ? c : a;
  });
}

template <bool kIsMax>
Status bind_extreme(Binder& b) {
  const bool ftz = b.take("ftz"), nan = b.take("NaN");
  if (b.has("f64")) {
    OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kF64}));
    OCTET_RETURN_IF_ERROR(bind_operands(b, type, 2));
    b.insn().run = binary<uint64_t>([](uint64_t a, uint64_t c) {
      if (is_nan64(c)) return is_nan64(a) ? c | kQuiet64 : a;
      if (is_nan64(a)) return c;
      const bool a_less = f64(a) < f64(c) || (f64(a) == f64(c) && (a >> 63) > (c >> 63));
      return a_less == kIsMax ? c : a;
    });
    return {};
  }
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kF32}));
  OCTET_RETURN_IF_ERROR(bind_operands(b, type, 2));
  b.insn().run = ftz ? (nan ? extreme<kIsMax, true, true>() : extreme<kIsMax, true, false>())
                     : (nan ? extreme<kIsMax, false, true>() : extreme<kIsMax, false, false>());
  return {};
}

// neg and abs change the sign alone; a NaN is 0x7FFFFFFF, or an f64's own made quiet, as it is on an H200.
template <class F32, class F64>
Status bind_sign(Binder& b, F32, F64) {
  Form form;
  OCTET_RETURN_IF_ERROR(take_form(b, false, &form));
  if (form.type == Type::kB64) return b.unmodelled("pairs are not modelled here");
  OCTET_RETURN_IF_ERROR(bind_operands(b, form.type, 1));
  const auto on32 = [](uint32_t a) { return std::isnan(f32(a)) ? kNan32 : F32{}(a); };
  b.insn().run =
      form.type == Type::kF64
          ? unary<uint64_t>([](uint64_t a) { return is_nan64(a) ? a | kQuiet64 : F64{}(a); })
      : form.ftz ? unary<uint32_t>(
                       [](uint32_t a) { return std::isnan(f32(a)) ? kNan32 : F32{}(flush(a)); })
                 : unary<uint32_t>(on32);
  return {};
}

// A function of one f32 that has .approx, or .rn for which `exact` is the correctly rounded one.
template <class Approx, class ApproxFtz, class Exact>
Status bind_function(Binder& b, Approx approx, ApproxFtz approx_ftz, Exact exact) {
  const bool is_exact = b.take("rn");
  if (!is_exact) OCTET_RETURN_IF_ERROR(b.expect("approx"));
  const bool ftz = b.take("ftz");
  OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kF32}));
  OCTET_RETURN_IF_ERROR(bind_operands(b, type, 1));
  if (is_exact) {
    b.insn().run =
        ftz ? unary<uint32_t>(
                  [](uint32_t a) { return flush(bits32(float(Exact{}(double(f32(flush(a))))))); })
            : unary<uint32_t>([](uint32_t a) { return bits32(float(Exact{}(double(f32(a))))); });
    (void)exact;
  } else {
    b.insn().run = ftz ? unary<uint32_t>(approx_ftz) : unary<uint32_t>(approx);
  }
  return {};
}

}  // namespace

bool is_float_form(const Binder& b) {
  return b.has("f32") || b.has("f64") || b.has("f32x2") || is_half_form(b);
}

Status bind_float_add(Binder& b) {
  if (is_half_form(b)) return bind_half(b, Half::kAdd);
  return bind_arithmetic(b, [](auto a, auto c) { return a + c; });
}
Status bind_float_sub(Binder& b) {
  if (is_half_form(b)) return bind_half(b, Half::kSub);
  return bind_arithmetic(b, [](auto a, auto c) { return a - c; });
}
Status bind_float_mul(Binder& b) {
  if (is_half_form(b)) return bind_half(b, Half::kMul);
  return bind_arithmetic(b, [](auto a, auto c) { return a * c; });
}
Status bind_float_min(Binder& b) {
  return is_half_form(b) ? bind_half(b, Half::kMin) : bind_extreme<false>(b);
}
Status bind_float_max(Binder& b) {
  return is_half_form(b) ? bind_half(b, Half::kMax) : bind_extreme<true>(b);
}

Status bind_float_abs(Binder& b) {
  if (is_half_form(b)) return bind_half(b, Half::kAbs);
  return bind_sign(
      b, [](uint32_t a) { return a & 0x7FFFFFFF; },
      [](uint64_t a) { return a & 0x7FFFFFFFFFFFFFFF; });
}
Status bind_float_neg(Binder& b) {
  if (is_half_form(b)) return bind_half(b, Half::kNeg);
  return bind_sign(
      b, [](uint32_t a) { return a ^ 0x80000000; },
      [](uint64_t a) { return a ^ 0x8000000000000000; });
}

Status bind_float_div(Binder& b) {
  if (b.take("rn")) {
    const bool ftz = b.take("ftz");
    OCTET_ASSIGN_OR_RETURN(const Type type, b.take_type({Type::kF32, Type::kF64}));
    OCTET_RETURN_IF_ERROR(bind_operands(b, type, 2));
    const auto quotient = [](auto a, auto c) { return a / c; };
    b.insn().run = type == Type::kF64 ? binary<uint64_t>([](uint64_t a, uint64_t c) {
      return with_nans(c, a, bits64(f64(a) / f64(c)));
    })
                   : ftz              ? two_f32<true, false>(quotient)
                                      : two_f32<false, false>(quotient);
    return {};
  }
  OCTET_ASSIGN_OR_RETURN(const int is_approx, b.expect_one_of({"full", "approx"}));
  const bool ftz = b.take("ftz");
  OCTET_RETURN_IF_ERROR(b.expect("f32"));
  OCTET_RETURN_IF_ERROR(bind_operands(b, Type::kF32, 2));
  if (is_approx != 0) {
    b.insn().run =
        ftz ? binary<uint32_t>([](uint32_t a, uint32_t c) { return div_approx<true, false>(a, c); })
            : binary<uint32_t>(
                  [](uint32_t a, uint32_t c) { return div_approx<false, false>(a, c); });
  } else {
    b.insn().run =
        ftz ? binary<uint32_t>([](uint32_t a, uint32_t c) { return div_approx<true, true>(a, c); })
            : binary<uint32_t>(
                  [](uint32_t a, uint32_t c) { return div_approx<false, true>(a, c); });
  }
  return {};
}

Status bind_fma(Binder& b) {
  if (is_half_form(b)) return bind_half(b, Half::kFma);
  Form form;
  OCTET_RETURN_IF_ERROR(take_form(b, true, &form));
  OCTET_RETURN_IF_ERROR(bind_operands(b, form.type, 3));
  if (form.type == Type::kF64) {
    b.insn().run = ternary<uint64_t>([](uint64_t a, uint64_t c, uint64_t d) {
      const uint64_t result = with_nans(a, d, bits64(std::fma(f64(a), f64(c), f64(d))));
      return is_nan64(c) ? c | kQuiet64 : result;
    });
  } else if (form.type == Type::kB64) {
    b.insn().run = ternary<uint64_t>([](uint64_t a, uint64_t c, uint64_t d) {
      return uint64_t{bits32(
                 std::fma(f32(uint32_t(a >> 32)), f32(uint32_t(c >> 32)), f32(uint32_t(d >> 32))))}
                 << 32 |
             bits32(std::fma(f32(uint32_t(a)), f32(uint32_t(c)), f32(uint32_t(d))));
    });
  } else {
    b.insn().run = form.ftz ? (form.sat ? fma_f32<true, true>() : fma_f32<true, false>())
                            : (form.sat ? fma_f32<false, true>() : fma_f32<false, false>());
  }
  return {};
}

Status bind_rcp(Binder& b) {
  return bind_function(
      b, [](uint32_t a) { return rcp_approx(a); },
      [](uint32_t a) { return flush(rcp_approx(flush(a))); }, [](double a) { return 1 / a; });
}
Status bind_sqrt(Binder& b) {
  return bind_function(
      b, [](uint32_t a) { return sqrt_approx(a); },
      [](uint32_t a) { return flush(sqrt_approx(flush(a))); },
      [](double a) { return std::sqrt(a); });
}
Status bind_rsqrt(Binder& b) {
  return bind_function(
      b, [](uint32_t a) { return rsqrt_approx(a); },
      [](uint32_t a) { return flush(rsqrt_approx(flush(a))); },
      [](double a) { return 1 / std::sqrt(a); });
}
Status bind_ex2(Binder& b) {
  if (is_half_form(b)) return b.unmodelled("ex2 of halves is not modelled");
  return bind_function(
      b, [](uint32_t a) { return ex2_approx(a); }, [](uint32_t a) { return ex2_approx_ftz(a); },
      [](double a) { return std::exp2(a); });
}
Status bind_lg2(Binder& b) {
  return bind_function(
      b, [](uint32_t a) { return lg2_approx(a); },
      [](uint32_t a) { return flush(lg2_approx(flush(a))); },
      [](double a) { return std::log2(a); });
}
Status bind_tanh(Binder& b) {
  return bind_function(
      b, [](uint32_t a) { return tanh_approx(a); },
      [](uint32_t a) { return flush(tanh_approx(flush(a))); },
      [](double a) { return std::tanh(a); });
}

// PTX ISA 9.7.3.2.
Status bind_testp(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const int what, b.expect_one_of({"finite", "infinite", "number",
                                                          "notanumber", "normal", "subnormal"}));
  OCTET_RETURN_IF_ERROR(b.expect("f32"));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.predicate_result(0));
  OCTET_RETURN_IF_ERROR(b.source(1, Type::kF32));
  b.insn().mods[0] = what;
  b.insn().run = +[](Exec& x, const Insn& insn) {
    const uint32_t* a = x.words(insn.args[1]);
    LaneMask holds = 0;
    machine::for_each_lane(x.lanes, [&](int lane) {
      const float value = f32(a[lane]);
      const int kind = std::fpclassify(value);
      const bool is[] = {
          bool(std::isfinite(value)),           kind == FP_INFINITE, kind != FP_NAN, kind == FP_NAN,
          kind == FP_NORMAL || kind == FP_ZERO, kind == FP_SUBNORMAL};
      holds |= LaneMask(is[insn.mods[0]]) << lane;
    });
    x.set_predicate(insn.args[0].slot, holds);
    return Outcome::kNext;
  };
  return {};
}

// The sign of a on b (PTX ISA 9.7.3.3).
Status bind_copysign(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("f32"));
  OCTET_RETURN_IF_ERROR(bind_operands(b, Type::kF32, 2));
  b.insn().run =
      binary<uint32_t>([](uint32_t a, uint32_t c) { return (a & 0x80000000) | (c & 0x7FFFFFFF); });
  return {};
}

}  // namespace octet::ptxsim::insn
