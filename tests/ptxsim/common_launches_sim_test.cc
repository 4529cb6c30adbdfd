// SPDX-License-Identifier: Apache-2.0
// The common kernels (src/cuda: front, finalize, rank_sum) as their own host code launches them, each with a programmatic edge to the one
// before it, whose output it reads or overwrites: the CPU's bytes. Mutants of these kernels are tried on it (tests/mutation/ptx).
//
//   finalize ──► rank_sum ──► topk ──► finalize ──► finalize ──► clear_padding, quantize ──► front ──► route ──► finalize ──► topk
//   partials     logits       weights  x            x_scale's    x_scale                     ids       permuted
#include <array>
#include <random>

#include "core/executor.h"
#include "cpu/ops.h"
#include "cuda/finalize_bf16.h"
#include "cuda/front.h"
#include "cuda/rank_sum.h"
#include "formats/bf16.h"
#include "layouts/scale_layout.h"
#include "routing/record.h"
#include "routing/topk.h"
#include "sim_launch.h"

namespace octet::sim {
namespace {

constexpr int64_t kHidden = 288;  // nine blocks of 32, three less than a swizzled layout has

size_t size_of(int64_t n) { return static_cast<size_t>(n); }

std::vector<Bf16> random_rows(int64_t count, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<Bf16> v(size_of(count));
  for (Bf16& e : v) e = formats::bf16_from_f32(normal(rng));
  return v;
}
std::vector<float> random_floats(int64_t count, float size, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> v(size_of(count));
  for (float& e : v) e = size * normal(rng);
  return v;
}
template <class T>
void expect_bytes(const std::vector<T>& got, const std::vector<T>& want, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(T)), 0) << what << ", element " << i;
}
// Those of the CPU, whose steps are rounded otherwise; ids are the same where no two scores are that close.
void expect_near(const std::vector<float>& got, const std::vector<float>& want, const char* what) {
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], std::fabs(want[i]) * 0x1p-18F) << what << ", element " << i;
}

std::vector<Bf16> finalized(FinalizeArgs a, const std::vector<Bf16>& rows,
                            const std::vector<float>& weights,
                            const std::vector<int32_t>& permuted) {
  std::vector<Bf16> y(size_of(a.tokens * a.hidden));
  a.rows = rows.data();
  a.topk_weights = weights.data();
  a.permuted = permuted.data();
  a.shared = nullptr;
  a.y = y.data();
  InlineExecutor one;
  cpu::finalize(a, one);
  return y;
}

// A record and where its slots are.
struct Routed {
  int64_t tokens, top_k, experts;
  std::vector<int32_t> permuted, record;

  int64_t words() const { return routing::record_words(routing::max_ctas(tokens, top_k, experts)); }
  void route(const std::vector<int32_t>& ids) {
    permuted.resize(size_of(tokens * top_k));
    record.resize(size_of(words()));
    routing::route({{ids.data(), false}, tokens, top_k, experts, permuted.data(), record.data()});
  }
};
struct RoutedOnDevice {
  int32_t *permuted, *record;
  RoutedOnDevice(Device& device, const Routed& r)
      : permuted(device.make<int32_t>(r.tokens * r.top_k, "permuted")),
        record(device.make<int32_t>(r.words(), "record")) {}
  void expect(Device& device, const Routed& want) const {
    expect_bytes(device.back(permuted, std::ssize(want.permuted)), want.permuted, "permuted");
    expect_bytes(device.back(record, std::ssize(want.record)), want.record, "record");
  }
};

struct ChainShape {
  int64_t tokens, experts, top_k;
};

