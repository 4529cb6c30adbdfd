// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <vector>

#include "checkpoint/safetensors.h"

namespace octet::cuda {
namespace {

using layouts::BiasView;
using layouts::ExpertWeights;

constexpr int64_t kPieceBytes = int64_t{64} << 20;
constexpr int64_t kParameterAlignment = 256;

Result<layouts::StreamSizes> common_sizes(const std::vector<ExpertWeights>& experts) {
  if (experts.empty()) return internal_error("a layer without experts");
  const layouts::StreamSizes sizes = layouts::stream_sizes(experts.front());
  for (const ExpertWeights& e : experts) {
    const layouts::StreamSizes other = layouts::stream_sizes(e);
    if (other.expert_bytes() != sizes.expert_bytes() || other.down_start != sizes.down_start)
      return internal_error("the experts differ in size");
  }
  return sizes;
}

// One strip of w13, then of w2, of the expert at `out`.
layouts::StreamScale pack_strip(const ExpertWeights& e, const layouts::StreamSizes& sizes,
                                layouts::StreamOrder order, int64_t strip, uint8_t* out) {
  if (strip < sizes.w13.strips) return layouts::pack_gate_up_strip(e, order, strip, out);
  return layouts::pack_down_strip(e, order, strip - sizes.w13.strips, out + sizes.w2_offset());
}

Status copy_experts(const checkpoint::LayerTensors& tensors, DeviceWeights& w, Executor& executor,
                    const Progress& progress) {
  const layouts::StreamSizes& sizes = w.view.sizes;
  const auto experts = std::ssize(tensors.experts);
  const int64_t an_expert = sizes.w13.strips + sizes.w2.strips;
  const int64_t step = std::clamp<int64_t>(kPieceBytes / sizes.expert_bytes(), 1, experts);
  std::vector<uint8_t> piece(static_cast<size_t>(step * sizes.expert_bytes()));
  std::atomic<bool> is_wide{false}, is_infinite{false};
  for (int64_t first = 0; first < experts; first += step) {
    const int64_t count = std::min(step, experts - first);
    parallel_for(executor, count * an_expert, [&](int64_t i, int) {
      const int64_t e = i / an_expert;
      const layouts::StreamScale most =
          pack_strip(tensors.experts[static_cast<size_t>(first + e)], sizes, w.view.order,
                     i % an_expert, piece.data() + e * sizes.expert_bytes());
      if (most != layouts::StreamScale::kFast) is_wide.store(true, std::memory_order_relaxed);
      if (most == layouts::StreamScale::kInfinite)
        is_infinite.store(true, std::memory_order_relaxed);
    });
    OCTET_RETURN_IF_ERROR(device_status(
        "weights",
        cudaMemcpy(w.codes.as(first * sizes.expert_bytes()), piece.data(),
                   static_cast<size_t>(count * sizes.expert_bytes()), cudaMemcpyHostToDevice)));
    for (const auto& file : tensors.files) checkpoint::MappedFile::release(file);
    if (progress) {
      progress((first + count) * sizes.expert_bytes(), experts * sizes.expert_bytes());
    }
  }
  w.view.is_wide = is_wide;
  w.view.is_infinite = is_infinite;
  return {};
}

// Arrays that become one piece of device memory.
class Parameters {
 public:
  // `made`, at an offset; -1 if every element is `neutral`.
  template <class T>
  int64_t add(const std::vector<T>& made, const T& neutral) {
    if (std::all_of(made.begin(), made.end(), [&](const T& v) { return v == neutral; })) return -1;
    const auto at = round_up(std::ssize(bytes_), kParameterAlignment);
    bytes_.resize(static_cast<size_t>(at) + made.size() * sizeof(T));
    std::memcpy(bytes_.data() + at, made.data(), made.size() * sizeof(T));
    return at;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

template <class Field>
std::vector<float> floats_of(const std::vector<ExpertWeights>& experts, Field field) {
  std::vector<float> all;
  for (const ExpertWeights& e : experts) all.push_back(e.*field);
  return all;
}

std::vector<Bf16> biases_of(const std::vector<ExpertWeights>& experts,
                            BiasView ExpertWeights::*field, int64_t n) {
  std::vector<Bf16> all;
  for (const ExpertWeights& e : experts) {
    const BiasView& b = e.*field;
    for (int64_t i = 0; i < n; ++i)
      all.push_back(b.data == nullptr ? Bf16{0} : b.data[i * b.stride]);
  }
  return all;
}

Status copy_parameters(const checkpoint::LayerTensors& tensors, DeviceWeights& w) {
  const std::vector<ExpertWeights>& experts = tensors.experts;
  const LayerSpec& s = tensors.spec;
  Parameters p;
  const int64_t gate_alpha = p.add(floats_of(experts, &ExpertWeights::gate_alpha), 1.0F);
  const int64_t up_alpha = p.add(floats_of(experts, &ExpertWeights::up_alpha), 1.0F);
  const int64_t down_alpha = p.add(floats_of(experts, &ExpertWeights::down_alpha), 1.0F);
  const int64_t limit =
      p.add(floats_of(experts, &ExpertWeights::limit), std::numeric_limits<float>::max());
  const int64_t gate_bias =
      p.add(biases_of(experts, &ExpertWeights::gate_bias, s.intermediate), Bf16{0});
  const int64_t up_bias =
      p.add(biases_of(experts, &ExpertWeights::up_bias, s.intermediate), Bf16{0});
  const int64_t down_bias = p.add(biases_of(experts, &ExpertWeights::down_bias, s.hidden), Bf16{0});
  OCTET_ASSIGN_OR_RETURN(w.parameters, DeviceMemory::allocate(std::ssize(p.bytes())));
  if (!p.bytes().empty()) {
    OCTET_RETURN_IF_ERROR(device_status(
        "parameters",
        cudaMemcpy(w.parameters.as(), p.bytes().data(), p.bytes().size(), cudaMemcpyHostToDevice)));
  }
  const auto floats = [&](int64_t at) { return at < 0 ? nullptr : w.parameters.as<float>(at); };
  const auto bf16s = [&](int64_t at) { return at < 0 ? nullptr : w.parameters.as<Bf16>(at); };
  w.view.gate_alpha = floats(gate_alpha);
  w.view.up_alpha = floats(up_alpha);
  w.view.down_alpha = floats(down_alpha);
  w.view.limit = floats(limit);
  w.view.gate_bias = bf16s(gate_bias);
  w.view.up_bias = bf16s(up_bias);
  w.view.down_bias = bf16s(down_bias);
  return {};
}

}  // namespace

Result<DeviceWeights> load_weights(const checkpoint::LayerTensors& tensors,
                                   layouts::StreamOrder order, Executor& executor,
                                   const Progress& progress) {
  DeviceWeights w;
  OCTET_ASSIGN_OR_RETURN(w.view.sizes, common_sizes(tensors.experts));
  w.view.order = order;
  w.view.experts = std::ssize(tensors.experts);
  OCTET_ASSIGN_OR_RETURN(w.codes,
                         DeviceMemory::allocate(w.view.experts * w.view.sizes.expert_bytes()));
  w.view.data = w.codes.as<uint8_t>();
  OCTET_RETURN_IF_ERROR(copy_parameters(tensors, w));
  OCTET_RETURN_IF_ERROR(copy_experts(tensors, w, executor, progress));
  return w;
}

}  // namespace octet::cuda
