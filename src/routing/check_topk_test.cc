// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <gtest/gtest.h>
#include <vector>

#include "routing/topk.h"

namespace octet::routing {
namespace {

// A call of two rows that every router takes; `edit` spoils it.
std::string refusal(RouterKind kind, const std::function<void(TopkArgs&)>& edit) {
  static constexpr int64_t kMaxAsked = 8192;
  static const std::vector<float> floats(2 * kMaxAsked, 0.0F);
  static std::vector<int32_t> table;
  static std::vector<int64_t> ids;
  table = {0, 1, 2, 3, 4, 5, 31, 30, 29, 28, 27, 26};
  ids = {1, 0};
  TopkArgs a{};
  a.logits = floats.data();
  a.tokens = 2;
  a.experts = 32;
  a.router.kind = kind;
  a.bias = floats.data();
  a.input_ids = {ids.data(), true};
  a.table = table.data();
  a.vocab = 2;
  edit(a);
  const Status s = check_topk(a);
  EXPECT_TRUE(s.ok() || s.code == Code::kInvalidArgument);
  return s.why;
}

constexpr RouterKind kAll[] = {RouterKind::kDsv4, RouterKind::kHash, RouterKind::kDeepseekV3,
                               RouterKind::kSoftmax, RouterKind::kFlint};

TEST(CheckTopk, TakesARightCall) {
  for (const RouterKind kind : kAll)
    EXPECT_EQ(refusal(kind, [](TopkArgs&) {}), "") << name_of(kind);
}

TEST(CheckTopk, RefusesTopKOutsideItsRange) {
  for (const RouterKind kind : kAll) {
    const bool butterfly = kind == RouterKind::kDsv4 || kind == RouterKind::kHash;
    const std::string most = butterfly ? "8" : "16";
    for (const int64_t k : {int64_t{-1}, int64_t{0}, int64_t{butterfly ? 9 : 17}}) {
      EXPECT_EQ(refusal(kind, [k](TopkArgs& a) { a.router.top_k = k; }),
                "top_k " + std::to_string(k) + ", want 1.." + most + " and at most 32 experts");
    }
    EXPECT_EQ(refusal(kind, [](TopkArgs& a) { a.experts = 5; }),
              "top_k 6, want 1.." + most + " and at most 5 experts");
  }
}

TEST(CheckTopk, RefusesMoreExpertsThanDsv4Takes) {
  const auto experts = [](int64_t e) { return [e](TopkArgs& a) { a.experts = e; }; };
  EXPECT_EQ(refusal(RouterKind::kDsv4, experts(512)), "");
  EXPECT_EQ(refusal(RouterKind::kDsv4, experts(513)),
            "logits: 513 experts, want at most 512 for dsv4");
  EXPECT_EQ(refusal(RouterKind::kSoftmax, experts(8192)), "");
}

TEST(CheckTopk, NamesAMissingTensor) {
  const auto no_bias = [](TopkArgs& a) { a.bias = nullptr; };
  EXPECT_EQ(refusal(RouterKind::kDsv4, no_bias), "bias: missing, want F32 [32] for dsv4");
  EXPECT_EQ(refusal(RouterKind::kDeepseekV3, no_bias),
            "bias: missing, want F32 [32] for deepseek_v3");
  EXPECT_EQ(refusal(RouterKind::kHash, no_bias), "");
  EXPECT_EQ(refusal(RouterKind::kSoftmax, no_bias), "");
  const auto no_ids = [](TopkArgs& a) { a.input_ids = {}; };
  EXPECT_EQ(refusal(RouterKind::kDsv4, no_ids), "");
  EXPECT_EQ(refusal(RouterKind::kHash, no_ids), "input_ids: missing, want [2] with a table of ids");
  EXPECT_EQ(refusal(RouterKind::kDsv4,
                    [](TopkArgs& a) {
                      a.input_ids = {};
                      a.bias_vl = a.bias;
                    }),
            "input_ids: missing, want [2] with bias_vl (image_sentinel_lo 0: no row is an image)");
  EXPECT_EQ(refusal(RouterKind::kHash, [](TopkArgs& a) { a.table = nullptr; }),
            "table: missing, want I32 [vocab, 6] for hash");
}

TEST(CheckTopk, RefusesGroupsThatDoNotFit) {
  const auto groups = [](int64_t n, int64_t kept) {
    return refusal(RouterKind::kDeepseekV3, [=](TopkArgs& a) {
      a.router.groups = n;
      a.router.groups_kept = kept;
    });
  };
  EXPECT_EQ(groups(8, 2), "");
  EXPECT_EQ(groups(0, 1), "groups 0, want a divisor of 32 experts, 1..256");
  EXPECT_EQ(groups(5, 1), "groups 5, want a divisor of 32 experts, 1..256");
  EXPECT_EQ(groups(8, 9), "groups_kept 9, want 1..8");
  EXPECT_EQ(groups(8, 0), "groups_kept 0, want 1..8");
  EXPECT_EQ(groups(8, 1), "groups_kept 1 holds 4 experts, want at least top_k 6");
  EXPECT_EQ(refusal(RouterKind::kDsv4, [](TopkArgs& a) { a.router.groups = 5; }),
            "");  // not its setting
}

TEST(CheckTopk, NamesTheRowThatTheTableDoesNotHold) {
  const int64_t high[] = {1, 2}, low[] = {-1, 0}, wide[] = {0, int64_t{1} << 32};
  const auto with = [](const int64_t* ids) {
    return [ids](TopkArgs& a) { a.input_ids = {ids, true}; };
  };
  EXPECT_EQ(refusal(RouterKind::kHash, with(high)), "input_ids: row 1 is 2, want 0..1");
  EXPECT_EQ(refusal(RouterKind::kHash, with(low)), "input_ids: row 0 is -1, want 0..1");
  EXPECT_EQ(refusal(RouterKind::kHash, with(wide)), "input_ids: row 1 is 4294967296, want 0..1");
  const int32_t narrow[] = {0, 3};
  EXPECT_EQ(refusal(RouterKind::kHash,
                    [&](TopkArgs& a) {
                      a.input_ids = {narrow, false};
                    }),
            "input_ids: row 1 is 3, want 0..1");
}

TEST(CheckTopk, NamesTheTableEntryThatIsNoExpert) {
  std::vector<int32_t> table = {0, 1, 2, 3, 4, 5, 31, 30, 29, 28, 27, 32};
  const auto edit = [&](TopkArgs& a) { a.table = table.data(); };
  EXPECT_EQ(refusal(RouterKind::kHash, edit), "table: [1, 5] is 32, want 0..31");
  table[11] = -1;
  EXPECT_EQ(refusal(RouterKind::kHash, edit), "table: [1, 5] is -1, want 0..31");
}

// Image rows route by bias_vl; their ids need not stand in the table.
TEST(CheckTopk, DoesNotLookUpImageRows) {
  const int64_t ids[] = {100, 1};
  EXPECT_EQ(refusal(RouterKind::kHash,
                    [&](TopkArgs& a) {
                      a.input_ids = {ids, true};
                      a.bias_vl = a.bias;
                      a.router.image_sentinel_lo = 96;
                    }),
            "");
}

}  // namespace
}  // namespace octet::routing
