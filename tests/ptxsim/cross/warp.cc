// SPDX-License-Identifier: Apache-2.0
// What lanes of a warp do together, and the special registers.
#include <fmt/format.h>

#include "case.h"
#include "pieces.h"
#include "values.h"

namespace octet::cross {
namespace {

constexpr uint32_t kThreads = 128, kBlocks = 32, kAll = kThreads * kBlocks;

// Three words a thread in (%r1, %r2, %r3), two words out (%r4, %r5).
Case warp_case(const std::string& name, const std::string& body, Bytes in) {
  Launch launch;
  launch.grid = {kBlocks, 1, 1};
  launch.block = {kThreads, 1, 1};
  return simple_case(
      "warp/" + name,
      own_place(0, 0, 12) + own_place(1, 1, 8) +
          "ld.global.u32 %r1, [%d0]; ld.global.u32 %r2, [%d0+4]; ld.global.u32 %r3, [%d0+8];\n"
          "mov.u32 %r10, %laneid; mov.u32 %r4, 0; mov.u32 %r5, 0;\n" +
          body + "\nst.global.v2.u32 [%d1], {%r4, %r5};",
      {input("abc", std::move(in)), output("d", size_t{kAll} * 8)}, launch);
}

using Words = std::vector<uint32_t>;
Bytes bytes_of(const Words& words) {
  Bytes out;
  for (const uint32_t word : words) {
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<uint8_t>(word >> (8 * i)));
  }
  return out;
}

// c of a shuffle: clamp in bits 0-4, the segments' mask in bits 8-12. Of the block's warps the first two have one for all lanes.
Bytes shuffle_inputs() {
  constexpr uint32_t kUsual[] = {0x1F,   0,      0x101F, 0x1000, 0x181F,
                                 0x1C1F, 0x1E1F, 0x1800, 0x0F,   0x807};
  Words words;
  for (uint32_t i = 0; i < kAll; ++i) {
    const uint64_t random = hash(i, 21);
    const uint32_t warp = i / 32;
    words.push_back(static_cast<uint32_t>(random >> 32));
    words.push_back(warp % 2 == 0 ? static_cast<uint32_t>(hash(warp, 23) % 40)
                                  : static_cast<uint32_t>(random % 40));
    words.push_back(warp % 4 < 2 ? kUsual[warp / 4 % 10]
                                 : static_cast<uint32_t>(random >> 8) & 0x1F1F);
  }
  return bytes_of(words);
}

// Small values, so that lanes have some in common; all lanes the same in some warps.
Bytes small_inputs() {
  Words words;
  for (uint32_t i = 0; i < kAll; ++i) {
    const uint32_t warp = i / 32;
    const uint64_t random = warp % 8 == 7 ? hash(warp, 25) : hash(i, 25);
    words.push_back(static_cast<uint32_t>(random >> 40) % (1 + warp % 5));
    words.push_back(static_cast<uint32_t>(random >> 20) % 2);
    words.push_back(static_cast<uint32_t>(random));
  }
  return bytes_of(words);
}

void add_shuffles(std::vector<Case>& cases) {
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    cases.push_back(warp_case(
        fmt::format("shfl.sync.{}", mode),
        fmt::format("shfl.sync.{}.b32 %r4|%p1, %r1, %r2, %r3, -1; selp.b32 %r5, 1, 0, %p1;", mode),
        shuffle_inputs()));
    // Halves of the warp by themselves, in segments that they do not leave.
    cases.push_back(warp_case(
        fmt::format("shfl.sync.{} of halves", mode),
        fmt::format("and.b32 %r2, %r2, 15; and.b32 %r3, %r3, 0x0F0F; or.b32 %r3, %r3, 0x1000; "
                    "setp.lt.u32 %p2, %r10, 16; "
                    "@%p2 bra LOW; "
                    "shfl.sync.{0}.b32 %r4|%p1, %r1, %r2, %r3, 0xFFFF0000; bra.uni BOTH;\n"
                    "LOW: shfl.sync.{0}.b32 %r4|%p1, %r1, %r2, %r3, 0xFFFF;\nBOTH: selp.b32 %r5, "
                    "1, 0, %p1;",
                    mode),
        shuffle_inputs()));
  }
}

// `instruction` for all lanes, and for the even and the odd ones by themselves.
void add_whole_and_parted(std::vector<Case>& cases, const std::string& name,
                          const std::string& before, const std::string& instruction,
                          const std::string& after) {
  const size_t at = instruction.find("MASK");
  const auto with = [&](const char* mask) {
    return instruction.substr(0, at) + mask + instruction.substr(at + 4);
  };
  cases.push_back(warp_case(name, before + with("0xFFFFFFFF") + after, small_inputs()));
  cases.push_back(warp_case(
      name + " of even and odd lanes",
      before + "and.b32 %r11, %r10, 1; setp.eq.u32 %p2, %r11, 0; @%p2 bra EVEN; " +
          with("0xAAAAAAAA") + " bra.uni BOTH;\nEVEN: " + with("0x55555555") + "\nBOTH: " + after,
      small_inputs()));
}

