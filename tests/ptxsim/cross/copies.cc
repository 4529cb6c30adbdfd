// SPDX-License-Identifier: Apache-2.0
// cp.async with its groups and arrivals, and bulk copies both ways, within a cluster and to several of its blocks.
#include <fmt/format.h>

#include "case.h"
#include "pieces.h"
#include "values.h"

namespace octet::cross {
namespace {

const char kShared[] = ".shared .align 128 .b8 s[8192]; .shared .align 8 .b64 m[8];";
constexpr int kWords = 2048;

Launch threads(uint32_t count, uint32_t blocks = 1, uint32_t cluster = 0) {
  Launch launch;
  launch.block = {count, 1, 1};
  launch.grid = {blocks, 1, 1};
  if (cluster != 0) launch.cluster = {cluster, 1, 1};
  return launch;
}

// 64 threads, `body` between a filled shared memory and its dump. %r1: s, %r2: m, %d0: the input.
Case shared_case(const std::string& name, const std::string& body, uint32_t blocks = 1,
                 uint32_t cluster = 0) {
  return simple_case("copies/" + name,
                     "mov.u32 %r1, s; mov.u32 %r2, m; ld.param.u64 %d0, [p0];\n" +
                         fill_shared(kWords, 64) + body + dump_shared(1, kWords, 64),
                     {input("a", random_bytes(8192, 51)), output("shared", size_t{blocks} * 8192)},
                     threads(64, blocks, cluster), kShared);
}

void add_small_copies(std::vector<Case>& cases) {
  const std::string places =
      "mad.lo.u32 %r3, %tx, 48, %r1; mul.wide.u32 %d1, %tx, 64; add.u64 %d1, %d0, %d1;\n";
  const std::string wait = "cp.async.commit_group; cp.async.wait_group 0;\n";
  struct Form {
    const char* kind;
    int bytes;
  };
  for (const auto [kind, bytes] : {Form{"ca", 4}, Form{"ca", 8}, Form{"ca", 16}, Form{"cg", 16}}) {
    const std::string base = fmt::format("cp.async.{}.shared.global", kind);
    cases.push_back(
        shared_case(fmt::format("{} {}", base, bytes),
                    places + fmt::format("{} [%r3], [%d1], {};\n", base, bytes) + wait));
    cases.push_back(shared_case(fmt::format("{} {}, some bytes", base, bytes),
                                places +
                                    fmt::format("rem.u32 %r4, %tx, {}; {} [%r3], [%d1], {}, %r4;\n",
                                                bytes + 1, base, bytes) +
                                    wait));
    cases.push_back(
        shared_case(fmt::format("{}.L2::128B {}, with a hint", base, bytes),
                    places +
                        fmt::format("createpolicy.fractional.L2::evict_first.b64 %d2, 1.0; "
                                    "{}.L2::cache_hint.L2::128B [%r3], [%d1], {}, %d2;\n",
                                    base, bytes) +
                        wait));
  }
  cases.push_back(shared_case(
      "cp.async groups",
      places + "cp.async.ca.shared.global [%r3], [%d1], 16; cp.async.commit_group; "
               "cp.async.ca.shared.global [%r3+16], [%d1+16], 8; cp.async.commit_group; "
               "cp.async.ca.shared.global [%r3+32], [%d1+32], 4; cp.async.wait_group 1; "
               "ld.shared.u32 %r5, [%r3]; st.shared.u32 [%r3+44], %r5; cp.async.wait_all;\n"));
  for (const char* noinc : {"", ".noinc"}) {
    const int arrivals = *noinc == 0 ? 1 : 64;
    const std::string after =
        *noinc == 0
            ? "bar.sync 0; setp.ne.u32 %p2, %tx, 0; @!%p2 mbarrier.arrive.shared.b64 _, [%r2];\n"
            : "";
    cases.push_back(
        shared_case(fmt::format("cp.async.mbarrier.arrive{}", noinc),
                    fmt::format("setp.ne.u32 %p1, %tx, 0; @%p1 bra BEGIN; mbarrier.init.shared.b64 "
                                "[%r2], {};\nBEGIN: bar.sync 0;\n",
                                arrivals) +
                        places + "cp.async.cg.shared.global [%r3], [%d1], 16; " +
                        fmt::format("cp.async.mbarrier.arrive{}.shared.b64 [%r2];\n", noinc) +
                        after + wait_parity("%r2", 0)));
  }
}

// Thread 0 begins; the others wait for the mbarrier.
std::string bulk_begin(int bytes) {
  return "setp.ne.u32 %p1, %tx, 0; @%p1 bra READY; mbarrier.init.shared.b64 [%r2], 1; "
         "fence.mbarrier_init.release.cluster;\n"
         "READY: bar.sync 0; @%p1 bra ISSUED; fence.proxy.async;\n" +
         fmt::format("mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {};\n", bytes);
}

void add_bulk_copies(std::vector<Case>& cases) {
  for (const int bytes : {16, 48, 1024, 8000}) {
    cases.push_back(
        shared_case(fmt::format("cp.async.bulk of {} bytes into shared memory", bytes),
                    bulk_begin(bytes) +
                        fmt::format("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                                    "bytes [%r1+16], [%d0+32], {}, [%r2];\nISSUED:",
                                    bytes) +
                        wait_parity("%r2", 0)));
  }
  cases.push_back(shared_case("cp.async.bulk, several with hints and one phase",
                              bulk_begin(272) +
                                  "createpolicy.fractional.L2::evict_last.b64 %d2, 1.0; "
                                  "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                                  "bytes.L2::cache_hint [%r1], [%d0+4096], 64, [%r2], %d2; "
                                  "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                                  "bytes [%r1+112], [%d0], 16, [%r2]; "
                                  "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                                  "bytes [%r1+256], [%d0+512], 192, [%r2];\nISSUED:" +
                                  wait_parity("%r2", 0)));
  cases.push_back(shared_case("cp.async.bulk.prefetch, then the copy",
                              bulk_begin(256) +
                                  "cp.async.bulk.prefetch.L2.global [%d0], 256; "
                                  "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                                  "bytes [%r1], [%d0], 256, [%r2];\nISSUED:" +
                                  wait_parity("%r2", 0)));
  // Into the next block's shared memory, whose mbarrier is told.
  const std::string both =
      "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n";
  const std::string begin =
      "mov.u32 %r7, %cluster_ctarank; setp.ne.u32 %p1, %tx, 0; @%p1 bra READY; "
      "mbarrier.init.shared.b64 [%r2], 1; "
      "fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [%r2], "
      "512;\nREADY: ";
  cases.push_back(
      shared_case("cp.async.bulk from shared memory into another block's",
                  "mad.lo.u32 %r3, %tx, 8, %r1; mov.u32 %r4, %cluster_ctarank; mad.lo.u32 %r4, "
                  "%r4, 1000, %tx; st.shared.v2.u32 [%r3+1024], {%r4, %tx}; "
                  "fence.proxy.async;\n" +
                      begin + both +
                      "@%p1 bra ISSUED; xor.b32 %r8, %r7, 1; mapa.shared::cluster.u32 %r9, %r1, "
                      "%r8; mapa.shared::cluster.u32 %r10, %r2, %r8; "
                      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                      "[%r9], [%r1+1024], 512, [%r10];\nISSUED:" +
                      wait_parity("%r2", 0) + both,
                  4, 2));
  cases.push_back(
      shared_case("cp.async.bulk to several blocks",
                  begin + both +
                      "@%p1 bra ISSUED; setp.ne.u32 %p2, %r7, 1; @%p2 bra ISSUED; mov.b16 %h1, 13; "
                      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast:"
                      ":cluster [%r1+64], [%d0+128], 512, [%r2], %h1;\n"
                      "ISSUED: setp.eq.u32 %p3, %r7, 1; @%p3 bra PASSED;\n" +
                      wait_parity("%r2", 0) + "PASSED:\n" + both,
                  4, 4));
  // Out of shared memory, in groups.
  cases.push_back(simple_case(
      "copies/cp.async.bulk out of shared memory",
      "mov.u32 %r1, s; ld.param.u64 %d1, [p1];\n" + load_shared(0, kWords, 64) +
          "fence.proxy.async; bar.sync 0; setp.ne.u32 %p1, %tx, 0; @%p1 bra DONE; "
          "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1+4096], 2048; "
          "cp.async.bulk.commit_group; "
          "createpolicy.fractional.L2::evict_first.b64 %d2, 1.0; "
          "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%d1+4096], [%r1], 16, %d2; "

          "cp.async.bulk.global.shared::cta.bulk_group [%d1+4128], [%r1+48], 1008; "
          "cp.async.bulk.commit_group; "
          "cp.async.bulk.wait_group.read 1; cp.async.bulk.wait_group 0;\nDONE:",
      {input("a", random_bytes(8192, 53)), output("d", 8192)}, threads(64), kShared));
}

}  // namespace

void add_copies(std::vector<Case>& cases) {
  add_small_copies(cases);
  add_bulk_copies(cases);
}

}  // namespace octet::cross
