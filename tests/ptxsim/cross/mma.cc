// SPDX-License-Identifier: Apache-2.0
// mma.sync: where each register's elements stand, and the sum.
#include <fmt/format.h>

#include "case.h"
#include "factors.h"
#include "pieces.h"

namespace octet::cross {
namespace {

struct Form {
  int k;
  const char *a, *b;
};
constexpr Form kForms[] = {{8, "f16", "f16"},    {8, "bf16", "bf16"},  {16, "f16", "f16"},
                           {16, "bf16", "bf16"}, {32, "e4m3", "e4m3"}, {32, "e4m3", "e5m2"},
                           {32, "e5m2", "e4m3"}, {32, "e5m2", "e5m2"}};
constexpr uint32_t kThreads = 128, kBlocks = 64, kAll = kThreads * kBlocks;

std::string vector_of(char kind, int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i)
    text += fmt::format("{}%{}{}", i == 0 ? "" : ", ", kind, first + i);
  return text + "}";
}

Case mma_case(const Form& form, Draw draw) {
  const int a_registers = form.k == 8 ? 2 : 4, b_registers = a_registers / 2;
  std::string text = own_place(0, 0, 4 * a_registers) + own_place(1, 1, 4 * b_registers) +
                     own_place(2, 2, 16) + own_place(3, 3, 16);
  const auto load = [&](int place, int first, int count) {
    for (int i = 0; i < count; ++i)
      text += fmt::format("ld.global.b32 %r{}, [%d{}+{}]; ", first + i, place, 4 * i);
  };
  load(0, 10, a_registers);
  load(1, 20, b_registers);
  load(2, 30, 4);
  text += fmt::format(
      "\nmma.sync.aligned.m16n8k{}.row.col.f32.{}.{}.f32 {}, {}, {}, {};\nst.global.v4.b32 [%d3], "
      "{};",
      form.k, form.a, form.b, vector_of('r', 40, 4), vector_of('r', 10, a_registers),
      vector_of('r', 20, b_registers), vector_of('r', 30, 4), vector_of('r', 40, 4));
  const size_t elements = form.k == 32 ? 4 : 2;
  Launch launch;
  launch.grid = {kBlocks, 1, 1};
  launch.block = {kThreads, 1, 1};
  const auto seed = static_cast<uint64_t>(draw) * 16;
  Case made = simple_case(
      fmt::format("mma/m16n8k{}.{}.{}, {}", form.k, form.a, form.b,
                  kDrawNames[static_cast<size_t>(draw)]),
      text,
      {input("a",
             codes_of(form.a, draw, kAll * elements * static_cast<size_t>(a_registers), 80 + seed)),
       input("b",
             codes_of(form.b, draw, kAll * elements * static_cast<size_t>(b_registers), 81 + seed)),
       input("c", accumulators_of(form.a, draw, size_t{kAll} * 4, 82 + seed)),
       output("d", size_t{kAll} * 16)},
      launch);
  made.needs = draw == Draw::kExact ? Needs::kNothing : Needs::kTruncatedSums;
  return made;
}

}  // namespace

void add_mma(std::vector<Case>& cases) {
  for (const Form& form : kForms) {
    for (const Draw draw : {Draw::kExact, Draw::kNear, Draw::kAny, Draw::kSpecial, Draw::kSubnormal,
                            Draw::kLarge, Draw::kZeros})
      cases.push_back(mma_case(form, draw));
  }
}

}  // namespace octet::cross
