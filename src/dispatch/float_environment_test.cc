// SPDX-License-Identifier: Apache-2.0
// Whatever floating-point environment the caller's thread and the pool's threads have: the same bytes, and the caller's
// environment afterwards as it was.
#include "core/float_environment.h"

#include <cfenv>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

#include "cpu/test_layer.h"
#include "dispatch/test_calls.h"
#include "dispatch/test_inputs.h"

namespace octet::dispatch {
namespace {

unsigned control_word() {
#if defined(__x86_64__)
  return _mm_getcsr() & 0xFFC0U;  // without the exceptions seen
#else
  return static_cast<unsigned>(std::fegetround());
#endif
}

// On x86-64 with FTZ and DAZ too.
void flush_and_round(int direction) {
  std::fesetround(direction);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040U);
#endif
}

// fn() on a thread whose environment is another; it must come back unchanged.
void in_another_environment(int direction, const std::function<void()>& fn) {
  std::thread([&] {
    flush_and_round(direction);
    const unsigned before = control_word();
    fn();
    EXPECT_EQ(control_word(), before);
  }).join();
}

// Two threads, the second with an environment of its own.
class MixedThreads final : public Executor {
 public:
  int num_threads() const override { return 2; }
  void run(int num_tasks, void (*task)(void* arg, int index), void* arg) override {
    std::thread second([&] {
      std::fesetround(FE_DOWNWARD);
      for (int i = 1; i < num_tasks; i += 2) task(arg, i);
    });
    for (int i = 0; i < num_tasks; i += 2) task(arg, i);
    second.join();
  }
};

constexpr int kDirections[] = {FE_TONEAREST, FE_UPWARD};

void expect_same(const NamedTensors& got, const NamedTensors& want, std::string_view op) {
  ASSERT_EQ(got.size(), want.size()) << op;
  for (const auto& [name, tensor] : want) {
    EXPECT_EQ(std::memcmp(got.at(name).data(), tensor.data(), tensor.num_bytes()), 0)
        << op << " " << name;
  }
}

TEST(FloatEnvironment, DoesNotChangeWhatAnOperationAnswers) {
  Inputs small = weight_inputs();  // values that DAZ would take for 0
  for (int64_t i = 0; i < 2 * 3 * 64; ++i) small["value"].as<float>()[i] *= 0x1p-130F;
  for (int i = 0; i < 2 * 3 * 2; ++i) small["scale"].as<uint8_t>()[i] = 0;  // 2^-127
  Inputs tiny = chain_inputs();                                             // rows of subnormals
  std::memset(tiny["h_values"].data(), 0x19, tiny["h_values"].num_bytes());
  std::memset(tiny["h_scales"].data(), 0, tiny["h_scales"].num_bytes());
  const Inputs front = front_inputs(), chain = chain_inputs(), grouped = grouped_inputs();
  const std::tuple<const char*, const Inputs*, Settings> calls[] = {
      {"mxfp8_quantize", &front, {}},
      {"topk", &front, kTop2},
      {"gemm1", &chain, kI64},
      {"gemm2", &chain, {}},
      {"gemm2", &tiny, {}},
      {"finalize", &chain, {}},
      {"grouped_moe", &grouped, {}},
      {"dequantize", &small, {{"format", "mxfp4"}}},
      {"quantize_weight", &small, {{"format", "nvfp4"}}},
  };
  for (const auto& [op, in, settings] : calls) {
    for (const Backend backend : {Backend::kCpu, Backend::kReference}) {
      const NamedTensors want = in->run(op, settings, backend).value();
      for (const int direction : kDirections) {
        in_another_environment(direction, [&, op = op, &in = in, &settings = settings] {
          MixedThreads threads;
          const auto got = run_operation(op, in->views(), settings, backend, threads);
          ASSERT_TRUE(got.ok()) << got.status().why;
          expect_same(*got, want, op);
        });
      }
    }
  }
}

TEST(FloatEnvironment, DoesNotChangeWhatALayerAnswers) {
  cpu::TestLayer made(
      {.activations = Activations::kMxfp8, .hidden = 64, .intermediate = 48, .experts = 5});
  std::vector<Bf16> x = made.random_x(4);
  for (size_t i = 0; i < 64; ++i) x[i] = formats::bf16_from_f32(0x1p-118F);
  const std::vector<int32_t> ids = {0, 1, 2, 3, 4, 0, 1, 3};
  const std::vector<float> weights(8, 0.3F);
  for (const Backend backend : {Backend::kCpu, Backend::kReference}) {
    InlineExecutor one;
    const Layer layer =
        Layer::load({.spec = made.spec(), .experts = made.experts}, {.backend = backend}, one)
            .value();
    LayerCall call{.tokens = 4, .x = x.data()};
    call.given_ids = {ids.data()};
    call.given_weights = weights.data();
    call.given_top_k = 2;
    const Answer want = run(layer, call, one);
    ASSERT_TRUE(want.status.ok()) << want.status.why;
    for (const int direction : kDirections) {
      in_another_environment(direction, [&] {
        MixedThreads threads;
        const Answer got = run(layer, call, threads);
        EXPECT_TRUE(got.status.ok()) << got.status.why;
        EXPECT_EQ(got.y, want.y);
        EXPECT_EQ(got.rows, want.rows);
      });
    }
  }
}

}  // namespace
}  // namespace octet::dispatch
