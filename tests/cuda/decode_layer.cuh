// SPDX-License-Identifier: Apache-2.0
// For tests of Hopper's layer at a model's size: weights made and packed on the device.
//
//   seed ─► codes, scales (canonical: as a checkpoint has them) ─► packed (layouts/stream_fp4.h; expect_packed(): as the host packs)
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "cuda/device_memory.h"
#include "layouts/expert_weights.h"
#include "layouts/stream_fp4.h"
#include "on_device.h"
#include "sm90/experts_mxfp8.h"
#include "sm90/experts_of.h"

namespace octet::sm90 {

using cuda::OnDevice;

inline void expect_ok(const Status& status) { ASSERT_TRUE(status.ok()) << status.why; }
inline void expect_ok(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}
inline size_t size_of(int64_t n) { return static_cast<size_t>(n); }

__host__ __device__ inline uint64_t mix(uint64_t v) {
  v = (v ^ v >> 33) * 0xff51afd7ed558ccdULL;
  v = (v ^ v >> 33) * 0xc4ceb9fe1a85ec53ULL;
  return v ^ v >> 33;
}

// A launch, by what tells it apart.
struct Formats {
  Activations activations;
  WeightFormat weights;
};
constexpr Formats kAllFormats[] = {{Activations::kMxfp8, WeightFormat::kMxfp4},
                                   {Activations::kBf16, WeightFormat::kMxfp4},
                                   {Activations::kBf16, WeightFormat::kNvfp4}};
inline std::string name_of(const Formats& f) {
  return with_traits(f.activations, f.weights, []<class Traits>(Traits) { return Traits::kName; });
}
inline void PrintTo(const Formats& f, std::ostream* to) { *to << name_of(f); }

struct DecodeShape {
  int64_t hidden = 5120, intermediate = 576, experts = 384;  // E at least 12
};
// V4.1's slice of 4 ranks, or OCTET_SHAPE=HIDDEN,INTERMEDIATE,EXPERTS.
inline DecodeShape decode_shape() {
  DecodeShape s;
  if (const char* text = std::getenv("OCTET_SHAPE"); text != nullptr) {
    long hidden = 0, intermediate = 0, experts = 0;
    if (std::sscanf(text, "%ld,%ld,%ld", &hidden, &intermediate, &experts) != 3 || experts < 12) {
      std::fprintf(stderr,
                   "OCTET_SHAPE \"%s\", want HIDDEN,INTERMEDIATE,EXPERTS, EXPERTS at least 12\n",
                   text);
      std::_Exit(2);
    }
    s = {hidden, intermediate, experts};
  }
  return s;
}

// One matrix of every expert, rows one after another: two codes a byte along K, a scale for a block.
struct Canonical {
  WeightFormat format;
  uint8_t *codes, *scales;
  int rows, cols;  // of an expert
  __host__ __device__ int64_t code_bytes() const { return int64_t{rows} * cols / 2; }
  __host__ __device__ int64_t scale_bytes() const {
    return int64_t{rows} * cols / scale_block(format);
  }
};
// Gate rows, then up rows; and down.
struct CanonicalWeights {
  Canonical w13, w2;
};

static __global__ void make_codes(uint8_t* bytes, int64_t count, uint64_t seed) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    bytes[i] = static_cast<uint8_t>(mix(seed + static_cast<uint64_t>(i)));
}
// Of NVFP4 2^-4 ... 15/16 in steps of an eighth of their power of two, of MXFP4 2^-10 ... 2^-5.
static __global__ void make_scales(uint8_t* bytes, int64_t count, WeightFormat format,
                                   uint64_t seed) {
  const bool is_nv = format == WeightFormat::kNvfp4;
  const int least = is_nv ? 0x18 : 117, codes = is_nv ? 32 : 6;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    bytes[i] = static_cast<uint8_t>(least + static_cast<int>(mix(seed + static_cast<uint64_t>(i)) %
                                                             static_cast<uint64_t>(codes)));
}

