// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/bind.h"

#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

namespace octet::checkpoint {

using layouts::ExpertWeights;
using layouts::WeightView;

layouts::WeightView whole_matrix(WeightFormat format, int64_t rows, int64_t cols) {
  return {.format = format,
          .code_stride = cols / 2,
          .scale_stride = cols / scale_block(format),
          .rows = rows,
          .cols = cols};
}

Status check_table(std::string_view name, const TensorView& table, int64_t experts) {
  if (table.data == nullptr) return {};
  const auto* ids = table.as<int32_t>();
  for (int64_t i = 0; i < num_elems(table.dims); ++i) {
    if (ids[i] >= 0 && ids[i] < experts) continue;
    return invalid_argument(fmt::format("tensor {}: id {} at row {}, column {}, wanted 0 ... {}",
                                        name, ids[i], i / table.dim(1), i % table.dim(1),
                                        experts - 1));
  }
  return {};
}

namespace {

struct Keep {
  std::shared_ptr<const void> files;
  std::vector<Tensor> copies;
};

class Binder {
 public:
  Binder(const LayerPlan& plan, const TensorStore& store) : plan_(plan), store_(store) {
    keep_->files = store.keep();
    const LayerSpec& s = plan.spec;
    ExpertWeights e;
    e.gate = e.up = whole_matrix(s.weights, s.intermediate, s.hidden);
    e.down = whole_matrix(s.weights, s.hidden, s.intermediate);
    e.limit = s.swiglu.limit;
    layer_.spec = s;
    layer_.experts.assign(static_cast<size_t>(s.experts), e);
  }

  Result<LayerTensors> run() {
    for (const TensorPlan& wanted : plan_.tensors) {
      if (Status s = place(wanted); !s.ok()) {
        return Status{s.code, fmt::format("{}: {}", store_.path().string(), s.why)};
      }
    }
    for (const SafetensorsFile& file : store_.files()) layer_.files.push_back(file.file()->bytes());
    layer_.keep = keep_;
    return std::move(layer_);
  }

 private:
  Status place(const TensorPlan& wanted) {
    const TensorView* found = store_.find(wanted.name);
    if (const OtherTensor* other = store_.find_other(wanted.name)) {
      return wrong_dtype(wanted, other->dtype);
    }
    if (found == nullptr) {
      return invalid_argument(fmt::format("tensor {} is missing", wanted.name));
    }
    OCTET_RETURN_IF_ERROR(check_dtype(wanted, *found));
    OCTET_RETURN_IF_ERROR(check_shape(wanted, *found));
    switch (wanted.part) {
      case Part::kGateWeight:
        return set(layer_.gate.weight, *found);
      case Part::kLogitBias:
        return set(layer_.gate.logit_bias, *found);
      case Part::kBias:
        return set(layer_.gate.bias, *found);
      case Part::kBiasVl:
        return set(layer_.gate.bias_vl, *found);
      case Part::kTable:
        return set_table(wanted, *found);
      case Part::kCodes:
        return set_rows(wanted, *found, &WeightView::codes, &WeightView::code_stride);
      case Part::kScales:
        return set_rows(wanted, *found, &WeightView::scales, &WeightView::scale_stride);
      case Part::kFactor:
        return set_factor(wanted, *found);
      case Part::kRowBias:
        return set_bias(wanted, *found);
    }
    return internal_error("a part without a place");
  }

  // The same numbers where as<T>() may read them.
  TensorView aligned(const TensorView& view) {
    if (reinterpret_cast<uintptr_t>(view.data) % dtype_bytes(view.dtype) == 0) return view;
    keep_->copies.push_back(copy_of(view));
    return keep_->copies.back().view();
  }

  Status set(TensorView& field, const TensorView& found) {
    field = aligned(found);
    return {};
  }

  Status set_table(const TensorPlan& wanted, const TensorView& found) {
    OCTET_RETURN_IF_ERROR(set(layer_.gate.table, found));
    return check_table(wanted.name, layer_.gate.table, plan_.spec.experts);
  }

  // fn(expert, index of the expert's part in the tensor) for each expert that the tensor is of.
  template <class Fn>
  void for_experts(const TensorPlan& wanted, const Fn& fn) {
    if (wanted.expert != kAllExperts)
      return fn(layer_.experts[static_cast<size_t>(wanted.expert)], 0);
    for (size_t e = 0; e < layer_.experts.size(); ++e)
      fn(layer_.experts[e], static_cast<int64_t>(e));
  }

  // Codes or scales: rows of one matrix, or of gate and up in turn.
  Status set_rows(const TensorPlan& wanted, const TensorView& found,
                  const uint8_t* WeightView::*start, int64_t WeightView::*stride) {
    const auto* base = found.as<uint8_t>();
    for_experts(wanted, [&](ExpertWeights& expert, int64_t index) {
      if (wanted.matrix == Matrix::kGateUp) {
        const int64_t row = expert.gate.*stride;  // still that of a matrix by itself
        expert.gate.*start = base + index * 2 * expert.gate.rows * row;
        expert.up.*start = expert.gate.*start + row;
        expert.gate.*stride = expert.up.*stride = 2 * row;
        return;
      }
      WeightView& m = matrix(expert, wanted.matrix);
      m.*start = base + index * m.rows * (m.*stride);
    });
    return {};
  }

  Status set_factor(const TensorPlan& wanted, const TensorView& found) {
    float factor = 0;
    std::memcpy(&factor, found.data, sizeof factor);
    if (!std::isfinite(factor) || factor <= 0) {
      return invalid_argument(
          fmt::format("tensor {}: {}, wanted a finite positive factor", wanted.name, factor));
    }
    for_experts(wanted, [&](ExpertWeights& expert, int64_t) {
      (wanted.matrix == Matrix::kGate ? expert.gate_alpha
       : wanted.matrix == Matrix::kUp ? expert.up_alpha
                                      : expert.down_alpha) = factor;
    });
    return {};
  }

  Status set_bias(const TensorPlan& wanted, const TensorView& found) {
    const auto* base = aligned(found).as<Bf16>();
    const int64_t width = found.dims.back();
    for_experts(wanted, [&](ExpertWeights& expert, int64_t index) {
      const Bf16* row = base + index * width;
      if (wanted.matrix == Matrix::kGateUp) {
        expert.gate_bias = {row, 2};
        expert.up_bias = {row + 1, 2};
      } else {
        expert.down_bias = {row, 1};
      }
    });
    return {};
  }

  static WeightView& matrix(ExpertWeights& e, Matrix m) {
    return m == Matrix::kGate ? e.gate : m == Matrix::kUp ? e.up : e.down;
  }

  const LayerPlan& plan_;
  const TensorStore& store_;
  LayerTensors layer_;
  std::shared_ptr<Keep> keep_ = std::make_shared<Keep>();
};

}  // namespace

Result<LayerTensors> bind(const LayerPlan& plan, const TensorStore& store) {
  return Binder(plan, store).run();
}

}  // namespace octet::checkpoint
