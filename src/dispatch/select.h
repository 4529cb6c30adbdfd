// SPDX-License-Identifier: Apache-2.0
// Which kernel a layer gets, and a sentence for each that it does not get.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "octet/status.hpp"
#include "reference/product.h"

namespace octet {

// What a user asks for with --backend. kAuto: the table's order, CUDA devices left out. kCpu: the best CPU kernel.
enum class Backend : uint8_t { kAuto, kCpu, kCuda, kReference };
Result<Backend> backend_from_name(std::string_view name);  // kMisuse with the names there are
std::string_view name_of(Backend backend);

}  // namespace octet

namespace octet::cuda {
class DeviceExperts;
}

namespace octet::dispatch {

// What a kernel runs on: cpu/isa.inc, then the reference, then CUDA devices.
enum class Isa : uint8_t {
#define OCTET_ISA(name, runs_on, which_has, here) k##name,
#include "cpu/isa.inc"
#undef OCTET_ISA
  kReference,
  kSm90,  // CUDA devices of compute capability 9.0
  kSm80,  // of 8.0 and later
};
constexpr bool is_cuda(Isa isa) { return isa > Isa::kReference; }
// The kernels of a CUDA device; null in a library without them, where machine_refusal() says so.
const cuda::DeviceExperts* device_experts(Isa isa);
// Empty if this machine has it: "this machine has no AVX2 and FMA".
std::string machine_refusal(Isa isa);

struct Kernel {
  std::string_view name;
  Isa isa;
  Activations activations;
  WeightFormat weights;
  int64_t max_tokens;        // 0: any
  std::string_view checked;  // where it was run: "CI", "H200", ...
};
// What adds its products up.
constexpr reference::Sums sums_of(const Kernel& kernel) {
  const bool is_fp8 = kernel.isa == Isa::kSm90 && kernel.activations == Activations::kMxfp8;
  return is_fp8 ? reference::Sums::kFp8Unit : reference::Sums::kBinary32;
}

// kernels.inc, in order.
std::span<const Kernel> kernels();

// How the weights lie when the layer is made.
enum class WeightOrder : uint8_t { kCheckpoint, kPacked, kPrepared };

struct Problem {
  LayerSpec spec;
  int64_t tokens = 0;  // 0: any number
  Backend backend = Backend::kAuto;
  std::string kernel = {};  // a name forces it; empty: the best
  WeightOrder order = WeightOrder::kCheckpoint;
  bool rows = false;       // calls will want rows or intermediates, not y alone
  int64_t down_start = 0;  // which element of a scale block of the second matrices h begins at
  // By name, kernels that take the layer but not its weights' values, as loading found, and why.
  std::map<std::string_view, std::string> unfit = {};
};

// Empty if the kernel takes the problem, else why not: value found, value wanted.
std::string refusal(const Kernel& kernel, const Problem& problem);

struct Refusal {
  const Kernel* kernel;
  std::string why;
};

struct Selection {
  const Kernel* kernel = nullptr;  // null: none takes it
  std::vector<Refusal>
      refused;  // every other kernel that was asked, in the table's order, also those behind the chosen one
};
Selection select(const Problem& problem);
// The same as a failure if there is none: kUnsupported with every candidate's reason.
Result<Selection> select_or_refuse(const Problem& problem);

// Reasons counted over the layers of a model: "experts_bf16_mxfp4_avx2: 40 layers", then a line for each reason why a kernel
// was not taken: "no, 40 layers: reason (3 kernels)", with the kernel's name where it is one.
class ReasonCounts {
 public:
  void add(const Selection& selection);
  std::vector<std::string> lines() const;

 private:
  std::map<std::string_view, int64_t> taken_;
  std::map<std::string, std::map<std::string_view, int64_t>> refused_;  // why, kernel: layers
};

// The table of kernels in Markdown, for the README and `octet list --markdown`.
std::string kernels_markdown();

}  // namespace octet::dispatch
