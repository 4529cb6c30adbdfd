// SPDX-License-Identifier: Apache-2.0
// Graphs that are timed, and the read ceiling: a grid of all multiprocessors, whose blocks take pieces of the buffer in turn, eight loads
// of 16 bytes on their way in each thread.
#include "core/shape.h"
#include "cuda/device_memory.h"
#include "cuda/device_timing.h"
#include "cuda/launch.h"

namespace octet::cuda {
namespace {

constexpr int kThreads = 512, kLoads = 8, kBlocksAMultiprocessor = 2;
static_assert(kThreads * kLoads * sizeof(uint4) == kReadPiece);

struct ReadArgs {
  uint4* buffer;
  int64_t pieces_there, pieces;
};
__device__ __forceinline__ uint4 load_once(const uint4* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}
__global__ __launch_bounds__(kThreads, kBlocksAMultiprocessor) void read_kernel(
    const __grid_constant__ ReadArgs a) {
  let_next_begin();
  wait_for_previous();
  uint32_t common = ~0U;
  for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
    const uint4* const from = a.buffer + piece % a.pieces_there * (kThreads * kLoads) + threadIdx.x;
    uint4 v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) v[i] = load_once(from + i * kThreads);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) common &= v[i].x & v[i].y & v[i].z & v[i].w;
  }
  // Never of random bytes, which the compiler does not know; or it would read nothing.
  if (common == ~0U) a.buffer[threadIdx.x].x = 0;
}

class Captured final : public DeviceGraph {
 public:
  Captured() = default;
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() override {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    if (end_ != nullptr) cudaEventDestroy(end_);
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Status fill(const std::function<Status(void*)>& enqueue) {
    const auto done = [](cudaError_t error) { return device_status("graph", error); };
    OCTET_RETURN_IF_ERROR(done(cudaStreamCreate(&stream_)));
    OCTET_RETURN_IF_ERROR(done(cudaEventCreate(&begin_)));
    OCTET_RETURN_IF_ERROR(done(cudaEventCreate(&end_)));
    OCTET_RETURN_IF_ERROR(done(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal)));
    const Status enqueued = enqueue(stream_);
    const Status captured = done(cudaStreamEndCapture(stream_, &graph_));
    OCTET_RETURN_IF_ERROR(enqueued);
    OCTET_RETURN_IF_ERROR(captured);
    return done(cudaGraphInstantiate(&exec_, graph_, 0));
  }
  Result<double> replay() override {
    const auto done = [](cudaError_t error) { return device_status("replay", error); };
    OCTET_RETURN_IF_ERROR(done(cudaEventRecord(begin_, stream_)));
    OCTET_RETURN_IF_ERROR(done(cudaGraphLaunch(exec_, stream_)));
    OCTET_RETURN_IF_ERROR(done(cudaEventRecord(end_, stream_)));
    OCTET_RETURN_IF_ERROR(done(cudaEventSynchronize(end_)));
    float ms = 0;
    OCTET_RETURN_IF_ERROR(done(cudaEventElapsedTime(&ms, begin_, end_)));
    return static_cast<double>(ms) * 1e-3;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

Result<int> attribute(cudaDeviceAttr what) {
  int device = 0, value = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&value, what, device);
  OCTET_RETURN_IF_ERROR(device_status("device", error));
  return value;
}

}  // namespace

Result<DeviceInfo> device_info() {
  int device = 0;
  cudaDeviceProp properties{};
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, device);
  OCTET_RETURN_IF_ERROR(device_status("device", error));
  OCTET_ASSIGN_OR_RETURN(const int khz, attribute(cudaDevAttrClockRate));
  return DeviceInfo{properties.name, khz / 1000, properties.l2CacheSize};
}

Result<std::unique_ptr<DeviceGraph>> DeviceGraph::capture(
    const std::function<Status(void* stream)>& enqueue) {
  auto graph = std::make_unique<Captured>();
  OCTET_RETURN_IF_ERROR(graph->fill(enqueue));
  return std::unique_ptr<DeviceGraph>(std::move(graph));
}

Status launch_read(std::byte* buffer, int64_t buffer_bytes, int64_t bytes, void* stream) {
  OCTET_ASSIGN_OR_RETURN(const int multiprocessors, attribute(cudaDevAttrMultiProcessorCount));
  const ReadArgs a{reinterpret_cast<uint4*>(buffer), buffer_bytes / kReadPiece,
                   ceil_div(bytes, kReadPiece)};
  return launch("read", read_kernel,
                dim3(static_cast<unsigned>(kBlocksAMultiprocessor * multiprocessors)), kThreads, a,
                static_cast<cudaStream_t>(stream));
}

}  // namespace octet::cuda
