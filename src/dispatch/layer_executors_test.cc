// SPDX-License-Identifier: Apache-2.0
// A layer gives the same bytes on every executor, and to calls that overlap on one pool or on pools of their own.
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <vector>

#include "core/test_threads.h"
#include "cpu/test_layer.h"
#include "cpu/thread_pool.h"
#include "dispatch/test_calls.h"

namespace octet::dispatch {
namespace {

constexpr int64_t kTopK = 3;

struct Case {
  WeightFormat weights;
  Activations activations;
};
class LayerExecutors : public testing::TestWithParam<Case> {
 protected:
  LayerExecutors()
      : made_({.weights = GetParam().weights,
               .activations = GetParam().activations,
               .hidden = 128,
               .intermediate = 80,
               .experts = 5,
               .biases = true}) {
    spec_ = made_.spec();
    spec_.router.top_k = kTopK;
    InlineExecutor one;
    layer_ = Layer::load({.spec = spec_, .experts = made_.experts}, {}, one).value();
  }
  // A call of `tokens` rows with ids and weights; its inputs live as long as the fixture.
  LayerCall call(int64_t tokens) {
    Input& in = *inputs_.emplace_back(std::make_unique<Input>());
    in.x = made_.random_x(tokens);
    in.ids = made_.random_ids(tokens, kTopK);
    in.weights.assign(in.ids.size(), 0.3F);
    return {.tokens = tokens,
            .x = in.x.data(),
            .given_ids = {in.ids.data()},
            .given_weights = in.weights.data(),
            .given_top_k = kTopK};
  }
  // Rows beyond those that `permuted` names stay poison, so all compare.
  static bool same(const Answer& a, const Answer& b) {
    return a.status.ok() && b.status.ok() && a.y == b.y && a.rows == b.rows &&
           a.permuted == b.permuted && a.ids == b.ids;
  }

  struct Input {
    std::vector<Bf16> x;
    std::vector<int32_t> ids;
    std::vector<float> weights;
  };
  cpu::TestLayer made_;
  LayerSpec spec_;
  Layer layer_;
  std::vector<std::unique_ptr<Input>> inputs_;
};
INSTANTIATE_TEST_SUITE_P(All, LayerExecutors,
                         testing::Values(Case{WeightFormat::kMxfp4, Activations::kBf16},
                                         Case{WeightFormat::kMxfp4, Activations::kMxfp8},
                                         Case{WeightFormat::kNvfp4, Activations::kBf16},
                                         Case{WeightFormat::kNvfp4, Activations::kMxfp8}),
                         [](const auto& p) {
                           return std::string(name_of(p.param.weights)) +
                                  std::string(name_of(p.param.activations));
                         });

TEST_P(LayerExecutors, OneToNineThreadsGiveTheSameBytes) {
  for (const int64_t tokens : {1, 2, 3, 8, 9, 33}) {
    const LayerCall asked = call(tokens);
    InlineExecutor one;
    const Answer want = run(layer_, asked, one);
    ASSERT_TRUE(want.status.ok()) << want.status.why;
    for (int threads = 1; threads <= 9; ++threads) {
      cpu::ThreadPool pool(threads);
      EXPECT_TRUE(same(run(layer_, asked, pool), want)) << tokens << " rows, pool of " << threads;
      TestThreads own(threads);
      EXPECT_TRUE(same(run(layer_, asked, own), want)) << tokens << " rows, threads " << threads;
    }
  }
}

TEST_P(LayerExecutors, CallsThatOverlapGiveTheSameBytesOnOnePoolAndOnTheirOwn) {
  constexpr int64_t kCallers = 6, kRounds = 20;
  cpu::ThreadPool shared(3);
  InlineExecutor one;
  std::vector<LayerCall> calls;
  std::vector<Answer> want;
  for (int64_t c = 0; c < kCallers; ++c) {
    calls.push_back(call(1 + 3 * c));
    want.push_back(run(layer_, calls.back(), one));
  }
  std::vector<int> wrong(kCallers);
  std::vector<std::thread> callers;
  for (size_t c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      cpu::ThreadPool own(2);
      Executor& executor = c % 2 == 0 ? shared : own;
      for (int64_t i = 0; i < kRounds; ++i) {
        wrong[c] += same(run(layer_, calls[c], executor), want[c]) ? 0 : 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, std::vector<int>(kCallers));
}

}  // namespace
}  // namespace octet::dispatch
