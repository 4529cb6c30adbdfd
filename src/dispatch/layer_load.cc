// SPDX-License-Identifier: Apache-2.0
// Panels for a loaded layer: 1.0 times the weights, plus the pages of the file that are being copied.
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "checkpoint/safetensors.h"
#include "dispatch/layer_data.h"

namespace octet::dispatch {
namespace {

using layouts::ExpertWeights;

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

Result<layouts::PanelSizes> common_sizes(const std::vector<ExpertWeights>& experts) {
  const layouts::PanelSizes sizes = layouts::panel_sizes(experts.front());
  for (const ExpertWeights& e : experts) {
    if (layouts::panel_sizes(e).expert_bytes() != sizes.expert_bytes() ||
        e.down.start_in_block() != sizes.down_start) {
      return internal_error("the experts' panels differ in size");
    }
  }
  return sizes;
}

// One of the gate_up, then of the down panels of an expert, where they come from.
class PanelMaker {
 public:
  PanelMaker(const checkpoint::LayerTensors& tensors, const layouts::PanelSizes& sizes)
      : tensors_(tensors), sizes_(sizes) {}
  int64_t num_panels() const { return sizes_.gate_up_panels + sizes_.down_panels; }

  // Into its place in the expert at `out`.
  void make(int64_t e, int64_t panel, uint8_t* out) const {
    const bool is_down = panel >= sizes_.gate_up_panels;
    const int64_t index = is_down ? panel - sizes_.gate_up_panels : panel;
    const int64_t bytes = is_down ? sizes_.down_panel_bytes() : sizes_.gate_up_panel_bytes();
    const int64_t at = (is_down ? sizes_.gate_up_bytes() : 0) + index * bytes;
    if (tensors_.packed) {
      std::memcpy(out + at, tensors_.packed->base + e * tensors_.packed->expert_stride + at,
                  static_cast<size_t>(bytes));
      return;
    }
    const ExpertWeights& expert = tensors_.experts[static_cast<size_t>(e)];
    (is_down ? layouts::pack_down_panel : layouts::pack_gate_up_panel)(expert, index, out + at);
  }

 private:
  const checkpoint::LayerTensors& tensors_;
  const layouts::PanelSizes& sizes_;
};

// Panel after panel, so that only what is being copied is in memory twice: after each hundredth or so the files' pages are
// given back, whole files at a time, because the system maps more around a page than was read.
void make_all(const checkpoint::LayerTensors& tensors, const layouts::PanelSizes& sizes,
              Executor& executor, const Progress& progress, uint8_t* panels) {
  constexpr int64_t kSteps = 128, kLeastPanels = 32;
  const PanelMaker maker(tensors, sizes);
  const int64_t an_expert = maker.num_panels();
  const int64_t n = std::ssize(tensors.experts) * an_expert;
  const int64_t bytes = std::ssize(tensors.experts) * sizes.expert_bytes();
  const int64_t step = std::max(kLeastPanels, ceil_div(n, kSteps));
  for (int64_t first = 0; first < n; first += step) {
    const int64_t count = std::min(step, n - first);
    parallel_for(executor, count, [&](int64_t i, int) {
      const int64_t e = (first + i) / an_expert;
      maker.make(e, (first + i) % an_expert, panels + e * sizes.expert_bytes());
    });
    for (const auto& file : tensors.files) checkpoint::MappedFile::release(file);
    if (progress) progress(bytes / n * (first + count), bytes / n * n);
  }
}

}  // namespace

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

Status check_no_memory(const MemoryOptions& memory, std::string_view what) {
  const auto check = [&](std::string_view option, auto found, auto wanted) -> Status {
    if (found == wanted) return {};
    return invalid_argument(fmt::format("{}: found {}, want {}: {} has no memory of its own",
                                        option, name_of(found), name_of(wanted), what));
  };
  OCTET_RETURN_IF_ERROR(check("pages", memory.pages, MemoryOptions{}.pages));
  return check("numa", memory.numa, MemoryOptions{}.numa);
}

Status load_panels(const checkpoint::LayerTensors& tensors, const MemoryOptions& memory,
                   Executor& executor, const Progress& progress, LayerData& layer) {
  std::vector<cpu::ExpertParams> params = own_params(tensors.experts, layer.spec, layer.biases);
  layer.resident_bytes += static_cast<int64_t>(layer.biases.size() * sizeof(Bf16));
  layouts::PanelSizes sizes;
  if (tensors.packed) {
    const checkpoint::PackedPanels& p = *tensors.packed;
    OCTET_RETURN_IF_ERROR(check_packed(p, layer.spec));
    if (memory.packed == PackedUse::kMmap) {
      OCTET_RETURN_IF_ERROR(check_no_memory(memory, "a mapped packed file"));
      layer.keep = tensors.keep;
      layer.source = std::make_unique<cpu::PanelsInMemory>(p.base, p.expert_stride, p.sizes,
                                                           std::move(params));
      return {};
    }
    sizes = p.sizes;
  } else {
    OCTET_ASSIGN_OR_RETURN(sizes, common_sizes(tensors.experts));
  }
  const int64_t stride = sizes.expert_bytes();
  OCTET_ASSIGN_OR_RETURN(layer.panels,
                         PanelMemory::allocate(stride * std::ssize(tensors.experts), memory));
  layer.resident_bytes += layer.panels.resident_bytes();
  make_all(tensors, sizes, executor, progress, layer.panels.data());
  layer.source =
      std::make_unique<cpu::PanelsInMemory>(layer.panels.data(), stride, sizes, std::move(params));
  return {};
}

}  // namespace octet::dispatch
