// SPDX-License-Identifier: Apache-2.0
// The whole layer of prepared tensors in the simulator, logits and x to y, launched by its own host code as a chain of programmatic
// launches, each of which begins as early as the one before lets it.
#include <ctime>
#include <gtest/gtest.h>

#include "formats/bf16.h"
#include "prepared_backend.h"
#include "prepared_layer_run.h"

namespace octet::sim {
namespace {

using ptxsim::machine::GridCounts;
using ptxsim::machine::Settings;

constexpr PreparedShape kSmall = {16, 256, 96, 4};

std::vector<Bf16> some_rows(int64_t count) {
  std::vector<Bf16> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(formats::bf16_from_f32(static_cast<float>(i % 37) - 18));
  return all;
}

void expect_the_cpus(uint64_t seeds, std::initializer_list<int64_t> rows) {
  const PreparedLayer layer(kSmall, Values::kAny, 1);
  int call_number = 0;
  for (const Settings& settings : all_times(seeds)) {
    for (const int64_t tokens : rows) {
      SCOPED_TRACE(testing::Message() << "T " << tokens << ", " << shown(settings));
      LayerCall call(kSmall, tokens, static_cast<unsigned>(call_number));
      if (tokens != 3) call.shared = some_rows(tokens * kSmall.hidden);
      LayerOnDevice device(layer, settings);
      device.launch(call, 5 + call_number++ % 20);
      ASSERT_EQ(device.queue().launches().size(), 4U);
      for (const auto& launch : device.queue().launches()) ASSERT_TRUE(launch.is_programmatic);
      if (device.run()) judge_layer(layer, call, device.found());
      for (size_t i = 1; i < device.counts().size(); ++i)
        EXPECT_GT(device.counts()[i].begun_early, 0U) << device.counts()[i].kernel;
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(PreparedLayer, IsTheCpusFromLogitsToY) { expect_the_cpus(2, {1, 3, 8}); }
TEST(PreparedLayerNightly, IsTheCpusFromLogitsToY) {
  expect_the_cpus(16, {1, 2, 3, 4, 5, 6, 7, 8});
}

TEST(PreparedLayer, StopsAtTheUnfinalizedOutput) {
  const PreparedLayer layer(kSmall, Values::kAny, 2);
  LayerCall call(kSmall, 6, 3);
  call.wants_y = false;
  for (const Settings& settings : all_times(1)) {
    SCOPED_TRACE(shown(settings));
    LayerOnDevice device(layer, settings);
    device.launch(call, 7);
    ASSERT_EQ(device.queue().launches().size(), 3U);
    if (device.run()) judge_layer(layer, call, device.found());
    if (HasFailure()) return;
  }
}

// The second call's front begins while the first one's finalize reads what it will overwrite.
TEST(PreparedLayer, TakesCallsOneBehindTheOtherInOneWorkspace) {
  const PreparedLayer layer(kSmall, Values::kAny, 4);
  std::vector<LayerCall> calls;
  std::vector<std::vector<Bf16>> alone;
  for (unsigned i = 0; i < 3; ++i) {
    calls.emplace_back(kSmall, 2 + 3 * i, 5 + i);
    LayerOnDevice device(layer, all_times(1).front());
    device.launch(calls.back(), 3);
    ASSERT_TRUE(device.run());
    alone.push_back(device.y_of(0));
  }
  for (const Settings& settings : all_times(3)) {
    LayerOnDevice device(layer, settings);
    for (const LayerCall& call : calls) device.launch(call, 6);
    if (!device.run()) return;
    for (size_t i = 0; i < calls.size(); ++i)
      ASSERT_TRUE(device.y_of(i) == alone[i]) << "call " << i << ", " << shown(settings);
  }
}

// ---- V4.1's slice, 6 rows over 22 experts, on a device's own number of CTAs.

constexpr PreparedShape kSlice = {22, 5120, 576, 6};
constexpr int64_t kItems1 = 22 * 9, kItems2 = 22 * 40;

uint64_t weight_bytes(const GridCounts& counts) {
  uint64_t bytes = 0;
  for (const char* name : {"w13", "w13_scale", "w2", "w2_scale"}) {
    if (const auto at = counts.read_bytes.find(name); at != counts.read_bytes.end())
      bytes += at->second;
  }
  return bytes;
}

// Items go round the CTAs, so one has as many as ceil(items / CTAs) of them, each of K's chunks.
void expect_structure(const GridCounts& counts, const cuda::GemmPlan& plan, int64_t items,
                      uint64_t stage_bytes) {
  const PreparedBackend& backend = prepared_backend();
  SCOPED_TRACE(counts.kernel);
  const uint64_t of_item = static_cast<uint64_t>(plan.chunks) * backend.products_of_chunk;
  EXPECT_EQ(counts.blocks, static_cast<uint64_t>(backend.num_sms));
  EXPECT_EQ(counts.blocks_per_sm, 1U);
  EXPECT_EQ(counts.waves, 1U);
  EXPECT_EQ(counts.shared_bytes, static_cast<uint32_t>(plan.dynamic_bytes) + 1024);
  EXPECT_EQ(counts.all.products, static_cast<uint64_t>(items) * of_item);
  EXPECT_EQ(counts.most.products,
            static_cast<uint64_t>(ceil_div(items, int64_t{backend.num_sms})) * of_item);
  EXPECT_EQ(weight_bytes(counts), static_cast<uint64_t>(22 * plan.expert_bytes));
  // The whole ring, tokens with it; of that weights with their scales are the plan's.
  EXPECT_EQ(counts.most_bytes_in_flight, static_cast<uint64_t>(plan.stages) * stage_bytes);
}

TEST(PreparedLayer, ReadsTwentyTwoExpertsOfV41OnceAndKeepsItsRingsFull) {
  const PreparedBackend& backend = prepared_backend();
  const PreparedLayer layer(kSlice, Values::kAny, 8);
  LayerCall call(kSlice, 6, 9);
  call.route_to_all();
  call.shared = some_rows(call.tokens * kSlice.hidden);
  Settings settings;
  settings.time = ptxsim::machine::Time::kLate;
  LayerOnDevice device(layer, settings);
  device.launch(call, backend.num_sms);
  const std::clock_t begin = std::clock();
  ASSERT_TRUE(device.run());
  std::printf("%s: %.1f s of a core\n", backend.name,
              static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  for (const GridCounts& counts : device.counts()) std::printf("%s\n", json_of(counts).c_str());
  judge_layer(layer, call, device.found());
  ASSERT_EQ(device.counts().size(), 4U);
  const GridCounts &one = device.counts()[1], &two = device.counts()[2];
  EXPECT_EQ(weight_bytes(one) + weight_bytes(two), 22U * 4'874'240U);
  const cuda::GemmPlan plan1 = backend.gemms.gemm1_plan(kSlice.hidden, kSlice.intermediate),
                       plan2 = backend.gemms.gemm2_plan(kSlice.hidden, kSlice.padded());
  constexpr uint64_t kChunkBytes =
      cuda::kPackedChunkBytes + cuda::kScaleAtomBytes + cuda::kTokenChunkBytes;
  expect_structure(one, plan1, kItems1, backend.gemm1_stage_chunks * kChunkBytes);
  expect_structure(two, plan2, kItems2, kChunkBytes + cuda::kTokenScaleBytes);
  EXPECT_GE(std::min(plan1.bytes_in_flight, plan2.bytes_in_flight), backend.least_bytes_in_flight);
}

}  // namespace
}  // namespace octet::sim
