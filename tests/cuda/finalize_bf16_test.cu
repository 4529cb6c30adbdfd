// SPDX-License-Identifier: Apache-2.0
// Needs a device. finalize_bf16's bytes equal those of cpu::finalize, poison and guard bands stay as they are.
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "core/executor.h"
#include "cpu/ops.h"
#include "cuda/finalize_bf16.h"
#include "formats/bf16.h"
#include "on_device.h"

namespace octet::cuda {
namespace {

struct Problem {
  int64_t tokens, top_k, hidden, rows;
  bool shared;
  float scale;
};

void expect_cpu_bytes(const Problem& p) {
  std::mt19937 rng(7);
  std::normal_distribution<float> normal;
  const auto random_rows = [&](int64_t n) {
    std::vector<Bf16> v(static_cast<size_t>(n * p.hidden));
    for (Bf16& x : v) x = formats::bf16_from_f32(normal(rng));
    return v;
  };
  std::vector<Bf16> rows = random_rows(p.rows);
  const std::vector<Bf16> shared = random_rows(p.tokens);
  std::vector<float> weights(static_cast<size_t>(p.tokens * p.top_k));
  std::vector<int32_t> permuted(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = normal(rng);
    permuted[i] = static_cast<int32_t>(rng() % static_cast<unsigned>(p.rows + 1)) - 1;
  }
  if (!permuted.empty() && permuted[0] >= 0) {
    rows[static_cast<size_t>(permuted[0] * p.hidden)] = {0x7F80};  // an infinity
  }
  const size_t guard = 64;
  std::vector<Bf16> want(static_cast<size_t>(p.tokens * p.hidden) + guard, Bf16{0xFFFF});
  const OnDevice<Bf16> d_y(want), d_rows(rows), d_shared(shared);
  const OnDevice<float> d_weights(weights);
  const OnDevice<int32_t> d_permuted(permuted);

  FinalizeArgs args{.rows = rows.data(),
                    .topk_weights = weights.data(),
                    .permuted = permuted.data(),
                    .shared = p.shared ? shared.data() : nullptr,
                    .scale = p.scale,
                    .tokens = p.tokens,
                    .top_k = p.top_k,
                    .hidden = p.hidden,
                    .y = want.data()};
  InlineExecutor inline_executor;
  cpu::finalize(args, inline_executor);
  args.rows = d_rows.get();
  args.topk_weights = d_weights.get();
  args.permuted = d_permuted.get();
  args.shared = p.shared ? d_shared.get() : nullptr;
  args.y = d_y.get();
  const Status status = launch_finalize_bf16(args, nullptr);
  ASSERT_TRUE(status.ok()) << status.why;
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::vector<Bf16> got = d_y.back();
  for (size_t i = 0; i < got.size(); ++i) {
    const bool both_nan = (got[i].bits & 0x7FFF) > 0x7F80 && (want[i].bits & 0x7FFF) > 0x7F80;
    ASSERT_TRUE(both_nan || got[i] == want[i])
        << "T " << p.tokens << " k " << p.top_k << " H " << p.hidden << " element " << i << ": got "
        << got[i].bits << ", want " << want[i].bits;
  }
}

TEST(FinalizeBf16, BytesEqualTheCpu) {
  for (const int64_t tokens : {0, 1, 6, 8, 100}) {
    for (const int64_t hidden : {8, 32, 1024, 1032, 5120}) {
      for (const bool shared : {false, true}) {
        expect_cpu_bytes({tokens, 6, hidden, tokens * 6 + 1, shared, 1.0F});
        expect_cpu_bytes({tokens, 1, hidden, tokens * 6 + 1, shared, 2.5F});
      }
    }
  }
}

TEST(FinalizeBf16, RefusesAHiddenOfNoWholeLoads) {
  FinalizeArgs args{};
  args.tokens = args.top_k = 1;
  args.hidden = 36;
  const Status status = launch_finalize_bf16(args, nullptr);
  EXPECT_EQ(status.code, Code::kUnsupported);
  EXPECT_EQ(status.why, "hidden 36 is not a multiple of 8");
}

}  // namespace
}  // namespace octet::cuda
