// SPDX-License-Identifier: Apache-2.0
// A layer's tensors put where LayerTensors wants them: pointers into the mapped files, no weight copied.
#pragma once

#include <string_view>

#include "checkpoint/format.h"
#include "checkpoint/model.h"
#include "checkpoint/tensor_store.h"
#include "octet/status.hpp"

namespace octet::checkpoint {

// The whole layer. Refuses missing tensors, wrong dtypes and shapes, fp32 factors that are not finite and positive, table
// ids outside the experts. Router tensors and biases that are not aligned for their dtype are copied and kept.
Result<LayerTensors> bind(const LayerPlan& plan, const TensorStore& store);

// Whether every id of a hash layer's table [vocab, k] is an expert's; no table: ok.
Status check_table(std::string_view name, const TensorView& table, int64_t experts);

// A matrix [rows, cols] whose codes and scales stand row after row.
layouts::WeightView whole_matrix(WeightFormat format, int64_t rows, int64_t cols);

}  // namespace octet::checkpoint
