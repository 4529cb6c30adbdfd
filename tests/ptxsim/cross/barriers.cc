// SPDX-License-Identifier: Apache-2.0
// Barriers of threads, of a cluster, and mbarriers: who has waited sees what was written, and what each operation returns.
#include <fmt/format.h>

#include "case.h"
#include "pieces.h"
#include "values.h"

namespace octet::cross {
namespace {

Launch threads(uint32_t count, uint32_t blocks = 1, uint32_t cluster = 0) {
  Launch launch;
  launch.block = {count, 1, 1};
  launch.grid = {blocks, 1, 1};
  if (cluster != 0) launch.cluster = {cluster, 1, 1};
  return launch;
}

const char kShared[] = ".shared .align 16 .b8 s[4096]; .shared .align 8 .b64 m[8];";

// Warps 0 and 1 write, 2 and 3 read behind a barrier that the writers only arrive at; and back, twice.
const char kProducer[] = R"(
mov.u32 %r1, s; mad.lo.u32 %r2, %tx, 4, %r1; and.b32 %r9, %tx, 63; xor.b32 %r9, %r9, 5; mad.lo.u32 %r3, %r9, 4, %r1;
setp.ge.u32 %p1, %tx, 64; mov.u32 %r5, 0; mov.u32 %r4, 7;
ROUND: @%p1 bra READER;
mad.lo.u32 %r6, %r5, 1000, %tx; st.shared.u32 [%r2], %r6; ARRIVE 3, 128; SYNC 4, 128; bra.uni NEXT;
READER: SYNC 3, 128; ld.shared.u32 %r7, [%r3]; mad.lo.u32 %r4, %r4, 31, %r7; ARRIVE 4, 128;
NEXT: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 4; @%p2 bra ROUND;
)";

std::string with(std::string text, const std::string& find, const std::string& by) {
  for (size_t at = 0; (at = text.find(find, at)) != std::string::npos; at += by.size())
    text.replace(at, find.size(), by);
  return text;
}

void add_block_barriers(std::vector<Case>& cases) {
  const std::string store = own_place(1, 0, 4) + "st.global.u32 [%d1], %r4;";
  for (const char* family : {"bar", "barrier"}) {
    const std::string name = family;
    const std::string text =
        with(with(kProducer, "ARRIVE", name + ".arrive"), "SYNC", name + ".sync");
    cases.push_back(simple_case("barriers/" + name + ".arrive and sync with counts", text + store,
                                {output("d", 512)}, threads(128), kShared));
  }
  for (const char* form : {"popc.u32 %r4", "and.pred %p3", "or.pred %p3"}) {
    const std::string text =
        own_place(0, 0, 4) +
        fmt::format(
            "ld.global.u32 %r1, [%d0]; setp.ne.u32 %p1, %r1, 0; mov.u32 %r4, 9; mov.pred %p3, 0; "
            "barrier.red.{0}, 2, %p1; {1}",
            form, form[0] == 'p' ? "" : "selp.b32 %r4, 1, 0, %p3;");
    for (const int kind : {0, 1, 2}) {  // none, some, all say yes
      Bytes in(512, 0);
      for (size_t i = 0; i < 128; ++i) in[4 * i] = kind == 2 || (kind == 1 && hash(i, 31) % 3 == 0);
      cases.push_back(simple_case(
          fmt::format("barriers/barrier.red.{}, {} of 3", std::string(form).substr(0, 3), kind),
          text + own_place(1, 1, 4) + "st.global.u32 [%d1], %r4;",
          {input("a", in), output("d", 512)}, threads(128)));
    }
  }
  cases.push_back(simple_case(
      "barriers/barrier.cluster, mapa, ld and st of shared::cluster",
      "mov.u32 %r1, s; mov.u32 %r2, %cluster_ctarank; mad.lo.u32 %r3, %r2, 1000, %tx; "
      "mad.lo.u32 %r4, %tx, 4, %r1; add.u32 %r5, %r2, 1; and.b32 %r5, %r5, 3; "
      "mapa.shared::cluster.u32 %r6, %r4, %r5; "
      "st.shared::cluster.u32 [%r6], %r3; getctarank.shared::cluster.u32 %r10, %r6; "
      "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; "
      "ld.shared.u32 %r7, [%r4]; add.u32 %r5, %r2, 2; and.b32 %r5, %r5, 3; "
      "mapa.shared::cluster.u32 %r6, %r4, %r5; "
      "ld.shared::cluster.u32 %r8, [%r6]; barrier.cluster.arrive; barrier.cluster.wait;\n" +
          own_place(1, 0, 12) +
          "st.global.u32 [%d1], %r7; st.global.u32 [%d1+4], %r8; st.global.u32 [%d1+8], %r10;",
      {output("d", size_t{8} * 64 * 12)}, threads(64, 8, 4), kShared));
}

// One thread; each `ask` appends a bit to %r20.
std::string ask(const std::string& test) {
  return test + " selp.b32 %r21, 1, 0, %p1; shl.b32 %r20, %r20, 1; or.b32 %r20, %r20, %r21;\n";
}

void add_mbarriers(std::vector<Case>& cases) {
  const std::string begin =
      "mov.u32 %r1, m; mov.u32 %r20, 1; setp.ne.u32 %p2, %tx, 0; @%p2 bra END;\n";
  const std::string end = "ld.param.u64 %d1, [p0]; st.global.u32 [%d1], %r20;\nEND:";
  const auto parity = [](int which) {
    return ask(fmt::format("mbarrier.test_wait.parity.shared.b64 %p1, [%r1], {};", which));
  };
  const auto state = [](int reg) {
    return ask(fmt::format("mbarrier.test_wait.shared.b64 %p1, [%r1], %d{};", reg));
  };
  const auto add = [&](const char* name, const std::string& body) {
    cases.push_back(simple_case(std::string("barriers/mbarrier ") + name, begin + body + end,
                                {output("d", 4)}, threads(32), kShared));
  };
  const std::string both = parity(0) + parity(1);
  add("arrivals one by one, states and parities",
      "mbarrier.init.shared.b64 [%r1], 3;\n" + both + "mbarrier.arrive.shared.b64 %d2, [%r1];\n" +
          state(2) + both + "mbarrier.arrive.shared.b64 %d3, [%r1];\n" + state(2) + state(3) +
          both + "mbarrier.arrive.shared.b64 %d4, [%r1];\n" + state(4) + both +
          "mbarrier.arrive.shared.b64 %d5, [%r1];\n" + state(4) + state(5) + both +
          "mbarrier.arrive.shared.b64 _, [%r1], 2;\n" + state(5) + both);
  add("arrivals with counts",
      "mbarrier.init.shared.b64 [%r1], 7;\n"
      "mbarrier.arrive.release.cta.shared::cta.b64 %d2, [%r1], 4;\n" +
          both + "mbarrier.arrive.release.cta.shared::cta.b64 %d2, [%r1], 3;\n" + state(2) + both +
          "mbarrier.arrive.release.cta.shared::cta.b64 %d2, [%r1], 7;\n" + state(2) + both);
  add("transactions before and behind the arrival",
      "mbarrier.init.shared.b64 [%r1], 1;\n"
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 48;\n" +
          both + "mbarrier.arrive.shared.b64 %d2, [%r1];\n" + state(2) + both +
          "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 32;\n" + state(2) + both +
          "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 16;\n" + state(2) + both +
          "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %d3, [%r1], 16;\n" + state(3) +
          both + "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 16;\n" + state(3) + both);
  add("arrive_drop",
      "mbarrier.init.shared.b64 [%r1], 4;\n"
      "mbarrier.arrive_drop.shared.b64 %d2, [%r1];\n" +
          both + "mbarrier.arrive_drop.shared.b64 %d2, [%r1], 2;\n" + both +
          "mbarrier.arrive.shared.b64 %d2, [%r1];\n" + both +
          "mbarrier.arrive.shared.b64 %d2, [%r1];\n" + both +
          "mbarrier.arrive.shared.b64 %d2, [%r1];\n" + both);
  add("inval and init again",
      "mbarrier.init.shared.b64 [%r1], 1;\nmbarrier.arrive.shared.b64 %d2, [%r1];\n" + both +
          "mbarrier.inval.shared.b64 [%r1];\nmbarrier.init.shared.b64 [%r1], 2;\n" + both +
          "mbarrier.arrive.shared.b64 %d2, [%r1], 2;\n" + both);
  add("try_wait with a time",
      "mbarrier.init.shared.b64 [%r1], 1;\nmbarrier.arrive.shared.b64 %d2, [%r1];\n" +
          ask("mbarrier.try_wait.shared.b64 %p1, [%r1], %d2, 1000;") +
          ask("mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r1], 0, 1000;"));
  // Four warps hand a word round, each phase one arrival of every thread.
  cases.push_back(simple_case("barriers/mbarrier phases of all threads",
                              "mov.u32 %r1, m; mov.u32 %r2, s; setp.ne.u32 %p2, %tx, 0; @%p2 bra "
                              "BEGIN; mbarrier.init.shared.b64 [%r1], 128;\n"
                              "BEGIN: bar.sync 0; mov.u32 %r3, 0; mov.u32 %r4, %tx;\n"
                              "ROUND: mad.lo.u32 %r5, %tx, 4, %r2; and.b32 %r6, %r3, 1; mad.lo.u32 "
                              "%r5, %r6, 512, %r5; st.shared.u32 [%r5], %r4; "
                              "mbarrier.arrive.shared.b64 %d2, [%r1];\n"
                              "TRY: mbarrier.try_wait.shared.b64 %p3, [%r1], %d2; @!%p3 bra TRY; "
                              "add.u32 %r7, %tx, 37; and.b32 %r7, %r7, 127; mad.lo.u32 %r7, %r7, "
                              "4, %r2; mad.lo.u32 %r7, %r6, 512, %r7; ld.shared.u32 %r8, [%r7]; "
                              "mad.lo.u32 %r4, %r4, 31, %r8; add.u32 %r3, %r3, 1; setp.lt.u32 %p4, "
                              "%r3, 7; @%p4 bra ROUND;\n" +
                                  own_place(1, 0, 4) + "st.global.u32 [%d1], %r4;",
                              {output("d", 512)}, threads(128), kShared));
  // Blocks arrive at the next one's.
  cases.push_back(simple_case(
      "barriers/mbarrier of another block",
      "mov.u32 %r1, m; mov.u32 %r2, s; mov.u32 %r3, %cluster_ctarank; setp.ne.u32 %p2, %tx, 0; "
      "@%p2 bra BEGIN; "
      "mbarrier.init.shared.b64 [%r1], 32; fence.mbarrier_init.release.cluster;\n"
      "BEGIN: barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; "
      "xor.b32 %r4, %r3, 1; mad.lo.u32 %r5, %tx, 4, %r2; mapa.shared::cluster.u32 %r6, %r5, %r4; "
      "mapa.shared::cluster.u32 %r7, %r1, %r4; "
      "mad.lo.u32 %r8, %r3, 100, %tx; st.shared::cluster.u32 [%r6], %r8; "
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];\n"
      "TRY: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r1], 0; @!%p3 bra TRY; "
      "ld.shared.u32 %r9, [%r5];\n" +
          own_place(1, 0, 4) +
          "st.global.u32 [%d1], %r9; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
      {output("d", 4 * 128)}, threads(32, 4, 2), kShared));
}

}  // namespace

void add_barriers(std::vector<Case>& cases) {
  add_block_barriers(cases);
  add_mbarriers(cases);
}

}  // namespace octet::cross
