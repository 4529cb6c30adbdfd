// SPDX-License-Identifier: Apache-2.0
// Needs an SM 9.0 device. Random routings of Hopper's layer at V4.1's size, in each of its launches, from logits and x to y, each element of
// h, rows and y judged in float64 on the device (float64_judge.cuh); and that this judge sees what is wrong.
//
//   OCTET_ROUTINGS=10000 octet_sm90_stress_test --gtest_filter='*Routings.*'      200 otherwise; OCTET_SHAPE as decode_layer.cuh says
//   --gtest_filter='*Routings.*/experts_bf16_nvfp4_sm90'                          one launch
#include <algorithm>
#include <cmath>
#include <random>

#include "float64_judge.cuh"

namespace octet::sm90 {
namespace {

// [8, k] ids, distinct in each row: uniform, crowded towards low ids, of few experts, or the same in all rows.
std::vector<int32_t> random_ids(int kind, int64_t experts, std::mt19937& rng) {
  std::uniform_real_distribution<double> uniform;
  const auto few = static_cast<int64_t>(kTopK + rng() % 6);
  const auto first = static_cast<int64_t>(rng() % size_of(experts - few + 1));
  const auto draw = [&] {
    const double u = uniform(rng);
    const double share = kind == 1 ? u * u * u * u : u;
    return kind == 2 ? first + static_cast<int64_t>(u * static_cast<double>(few))
                     : static_cast<int64_t>(share * static_cast<double>(experts));
  };
  std::vector<int32_t> ids;
  for (int row = 0; row < kMostRows; ++row) {
    const auto begin = std::ssize(ids);
    while (std::ssize(ids) < begin + kTopK) {
      const auto id = static_cast<int32_t>(draw());
      if (std::find(ids.begin() + begin, ids.end(), id) == ids.end()) ids.push_back(id);
    }
    if (kind == 3) std::copy_n(ids.begin(), kTopK, ids.begin() + begin);
  }
  return ids;
}

class Routings : public testing::TestWithParam<Formats> {};

TEST_P(Routings, AreTheReferenceWithinItsRoom) {
  const DecodeLayer layer(GetParam());
  const int64_t experts = layer.shape.experts;
  for (const int64_t e : {int64_t{0}, experts / 2 + 1, experts - 1}) layer.expect_packed(e);
  if (HasFailure()) return;

  const auto count = static_cast<int>(setting("OCTET_ROUTINGS", 200));
  std::mt19937 rng(1);
  std::vector<int32_t> all;
  for (int i = 0; i < count; ++i) {
    const auto ids = random_ids(i % 4, experts, rng);
    all.insert(all.end(), ids.begin(), ids.end());
  }
  const OnDevice<int32_t> wanted(all);
  std::vector<std::unique_ptr<DecodeCall>> calls;
  for (int tokens = 1; tokens <= kMostRows; ++tokens)
    calls.push_back(std::make_unique<DecodeCall>(layer, tokens));
  const Judge judge(layer);
  const Stream stream;
  const int sms = experts_ctas();
  unsigned long long rows = 0;
  for (int i = 0; i < count; ++i) {
    const DecodeCall& call = *calls[rng() % calls.size()];
    const int32_t* ids = wanted.get() + i * kMostRows * kTopK;
    const int ctas = i % 2 == 0 ? sms : 1 + sms / 3 + static_cast<int>(rng() % size_of(sms));
    request(call, ids, size_of(i), stream);
    if (i % 3 == 0) call.poison(stream);  // otherwise as the launch before has left it
    call.launch(stream, ctas);
    judge.enqueue(call, ids, i, stream);
    rows += static_cast<unsigned long long>(call.tokens);
    if (i % 1000 == 999) finish(stream, "routings");
    if (HasFailure()) return;
  }
  finish(stream, "routings");
  const Verdict v = judge.verdict();
  const auto width = static_cast<unsigned long long>(layer.shape.hidden);
  EXPECT_EQ(v.judged[kH], rows * kTopK * static_cast<unsigned long long>(layer.shape.intermediate));
  EXPECT_EQ(v.judged[kRows], rows * kTopK * width);
  EXPECT_EQ(v.judged[kY], rows * width);
  for (int stage = 0; stage < kStages; ++stage) {
    EXPECT_EQ(v.outside[stage], 0U) << "of " << v.judged[stage] << " " << kStageNames[stage];
    std::printf("%s: %llu of %llu outside\n", kStageNames[stage], v.outside[stage],
                v.judged[stage]);
  }
  if (v.taken != 0) {
    ADD_FAILURE() << "routing " << v.routing << ", " << kStageNames[v.stage] << ", slot " << v.slot
                  << ", column " << v.column << ": got " << v.got << ", want " << v.lo << " ... "
                  << v.hi;
  }
}

INSTANTIATE_TEST_SUITE_P(Sm90, Routings, testing::ValuesIn(kAllFormats),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace octet::sm90
