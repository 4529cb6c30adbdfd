// SPDX-License-Identifier: Apache-2.0
// Choice and launch of the expert GEMMs on BF16 tensor cores: expert_gemm_bf16_kernel.cuh, hidden_mxfp8.cuh.
#include <algorithm>
#include <atomic>
#include <string>

#include "cuda/expert_gemm_bf16.h"
#include "cuda/expert_gemm_bf16_kernel.cuh"
#include "cuda/hidden_mxfp8.cuh"

namespace octet::cuda {
namespace {

using layouts::StreamOrder;

constexpr int64_t kWorkspaceAlignment = 256;

int64_t fragment_blocks(const layouts::StreamSizes& sizes) { return 2 * sizes.w2.pairs; }

struct Workspace {
  int64_t fragments_bytes, hidden_stride, hidden_bytes;
  Workspace(const layouts::StreamSizes& sizes, int64_t ctas, int64_t intermediate,
            Activations activations)
      : fragments_bytes(ctas * fragment_blocks(sizes) * kWarp * 16),
        hidden_stride(activations == Activations::kMxfp8 ? round_up(intermediate, kMxBlock) : 0),
        hidden_bytes(ctas * kTileRows * hidden_stride * 4) {}
  int64_t bytes() const { return round_up(fragments_bytes, kWorkspaceAlignment) + hidden_bytes; }
};

struct Device {
  int index = 0, processors = 0, shared_bytes = 0;
};

Result<Device> current_device() {
  Device d;
  cudaError_t error = cudaGetDevice(&d.index);
  const auto ask = [&](cudaDeviceAttr what, int& value) {
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&value, what, d.index);
  };
  ask(cudaDevAttrMultiProcessorCount, d.processors);
  ask(cudaDevAttrMaxSharedMemoryPerBlockOptin, d.shared_bytes);
  if (error != cudaSuccess) return launch_status("expert_gemm_bf16", error);
  return d;
}

// 0: none fits. With one a warp's loads wait for its sums; the other 15 warps' go on.
int ring_slots(const Device& device, int slot_bytes) {
  for (int slots = 4; slots >= 1; --slots) {
    if (kGemmSharedBytes + kGemmWarps * slots * slot_bytes <= device.shared_bytes) return slots;
  }
  return 0;
}

// Once a kernel and device: the kernel may use all of the shared memory.
template <class Traits, GemmPhase phase, bool many>
Status allow_shared_memory(const Device& device) {
  static std::atomic<uint64_t> allowed{0};
  const uint64_t bit = uint64_t{1} << (device.index % 64);
  if ((allowed.load(std::memory_order_relaxed) & bit) != 0) return {};
  OCTET_RETURN_IF_ERROR(allow_shared_bytes(
      "expert_gemm_bf16", expert_gemm_bf16_kernel<Traits, phase, many>, device.shared_bytes));
  allowed.fetch_or(bit, std::memory_order_relaxed);
  return {};
}

template <class Traits, GemmPhase phase, bool many>
Status launch_rounds(GemmKernelArgs args, const Device& device, cudaStream_t stream) {
  constexpr int kSlotBytes = kSlicePairs * Traits::kRecordBytes;
  args.matrix =
      args.args.weights.data + (phase == GemmPhase::kUp ? 0 : args.args.weights.sizes.w2_offset());
  args.ring_slots = ring_slots(device, kSlotBytes);
  if (args.ring_slots == 0) {
    return unsupported(
        "shared memory of a block " + std::to_string(device.shared_bytes) +
        " bytes, want at least " +
        std::to_string(expert_gemm_bf16_shared_bytes(args.args.weights.sizes.w13.format)));
  }
  if (Status s = allow_shared_memory<Traits, phase, many>(device); !s.ok()) return s;
  return launch("expert_gemm_bf16", expert_gemm_bf16_kernel<Traits, phase, many>,
                dim3(static_cast<unsigned>(device.processors)), kGemmThreads, args, stream,
                static_cast<size_t>(kGemmSharedBytes + kGemmWarps * args.ring_slots * kSlotBytes));
}

template <class Traits>
Status prepare_all(const Device& device) {
  constexpr auto kUp = GemmPhase::kUp, kDown = GemmPhase::kDown;
  OCTET_RETURN_IF_ERROR((allow_shared_memory<Traits, kUp, false>(device)));
  OCTET_RETURN_IF_ERROR((allow_shared_memory<Traits, kUp, true>(device)));
  OCTET_RETURN_IF_ERROR((allow_shared_memory<Traits, kDown, false>(device)));
  return allow_shared_memory<Traits, kDown, true>(device);
}

template <class Traits, GemmPhase phase>
Status launch_phase(GemmKernelArgs args, const layouts::StreamMatrix& matrix, const Device& device,
                    cudaStream_t stream) {
  args.cut = GemmCut(matrix);
  return args.cut.rounds > 1 ? launch_rounds<Traits, phase, true>(args, device, stream)
                             : launch_rounds<Traits, phase, false>(args, device, stream);
}

Status launch_between(const GemmKernelArgs& gemm, const HiddenTrace& trace, const Device& device,
                      cudaStream_t stream) {
  const HiddenKernelArgs args{gemm, trace};
  const dim3 grid(static_cast<unsigned>(2 * device.processors));
  if (gemm.args.activations == Activations::kMxfp8)
    return launch("quantize_hidden", quantize_hidden_kernel, grid, kHiddenThreads, args, stream);
  if (trace.h == nullptr) return {};
  return launch("trace_hidden", trace_hidden_kernel, grid, kHiddenThreads, args, stream);
}

template <class Traits>
Status launch_all(const GemmKernelArgs& args, const HiddenTrace& trace, const Device& device,
                  cudaStream_t stream) {
  const layouts::StreamSizes& sizes = args.args.weights.sizes;
  OCTET_RETURN_IF_ERROR((launch_phase<Traits, GemmPhase::kUp>(args, sizes.w13, device, stream)));
  OCTET_RETURN_IF_ERROR(launch_between(args, trace, device, stream));
  return launch_phase<Traits, GemmPhase::kDown>(args, sizes.w2, device, stream);
}

// fn(traits) for what `w` is.
template <WeightFormat format, class Fn>
Status with_order(const StreamWeights& w, const Fn& fn) {
  constexpr auto kBf16 = StreamOrder::kBf16, kE4m3 = StreamOrder::kE4m3;
  if (w.order == kBf16) {
    return w.is_wide ? fn(StreamTraits<format, kBf16, true>{})
                     : fn(StreamTraits<format, kBf16, false>{});
  }
  return w.is_wide ? fn(StreamTraits<format, kE4m3, true>{})
                   : fn(StreamTraits<format, kE4m3, false>{});
}
template <class Fn>
Status with_traits(const StreamWeights& w, const Fn& fn) {
  return w.sizes.w13.format == WeightFormat::kMxfp4 ? with_order<WeightFormat::kMxfp4>(w, fn)
                                                    : with_order<WeightFormat::kNvfp4>(w, fn);
}

Status check_matrices(const layouts::StreamSizes& sizes) {
  constexpr int64_t kMostMatrixBytes = int64_t{1} << 31;
  for (const layouts::StreamMatrix* m : {&sizes.w13, &sizes.w2}) {
    if (m->bytes() >= kMostMatrixBytes) {
      return unsupported("a matrix of " + std::to_string(m->bytes()) + " bytes, want less than " +
                         std::to_string(kMostMatrixBytes));
    }
  }
  return {};
}

Status check(const ExpertGemmArgs& a, int64_t workspace_bytes) {
  if (a.hidden % kMxBlock != 0 || a.hidden == 0)
    return unsupported("hidden " + std::to_string(a.hidden) + " is not a multiple of 32");
  OCTET_RETURN_IF_ERROR(check_matrices(a.weights.sizes));
  if (a.workspace_bytes < workspace_bytes) {
    return unsupported("workspace " + std::to_string(a.workspace_bytes) + " bytes, want " +
                       std::to_string(workspace_bytes));
  }
  return {};
}

int64_t ctas_of(int64_t tokens, int64_t top_k, int64_t experts) {
  return routing::max_ctas(tokens, top_k, experts);
}

}  // namespace

