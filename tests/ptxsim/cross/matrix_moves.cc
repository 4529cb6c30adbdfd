// SPDX-License-Identifier: Apache-2.0
// ldmatrix, stmatrix and movmatrix.
#include <fmt/format.h>

#include "case.h"
#include "pieces.h"
#include "values.h"

namespace octet::cross {
namespace {

constexpr int kWords = 1024;
const char kShared[] = ".shared .align 128 .b8 s[4096];";

std::string registers(int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}%r{}", i == 0 ? "" : ", ", first + i);
  return text + "}";
}

}  // namespace

void add_matrix_moves(std::vector<Case>& cases) {
  Launch launch;
  launch.block = {64, 1, 1};
  // Each lane's row: somewhere of its warp's half of shared memory, no two the same.
  const std::string row =
      "mov.u32 %r1, s; and.b32 %r2, %tx, 31; shr.u32 %r3, %tx, 5; mul.lo.u32 %r4, %r2, 13; and.b32 "
      "%r4, %r4, 31; "
      "mad.lo.u32 %r4, %r4, 48, %r1; mad.lo.u32 %r4, %r3, 2048, %r4;\n";
  for (const int count : {1, 2, 4}) {
    for (const char* trans : {"", ".trans"}) {
      std::string dump = own_place(1, 1, 16);
      for (int i = 0; i < count; ++i)
        dump += fmt::format("st.global.u32 [%d1+{}], %r{};\n", 4 * i, 10 + i);
      cases.push_back(simple_case(
          fmt::format("matrix/ldmatrix.x{}{}", count, trans),
          load_shared(0, kWords, 64) + row +
              fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {}, [%r4];\n", count, trans,
                          registers(10, count)) +
              dump,
          {input("shared", random_bytes(4096, 71)), output("d", 64 * 16)}, launch, kShared));
      std::string load = own_place(0, 0, 16);
      for (int i = 0; i < count; ++i)
        load += fmt::format("ld.global.u32 %r{}, [%d0+{}];\n", 10 + i, 4 * i);
      cases.push_back(simple_case(
          fmt::format("matrix/stmatrix.x{}{}", count, trans),
          fill_shared(kWords, 64) + row + load +
              fmt::format("stmatrix.sync.aligned.m8n8.x{}{}.shared.b16 [%r4], {};\n", count, trans,
                          registers(10, count)) +
              dump_shared(1, kWords, 64),
          {input("a", random_bytes(64 * 16, 73)), output("shared", 4096)}, launch, kShared));
    }
  }
  cases.push_back(
      simple_case("matrix/movmatrix",
                  own_place(0, 0, 4) + own_place(1, 1, 4) +
                      "ld.global.u32 %r10, [%d0]; movmatrix.sync.aligned.m8n8.trans.b16 %r11, "
                      "%r10; st.global.u32 [%d1], %r11;",
                  {input("a", random_bytes(256, 75)), output("d", 256)}, launch));
}

}  // namespace octet::cross