// Records of one matrix by the drawing of layouts/stream_fp4.h, a block each.
struct PackArgs {
  Canonical from;
  layouts::StreamOrder order;
  layouts::StreamMatrix matrix;
  int64_t matrix_offset, expert_bytes;
  uint8_t* to;
  // nvcc makes a trap, without a word, of a function that reads these of the host's.
  std::array<uint8_t, 4> nv_magnitude = layouts::kStreamNvMagnitude,
                         nv_sign = layouts::kStreamNvSign;
};
// layouts::stream_nv_scale_word().
__device__ inline uint32_t nv_scale_word(const PackArgs& a, uint32_t scales) {
  uint32_t word = 0;
  for (size_t c = 0; c < 4; ++c) {
    const uint32_t magnitude = scales >> (8 * c) & 0x7FU, sign = scales >> (8 * c + 7) & 1U;
    word |= __funnelshift_l(magnitude, magnitude, a.nv_magnitude[c]) | sign << a.nv_sign[c];
  }
  return word;
}
static __global__ void pack_records(const __grid_constant__ PackArgs a) {
  const int64_t record = blockIdx.x, pair = record % a.matrix.pairs,
                strip = record / a.matrix.pairs % a.matrix.strips,
                expert = record / a.matrix.pairs / a.matrix.strips;
  const bool is_w2 = a.matrix_offset != 0;
  const auto row_of = [&](int r) {  // of the matrix
    if (is_w2) return strip * 16 + layouts::stream_down_row(r);
    return strip * 8 + r % 8 + (r < 8 ? 0 : a.from.rows / 2);
  };
  const auto is_there = [&](int64_t row, int64_t k) {
    return k < a.from.cols && row < a.from.rows && (is_w2 || strip * 8 < a.from.rows / 2);
  };
  const uint8_t *codes = a.from.codes + expert * a.from.code_bytes(),
                *scales = a.from.scales + expert * a.from.scale_bytes();
  auto* const words = reinterpret_cast<uint32_t*>(a.to + expert * a.expert_bytes + a.matrix_offset +
                                                  a.matrix.record_offset(strip, pair));
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < 128) {
    const int g = thread / 16, t = thread / 4 % 4, block = thread % 4 / 2;
    const int64_t row = row_of(g + thread % 2 * 8);
    uint32_t nibbles = 0;
    for (int i = 0; i < 8; ++i) {
      const int64_t k = pair * 64 + block * 32 + (i < 4 ? 4 * t + i : 16 + 4 * t + i - 4);
      if (!is_there(row, k)) continue;
      const uint32_t code = codes[(row * a.from.cols + k) / 2] >> (k % 2 * 4) & 15U;
      nibbles |= code << (4 * i);
    }
    words[thread] = layouts::stream_code_word(a.order, nibbles);
  } else {
    // MXFP4: {row g, row g + 8} of block 0, then of block 1. NVFP4: of row g or, odd words, g + 8, four blocks.
    const int word = thread - 128;
    const bool is_nv = a.from.format == WeightFormat::kNvfp4;
    uint32_t four = 0;
    for (int c = 0; c < 4; ++c) {
      const int64_t row = row_of(is_nv ? word / 2 + word % 2 * 8 : word + c % 2 * 8),
                    k = pair * 64 + (is_nv ? c * 16 : c / 2 * 32);
      if (!is_there(row, k)) continue;
      const int64_t block = (row * a.from.cols + k) / scale_block(a.from.format);
      four |= uint32_t{scales[block]} << (8 * c);
    }
    words[thread] = is_nv ? nv_scale_word(a, four) : layouts::stream_mx_scale_word(four);
  }
}

class DecodeLayer {
 public:
  explicit DecodeLayer(const Formats& formats, const DecodeShape& shape = decode_shape(),
                       uint64_t seed = 1)
      : formats(formats), shape(shape) {
    const auto h = static_cast<int>(shape.hidden), i = static_cast<int>(shape.intermediate);
    canonical.w13 = made({formats.weights, nullptr, nullptr, 2 * i, h}, codes13_, scales13_, seed);
    canonical.w2 = made({formats.weights, nullptr, nullptr, h, i}, codes2_, scales2_, seed + 1);
    layouts::ExpertWeights e;
    e.gate = e.up = {.format = formats.weights, .rows = i, .cols = h};
    e.down = {.format = formats.weights, .rows = h, .cols = i};
    weights.sizes = layouts::stream_sizes(e);
    packed_ = allocated(shape.experts * weights.sizes.expert_bytes());
    expect_ok(cudaMemset(packed_.as(), 0, size_of(packed_.bytes())));
    weights.order = experts_order(formats.activations);
    pack(canonical.w13, weights.sizes.w13, 0);
    pack(canonical.w2, weights.sizes.w2, weights.sizes.w2_offset());
    weights.data = packed_.as<uint8_t>();
    weights.experts = shape.experts;
    // Of expert n; factors whose product with a sum rounds.
    const auto of_experts = [&](const auto& value) {
      std::vector<float> v;
      for (int64_t n = 0; n < shape.experts; ++n) v.push_back(value(n));
      return std::make_unique<OnDevice<float>>(v);
    };
    limit_ = of_experts([](int64_t n) { return 10.0F / static_cast<float>(1 + n % 3); });
    bias_ = of_experts([&](int64_t n) {
      return static_cast<float>(mix(seed + size_of(n)) % 1024) / 1024 * 0.04F - 0.02F;
    });
    weights.limit = limit_->get();
    if (formats.weights == WeightFormat::kNvfp4) {
      for (size_t m = 0; m < std::size(alpha_); ++m) {
        alpha_[m] = of_experts([&](int64_t n) {
          return 0.025F + 0.02F * static_cast<float>(mix(seed + 7 * size_of(n) + m) % 1000) / 1000;
        });
      }
      weights.gate_alpha = alpha_[0]->get();
      weights.up_alpha = alpha_[1]->get();
      weights.down_alpha = alpha_[2]->get();
    }
    expect_ok(cudaDeviceSynchronize());
    expect_ok(prepare_experts(formats.activations, formats.weights));
  }

