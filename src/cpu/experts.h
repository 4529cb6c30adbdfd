// SPDX-License-Identifier: Apache-2.0
// The routed experts of a layer on the CPU, from x and ids to unweighted rows.
//
//   x [T, H] bf16 ──► (mxfp8: quantise) ──► GEMM1 ──► SwiGLU ──► (quantise | bf16) h ──► GEMM2 ──► rows [T k, H] bf16
//   ids [T, k] ─────► sort by expert ────────┴────────────────────────────────────────────┴─► permuted [T, k]
//
// Any T: expert-major, so that each expert's panels are read from memory once a call.
#pragma once

#include <cstdint>
#include <vector>

#include "core/executor.h"
#include "core/shape.h"
#include "cpu/panel_dot.h"
#include "layouts/expert_weights.h"
#include "layouts/panel.h"

namespace octet::cpu {

// What belongs to an expert beside its codes and scales.
struct ExpertParams {
  float gate_alpha = 1.0F, up_alpha = 1.0F, down_alpha = 1.0F;
  float limit = std::numeric_limits<float>::max();
  layouts::BiasView gate_bias, up_bias, down_bias;
};

// Where panels come from: memory that holds them already (a loaded layer, a packed file), or made as they are needed from
// weights in another order (prepared tensors, grouped w1). Every source's panels have the sizes of `sizes()`.
class PanelSource {
 public:
  virtual ~PanelSource() = default;
  virtual const layouts::PanelSizes& sizes() const = 0;
  virtual ExpertParams params(int64_t local_expert) const = 0;
  // Bytes of scratch a worker needs to make one panel; 0 where panels lie in memory.
  virtual int64_t scratch_bytes() const = 0;
  // The panel, in memory or made in `scratch` (64-byte aligned).
  virtual const uint8_t* gate_up_panel(int64_t local_expert, int64_t panel,
                                       uint8_t* scratch) const = 0;
  virtual const uint8_t* down_panel(int64_t local_expert, int64_t panel,
                                    uint8_t* scratch) const = 0;
};

// Panels of all local experts one after another: layouts::pack_expert's bytes, `expert_stride` apart.
class PanelsInMemory final : public PanelSource {
 public:
  PanelsInMemory(const uint8_t* base, int64_t expert_stride, const layouts::PanelSizes& sizes,
                 std::vector<ExpertParams> params)
      : base_(base), expert_stride_(expert_stride), sizes_(sizes), params_(std::move(params)) {}
  const layouts::PanelSizes& sizes() const override { return sizes_; }
  ExpertParams params(int64_t e) const override { return params_[static_cast<size_t>(e)]; }
  int64_t scratch_bytes() const override { return 0; }
  const uint8_t* gate_up_panel(int64_t e, int64_t p, uint8_t*) const override {
    return base_ + e * expert_stride_ + p * sizes_.gate_up_panel_bytes();
  }
  const uint8_t* down_panel(int64_t e, int64_t p, uint8_t*) const override {
    return base_ + e * expert_stride_ + sizes_.gate_up_bytes() + p * sizes_.down_panel_bytes();
  }

 private:
  const uint8_t* base_;
  int64_t expert_stride_;
  layouts::PanelSizes sizes_;
  std::vector<ExpertParams> params_;
};

// Prepared tensors (layouts/prepared.h), bound as they are: panels are made in scratch at each use, so values may be
// changed in place between calls.
class PreparedPanels final : public PanelSource {
 public:
  struct Tensors {
    const uint8_t *w13, *w13_scale, *w2, *w2_scale;
    const float* clamp;  // [E]
    int64_t experts, hidden, padded, intermediate;
  };
  explicit PreparedPanels(const Tensors& tensors);
  const layouts::PanelSizes& sizes() const override { return sizes_; }
  ExpertParams params(int64_t local_expert) const override;
  int64_t scratch_bytes() const override;
  const uint8_t* gate_up_panel(int64_t local_expert, int64_t panel,
                               uint8_t* scratch) const override;
  const uint8_t* down_panel(int64_t local_expert, int64_t panel, uint8_t* scratch) const override;

 private:
  Tensors t_;
  layouts::PanelSizes sizes_;
};

// Intermediates that `run --trace` wants, all in the layer's own row order (`permuted`); null: not wanted.
struct ExpertsTrace {
  uint8_t* x_quant = nullptr;   // [T, H] e4m3              mxfp8 only
  uint8_t* x_scale = nullptr;   // [T, H/32] ue8m0
  uint8_t* h_values = nullptr;  // [T k, I] e4m3
  uint8_t* h_scales = nullptr;  // [T k, ceil(I/32)] ue8m0
  Bf16* h = nullptr;            // [T k, I]                 bf16 only
};

struct ExpertsArgs {
  const LayerSpec* spec;
  const PanelSource* weights;
  int64_t tokens, top_k;
  const Bf16* x;  // [T, H]
  const int32_t*
      topk_ids;  // [T, k], of the whole layer; outside this rank's experts: -1 in `permuted`
  std::byte* workspace;  // experts_workspace_bytes(...) bytes, 64-byte aligned, any content
  int32_t* permuted;     // [T, k] out: row of `rows`, or -1
  Bf16* rows;            // [T k, H] out, unweighted; only rows named in `permuted` are written
  ExpertsTrace trace;
};

int64_t experts_workspace_bytes(const LayerSpec& spec, const PanelSource& weights, int64_t tokens,
                                int64_t top_k, int num_threads);

// `workspace` was sized for at least executor.num_threads().
void run_experts(const ExpertsArgs& args, PanelDot dot, Executor& executor);

}  // namespace octet::cpu
