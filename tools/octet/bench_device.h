// SPDX-License-Identifier: Apache-2.0
// Times one number of rows of a layer on a CUDA device: cold weights, in turns with the read ceiling of the device, the output compared.
//
// A replay is a graph of kCalls calls in a row with the programmatic edges between their kernels, each from x and logits to y (from
// ids and weights where the router is not one that runs on a device), each with a routing of its own. Before it the device idles
// 15 ms, as between decode steps; then its clock is at its highest. A call's time is a kCalls-th of the time between two
// events around the replay; least, median and p99 are those of the replays.
// Cold: in each layer the experts stand in a random order and each call takes the next ones; where the layer is too small for three
// times the L2 cache between two uses of an expert, the calls go over as many copies of it in turn as that takes.
// The ceiling reads as many bytes as the replay, and its own buffer once at least, in one launch, after as much idling: 4.52 TB/s on an
// H200, where bulk copies read 4.56.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bench_call.h"
#include "bench_run.h"
#include "cuda/device_bytes.h"
#include "cuda/device_timing.h"

namespace octet::tools {

class DeviceBench {
 public:
  static constexpr int64_t kCalls = 48;

  // Loads the layer's copies for calls of up to `rows`. `tensors` outlive the bench.
  static Result<DeviceBench> make(const checkpoint::LayerTensors& tensors,
                                  const dispatch::LayerOptions& layer_options, int64_t rows,
                                  Executor& executor, const Bench::Options& options,
                                  const Progress& progress);
  Result<BenchRow> run(int64_t rows, const Progress& progress);

  const dispatch::Layer& layer() const { return copies_.front(); }
  const cuda::DeviceInfo& device() const { return device_; }
  int64_t num_copies() const { return static_cast<int64_t>(copies_.size()); }
  bool is_from_logits() const;
  double ceiling_gbs() const;  // the median of all turns so far

 private:
  struct Calls;
  explicit DeviceBench(const checkpoint::LayerTensors& tensors, const Bench::Options& options)
      : tensors_(&tensors), options_(options), random_(options.seed) {}
  bool has_images() const;
  Status fill_calls(int64_t rows, Calls& calls);
  std::vector<float> logits_for(const Tensor& ids);
  Status measure(Calls& calls, BenchRow& row, const Progress& progress);
  Status compare(Calls& calls, const Progress& progress, BenchRow& row);

  const checkpoint::LayerTensors* tensors_;
  Bench::Options options_;
  Executor* executor_ = nullptr;
  Random random_;
  cuda::DeviceInfo device_;
  std::vector<dispatch::Layer> copies_;
  std::vector<int64_t> order_;              // of the experts
  std::vector<int64_t> next_;               // in order_, of each copy
  std::shared_ptr<std::byte> read_buffer_;  // of the ceiling
  int64_t read_bytes_ = 0;
  std::vector<double> ceilings_;  // bytes a second
};

}  // namespace octet::tools
