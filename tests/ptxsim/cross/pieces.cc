// SPDX-License-Identifier: Apache-2.0
#include "pieces.h"

#include <fmt/format.h>

namespace octet::cross {
namespace {

// Runs `statement` for each word %r151 of the block's, its shared address in %r152 and its byte in %d51.
std::string over_words(const char* label, int words, int threads, const std::string& statement) {
  return fmt::format(
      "mov.u32 %r150, s; mov.u32 %r151, %tx;\n"
      "{0}: setp.ge.u32 %p15, %r151, {1}; @%p15 bra {0}_END; shl.b32 %r152, %r151, 2; "
      "cvt.u64.u32 %d51, %r152; add.u32 %r152, %r150, %r152; {3} add.u32 %r151, %r151, {2}; bra "
      "{0};\n"
      "{0}_END:\n",
      label, words, threads, statement);
}

}  // namespace

std::string own_place(int reg, int parameter, int bytes) {
  return fmt::format(
      "mov.u32 %r141, %ctaid.x; mov.u32 %r142, %ntid.x; mad.lo.u32 %r140, %r141, %r142, %tx; "
      "ld.param.u64 %d{0}, [p{1}]; mad.wide.u32 %d{0}, %r140, {2}, %d{0};\n",
      reg, parameter, bytes);
}

std::string fill_shared(int words, int threads) {
  return over_words("FILL", words, threads, "st.shared.u32 [%r152], 0xA5A5A5A5;") + "bar.sync 0;\n";
}

std::string load_shared(int parameter, int words, int threads) {
  return fmt::format(
             "ld.param.u64 %d50, [p{}]; mov.u32 %r153, %ctaid.x; mul.wide.u32 %d52, %r153, {}; "
             "add.u64 %d50, %d50, %d52;\n",
             parameter, 4 * words) +
         over_words("LOAD", words, threads,
                    "add.u64 %d51, %d50, %d51; ld.global.u32 %r154, [%d51]; st.shared.u32 [%r152], "
                    "%r154;") +
         "bar.sync 0;\n";
}

std::string dump_shared(int parameter, int words, int threads) {
  return fmt::format(
             "bar.sync 0; ld.param.u64 %d50, [p{}]; mov.u32 %r153, %ctaid.x; mul.wide.u32 %d52, "
             "%r153, {}; "
             "add.u64 %d50, %d50, %d52;\n",
             parameter, 4 * words) +
         over_words("DUMP", words, threads,
                    "add.u64 %d51, %d50, %d51; ld.shared.u32 %r154, [%r152]; st.global.u32 [%d51], "
                    "%r154;");
}

std::string wait_parity(const std::string& address, int parity) {
  return fmt::format(
      "mov.u32 %r155, 0;\n"
      "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p14, [{0}], {1}; @%p14 bra WAITED; "
      "add.u32 %r155, %r155, 1; setp.lt.u32 %p13, %r155, 1000; @%p13 bra WAIT;\n"
      "mov.u32 %r156, s; st.shared.u32 [%r156], 0xDEADBEEF;\nWAITED:\n",
      address, parity);
}

}  // namespace octet::cross
