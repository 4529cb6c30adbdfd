// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds: its MoE layers and which kernels take them. `inspect` prints it, and `validate` before its findings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/model.h"
#include "command.h"
#include "dispatch/layer.h"
#include "dispatch/select.h"

namespace octet::tools {

struct LayerRow {
  int64_t index;
  std::string name;  // "layers.3", "mtp.0"
  LayerSpec spec;
  bool has_gate;
  int64_t bytes;
  dispatch::Selection selection;
};

struct ModelReport {
  std::string path, format, model_type;
  std::vector<LayerRow> layers;
  int64_t bytes() const;
};

enum class BrokenLayers : uint8_t { kFail, kLeftOut };
Result<ModelReport> read_model(const std::string& path, const checkpoint::LoadOptions& load,
                               const dispatch::LayerOptions& options, BrokenLayers broken);
void print(const ModelReport& report);
Json to_json(const ModelReport& report);

}  // namespace octet::tools
