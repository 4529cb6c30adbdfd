// SPDX-License-Identifier: Apache-2.0
// The expert GEMMs of src/sm100 in the simulator, as nvcc emits them for sm_100a, with their own host code and tensor maps: h and rows of
// the reference, whose sums are exact for these inputs but for SwiGLU's exponential.
#include <cmath>
#include <random>

#include "formats/bf16.h"
#include "reference/reference.h"
#include "routing/record.h"
#include "routing/topk.h"
#include "sim_launch.h"
#include "sim_tensor_map.h"
#include "sm100/gemm_launch.h"

namespace octet::sim {
namespace {

constexpr int64_t kExperts = 3, kHidden = 512, kIntermediate = 96, kPadded = 128, kTopK = 2;
constexpr int kCtas = 3;

std::vector<uint8_t> bytes(int64_t count, uint8_t low, unsigned values, std::mt19937& rng) {
  std::vector<uint8_t> all(static_cast<size_t>(count));
  for (uint8_t& byte : all) byte = static_cast<uint8_t>(low + rng() % values);
  return all;
}

// Random tensors, and what the reference makes of them.
struct Problem {
  Problem(int64_t num_tokens, uint64_t seed)
      : tokens(num_tokens), rng(static_cast<uint32_t>(seed)) {
    for (uint8_t& code : x_quant) code &= 0xDF;  // no NaN, not too large
    for (int64_t t = 0; t < tokens; ++t) {
      const auto first = static_cast<int32_t>(rng() % kExperts);
      ids.insert(ids.end(), {first, (first + 1) % static_cast<int32_t>(kExperts)});
    }
    permuted.resize(ids.size());
    record.resize(static_cast<size_t>(routing::record_words(ctas)));
    routing::route({{ids.data(), false}, tokens, kTopK, kExperts, permuted.data(), record.data()});
    reference::gemm1(gemm1(h_values.data(), h_scales.data()));
    reference::gemm2(gemm2(h_values.data(), h_scales.data(), rows.data()));
  }
  Gemm1Args gemm1(uint8_t* h, uint8_t* scales) const {
    return {x_quant.data(),
            x_scale.data(),
            record.data(),
            w13.data(),
            w13_scale.data(),
            clamp.data(),
            tokens,
            kTopK,
            kExperts,
            kHidden,
            kPadded,
            kIntermediate,
            h,
            scales};
  }
  Gemm2Args gemm2(uint8_t* h, uint8_t* scales, Bf16* out) const {
    return {h,        scales,  record.data(), w2.data(), w2_scale.data(), tokens, kTopK,
            kExperts, kHidden, kPadded,       out};
  }

