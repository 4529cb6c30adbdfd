// SPDX-License-Identifier: Apache-2.0
// mma.sync.aligned.m16n8k16.row.col.f32.{bf16,f16}.{same}.f32: PTX ISA 9.7.14.5.8 (fragments of m16n8k16), 9.7.14.5.14 (mma).
//
// Lane t, g = t/4, q = 2(t%4):  a0 row g, a1 row g+8, columns q, q+1; a2, a3 the same at columns q+8, q+9; b0 rows q, q+1 and b1 rows q+8,
// q+9 of column g; c0, c1 row g, c2, c3 row g+8, columns q, q+1. Sums: dot.h, all 16 products and c in one.
#include "ptxsim/insn/dot.h"
#include "ptxsim/insn/families.h"

namespace octet::ptxsim::insn {
namespace {

constexpr int kM = 16, kN = 8, kK = 16;

double half_of(uint32_t pair, int which, bool is_bf16) {
  const uint32_t code = which == 0 ? pair & 0xFFFF : pair >> 16;
  return is_bf16 ? double(f32_of_bf16(code)) : decode_float(kF16, code);
}

// args: d, a, b, c.
Outcome run_m16n8k16(Exec& x, const Insn& insn) {
  const bool is_bf16 = insn.mods[0] != 0;
  double a[kM][kK], b[kN][kK];
  float c[kM][kN];
  for (int lane = 0; lane < machine::kLanes; ++lane) {
    const int g = lane / 4, q = 2 * (lane % 4);
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        a[g + 8 * (i % 2)][q + half + 8 * (i / 2)] =
            half_of(x.words(x.element(insn.args[1], i))[lane], half, is_bf16);
      }
      for (int i = 0; i < 2; ++i)
        b[g][q + half + 8 * i] = half_of(x.words(x.element(insn.args[2], i))[lane], half, is_bf16);
      for (int i = 0; i < 2; ++i)
        c[g + 8 * i][q + half] = f32(x.words(x.element(insn.args[3], 2 * i + half))[lane]);
    }
  }
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      double products[kK];
      for (int k = 0; k < kK; ++k) products[k] = a[m][k] * b[n][k];
      c[m][n] = add_products(x.machine.settings().arithmetic, products, kK, c[m][n]);
    }
  }
  for (int lane = 0; lane < machine::kLanes; ++lane) {
    const int g = lane / 4, q = 2 * (lane % 4);
    for (int i = 0; i < 4; ++i)
      x.set(x.element(insn.args[0], i), 32, lane, bits32(c[g + 8 * (i / 2)][q + i % 2]));
  }
  return Outcome::kNext;
}

}  // namespace

Status bind_mma(Binder& b) {
  for (const char* modifier : {"sync", "aligned"}) OCTET_RETURN_IF_ERROR(b.expect(modifier));
  for (const char* modifier : {"m16n8k16", "row", "col", "f32"}) {
    if (!b.take(modifier))
      return b.unmodelled("only .m16n8k16.row.col.f32 of bf16 or f16 is modelled");
  }
  OCTET_ASSIGN_OR_RETURN(const int is_bf16, b.expect_one_of({"f16", "bf16"}));
  OCTET_RETURN_IF_ERROR(b.expect(is_bf16 != 0 ? "bf16" : "f16"));
  OCTET_RETURN_IF_ERROR(b.expect("f32"));
  OCTET_RETURN_IF_ERROR(b.done(4));
  OCTET_RETURN_IF_ERROR(b.result_vector(0, Type::kF32, 4));
  OCTET_RETURN_IF_ERROR(b.source_vector(1, Type::kB32, 4));
  OCTET_RETURN_IF_ERROR(b.source_vector(2, Type::kB32, 2));
  OCTET_RETURN_IF_ERROR(b.source_vector(3, Type::kF32, 4));
  b.insn().mods[0] = is_bf16;
  b.insn().is_aligned = true;
  b.insn().run = run_m16n8k16;
  return {};
}

}  // namespace octet::ptxsim::insn
