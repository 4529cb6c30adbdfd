// SPDX-License-Identifier: Apache-2.0
// Calls of Hopper's layer from logits and x to y, and requests whose experts are known beforehand.
//
//   wanted ids, seed ─► make_request ─► x, logits: the wanted experts of a row have its largest logits, in their order
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <cuda_bf16.h>

#include "decode_layer.cuh"
#include "routing/record.h"
#include "sm90/experts_mxfp8.h"
#include "sm90/launch_word.cuh"

namespace octet::sm90 {

constexpr int kTopK = 6, kMostRows = 8;
constexpr float kRouterScale = 1.5F;
constexpr uint8_t kPoison = 0xA5;

// A number from the environment, so that a long run is one setting away.
inline int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

// Waits for `stream`; what has not ended by then never will, and no test can go on beside it.
inline void finish(cudaStream_t stream, const char* what, int seconds = 30) {
  const auto begin = std::chrono::steady_clock::now();
  cudaError_t state = cudaErrorNotReady;
  while ((state = cudaStreamQuery(stream)) == cudaErrorNotReady) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(seconds)) {
      std::fprintf(stderr, "%s: still running after %d s, want an end\n", what, seconds);
      std::_Exit(1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  expect_ok(state);
}

class Stream {
 public:
  Stream() { expect_ok(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// What a call leaves.
struct CallResult {
  std::vector<int32_t> ids;
  std::vector<float> weights;
  std::vector<Bf16> rows, y;
};
// The first byte that differs, as a sentence; "": none.
inline std::string difference(const CallResult& got, const CallResult& want) {
  std::string first;
  const auto compare = [&](const char* what, const auto& a, const auto& b) {
    const auto *x = reinterpret_cast<const uint8_t*>(a.data()),
               *y = reinterpret_cast<const uint8_t*>(b.data());
    for (size_t i = 0; first.empty() && i < b.size() * sizeof b[0]; ++i)
      if (x[i] != y[i])
        first = std::string(what) + ", byte " + std::to_string(i) + ": got " +
                std::to_string(x[i]) + ", want " + std::to_string(y[i]);
  };
  compare("ids", got.ids, want.ids);
  compare("weights", got.weights, want.weights);
  compare("rows", got.rows, want.rows);
  compare("y", got.y, want.y);
  return first;
}

// Inputs, outputs and workspace of one call of T rows; what it writes begins poisoned.
class DecodeCall {
 public:
  DecodeCall(const DecodeLayer& layer, int tokens)
      : layer(layer),
        tokens(tokens),
        slots(tokens * kTopK),
        x(size_of(tokens * layer.shape.hidden)),
        y(size_of(tokens * layer.shape.hidden)),
        logits(size_of(tokens * layer.shape.experts)),
        weights(size_of(slots)),
        ids(size_of(slots)),
        permuted(size_of(slots)),
        slot_row(size_of(slots)),
        record(size_of(routing::record_words(tiles()))),
        workspace(size_of(workspace_bytes())) {
    poison(nullptr);
    // A launch adds to its word whatever that holds, which tools that look for memory nobody wrote would report.
    expect_ok(cudaMemset(workspace.get() + ExpertsWorkspace::kWordAt, 0, sizeof(LaunchWord)));
    expect_ok(cudaDeviceSynchronize());
  }

  int64_t tiles() const { return routing::max_ctas(tokens, kTopK, layer.shape.experts); }
  int64_t workspace_bytes() const { return experts_workspace(gemm()).bytes; }
  ExpertsWorkspace at() const { return experts_workspace(gemm()); }

  // `in`: somebody else's workspace, of at least as many rows.
  ExpertsArgs experts(const DecodeCall* in = nullptr) const {
    const DecodeCall& memory = in == nullptr ? *this : *in;
    ExpertsArgs all{.gemm = gemm(), .topk_weights = weights.get(), .y = y.get()};
    all.gemm.record = record.get();
    all.gemm.permuted = permuted.get();
    all.gemm.workspace = memory.workspace.get();
    all.gemm.workspace_bytes = memory.workspace_bytes();
    all.gemm.slot_row = slot_row.get();
    TopkArgs& topk = all.front.topk;
    topk.logits = logits.get();
    topk.tokens = tokens;
    topk.experts = layer.shape.experts;
    topk.router.top_k = kTopK;
    topk.router.scale = kRouterScale;
    topk.bias = layer.bias();
    topk.topk_ids = ids.get();
    topk.topk_weights = weights.get();
    all.front.x = x.get();
    all.front.permuted = permuted.get();
    all.front.record = record.get();
    expect_ok(check_experts(all));
    return all;
  }
  void launch(cudaStream_t stream, int ctas = experts_ctas()) const {
    expect_ok(launch_experts(experts(), ctas, stream));
  }
  // Outputs and workspace, but with OCTET_POISON=0, for tools that find what is read before it is written.
  void poison(cudaStream_t stream) const {
    if (setting("OCTET_POISON", 1) == 0) return;
    const auto fill = [&](const auto& array, int64_t count) {
      expect_ok(
          cudaMemsetAsync(array.get(), kPoison, size_of(count) * sizeof *array.get(), stream));
    };
    fill(workspace, workspace_bytes());
    fill(y, tokens * layer.shape.hidden);
    fill(ids, slots);
    fill(weights, slots);
    fill(permuted, slots);
    fill(slot_row, slots);
    fill(record, routing::record_words(tiles()));
  }
  CallResult result() const {
    return {ids.back(), weights.back(), rows_of_last_launch(), y.back()};
  }

  const DecodeLayer& layer;
  const int tokens, slots;
  OnDevice<Bf16> x, y;
  OnDevice<float> logits, weights;
  OnDevice<int32_t> ids, permuted, slot_row, record;
  OnDevice<uint8_t> workspace;

 private:
  std::vector<Bf16> rows_of_last_launch() const {
    // These pieces alone: the rest of a workspace may never have been written.
    const auto read = [&](void* to, int64_t at, size_t bytes) {
      expect_ok(cudaMemcpy(to, workspace.get() + at, bytes, cudaMemcpyDeviceToHost));
    };
    LaunchWord word{};
    read(&word, ExpertsWorkspace::kWordAt, sizeof word);
    std::vector<Bf16> rows(size_of(slots * layer.shape.hidden));
    read(rows.data(),
         ExpertsWorkspace::kHalvesAt + word.last_half() * at().half_bytes + at().rows_at,
         rows.size() * sizeof rows[0]);
    return rows;
  }
  cuda::ExpertGemmArgs gemm() const {
    cuda::ExpertGemmArgs a;
    a.weights = layer.weights;
    a.tokens = tokens;
    a.top_k = kTopK;
    a.hidden = layer.shape.hidden;
    a.intermediate = layer.shape.intermediate;
    a.activations = layer.formats.activations;
    if (a.activations == Activations::kBf16) a.x = x.get();
    return a;
  }
};

// Between wanted experts the score differs by more than two biases, and the others are far below.
__device__ inline float wanted_logit(int place) { return 7.0F - 0.5F * static_cast<float>(place); }
__device__ inline float other_logit(uint64_t random) {
  return -6.0F + static_cast<float>(random % 1024) / 1024.0F;
}
// About normal; blocks of 32 differ by up to 2^3.
__device__ inline __nv_bfloat16 made_x(uint64_t seed, int64_t at) {
  const uint64_t r = mix(seed + static_cast<uint64_t>(at));
  float sum = -2.0F;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>(r >> (16 * i) & 0xFFFF) * 0x1p-16F;
  return __float2bfloat16_rn(
      ldexpf(sum * 1.7F, static_cast<int>(mix(seed ^ static_cast<uint64_t>(at / 32)) % 4) - 2));
}

struct RequestArgs {
  const int32_t* wanted;  // [T, k], distinct in a row
  uint64_t seed;
  __nv_bfloat16* x;
  float* logits;
  int tokens, hidden, experts;
};
// A block a row and piece of it.
static __global__ void make_request(const __grid_constant__ RequestArgs a) {
  const auto row = static_cast<int>(blockIdx.x);
  const int first = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x),
            step = static_cast<int>(gridDim.y * blockDim.x);
  for (int e = first; e < a.experts; e += step) {
    float logit = other_logit(mix(a.seed + static_cast<uint64_t>(row * a.experts + e)));
    for (int j = 0; j < kTopK; ++j)
      if (a.wanted[row * kTopK + j] == e) logit = wanted_logit(j);
    a.logits[row * a.experts + e] = logit;
  }
  for (int c = first; c < a.hidden; c += step)
    a.x[int64_t{row} * a.hidden + c] = made_x(a.seed, int64_t{row} * a.hidden + c);
}
inline void request(const DecodeCall& call, const int32_t* wanted, uint64_t seed,
                    cudaStream_t stream) {
  const RequestArgs a{wanted,
                      mix(seed),
                      reinterpret_cast<__nv_bfloat16*>(call.x.get()),
                      call.logits.get(),
                      call.tokens,
                      static_cast<int>(call.layer.shape.hidden),
                      static_cast<int>(call.layer.shape.experts)};
  make_request<<<dim3(static_cast<unsigned>(call.tokens), 4), 256, 0, stream>>>(a);
  expect_ok(cudaGetLastError());
}

}  // namespace octet::sm90