  int64_t tokens;
  std::mt19937 rng;
  int64_t ctas = routing::max_ctas(tokens, kTopK, kExperts);
  std::vector<uint8_t> x_quant = bytes(tokens * kHidden, 0, 256, rng),
                       x_scale = bytes(tokens * kHidden / kMxBlock, 122, 3, rng),
                       w13 = bytes(kExperts * kPadded * kHidden, 0, 256, rng),
                       w13_scale = bytes(kExperts * 2 * kPadded * kHidden / kMxBlock, 119, 3, rng),
                       w2 = bytes(kExperts * kHidden * kPadded / 2, 0, 256, rng),
                       w2_scale = bytes(kExperts * kHidden * kPadded / kMxBlock, 119, 3, rng);
  std::vector<float> clamp = std::vector<float>(kExperts, 10.0F);
  std::vector<int32_t> ids, permuted, record;
  std::vector<uint8_t> h_values = std::vector<uint8_t>(static_cast<size_t>(8 * ctas * kPadded)),
                       h_scales = std::vector<uint8_t>(static_cast<size_t>(ctas * kPadded * 4));
  std::vector<Bf16> rows = std::vector<Bf16>(static_cast<size_t>(8 * ctas * kHidden));
};

void expect_right(const Problem& p, const std::vector<uint8_t>& h, const std::vector<Bf16>& rows,
                  bool is_exact) {
  int64_t num_other_codes = 0;
  for (const int32_t row : p.permuted) {
    for (int64_t c = 0; c < kPadded; ++c) {
      const auto at = static_cast<size_t>(row * kPadded + c);
      num_other_codes += h[at] != p.h_values[at] ? 1 : 0;
    }
    for (int64_t c = 0; c < kHidden; ++c) {
      const auto at = static_cast<size_t>(row * kHidden + c);
      const double got = formats::bf16_to_f32(rows[at]), want = formats::bf16_to_f32(p.rows[at]);
      ASSERT_NEAR(got, want, 0.02 * std::fabs(want) + 0.05) << "row " << row << ", column " << c;
    }
  }
  EXPECT_LE(num_other_codes, is_exact ? 0 : 2);  // cut sums: next to a tie
}

void run(const Problem& p, const ptxsim::machine::Settings& settings) {
  Device device(settings);
  Gemm1Args one =
      p.gemm1(device.put(p.h_values, "h_values", false), device.put(p.h_scales, "h_scales", false));
  Gemm2Args two =
      p.gemm2(one.h_values, one.h_scales, device.make<Bf16>(8 * p.ctas * kHidden, "rows"));
  one.x_quant = device.put(p.x_quant, "x_quant");
  one.x_scale = device.put(p.x_scale, "x_scale");
  one.record = two.record = device.put(p.record, "record");
  one.w13 = device.put(p.w13, "w13");
  one.w13_scale = device.put(p.w13_scale, "w13_scale");
  one.clamp = device.put(p.clamp, "clamp");
  two.w2 = device.put(p.w2, "w2");
  two.w2_scale = device.put(p.w2_scale, "w2_scale");
  // Not the reference's h: zeros.
  const std::vector<uint8_t> zeros(p.h_values.size());
  ASSERT_TRUE(
      device.machine().memory().write(reinterpret_cast<uint64_t>(one.h_values), zeros).ok());
  LaunchQueue queue(device, kCtas);
  cuda::GemmLaunch<cuda::Gemm1KernelArgs> first;
  cuda::GemmLaunch<cuda::Gemm2KernelArgs> second;
  for (const Status& status : {cuda::make_gemm1(sm100::gemms(), one, encode_tiled, first),
                               cuda::make_gemm2(sm100::gemms(), two, encode_tiled, second),
                               sm100::launch_gemm1(first, kCtas, nullptr),
                               sm100::launch_gemm2(second, kCtas, nullptr), queue.run_all()})
    ASSERT_TRUE(status.ok()) << status.why;
  const auto h = device.back(one.h_values, static_cast<int64_t>(p.h_values.size()));
  // Rows that belong to nobody are not written, and are not read back as values.
  std::vector<Bf16> rows(p.rows.size());
  const auto raw = device.machine().memory().read(reinterpret_cast<uint64_t>(two.gemm2_rows),
                                                  rows.size() * sizeof(Bf16));
  ASSERT_TRUE(raw.ok());
  std::memcpy(static_cast<void*>(rows.data()), raw->data(), raw->size());
  expect_right(p, h, rows, settings.arithmetic == ptxsim::machine::Arithmetic::kExact);
}

TEST(SimGemmSm100, PairIsTheReference) {
  for (ptxsim::machine::Settings settings : all_times(2)) {
    for (const int64_t tokens : {1, 6, 8}) {
      const Problem problem(tokens, settings.seed + static_cast<uint64_t>(tokens));
      for (const auto arithmetic :
           {ptxsim::machine::Arithmetic::kExact, ptxsim::machine::Arithmetic::kTruncated}) {
        settings.arithmetic = arithmetic;
        SCOPED_TRACE(testing::Message() << shown(settings) << ", T " << tokens);
        run(problem, settings);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace octet::sim