  // Whether an expert on the device has the bytes that the library packs.
  void expect_packed(int64_t expert) const {
    std::vector<uint8_t> codes13 = host(canonical.w13.codes, canonical.w13.code_bytes(), expert),
                         scales13 = host(canonical.w13.scales, canonical.w13.scale_bytes(), expert),
                         codes2 = host(canonical.w2.codes, canonical.w2.code_bytes(), expert),
                         scales2 = host(canonical.w2.scales, canonical.w2.scale_bytes(), expert);
    const auto view = [&](const std::vector<uint8_t>& codes, const std::vector<uint8_t>& scales,
                          int64_t first, int64_t rows, int64_t cols) {
      const int64_t scale_stride = cols / scale_block(formats.weights);
      return layouts::WeightView{.format = formats.weights,
                                 .codes = codes.data() + first * cols / 2,
                                 .scales = scales.data() + first * scale_stride,
                                 .code_stride = cols / 2,
                                 .scale_stride = scale_stride,
                                 .rows = rows,
                                 .cols = cols};
    };
    layouts::ExpertWeights e;
    e.gate = view(codes13, scales13, 0, shape.intermediate, shape.hidden);
    e.up = view(codes13, scales13, shape.intermediate, shape.intermediate, shape.hidden);
    e.down = view(codes2, scales2, 0, shape.hidden, shape.intermediate);
    std::vector<uint8_t> want(size_of(weights.sizes.expert_bytes()));
    EXPECT_EQ(layouts::pack_stream_expert(e, weights.order, want.data()),
              layouts::StreamScale::kFast);
    const std::vector<uint8_t> got = host(weights.data, weights.sizes.expert_bytes(), expert);
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], want[i]) << "expert " << expert << ", byte " << i;
  }
  const float* bias() const { return bias_->get(); }

  const Formats formats;
  const DecodeShape shape;
  CanonicalWeights canonical{};
  cuda::StreamWeights weights;

 private:
  static cuda::DeviceMemory allocated(int64_t bytes) {
    auto memory = cuda::DeviceMemory::allocate(bytes);
    if (!memory.ok()) {
      std::fprintf(stderr, "%s\n", memory.status().why.c_str());
      std::_Exit(1);
    }
    return std::move(*memory);
  }
  Canonical made(Canonical m, cuda::DeviceMemory& codes, cuda::DeviceMemory& scales,
                 uint64_t seed) const {
    codes = allocated(shape.experts * m.code_bytes());
    scales = allocated(shape.experts * m.scale_bytes());
    m.codes = codes.as<uint8_t>();
    m.scales = scales.as<uint8_t>();
    make_codes<<<1024, 256>>>(m.codes, codes.bytes(), seed << 40);
    make_scales<<<1024, 256>>>(m.scales, scales.bytes(), m.format,
                               (seed << 40) + (uint64_t{1} << 38));
    return m;
  }
  void pack(const Canonical& from, const layouts::StreamMatrix& matrix, int64_t offset) const {
    const PackArgs a{.from = from,
                     .order = weights.order,
                     .matrix = matrix,
                     .matrix_offset = offset,
                     .expert_bytes = weights.sizes.expert_bytes(),
                     .to = packed_.as<uint8_t>()};
    const auto threads = static_cast<unsigned>(matrix.record_bytes() / 4);  // a word each
    pack_records<<<static_cast<unsigned>(shape.experts * matrix.strips * matrix.pairs), threads>>>(
        a);
    expect_ok(cudaGetLastError());
  }
  static std::vector<uint8_t> host(const uint8_t* all, int64_t bytes, int64_t expert) {
    std::vector<uint8_t> copy(size_of(bytes));
    expect_ok(cudaMemcpy(copy.data(), all + expert * bytes, copy.size(), cudaMemcpyDeviceToHost));
    return copy;
  }

  cuda::DeviceMemory codes13_, scales13_, codes2_, scales2_, packed_;
  std::unique_ptr<OnDevice<float>> limit_, bias_, alpha_[3];
};

}  // namespace octet::sm90
