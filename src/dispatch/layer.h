// SPDX-License-Identifier: Apache-2.0
// The layer object: weights bound or loaded once, then calls from any thread, each with a workspace of its own.
//
//   load(checkpoint tensors)  copies them into panels (1.0 x their bytes; a packed file is mapped as it is, or copied)
//   bind(prepared tensors)    keeps the caller's pointers; values may change between calls, addresses may not
//   run(args, executor)       router ──► experts ──► finalize, or the unfinalized rows
//   enqueue(args, stream)     the same on a CUDA device, for layers that lie there
//
// Immutable after load: calls with different workspaces may run concurrently. A call allocates nothing and runs on the executor
// it is given; but for the reference, which takes memory as it likes and runs on the calling thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "checkpoint/model.h"
#include "core/executor.h"
#include "core/op_args.h"
#include "core/progress.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "cpu/experts.h"
#include "dispatch/panel_memory.h"
#include "dispatch/select.h"
#include "layouts/prepared.h"
#include "octet/status.hpp"

namespace octet::dispatch {

struct LayerOptions {
  Backend backend = Backend::kAuto;
  std::string kernel = {};  // forces one of the table; empty: the best
  bool rows = false;  // calls will want rows or intermediates, which the reference does not have
  MemoryOptions memory =
      {};  // of panels of the layer's own; another than the default is refused without such
};

// Whether a CUDA kernel is asked for, by its name or by the backend.
bool asks_for_cuda(const LayerOptions& options);
// What load() asks the table of kernels.
Problem problem_of(const checkpoint::LayerTensors& tensors, const LayerOptions& options);

struct PreparedBinding {
  layouts::PreparedTensors tensors;
  int64_t intermediate = 0;
  int64_t top_k = 0;
};

// One call. Give ids and weights, or logits, or neither (then the checkpoint's gate makes the logits).
struct LayerCall {
  int64_t tokens = 0;
  const Bf16* x = nullptr;               // [T, H]
  TokenIds given_ids = {};               // [T, k] or null, global ids, any values
  const float* given_weights = nullptr;  // [T, k], with given_ids
  int64_t given_top_k = 0;               // k of given_ids; 0: the layer's
  const float* logits = nullptr;         // [T, E] or null: final, no gate bias is added
  TokenIds input_ids = {};               // [T] or null; hash layers and image tokens
  const Bf16* shared = nullptr;          // [T, H] or null: added in finalize
  // Outputs. y null: the unfinalized output only.
  Bf16* y = nullptr;              // [T, H]
  int32_t* topk_ids = nullptr;    // [T, k]
  float* topk_weights = nullptr;  // [T, k]
  Bf16* rows = nullptr;           // [T k, H] or null (then they stay in the workspace)
  int32_t* permuted = nullptr;    // [T, k] or null; with rows
  float* logits_out = nullptr;    // [T, E] or null
  cpu::ExpertsTrace trace = {};
};

class Layer {
 public:
  // `tensors.keep` is held only by a mapped packed layer and by the reference; others are copied, and the pages of
  // `tensors.files` are given back as it goes. The executor's threads pack, each from a piece of its own: by first touch the
  // panels lie spread over the nodes of those threads. `progress` is called by this thread, in bytes.
  static Result<Layer> load(const checkpoint::LayerTensors& tensors, const LayerOptions& options,
                            Executor& executor, const Progress& progress = {});
  static Result<Layer> bind(const PreparedBinding& binding, const LayerOptions& options);

  const LayerSpec& spec() const;
  const Selection& selection() const;
  int64_t weight_bytes() const;    // codes and scales of the local experts
  int64_t resident_bytes() const;  // memory of its own
  // Codes and scales that a call with these ids must read.
  int64_t bytes_read(const int32_t* topk_ids, int64_t num_slots) const;
  // Of one call; `top_k` is the layer's unless ids are given with another.
  int64_t workspace_bytes(int64_t tokens, int64_t top_k, int num_threads) const;
  // Whether a bound layer's kernel contract takes x: 1-8 rows, BF16, exactly [T, H], 16-byte aligned (semantics.md section 6),
  // and any rows for a loaded one; the reason names value found and wanted.
  Status accepts(const TensorView& x) const;
  // `workspace` has workspace_bytes(...) bytes, 64-byte aligned. Nothing is written when the call is refused.
  Status run(const LayerCall& call, std::byte* workspace, int64_t workspace_bytes,
             Executor& executor) const;
  // Of a layer on a CUDA device, kUnsupported else: bytes of device memory for a call, and the call with pointers of device memory on
  // a cudaStream_t (cuda/device_layer.h).
  Result<int64_t> device_workspace_bytes(int64_t tokens, int64_t top_k) const;
  Status enqueue(const LayerCall& call, void* workspace, int64_t workspace_bytes,
                 void* stream) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace octet::dispatch
