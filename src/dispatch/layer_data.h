// SPDX-License-Identifier: Apache-2.0
// What a layer keeps: its weights where its kernel reads them, and its gate.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "checkpoint/model.h"
#include "core/tensor.h"
#include "cpu/experts.h"
#include "cpu/panel_dot.h"
#include "cuda/device_layer.h"
#include "dispatch/layer.h"
#include "dispatch/panel_memory.h"
#include "layouts/expert_weights.h"

namespace octet::dispatch {

// A CPU kernel reads `source`, the reference `experts`, a CUDA kernel `device`; the others are empty.
struct LayerData {
  LayerSpec spec;
  Selection selection;
  bool is_bound = false;                        // to prepared tensors
  std::vector<layouts::ExpertWeights> experts;  // views
  std::unique_ptr<const cpu::PanelSource> source;
  std::unique_ptr<const cuda::DeviceLayer> device;
  checkpoint::Gate gate;  // views of `owned`

  PanelMemory panels;
  std::vector<Bf16> biases;  // of all experts, where `source`'s parameters point
  std::vector<Tensor> owned;
  std::shared_ptr<const void> keep;  // what views outside point into
  int64_t resident_bytes = 0;
  int64_t expert_bytes = 0;  // layouts::expert_weight_bytes

  bool is_reference() const { return selection.kernel->isa == Isa::kReference; }
  // Of a CPU kernel.
  const cpu::PanelDot& dot() const {
    return *cpu::isas()[static_cast<size_t>(selection.kernel->isa)].dot;
  }
};

// Whether the panels of a packed file are those of the spec.
Status check_packed(const checkpoint::PackedPanels& panels, const LayerSpec& spec);

// For a layer without panels of its own: whether nothing is asked of them.
Status check_no_memory(const MemoryOptions& memory, std::string_view what);

// Fills `source` with panels packed from `tensors` or copied from its packed file by all threads, or lying in that file.
Status load_panels(const checkpoint::LayerTensors& tensors, const MemoryOptions& memory,
                   Executor& executor, const Progress& progress, LayerData& layer);

// The parts of Layer::run.
int64_t layer_workspace_bytes(const LayerData& layer, int64_t tokens, int64_t top_k,
                              int num_threads);
Status enqueue_layer(const LayerData& layer, const LayerCall& call, void* workspace,
                     int64_t workspace_bytes, void* stream);
Status run_layer(const LayerData& layer, const LayerCall& call, std::byte* workspace,
                 int64_t workspace_bytes, Executor& executor);

}  // namespace octet::dispatch
