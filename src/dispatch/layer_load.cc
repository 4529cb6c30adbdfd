// SPDX-License-Identifier: Apache-2.0
// Panels for a loaded layer: 1.0 times the weights, plus what a few experts' pages take while they are copied.
#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <span>
#include <sys/mman.h>
#include <utility>

#include "checkpoint/safetensors.h"
#include "dispatch/layer_data.h"

namespace octet::dispatch {
namespace {

using layouts::ExpertWeights;
using Bytes = std::span<const std::byte>;

constexpr int64_t kHugePage = int64_t{2} << 20;

// Large layers in 2 MB pages, if the system has any to give: panels are streamed, and small pages cost walks.
PanelMemory allocate_panels(int64_t bytes) {
  const int64_t alignment = bytes < 4 * kHugePage ? layouts::kPanelAlignment : kHugePage;
  const auto size = static_cast<size_t>(round_up(std::max<int64_t>(bytes, 1), alignment));
  void* p = std::aligned_alloc(static_cast<size_t>(alignment), size);
  if (p == nullptr) throw std::bad_alloc();
  if (alignment == kHugePage) ::madvise(p, size, MADV_HUGEPAGE);
  return PanelMemory(static_cast<uint8_t*>(p));
}

Bytes span_of(const uint8_t* first, int64_t stride, int64_t rows, int64_t row_bytes) {
  if (first == nullptr || rows == 0) return {};
  return {reinterpret_cast<const std::byte*>(first),
          static_cast<size_t>((rows - 1) * stride + row_bytes)};
}

// Where an expert's codes and scales lie, columns of other ranks between its own included.
void add_spans(const ExpertWeights& e, std::vector<Bytes>& spans) {
  for (const layouts::WeightView* w : {&e.gate, &e.up, &e.down}) {
    const int64_t last = w->first_col + w->cols;
    spans.push_back(span_of(w->codes, w->code_stride, w->rows, ceil_div(last, 2)));
    spans.push_back(span_of(w->scales, w->scale_stride, w->rows, ceil_div(last, w->block())));
  }
}

void release(const std::vector<Bytes>& spans) {
  for (const Bytes& s : spans) checkpoint::MappedFile::release(s);
}

// Pages that two experts share are whole only in the joined span.
std::vector<Bytes> joined(std::vector<Bytes> spans) {
  constexpr std::ptrdiff_t kLargestGap = 64;  // padding between tensors
  std::sort(spans.begin(), spans.end(),
            [](const Bytes& a, const Bytes& b) { return a.data() < b.data(); });
  std::vector<Bytes> out;
  for (const Bytes& s : spans) {
    if (s.empty()) continue;
    const std::byte* end = s.data() + s.size();
    if (!out.empty() && s.data() - (out.back().data() + out.back().size()) <= kLargestGap) {
      const std::byte* first = out.back().data();
      end = std::max(end, first + out.back().size());
      out.back() = {first, static_cast<size_t>(end - first)};
    } else {
      out.push_back(s);
    }
  }
  return out;
}

// A copy of `n` numbers at the end of `to`, which has room: nothing moves.
layouts::BiasView own_bias(const layouts::BiasView& from, int64_t n, std::vector<Bf16>& to) {
  if (from.data == nullptr) return {};
  const Bf16* at = to.data() + to.size();
  for (int64_t i = 0; i < n; ++i) to.push_back(from.data[i * from.stride]);
  return {at, 1};
}

std::vector<cpu::ExpertParams> own_params(const std::vector<ExpertWeights>& experts,
                                          const LayerSpec& spec, std::vector<Bf16>& biases) {
  const int64_t an_expert = 2 * spec.intermediate + spec.hidden;
  const bool has_biases = std::any_of(experts.begin(), experts.end(), [](const auto& e) {
    return e.gate_bias.data || e.up_bias.data || e.down_bias.data;
  });
  if (has_biases) biases.reserve(experts.size() * static_cast<size_t>(an_expert));
  std::vector<cpu::ExpertParams> params;
  for (const ExpertWeights& e : experts) {
    params.push_back({.gate_alpha = e.gate_alpha,
                      .up_alpha = e.up_alpha,
                      .down_alpha = e.down_alpha,
                      .limit = e.limit,
                      .gate_bias = own_bias(e.gate_bias, spec.intermediate, biases),
                      .up_bias = own_bias(e.up_bias, spec.intermediate, biases),
                      .down_bias = own_bias(e.down_bias, spec.hidden, biases)});
  }
  return params;
}

Status check_packed(const checkpoint::PackedPanels& p, const LayerSpec& spec) {
  const layouts::PanelSizes& s = p.sizes;
  const bool fits = s.format == spec.weights &&
                    s.gate_up_panels == ceil_div(spec.intermediate, layouts::kPanelRows / 2) &&
                    s.down_panels == ceil_div(spec.hidden, layouts::kPanelRows) &&
                    p.expert_stride >= s.expert_bytes();
  const bool aligned = reinterpret_cast<uintptr_t>(p.base) % layouts::kPanelAlignment == 0 &&
                       p.expert_stride % layouts::kPanelAlignment == 0;
  if (fits && aligned) return {};
  return invalid_argument(fmt::format(
      "packed panels: {} and {} of {} bytes an expert, stride {}, do not fit H {}, I {}",
      s.gate_up_panels, s.down_panels, s.expert_bytes(), p.expert_stride, spec.hidden,
      spec.intermediate));
}

// Every expert into its place; then its pages are given back, if they lie in a file.
void pack_all(const checkpoint::LayerTensors& tensors, int64_t stride, Executor& executor,
              const Progress& progress, uint8_t* panels) {
  const int64_t n = std::ssize(tensors.experts);
  const int64_t batch = 4 * int64_t{executor.num_threads()};  // between two reports of progress
  for (int64_t first = 0; first < n; first += batch) {
    const int64_t count = std::min(batch, n - first);
    parallel_for(executor, count, [&](int64_t i, int) {
      const ExpertWeights& expert = tensors.experts[static_cast<size_t>(first + i)];
      layouts::pack_expert(expert, panels + (first + i) * stride);
      std::vector<Bytes> spans;
      add_spans(expert, spans);
      if (tensors.keep != nullptr) release(spans);
    });
    if (progress) progress((first + count) * stride, n * stride);
  }
  std::vector<Bytes> spans;
  for (const ExpertWeights& expert : tensors.experts) add_spans(expert, spans);
  if (tensors.keep != nullptr) release(joined(std::move(spans)));
}

}  // namespace

Status load_panels(const checkpoint::LayerTensors& tensors, Executor& executor,
                   const Progress& progress, LayerData& layer) {
  std::vector<cpu::ExpertParams> params = own_params(tensors.experts, layer.spec, layer.biases);
  layer.resident_bytes += static_cast<int64_t>(layer.biases.size() * sizeof(Bf16));
  if (tensors.packed) {
    const checkpoint::PackedPanels& p = *tensors.packed;
    OCTET_RETURN_IF_ERROR(check_packed(p, layer.spec));
    layer.keep = tensors.keep;
    layer.source =
        std::make_unique<cpu::PanelsInMemory>(p.base, p.expert_stride, p.sizes, std::move(params));
    return {};
  }
  const layouts::PanelSizes sizes = layouts::panel_sizes(tensors.experts.front());
  for (const ExpertWeights& e : tensors.experts) {
    if (layouts::panel_sizes(e).expert_bytes() != sizes.expert_bytes() ||
        e.down.start_in_block() != sizes.down_start) {
      return internal_error("the experts' panels differ in size");
    }
  }
  const int64_t stride = sizes.expert_bytes();
  const int64_t bytes = stride * std::ssize(tensors.experts);
  layer.panels = allocate_panels(bytes);
  layer.resident_bytes += bytes;
  pack_all(tensors, stride, executor, progress, layer.panels.get());
  layer.source =
      std::make_unique<cpu::PanelsInMemory>(layer.panels.get(), stride, sizes, std::move(params));
  return {};
}

}  // namespace octet::dispatch