// One chain on a device; everything is compared at its end.
void expect_chain(const ChainShape& s, const ptxsim::machine::Settings& settings) {
  std::mt19937 rng(static_cast<unsigned>(s.experts));
  const int64_t slots = s.tokens * s.top_k, wide = 2 * s.experts, sums = s.tokens * wide;
  const int64_t scale_cols = kHidden / kMxBlock,
                scales = layouts::scale_bytes(ScaleLayout::k128x4, s.tokens, scale_cols);
  const std::vector<Bf16> rows = random_rows(slots * 8 * std::max(wide, kHidden), rng);
  const std::vector<float> own_weights = random_floats(slots, 1, rng);
  std::vector<int32_t> own_permuted(size_of(slots));
  for (int32_t& v : own_permuted) v = static_cast<int32_t>(rng() % 41) - 1;
  std::vector<Bf16> partials = random_rows(2 * sums, rng);
  std::vector<float> bias = random_floats(s.experts, 0.1F, rng);
  // In row 0 forty experts have the same score, the best: ids are chosen by rounds.
  for (int64_t j = 0; j < s.top_k; ++j) own_permuted[size_of(j)] = -1;
  for (int64_t i = 0; i < wide; ++i) partials[size_of(sums + i)] = {0x3F80};
  for (int64_t e = 60; e < 100; ++e) bias[size_of(e)] = 0.5F;

  Device device(settings);
  LaunchQueue queue(device, 4);
  const auto finalize_args = [&](int64_t tokens, int64_t top_k, int64_t hidden) {
    FinalizeArgs a{};
    a.scale = 1.25F;
    a.tokens = tokens;
    a.top_k = top_k;
    a.hidden = hidden;
    return a;
  };
  const Bf16* const d_rows = device.put(rows, "rows");
  const float* const d_own_weights = device.put(own_weights, "weights");
  const int32_t* const d_own_permuted = device.put(own_permuted, "permuted");
  const auto ok = [](const Status& status) { ASSERT_TRUE(status.ok()) << status.why; };
  const auto finalize = [&](FinalizeArgs a, const float* weights, const int32_t* permuted,
                            Bf16* y) {
    a.rows = d_rows;
    a.topk_weights = weights;
    a.permuted = permuted;
    a.y = y;
    ok(cuda::launch_finalize_bf16(a, nullptr));
  };

  // Logits: sums over two ranks, the first one's by finalize; two BF16 are a logit.
  std::vector<Bf16> unset(partials.begin(), partials.end());
  for (int64_t i = 0; i < sums; ++i) unset[size_of(i)] = {0x7FC0};
  Bf16* const d_partials = device.put(unset, "partials", false);
  Bf16* const d_logits = device.make<Bf16>(sums, "logits");
  const FinalizeArgs first = finalize_args(s.tokens, s.top_k, wide);
  finalize(first, d_own_weights, d_own_permuted, d_partials);
  ok(cuda::launch_rank_sum({d_partials, 2, sums, d_logits}, nullptr));

  TopkArgs topk{};
  topk.logits = reinterpret_cast<const float*>(d_logits);
  topk.tokens = s.tokens;
  topk.experts = s.experts;
  topk.router.top_k = s.top_k;
  topk.bias = device.put(bias, "bias");
  const auto with_outputs = [&](TopkArgs t) {
    t.topk_ids = device.make<int32_t>(t.tokens * t.router.top_k, "ids");
    t.topk_weights = device.make<float>(t.tokens * t.router.top_k, "weights");
    return t;
  };
  const TopkArgs chosen = with_outputs(topk);
  ok(cuda::launch_topk(chosen, nullptr));

  Bf16* const d_x = device.make<Bf16>(s.tokens * kHidden, "x");
  uint8_t* const d_scales = device.make<uint8_t>(scales, "x_scale");
  uint8_t* const d_codes = device.make<uint8_t>(s.tokens * kHidden, "x_quant");
  const FinalizeArgs second = finalize_args(s.tokens, s.top_k, kHidden);
  finalize(second, chosen.topk_weights, d_own_permuted, d_x);
  finalize(finalize_args(1, 1, scales / 2), d_own_weights, d_own_permuted,
           reinterpret_cast<Bf16*>(d_scales));  // what padding is cleared of
  const QuantizeArgs quantize{d_x, s.tokens, kHidden, ScaleLayout::k128x4, d_codes, d_scales};
  ok(cuda::launch_mxfp8_quantize(quantize, nullptr));

  Routed own{s.tokens, s.top_k, s.experts, {}, {}};
  const RoutedOnDevice of_front(device, own), of_route(device, own);
  const TopkArgs of_one = with_outputs(topk);
  QuantizeArgs linear{d_x,
                      s.tokens,
                      kHidden,
                      ScaleLayout::kLinear,
                      device.make<uint8_t>(s.tokens * kHidden, "x_quant"),
                      device.make<uint8_t>(s.tokens * scale_cols, "x_scale")};
  ok(cuda::launch_front({linear, of_one, of_front.permuted, of_front.record}, nullptr));
  ok(cuda::launch_route(
      {{of_one.topk_ids, false}, s.tokens, s.top_k, s.experts, of_route.permuted, of_route.record},
      nullptr));
  Bf16* const d_y = device.make<Bf16>(s.tokens * kHidden, "y");
  finalize(second, of_one.topk_weights, of_route.permuted, d_y);

  // The weights of all slots as logits of one row.
  TopkArgs last = topk;
  last.logits = of_one.topk_weights;
  last.tokens = 1;
  last.experts = slots;
  last.router.top_k = 1;
  last = with_outputs(last);
  ok(cuda::launch_topk(last, nullptr));

  // Records of many tokens, and of few with ids of nobody.
  std::vector<Routed> records = {{1, 6, 96, {}, {}}, {6, 6, 96, {}, {}}, {100, 4, 384, {}, {}}};
  std::vector<RoutedOnDevice> d_records;
  for (Routed& r : records) {
    std::vector<int32_t> ids(size_of(r.tokens * r.top_k));
    for (int32_t& id : ids)
      id = rng() % 16 == 0 ? -1 : static_cast<int32_t>(rng() % static_cast<unsigned>(r.experts));
    r.route(ids);
    d_records.emplace_back(device, r);
    ok(cuda::launch_route({{device.put(ids, "topk_ids"), false},
                           r.tokens,
                           r.top_k,
                           r.experts,
                           d_records.back().permuted,
                           d_records.back().record},
                          nullptr));
  }
  ok(queue.run_all());
  if (testing::Test::HasFatalFailure()) return;

  const std::vector<Bf16> of_rank = finalized(first, rows, own_weights, own_permuted);
  std::vector<Bf16> logits(size_of(sums));
  for (int64_t i = 0; i < sums; ++i)
    logits[size_of(i)] = formats::bf16_from_f32(formats::bf16_to_f32(of_rank[size_of(i)]) +
                                                formats::bf16_to_f32(partials[size_of(sums + i)]));
  expect_bytes(device.back(d_logits, sums), logits, "sums over ranks");

  const auto expect_topk = [&](TopkArgs t, const void* of, const char* what) {
    const auto count = t.tokens * t.router.top_k;
    const auto ids = device.back(t.topk_ids, count);
    const auto weights = device.back(t.topk_weights, count);
    std::vector<int32_t> want_ids(size_of(count));
    std::vector<float> want_weights(size_of(count));
    t.logits = static_cast<const float*>(of);
    t.bias = bias.data();
    t.topk_ids = want_ids.data();
    t.topk_weights = want_weights.data();
    routing::topk(t, 0, t.tokens);
    expect_bytes(ids, want_ids, what);
    expect_near(weights, want_weights, what);
  };
  expect_topk(chosen, logits.data(), "topk");
  expect_topk(of_one, logits.data(), "front");
  const auto weights = device.back(of_one.topk_weights, slots);
  expect_topk(last, weights.data(), "topk of weights");
  const auto x = finalized(second, rows, device.back(chosen.topk_weights, slots), own_permuted);
  expect_bytes(device.back(d_x, s.tokens * kHidden), x, "x");

  InlineExecutor one;
  for (QuantizeArgs q : {quantize, linear}) {
    const int64_t bytes = layouts::scale_bytes(q.layout, s.tokens, scale_cols);
    const auto codes = device.back(q.x_quant, s.tokens * kHidden),
               got_scales = device.back(q.x_scale, bytes);
    std::vector<uint8_t> want_codes(codes.size()), want_scales(got_scales.size());
    q.x = x.data();
    q.x_quant = want_codes.data();
    q.x_scale = want_scales.data();
    cpu::mxfp8_quantize(q, one);
    expect_bytes(codes, want_codes, "codes");
    expect_bytes(got_scales, want_scales, "scales");
  }
  own.route(device.back(of_one.topk_ids, slots));
  of_front.expect(device, own);
  of_route.expect(device, own);
  for (size_t i = 0; i < records.size(); ++i) d_records[i].expect(device, records[i]);
  expect_bytes(device.back(d_y, s.tokens * kHidden), finalized(second, rows, weights, own.permuted),
               "y");
}

TEST(CommonLaunches, AreTheCpusBehindEachOther) {
  for (const ptxsim::machine::Settings& settings : all_times(2)) {
    SCOPED_TRACE(shown(settings));
    for (const ChainShape& s : {ChainShape{8, 200, 6}, {5, 300, 8}, {8, 500, 4}}) {
      SCOPED_TRACE(testing::Message() << "E " << s.experts);
      expect_chain(s, settings);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace octet::sim
