// SPDX-License-Identifier: Apache-2.0
// A layer's experts in device memory, and its calls. Needs no CUDA header, so that whoever chooses a backend compiles without one; in a
// library without CUDA device_layer_absent.cc stands in.
//
//   load      the checkpoint's experts ──► packed in pieces by the executor's threads (layouts/stream_fp4.h) ──► device memory
//   enqueue   ids and weights, or logits ──► (topk) ─► (mxfp8_quantize) ─► route ─► GEMM1 ─► GEMM2 ─► finalize    on a stream,
//             in the launches of the layer's kernels (device_experts.h)
//   run       the same from and to host memory
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "checkpoint/model.h"
#include "core/executor.h"
#include "core/op_args.h"
#include "core/progress.h"
#include "core/shape.h"
#include "octet/status.hpp"

namespace octet::cuda {

class DeviceExperts;

// Why the current device can't run kernels that need compute capability `major`.`minor`, `only` that or also a later one: "no CUDA
// device: ...", an older device, an error that an earlier kernel of the process left behind. Empty: it can.
std::string device_refusal(int major, int minor, bool only = false);
// Why it can't run sm80_experts(): compute capability 8.0, and shared memory of a block (8.6, 8.9 and 12.0 have too little).
std::string sm80_refusal();
// The kernels of expert_gemm_bf16.h; null in a library without CUDA.
const DeviceExperts* sm80_experts();

// One call; pointers are all of the same memory, the device's (tensors 16-byte aligned) or the host's. Null: not given, not wanted.
struct DeviceCall {
  int64_t tokens = 0, top_k = 0;
  const Bf16* x = nullptr;  // [T, H]
  // Ids (of the whole layer, any values) and weights, or logits for a dsv4 router.
  TokenIds ids = {};               // [T, k]
  const float* weights = nullptr;  // [T, k]
  const float* logits = nullptr;   // [T, E]
  TokenIds input_ids = {};         // [T], with bias_vl
  const Bf16* shared = nullptr;    // [T, H]
  Bf16* y = nullptr;               // [T, H]
  int32_t* topk_ids = nullptr;     // [T, k], with logits
  float* topk_weights = nullptr;   // [T, k], with logits
  Bf16* rows = nullptr;            // [T k, H], row = slot; of slots that `permuted` names
  int32_t* permuted = nullptr;     // [T, k]
  uint8_t *x_quant = nullptr, *x_scale = nullptr;  // [T, H] e4m3, [T, H/32] ue8m0             mxfp8
  uint8_t *h_values = nullptr,
          *h_scales = nullptr;  // [T k, I] e4m3, [T k, ceil(I/32)] ue8m0   mxfp8
  Bf16* h = nullptr;            // [T k, I]                                 bf16
};

class DeviceLayer {
 public:
  virtual ~DeviceLayer() = default;

  // The pages of `tensors.files` are given back as it goes; no copy stays in host memory. On the current device, which
  // enqueue() wants current too, and which can run `experts`. Errors: kUnsupported for values that `experts` don't take,
  // kOutOfMemory with bytes wanted and free, kDeviceError.
  static Result<std::unique_ptr<const DeviceLayer>> load(const checkpoint::LayerTensors& tensors,
                                                         const DeviceExperts& experts,
                                                         Executor& executor,
                                                         const Progress& progress);

  virtual int64_t device_bytes() const = 0;
  // Device memory that enqueue() needs.
  virtual int64_t workspace_bytes(int64_t tokens, int64_t top_k) const = 0;
  // What enqueue() and run() refuse, whatever the pointers point to and how they are aligned. Writes nothing.
  virtual Status check(const DeviceCall& call) const = 0;
  // On a cudaStream_t, the layer's device being current; pointers and `workspace` (256-byte aligned; its content as octet_layer_enqueue says) are device memory.
  // Allocates nothing, synchronises nothing, safe inside graph capture. Errors, before anything is enqueued: kInvalidArgument,
  // kUnsupported (a router other than dsv4 with logits; 2^24 ids); kDeviceError.
  virtual Status enqueue(const DeviceCall& call, void* workspace, int64_t workspace_bytes,
                         void* stream) const = 0;
  // Pointers are host memory, whatever device is current: copies in, runs, copies out, waits. Takes device memory for the call.
  virtual Status run(const DeviceCall& call) const = 0;
};

}  // namespace octet::cuda