int64_t expert_gemm_bf16_workspace_bytes(const layouts::StreamSizes& sizes, int64_t experts,
                                         int64_t tokens, int64_t top_k, int64_t intermediate,
                                         Activations activations) {
  return Workspace(sizes, ctas_of(tokens, top_k, experts), intermediate, activations).bytes();
}

Status launch_expert_gemm_bf16(const ExpertGemmArgs& a, const HiddenTrace& trace,
                               cudaStream_t stream) {
  const layouts::StreamSizes& sizes = a.weights.sizes;
  const Workspace w(sizes, ctas_of(a.tokens, a.top_k, a.weights.experts), a.intermediate,
                    a.activations);
  if (Status s = check(a, w.bytes()); !s.ok()) return s;
  if (a.tokens == 0) return {};
  Result<Device> device = current_device();
  if (!device.ok()) return device.status();
  if (a.most_ctas > 0) device->processors = std::min(device->processors, a.most_ctas);
  auto* const base = static_cast<std::byte*>(a.workspace);
  float* const hidden =
      reinterpret_cast<float*>(base + round_up(w.fragments_bytes, kWorkspaceAlignment));
  const GemmKernelArgs args{
      .args = a,
      .routed = RoutedRows(a.record, a.permuted, a.tokens, a.top_k, a.weights.experts),
      .cut = GemmCut(sizes.w13),
      .matrix = nullptr,
      .expert_bytes = sizes.expert_bytes(),
      .ring_slots = 0,
      .k_blocks = static_cast<int32_t>(fragment_blocks(sizes)),
      .fragments = reinterpret_cast<uint32_t*>(base),
      .hidden = a.activations == Activations::kMxfp8 ? hidden : nullptr,
      .hidden_stride = static_cast<int32_t>(w.hidden_stride)};
  return with_traits(a.weights, [&]<class Traits>(Traits) {
    return launch_all<Traits>(args, trace, *device, stream);
  });
}

int expert_gemm_bf16_shared_bytes(WeightFormat format) {
  return kGemmSharedBytes +
         kGemmWarps * kSlicePairs * static_cast<int>(layouts::stream_record_bytes(format));
}

Status prepare_expert_gemm_bf16(const StreamWeights& weights) {
  OCTET_RETURN_IF_ERROR(check_matrices(weights.sizes));
  Result<Device> device = current_device();
  if (!device.ok()) return device.status();
  return with_traits(weights, [&]<class Traits>(Traits) { return prepare_all<Traits>(*device); });
}

}  // namespace octet::cuda
