// SPDX-License-Identifier: Apache-2.0
#include "bench_run.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "bench_case.h"
#include "compare.h"
#include "core/tensor.h"
#include "memory.h"
#include "report.h"

namespace octet::tools {
namespace {

constexpr int64_t kCachesApart = 3;   // how many last caches are read between two uses of an expert
constexpr int64_t kWarmUp = 2;        // untimed turns
constexpr int64_t kMostCompared = 8;  // rows that the reference computes

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::max<size_t>(rank, 1) - 1];
}

}  // namespace

int64_t ceiling_buffer_bytes() { return kCachesApart * last_cache_bytes(); }

// The tensors of a call, reused by every turn.
struct Bench::Call {
  Pattern pattern;
  Tensor x, ids, weights, y, out_ids, out_weights, workspace;
  int64_t bytes = 0;

  Call(const dispatch::Layer& layer, Pattern made, int threads, Random& random)
      : pattern(std::move(made)),
        x(gaussian_rows(pattern.tokens, layer.spec().hidden, random)),
        ids(Dtype::kI32, {pattern.tokens, pattern.top_k}),
        weights(Dtype::kF32, ids.dims()),
        y(Dtype::kBf16, x.dims()),
        out_ids(Dtype::kI32, ids.dims()),
        out_weights(Dtype::kF32, ids.dims()),
        workspace(Dtype::kU8, {layer.workspace_bytes(pattern.tokens, pattern.top_k, threads)}) {
    for (int64_t i = 0; i < num_elems(ids.dims()); ++i) {
      weights.as<float>()[i] =
          static_cast<float>(random.uniform() / static_cast<double>(pattern.top_k));
    }
  }

  // The pattern's experts are the next ones of `order`.
  void take_experts(const LayerSpec& spec, const std::vector<int64_t>& order, int64_t next) {
    for (size_t i = 0; i < pattern.labels.size(); ++i) {
      const size_t at = static_cast<size_t>(next + pattern.labels[i]) % order.size();
      ids.as<int32_t>()[i] = static_cast<int32_t>(spec.first_expert + order[at]);
    }
  }

  Status run(const dispatch::Layer& layer, Executor& executor) {
    dispatch::LayerCall call;
    call.tokens = pattern.tokens;
    call.x = x.as<Bf16>();
    call.given_ids = {ids.data(), false};
    call.given_weights = weights.as<float>();
    call.given_top_k = pattern.top_k;
    call.y = y.as<Bf16>();
    call.topk_ids = out_ids.as<int32_t>();
    call.topk_weights = out_weights.as<float>();
    return layer.run(call, workspace.data(), num_elems(workspace.dims()), executor);
  }
};

Bench::Bench(const checkpoint::LayerTensors& tensors, const dispatch::Layer& layer,
             Executor& executor, const Options& options)
    : tensors_(tensors),
      layer_(layer),
      executor_(executor),
      options_(options),
      random_(options.seed),
      ceiling_(ceiling_buffer_bytes()),
      order_(random_.permutation(layer.spec().local_experts)) {}

double Bench::ceiling_gbs() const { return median(ceilings_) * 1e-9; }

Status Bench::turn(Call& call, std::vector<double>& seconds, std::vector<double>& ratios) {
  const auto experts = static_cast<int64_t>(order_.size());
  call.take_experts(layer_.spec(), order_, next_);
  next_ = (next_ + call.pattern.num_labels) % experts;
  call.bytes = layer_.bytes_read(call.ids.as<int32_t>(), num_elems(call.ids.dims()));
  const Stopwatch watch;
  OCTET_RETURN_IF_ERROR(call.run(layer_, executor_));
  seconds.push_back(watch.seconds());

  const int64_t calls = std::max<int64_t>(experts / call.pattern.num_labels, 1);
  const int64_t missing = kCachesApart * last_cache_bytes() - (calls - 1) * call.bytes;
  ceilings_.push_back(ceiling_.read(std::max(call.bytes, missing / calls), executor_));
  ratios.push_back(static_cast<double>(call.bytes) / seconds.back() / ceilings_.back());
  return {};
}

Result<BenchRow> Bench::run(int64_t rows, const Progress& progress) {
  const LayerSpec& spec = layer_.spec();
  const int64_t elements =
      rows * (2 * spec.hidden + 12 * spec.router.top_k);  // x and y; ids, weights
  OCTET_RETURN_IF_ERROR(check_memory(
      count_text(rows, "row"),
      elements * 2 + layer_.workspace_bytes(rows, spec.router.top_k, executor_.num_threads())));
  OCTET_ASSIGN_OR_RETURN(Pattern pattern, make_pattern(rows, spec.router.top_k, spec.local_experts,
                                                       options_.distinct, random_));
  Call call(layer_, std::move(pattern), executor_.num_threads(), random_);
  std::vector<double> seconds;
  std::vector<double> ratios;
  for (int64_t i = 0; i < kWarmUp; ++i) OCTET_RETURN_IF_ERROR(turn(call, seconds, ratios));
  seconds.clear();
  ratios.clear();
  for (int64_t i = 0; i < options_.repeats; ++i) {
    OCTET_RETURN_IF_ERROR(turn(call, seconds, ratios));
    if (progress) progress(i, options_.repeats);
  }
  const Comparison compared =
      compare_with_reference(tensors_,
                             {std::min(rows, kMostCompared), call.pattern.top_k, call.x.as<Bf16>(),
                              call.ids.as<int32_t>(), call.weights.as<float>(), call.y.as<Bf16>()},
                             progress);
  BenchRow row;
  row.rows = rows;
  row.experts_read = call.pattern.num_labels;
  row.bytes = call.bytes;
  row.min_us = *std::min_element(seconds.begin(), seconds.end()) * 1e6;
  row.median_us = median(seconds) * 1e6;
  row.p99_us = percentile(seconds, 0.99) * 1e6;
  row.repeats = options_.repeats;
  row.gbs = static_cast<double>(call.bytes) / row.median_us * 1e-3;
  row.of_ceiling = median(ratios);
  row.max_error_over_bound = compared.worst.share;
  return row;
}

}  // namespace octet::tools
