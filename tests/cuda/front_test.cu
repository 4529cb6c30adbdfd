// SPDX-License-Identifier: Apache-2.0
// Needs a device. Quantisation and record: the CPU's bytes. top-k: the golden bits of the original kernel where
// OCTET_GOLDEN_ROWS names them (tests/golden/make.py), and the CPU's ids and weights within semantics.md section 4. front: the bytes of the three.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "core/executor.h"
#include "cpu/ops.h"
#include "cuda/front.h"
#include "cuda/topk_dsv4.cuh"
#include "formats/bf16.h"
#include "layouts/scale_layout.h"
#include "on_device.h"
#include "routing/record.h"
#include "routing/topk.h"

namespace octet::cuda {
namespace {

constexpr uint8_t kPoison = 0xA5;
constexpr size_t kGuard = 64;

template <class T>
std::vector<T> poisoned(int64_t count) {
  std::vector<T> v(static_cast<size_t>(count) + kGuard);
  std::memset(static_cast<void*>(v.data()), kPoison, v.size() * sizeof(T));
  return v;
}
template <class T>
void expect_bytes(const std::vector<T>& got, const std::vector<T>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(T)), 0) << what << ", element " << i;
}
void finish(const Status& status) {
  ASSERT_TRUE(status.ok()) << status.why;
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// Ordinary numbers, and every block in sixteen one of those that hurt.
std::vector<Bf16> hard_rows(int64_t count, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<Bf16> x(static_cast<size_t>(count));
  for (size_t b = 0; b < x.size() / kMxBlock; ++b) {
    const auto kind = rng() % 16;
    for (size_t i = b * kMxBlock; i < (b + 1) * kMxBlock; ++i) {
      x[i] = formats::bf16_from_f32(std::ldexp(normal(rng), static_cast<int>(b % 250) - 125));
      if (kind == 0) x[i] = {static_cast<uint16_t>(rng() & 0x8000)};
      if (kind == 1 && rng() % 8 == 0) x[i] = {0xFF80};
      if (kind == 2 && rng() % 8 == 0) x[i] = {0x7FC1};
      if (kind == 3) x[i] = {0xFFC0};
      if (kind == 4) x[i] = {static_cast<uint16_t>(rng() & 0x80FF)};  // subnormals
      if (kind == 5) x[i] = {static_cast<uint16_t>(rng())};           // anything
    }
  }
  return x;
}

TEST(Front, QuantizesAsTheCpu) {
  std::mt19937 rng(1);
  InlineExecutor one;
  for (const int64_t tokens : {1, 3, 8, 130}) {
    for (const int64_t width : {32, 96, 1024, 5120}) {
      for (const ScaleLayout layout :
           {ScaleLayout::kLinear, ScaleLayout::k128x4, ScaleLayout::k8x4}) {
        const auto x = hard_rows(tokens * width, rng);
        auto codes = poisoned<uint8_t>(tokens * width);
        auto scales = poisoned<uint8_t>(layouts::scale_bytes(layout, tokens, width / kMxBlock));
        const OnDevice<Bf16> d_x(x);
        const OnDevice<uint8_t> d_codes(codes), d_scales(scales);
        finish(launch_mxfp8_quantize(
            {d_x.get(), tokens, width, layout, d_codes.get(), d_scales.get()}, nullptr));
        cpu::mxfp8_quantize({x.data(), tokens, width, layout, codes.data(), scales.data()}, one);
        const std::string what = std::to_string(tokens) + " x " + std::to_string(width);
        expect_bytes(d_codes.back(), codes, what + " codes");
        expect_bytes(d_scales.back(), scales, what + " scales, " + std::string(name_of(layout)));
      }
    }
  }
}

__global__ void compare_logs(uint32_t* differences) {
  const float v = __uint_as_float(0x3F800000U + blockIdx.x * blockDim.x + threadIdx.x);
  if (__float_as_uint(dsv4::log_of(v)) != __float_as_uint(logf(v))) atomicAdd(differences, 1U);
}

// Every number from 1 to 2^30: the sums that a softplus takes.
TEST(Front, LogIsCudasLogf) {
  const OnDevice<uint32_t> differences(std::vector<uint32_t>{0});
  compare_logs<<<(30U << 23) / 1024, 1024>>>(differences.get());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(differences.back()[0], 0U);
}

template <class Id>
void expect_route(int64_t tokens, int64_t top_k, int64_t experts, std::mt19937& rng) {
  std::vector<Id> ids(static_cast<size_t>(tokens * top_k));
  for (Id& id : ids) {
    id = static_cast<Id>(rng() % static_cast<unsigned>(experts));
    if (rng() % 16 == 0) id = static_cast<Id>(rng() % 2 == 0 ? -1 : experts);
    if (sizeof(Id) == 8 && rng() % 16 == 0) id += static_cast<Id>(int64_t{1} << 32);
  }
  for (size_t i = 1; i < ids.size(); i += 5) ids[i] = ids[i - 1];  // twice in a row
  const int64_t words = routing::record_words(routing::max_ctas(tokens, top_k, experts));
  auto permuted = poisoned<int32_t>(tokens * top_k), record = poisoned<int32_t>(words);
  const OnDevice<Id> d_ids(ids);
  const OnDevice<int32_t> d_permuted(permuted), d_record(record);
  RouteArgs args{
      {d_ids.get(), sizeof(Id) == 8}, tokens, top_k, experts, d_permuted.get(), d_record.get()};
  finish(launch_route(args, nullptr));
  args.topk_ids.data = ids.data();
  args.permuted = permuted.data();
  args.record = record.data();
  routing::route(args);
  const std::string what = "T " + std::to_string(tokens) + ", k " + std::to_string(top_k) + ", E " +
                           std::to_string(experts);
  expect_bytes(d_permuted.back(), permuted, what + ", permuted");
  expect_bytes(d_record.back(), record, what + ", record");
}

TEST(Front, RoutesAsTheCpu) {
  std::mt19937 rng(2);
  for (const int64_t tokens : {0, 1, 2, 6, 8, 100, 700}) {
    for (const int64_t top_k : {1, 4, 6, 8}) {
      for (const int64_t experts : {1, 8, 96, 384, 512}) {
        expect_route<int32_t>(tokens, top_k, experts, rng);
        expect_route<int64_t>(tokens, top_k, experts, rng);
      }
    }
  }
}

// Rows of the router, here and on the device.
struct Routed {
  std::vector<float> logits, bias, bias_vl;
  std::vector<int64_t> tokens;
  int64_t experts, top_k, lo;
  float scale;
  std::vector<int32_t> ids;
  std::vector<float> weights;

  int64_t rows() const { return std::ssize(logits) / experts; }
  TopkArgs args() {
    TopkArgs a{};
    a.logits = logits.data();
    a.tokens = rows();
    a.experts = experts;
    a.router.top_k = top_k;
    a.router.scale = scale;
    a.router.image_sentinel_lo = lo;
    a.bias = bias.data();
    a.bias_vl = bias_vl.empty() ? nullptr : bias_vl.data();
    a.input_ids = {tokens.data(), true};
    ids = poisoned<int32_t>(rows() * top_k);
    weights = poisoned<float>(rows() * top_k);
    a.topk_ids = ids.data();
    a.topk_weights = weights.data();
    return a;
  }
};
class RoutedOnDevice {
 public:
  explicit RoutedOnDevice(Routed& r)
      : args_(r.args()),
        logits_(r.logits),
        bias_(r.bias),
        bias_vl_(r.bias_vl),
        weights_(r.weights),
        tokens_(r.tokens),
        ids_(r.ids) {
    args_.logits = logits_.get();
    args_.bias = bias_.get();
    if (args_.bias_vl != nullptr) args_.bias_vl = bias_vl_.get();
    args_.input_ids.data = tokens_.get();
    args_.topk_ids = ids_.get();
    args_.topk_weights = weights_.get();
  }
  const TopkArgs& args() const { return args_; }
  std::vector<int32_t> ids() const { return ids_.back(); }
  std::vector<float> weights() const { return weights_.back(); }

 private:
  TopkArgs args_;
  OnDevice<float> logits_, bias_, bias_vl_, weights_;
  OnDevice<int64_t> tokens_;
  OnDevice<int32_t> ids_;
};

Routed random_routed(int64_t rows, int64_t experts, int64_t top_k, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  Routed r;
  r.experts = experts;
  r.top_k = top_k;
  r.scale = 1.5F;
  r.lo = 100;
  const auto fill = [&](std::vector<float>& v, int64_t n, float size) {
    for (int64_t i = 0; i < n; ++i) v.push_back(size * normal(rng));
  };
  fill(r.logits, rows * experts, 2);
  fill(r.bias, experts, 0.1F);
  fill(r.bias_vl, experts, 0.1F);
  for (int64_t t = 0; t < rows; ++t) r.tokens.push_back(97 + t % 10);
  return r;
}

// The CPU's steps are rounded otherwise, by some 2^-21 of a score in all: where two scores are further apart, ids are the same.
TEST(Front, ChoosesAsTheCpuWhereScoresDiffer) {
  std::mt19937 rng(3);
  int64_t compared = 0;
  for (const int64_t experts : {6, 31, 32, 100, 256, 257, 384, 512}) {
    for (const int64_t top_k : {1, 6}) {
      Routed r = random_routed(37, experts, top_k, rng);
      const RoutedOnDevice device(r);
      finish(launch_topk(device.args(), nullptr));
      routing::topk(r.args(), 0, r.rows());
      const auto ids = device.ids();
      const auto weights = device.weights();
      for (size_t i = 0; i < static_cast<size_t>(r.rows() * top_k); ++i) {
        if (ids[i] != r.ids[i]) continue;
        ++compared;
        EXPECT_NEAR(weights[i], r.weights[i], std::fabs(r.weights[i]) * 0x1p-18F);
      }
      for (size_t i = static_cast<size_t>(r.rows() * top_k); i < ids.size(); ++i)
        EXPECT_EQ(ids[i], r.ids[i]) << "guard";
    }
  }
  EXPECT_GE(compared, 37 * 8 * 7 - 20);  // scores that close are rare
}

TEST(Front, NeverRepeatsAnId) {
  std::mt19937 rng(4);
  for (const float odd : {-std::numeric_limits<float>::infinity(), std::nanf(""), 0.0F}) {
    Routed r = random_routed(8, 40, 8, rng);
    for (size_t i = 0; i < r.logits.size(); ++i)
      if (i % 40 > 3) r.logits[i] = odd;
    for (size_t e = 4; e < 40; ++e) r.bias[e] = r.bias_vl[e] = std::isnan(odd) ? 0.0F : odd;
    const RoutedOnDevice device(r);
    finish(launch_topk(device.args(), nullptr));
    routing::topk(r.args(), 0, r.rows());
    const auto ids = device.ids();
    for (size_t row = 0; row < 8; ++row) {
      std::vector<int32_t> got(ids.begin() + static_cast<std::ptrdiff_t>(row * 8),
                               ids.begin() + static_cast<std::ptrdiff_t>(row * 8 + 8));
      EXPECT_TRUE(std::equal(got.begin() + 4, got.end(),
                             r.ids.begin() + static_cast<std::ptrdiff_t>(row * 8 + 4)))
          << "the lowest ids not yet chosen";
      std::sort(got.begin(), got.end());
      EXPECT_EQ(std::adjacent_find(got.begin(), got.end()), got.end());
    }
  }
}

template <class T>
std::vector<T> read(std::ifstream& in, int64_t count) {
  std::vector<T> v(static_cast<size_t>(count));
  in.read(reinterpret_cast<char*>(v.data()), static_cast<std::streamsize>(v.size() * sizeof(T)));
  return v;
}

TEST(Front, TopkHasTheGoldenBits) {
  const char* const path = std::getenv("OCTET_GOLDEN_ROWS");
  if (path == nullptr) GTEST_SKIP() << "OCTET_GOLDEN_ROWS names no file";
  std::ifstream in(path, std::ios::binary);
  int64_t rows = 0, wrong_ids = 0, wrong_bits = 0;
  for (auto head = read<int64_t>(in, 4); in; head = read<int64_t>(in, 4)) {
    Routed r;
    r.experts = head[0];
    r.top_k = 6;
    r.lo = head[2];
    r.scale = read<float>(in, 2)[0];
    r.logits = read<float>(in, head[1] * r.experts);
    r.bias = read<float>(in, r.experts);
    if (head[3] != 0) r.bias_vl = read<float>(in, r.experts);
    r.tokens = read<int64_t>(in, head[1]);
    const auto ids = read<int32_t>(in, head[1] * 6);
    const auto bits = read<uint32_t>(in, head[1] * 6);
    ASSERT_TRUE(in) << path << " ends early";
    if (head[1] == 0) continue;
    const RoutedOnDevice device(r);
    finish(launch_topk(device.args(), nullptr));
    const auto got_ids = device.ids();
    const auto got_weights = device.weights();
    for (size_t i = 0; i < ids.size(); ++i) {
      uint32_t got;
      std::memcpy(&got, &got_weights[i], sizeof got);
      wrong_ids += got_ids[i] != ids[i] ? 1 : 0;
      wrong_bits += got != bits[i] ? 1 : 0;
    }
    rows += head[1];
  }
  RecordProperty("rows", static_cast<int>(rows));
  EXPECT_GT(rows, 7000);
  EXPECT_EQ(wrong_ids, 0) << "of " << rows << " rows";
  EXPECT_EQ(wrong_bits, 0) << "of " << rows << " rows";
}

TEST(Front, OneLaunchGivesTheBytesOfThree) {
  std::mt19937 rng(5);
  for (const int64_t tokens : {0, 1, 2, 3, 4, 5, 8}) {
    for (const int64_t experts : {8, 256, 300, 384, 512}) {
      for (const int64_t width : {32, 5120}) {
        Routed r = random_routed(tokens, experts, 6, rng);
        const auto x = hard_rows(tokens * width, rng);
        const OnDevice<Bf16> d_x(x);
        struct Outputs {
          RoutedOnDevice routed;
          OnDevice<uint8_t> codes, scales;
          OnDevice<int32_t> permuted, record;
          Outputs(Routed& from, int64_t row_bytes, int64_t words)
              : routed(from),
                codes(poisoned<uint8_t>(row_bytes)),
                scales(poisoned<uint8_t>(row_bytes / kMxBlock)),
                permuted(poisoned<int32_t>(from.rows() * from.top_k)),
                record(poisoned<int32_t>(words)) {}
        };
        const int64_t words = routing::record_words(routing::max_ctas(tokens, 6, experts));
        const Outputs three(r, tokens * width, words), one(r, tokens * width, words);
        const auto quantize = [&](const Outputs& o) {
          return QuantizeArgs{d_x.get(),     tokens,        width, ScaleLayout::kLinear,
                              o.codes.get(), o.scales.get()};
        };
        finish(launch_topk(three.routed.args(), nullptr));
        finish(launch_mxfp8_quantize(quantize(three), nullptr));
        finish(launch_route({{three.routed.args().topk_ids, false},
                             tokens,
                             6,
                             experts,
                             three.permuted.get(),
                             three.record.get()},
                            nullptr));
        finish(launch_front(
            {quantize(one), one.routed.args(), one.permuted.get(), one.record.get()}, nullptr));
        const std::string what = "T " + std::to_string(tokens) + ", E " + std::to_string(experts);
        expect_bytes(one.routed.ids(), three.routed.ids(), what + ", ids");
        expect_bytes(one.routed.weights(), three.routed.weights(), what + ", weights");
        expect_bytes(one.codes.back(), three.codes.back(), what + ", codes");
        expect_bytes(one.scales.back(), three.scales.back(), what + ", scales");
        expect_bytes(one.permuted.back(), three.permuted.back(), what + ", permuted");
        expect_bytes(one.record.back(), three.record.back(), what + ", record");
      }
    }
  }
}

TEST(Front, RefusesWhatItDoesNotTake) {
  FrontArgs a{};
  a.topk.tokens = 9;
  a.topk.experts = 16;
  const float some = 0;
  a.topk.logits = a.topk.bias = &some;
  a.quantize.tokens = 9;
  a.quantize.width = 32;
  EXPECT_EQ(launch_front(a, nullptr).why, "T 9, want at most 8 for front");
  a.topk.tokens = 8;
  a.quantize.layout = ScaleLayout::k128x4;
  EXPECT_EQ(launch_front(a, nullptr).why, "scale layout 128x4, want linear for front");
  a.quantize.width = 48;
  EXPECT_EQ(launch_front(a, nullptr).why, "K 48 is not a multiple of 32");
  a.topk.router.kind = RouterKind::kSoftmax;
  EXPECT_EQ(launch_front(a, nullptr).why, "router softmax on a CUDA device, want dsv4");
  EXPECT_EQ(launch_route({.tokens = 1, .top_k = 1, .experts = 513}, nullptr).why,
            "experts 513, want at most 512");
}

}  // namespace
}  // namespace octet::cuda
