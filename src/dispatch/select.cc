// SPDX-License-Identifier: Apache-2.0
#include "dispatch/select.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

#include "checkpoint/shard.h"
#include "core/nearest.h"
#include "cpu/panel_dot.h"
#include "cuda/device_experts.h"
#include "cuda/device_layer.h"
#include "routing/record.h"
#include "sm90/sm90_experts.h"

namespace octet {
namespace {

constexpr std::array<std::string_view, 4> kBackendNames = {"auto", "cpu", "cuda", "reference"};

}  // namespace

Result<Backend> backend_from_name(std::string_view name) {
  const auto at = std::find(kBackendNames.begin(), kBackendNames.end(), name);
  if (at != kBackendNames.end()) return static_cast<Backend>(at - kBackendNames.begin());
  return misuse(fmt::format("no backend {}: want auto, cpu, cuda or reference{}", name,
                            did_you_mean(name, kBackendNames)));
}

std::string_view name_of(Backend backend) { return kBackendNames[static_cast<size_t>(backend)]; }

}  // namespace octet

namespace octet::dispatch {
namespace {

constexpr Kernel kKernels[] = {
#define OCTET_KERNEL(name, isa, activations, weights, max_tokens, checked) \
  {#name, Isa::isa, Activations::activations, WeightFormat::weights, max_tokens, checked},
#include "dispatch/kernels.inc"
#undef OCTET_KERNEL
};

bool is_asked_for(Isa isa, Backend backend) {
  switch (backend) {
    case Backend::kAuto:  // the caller's memory is the host's
      return !is_cuda(isa);
    case Backend::kCpu:
      return isa < Isa::kReference;
    case Backend::kReference:
      return isa == Isa::kReference;
    case Backend::kCuda:
      return is_cuda(isa);
  }
  return false;
}

std::string layer_refusal(const Kernel& kernel, const LayerSpec& spec) {
  if (kernel.activations != spec.activations) {
    return fmt::format("takes {} activations, the layer has {}", name_of(kernel.activations),
                       name_of(spec.activations));
  }
  if (kernel.weights != spec.weights) {
    return fmt::format("takes {} weights, the layer has {}", name_of(kernel.weights),
                       name_of(spec.weights));
  }
  if (spec.hidden < kMxBlock || spec.hidden % kMxBlock != 0) {
    return fmt::format("hidden {} is not a multiple of {}", spec.hidden, kMxBlock);
  }
  if (spec.intermediate < checkpoint::kMinSliceColumns) {
    return fmt::format("intermediate {}, want at least {}", spec.intermediate,
                       checkpoint::kMinSliceColumns);
  }
  if (spec.local_experts < 1 || spec.first_expert < 0 ||
      spec.first_expert > spec.experts - spec.local_experts) {
    return fmt::format("local experts {}..{}, want some inside 0..{}", spec.first_expert,
                       spec.first_expert + spec.local_experts - 1, spec.experts - 1);
  }
  return {};
}

const cpu::IsaInfo& info_of(Isa cpu_isa) { return cpu::isas()[static_cast<size_t>(cpu_isa)]; }

struct DeviceKernels {
  std::string_view runs_on;
  std::string (*machine_refusal)();
  const cuda::DeviceExperts* (*experts)();
};
// Those of CUDA devices, in the order of Isa.
constexpr DeviceKernels kDeviceKernels[] = {
    {"CUDA device, SM90 alone", sm90::sm90_refusal, sm90::sm90_experts},
    {"CUDA device, SM80 and later", cuda::sm80_refusal, cuda::sm80_experts},
};
const DeviceKernels& device_kernels(Isa isa) {
  return kDeviceKernels[static_cast<size_t>(isa) - static_cast<size_t>(Isa::kReference) - 1];
}

std::string_view runs_on(Isa isa) {
  if (is_cuda(isa)) return device_kernels(isa).runs_on;
  return isa == Isa::kReference ? "reference, float64" : info_of(isa).runs_on;
}

// Of kernels that read views of a checkpoint's tensors.
std::string order_refusal(const Problem& problem) {
  if (problem.order == WeightOrder::kPacked) {
    return "reads a checkpoint's own order, the layer is packed";
  }
  if (problem.order == WeightOrder::kPrepared) {
    return "reads a checkpoint's own order, the tensors are prepared";
  }
  return {};
}

std::string reference_refusal(const Problem& problem) {
  if (std::string why = order_refusal(problem); !why.empty()) return why;
  return problem.rows ? "has y only, no rows and no intermediates" : "";
}

constexpr std::string_view kNotAskedFor = "not asked for";

std::string name_or_count(const std::vector<std::string_view>& kernels) {
  return kernels.size() == 1 ? std::string(kernels[0]) : fmt::format("{} kernels", kernels.size());
}

std::string cuda_refusal(const Kernel& kernel, const Problem& problem) {
  if (problem.spec.local_experts > routing::kRouteMaxExperts) {
    return fmt::format("{} local experts, want at most {}", problem.spec.local_experts,
                       routing::kRouteMaxExperts);
  }
  std::string why = device_experts(kernel.isa)->refusal(problem.spec, problem.down_start);
  if (!why.empty()) return why;
  const auto unfit = problem.unfit.find(kernel.name);
  return unfit == problem.unfit.end() ? "" : unfit->second;
}

}  // namespace

std::span<const Kernel> kernels() { return kKernels; }

const cuda::DeviceExperts* device_experts(Isa isa) { return device_kernels(isa).experts(); }

std::string machine_refusal(Isa isa) {
  if (is_cuda(isa)) return device_kernels(isa).machine_refusal();
  if (isa == Isa::kReference || info_of(isa).is_here()) return {};
  return fmt::format("this machine has no {}", info_of(isa).which_has);
}

std::string refusal(const Kernel& kernel, const Problem& problem) {
  if (!problem.kernel.empty() && problem.kernel != kernel.name) {
    return fmt::format("{}: --kernel {}", kNotAskedFor, problem.kernel);
  }
  const bool is_named = problem.kernel == kernel.name && problem.backend == Backend::kAuto;
  if (!is_named && !is_asked_for(kernel.isa, problem.backend)) {
    if (problem.backend == Backend::kAuto) {
      const std::string why = machine_refusal(kernel.isa);
      return why.empty() ? "auto takes no CUDA device: --backend cuda does" : why;
    }
    return fmt::format("{}: --backend {}", kNotAskedFor, name_of(problem.backend));
  }
  if (std::string why = machine_refusal(kernel.isa); !why.empty()) return why;
  if (std::string why = layer_refusal(kernel, problem.spec); !why.empty()) return why;
  if (kernel.isa == Isa::kReference) {
    if (std::string why = reference_refusal(problem); !why.empty()) return why;
  }
  if (is_cuda(kernel.isa)) {
    if (std::string why = cuda_refusal(kernel, problem); !why.empty()) return why;
  }
  if (kernel.max_tokens > 0 && problem.tokens > kernel.max_tokens) {
    return fmt::format("{} tokens, want at most {}", problem.tokens, kernel.max_tokens);
  }
  return {};
}

Selection select(const Problem& problem) {
  Selection s;
  for (const Kernel& kernel : kKernels) {
    std::string why = refusal(kernel, problem);
    if (why.empty() && s.kernel == nullptr) {
      s.kernel = &kernel;
      continue;
    }
    if (why.empty()) why = fmt::format("takes it, but {} comes first", s.kernel->name);
    s.refused.push_back({&kernel, std::move(why)});
  }
  return s;
}

Result<Selection> select_or_refuse(const Problem& problem) {
  const auto is_named = [&](const Kernel& k) { return k.name == problem.kernel; };
  if (!problem.kernel.empty() && std::none_of(std::begin(kKernels), std::end(kKernels), is_named)) {
    std::vector<std::string_view> names;
    for (const Kernel& kernel : kKernels) names.push_back(kernel.name);
    return misuse(
        fmt::format("no kernel {}{}", problem.kernel, did_you_mean(problem.kernel, names)));
  }
  Selection s = select(problem);
  if (s.kernel != nullptr) return s;
  for (const Refusal& r : s.refused) {
    if (r.kernel->name != problem.kernel) continue;
    return unsupported(
        fmt::format("kernel {} does not take this layer: {}", r.kernel->name, r.why));
  }
  // A reason once, in the order of the table; that a kernel was not asked for is none where others were.
  const auto was_asked = [](const Refusal& r) { return !r.why.starts_with(kNotAskedFor); };
  const bool any_asked = std::ranges::any_of(s.refused, was_asked);
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> reasons;
  for (const Refusal& r : s.refused) {
    if (any_asked && !was_asked(r)) continue;
    auto at = std::ranges::find(reasons, r.why, &decltype(reasons)::value_type::first);
    if (at == reasons.end()) at = reasons.insert(at, {r.why, {}});
    at->second.push_back(r.kernel->name);
  }
  std::string why = "no kernel takes this layer";
  const char* separator = ": ";
  for (const auto& [reason, names] : reasons)
    why += fmt::format("{}{} ({})", std::exchange(separator, "; "), reason, name_or_count(names));
  return unsupported(std::move(why));
}

void ReasonCounts::add(const Selection& selection) {
  if (selection.kernel != nullptr) ++taken_[selection.kernel->name];
  for (const Refusal& r : selection.refused) ++refused_[r.why][r.kernel->name];
}

std::vector<std::string> ReasonCounts::lines() const {
  const auto layers = [](int64_t n) { return fmt::format("{} layer{}", n, n == 1 ? "" : "s"); };
  std::vector<std::string> lines;
  for (const auto& [name, n] : taken_) lines.push_back(fmt::format("{}: {}", name, layers(n)));
  for (const auto& [why, kernels] : refused_) {
    std::map<int64_t, std::vector<std::string_view>> by_layers;
    for (const auto& [name, n] : kernels) by_layers[n].push_back(name);
    for (const auto& [n, names] : by_layers) {
      lines.push_back(fmt::format("no, {}: {} ({})", layers(n), why, name_or_count(names)));
    }
  }
  return lines;
}

std::string kernels_markdown() {
  std::string text =
      "| kernel | backend | activations | weights | tokens | checked |\n"
      "|---|---|---|---|---|---|\n";
  for (const Kernel& k : kKernels) {
    text +=
        fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", k.name, runs_on(k.isa),
                    name_of(k.activations), name_of(k.weights),
                    k.max_tokens == 0 ? "any" : fmt::format("up to {}", k.max_tokens), k.checked);
  }
  return text;
}

}  // namespace octet::dispatch