void add_votes(std::vector<Case>& cases) {
  const std::string asks = "setp.ne.u32 %p3, %r2, 0; ";
  for (const char* mode : {"all", "any", "uni"})
    add_whole_and_parted(cases, fmt::format("vote.sync.{}", mode), asks,
                         fmt::format("vote.sync.{}.pred %p1, %p3, MASK;", mode),
                         "selp.b32 %r4, 1, 0, %p1;");
  add_whole_and_parted(cases, "vote.sync.ballot", asks, "vote.sync.ballot.b32 %r4, !%p3, MASK;",
                       "");
  add_whole_and_parted(cases, "match.any.sync.b32", "", "match.any.sync.b32 %r4, %r1, MASK;", "");
  add_whole_and_parted(cases, "match.all.sync.b32", "", "match.all.sync.b32 %r4|%p1, %r1, MASK;",
                       "selp.b32 %r5, 1, 0, %p1;");
  const std::string longs = "mov.b64 %d3, {%r2, %r1}; ";
  add_whole_and_parted(cases, "match.any.sync.b64", longs, "match.any.sync.b64 %r4, %d3, MASK;",
                       "");
  add_whole_and_parted(cases, "match.all.sync.b64", longs, "match.all.sync.b64 %r4|%p1, %d3, MASK;",
                       "selp.b32 %r5, 1, 0, %p1;");
  for (const char* form : {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32",
                           "and.b32", "or.b32", "xor.b32"}) {
    add_whole_and_parted(cases, fmt::format("redux.sync.{}", form), "",
                         fmt::format("redux.sync.{} %r4, %r3, MASK;", form), "");
  }
  // Who is elected is open; it is one, and all are told who.
  add_whole_and_parted(
      cases, "elect.sync", "",
      "mov.u32 %r13, MASK; elect.sync %r4|%p1, %r13; vote.sync.ballot.b32 %r11, %p1, %r13; ",
      "mov.u32 %r12, 1; shl.b32 %r12, %r12, %r4; sub.u32 %r4, %r12, %r11; popc.b32 %r5, %r11;");
  add_whole_and_parted(cases, "bar.warp.sync", "", "bar.warp.sync MASK;", "mov.u32 %r4, %r1;");
  cases.push_back(warp_case("activemask", "activemask.b32 %r4;", small_inputs()));
  cases.push_back(warp_case("activemask of some",
                            "setp.ne.u32 %p1, %r2, 0; @%p1 activemask.b32 %r4;", small_inputs()));
}

// One word a thread for each register.
void add_specials(std::vector<Case>& cases) {
  const auto dump = [](std::initializer_list<const char*> names) {
    std::string text =
        "mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %ctaid.y; mad.lo.u32 %r1, "
        "%r1, %r2, %r3; "
        "mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r1, %r2, %r3;\n"
        "mov.u32 %r4, %tid.z; mov.u32 %r2, %ntid.y; mov.u32 %r3, %tid.y; mad.lo.u32 %r4, %r4, %r2, "
        "%r3; "
        "mov.u32 %r2, %ntid.x; mad.lo.u32 %r4, %r4, %r2, %tx; mad.lo.u32 %r1, %r1, 48, %r4;\n" +
        fmt::format("ld.param.u64 %d0, [p0]; mad.wide.u32 %d0, %r1, {}, %d0;\n", 4 * names.size());
    int at = 0;
    for (const char* name : names) {
      text += fmt::format("mov.u32 %r5, {}; st.global.u32 [%d0+{}], %r5;\n", name, at);
      at += 4;
    }
    return text;
  };
  Launch launch;
  launch.grid = {4, 2, 2};
  launch.block = {8, 3, 2};
  launch.cluster = {2, 1, 2};
  launch.dynamic_shared_bytes = 272;
  const auto add = [&](const char* name, std::initializer_list<const char*> names) {
    cases.push_back(
        simple_case(name, dump(names), {output("d", 16 * 48 * 4 * names.size())}, launch));
  };
  add("warp/special registers", {"%tid.x",
                                 "%tid.y",
                                 "%tid.z",
                                 "%ntid.x",
                                 "%ntid.y",
                                 "%ntid.z",
                                 "%ctaid.x",
                                 "%ctaid.y",
                                 "%ctaid.z",
                                 "%nctaid.x",
                                 "%nctaid.y",
                                 "%nctaid.z",
                                 "%laneid",
                                 "%lanemask_eq",
                                 "%lanemask_le",
                                 "%lanemask_lt",
                                 "%lanemask_ge",
                                 "%lanemask_gt",
                                 "%cluster_ctarank",
                                 "%cluster_nctarank",
                                 "%cluster_ctaid.x",
                                 "%cluster_ctaid.y",
                                 "%cluster_ctaid.z",
                                 "%cluster_nctaid.x",
                                 "%cluster_nctaid.y",
                                 "%cluster_nctaid.z",
                                 "%clusterid.x",
                                 "%clusterid.y",
                                 "%clusterid.z",
                                 "%nclusterid.x",
                                 "%nclusterid.y",
                                 "%nclusterid.z",
                                 "%dynamic_smem_size"});
  add("warp/special registers: nsmid", {"%nsmid"});
  add("warp/special registers: total_smem_size", {"%total_smem_size"});
  add("warp/special registers: nwarpid", {"%nwarpid"});
  // What a warp and a multiprocessor are numbered by is the device's own.
  for (const char* name : {"smid", "warpid"}) {
    std::string text = dump({fmt::format("%{}", name).c_str()});
    text.insert(
        text.find("st.global"),
        fmt::format("mov.u32 %r6, %n{}; setp.lt.u32 %p1, %r5, %r6; selp.b32 %r5, 1, 0, %p1; ",
                    name));
    cases.push_back(simple_case(fmt::format("warp/special registers: {0} is below n{0}", name),
                                text, {output("d", 16 * 48 * 4)}, launch));
  }
}

}  // namespace

void add_warp(std::vector<Case>& cases) {
  add_shuffles(cases);
  add_votes(cases);
  add_specials(cases);
}

}  // namespace octet::cross
