// SPDX-License-Identifier: Apache-2.0
#include "bench_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <thread>
#include <utility>

#include "bench_statistics.h"
#include "core/carver.h"

namespace octet::tools {
namespace {

constexpr int64_t kWarmUp = 2;  // untimed replays
constexpr std::chrono::milliseconds kIdle(15);
constexpr int64_t kAlignment = 256;
// Of the ceiling's buffer. (With 5 of them the cache kept some of it: 4.70 TB/s on an H200 that reads 4.56.)
constexpr int64_t kCeilingCaches = 32;
constexpr int64_t kRandomBytes = int64_t{16} << 20;
static_assert(kRandomBytes % cuda::kReadPiece == 0);

// How many copies of a layer of E experts keep two uses of one three caches apart, whatever calls of up to `rows` read: in a copy
// a call's experts come again after E / experts-of-a-call calls to it, and the calls between go to the others. With a copy for each call
// of a replay no more are needed: the read ceiling is measured between replays.
int64_t copies_for(const LayerSpec& spec, int64_t expert_bytes, int64_t rows, int64_t cache_bytes,
                   int64_t most) {
  const int64_t experts = spec.local_experts, top_k = spec.router.top_k;
  int64_t copies = 1;
  for (int64_t read = top_k; read <= std::min(rows * top_k, experts); ++read) {
    const int64_t calls_apart = 1 + ceil_div(kCachesApart * cache_bytes, read * expert_bytes);
    copies = std::max(copies, ceil_div(calls_apart, experts / read));
  }
  return std::min(copies, most);
}

Result<double> idle_and_replay(cuda::DeviceGraph& graph) {
  std::this_thread::sleep_for(kIdle);
  return graph.replay();
}

}  // namespace

// A replay's calls, in device memory.
struct DeviceBench::Calls {
  explicit Calls(BenchCall made) : host(std::move(made)) {}
  BenchCall host;
  std::shared_ptr<std::byte> memory;
  std::vector<dispatch::LayerCall> calls;
  std::byte* workspace = nullptr;
  int64_t workspace_bytes = 0;
  Bf16* y = nullptr;                  // [T, H], of the last call
  std::vector<const int32_t*> ids;    // [T, k] of each call
  std::vector<const float*> weights;  // [T, k] of each call
  int64_t slots() const { return host.pattern().tokens * host.pattern().top_k; }
};

bool DeviceBench::is_from_logits() const { return layer().spec().router.kind == RouterKind::kDsv4; }

bool DeviceBench::has_images() const {
  return tensors_->gate.bias_vl.data != nullptr && tensors_->spec.router.image_sentinel_lo > 0;
}

double DeviceBench::ceiling_gbs() const { return median(ceilings_) * 1e-9; }

Result<DeviceBench> DeviceBench::make(const checkpoint::LayerTensors& tensors,
                                      const dispatch::LayerOptions& layer_options, int64_t rows,
                                      Executor& executor, const Bench::Options& options,
                                      const Progress& progress) {
  DeviceBench bench(tensors, options);
  bench.executor_ = &executor;
  OCTET_ASSIGN_OR_RETURN(bench.device_, cuda::device_info());
  const int64_t copies = copies_for(tensors.spec, tensors.expert_bytes(), rows,
                                    bench.device_.last_cache_bytes, kCalls);
  for (int64_t i = 0; i < copies; ++i) {
    OCTET_ASSIGN_OR_RETURN(dispatch::Layer layer,
                           dispatch::Layer::load(tensors, layer_options, executor, progress));
    bench.copies_.push_back(std::move(layer));
  }
  bench.order_ = bench.random_.permutation(tensors.spec.local_experts);
  bench.next_.resize(static_cast<size_t>(copies));
  bench.read_bytes_ = round_up(kCeilingCaches * bench.device_.last_cache_bytes, kRandomBytes);
  OCTET_ASSIGN_OR_RETURN(bench.read_buffer_, cuda::device_memory(bench.read_bytes_));
  std::vector<uint64_t> bytes(kRandomBytes / sizeof(uint64_t));
  for (uint64_t& word : bytes) word = bench.random_.bits();
  for (int64_t at = 0; at < bench.read_bytes_; at += kRandomBytes) {
    OCTET_RETURN_IF_ERROR(
        cuda::copy_bytes(bench.read_buffer_.get() + at, bytes.data(), kRandomBytes));
  }
  return bench;
}

// For which a dsv4 router chooses `ids`.
std::vector<float> DeviceBench::logits_for(const Tensor& ids) {
  constexpr double kChosen = 16, kOther = -16;  // a selection's bias is far below their distance
  const int64_t tokens = ids.dims()[0], top_k = ids.dims()[1], experts = layer().spec().experts;
  std::vector<float> logits(static_cast<size_t>(tokens * experts));
  for (float& v : logits) v = static_cast<float>(kOther + random_.gaussian());
  for (int64_t i = 0; i < tokens * top_k; ++i) {
    const int64_t id = ids.as<int32_t>()[i];
    logits[static_cast<size_t>(i / top_k * experts + id)] =
        static_cast<float>(kChosen + random_.gaussian());
  }
  return logits;
}

Status DeviceBench::fill_calls(int64_t rows, Calls& c) {
  const LayerSpec& spec = layer().spec();
  const int64_t slots = c.slots();
  OCTET_ASSIGN_OR_RETURN(c.workspace_bytes,
                         layer().device_workspace_bytes(rows, c.host.pattern().top_k));
  std::byte* base = nullptr;
  Bf16* x = nullptr;
  int32_t* input_ids = nullptr;
  std::vector<std::byte*> routing(kCalls);  // logits, or ids and weights
  std::vector<int32_t*> ids(kCalls);
  std::vector<float*> weights(kCalls);
  for (int pass = 0; pass < 2; ++pass) {
    Carver<kAlignment> carver(base);
    x = carver.take<Bf16>(rows * spec.hidden);
    c.y = carver.take<Bf16>(rows * spec.hidden);
    input_ids = carver.take<int32_t>(rows);
    c.workspace = carver.take<std::byte>(c.workspace_bytes);
    for (size_t i = 0; i < kCalls; ++i) {
      routing[i] = carver.take<std::byte>(is_from_logits() ? rows * spec.experts * 4 : 0);
      ids[i] = carver.take<int32_t>(slots);
      weights[i] = carver.take<float>(slots);
    }
    if (pass == 1) break;
    OCTET_ASSIGN_OR_RETURN(c.memory, cuda::device_memory(carver.bytes()));
    base = c.memory.get();
  }
  const std::vector<int32_t> no_image(static_cast<size_t>(rows), 0);
  OCTET_RETURN_IF_ERROR(cuda::copy_bytes(input_ids, no_image.data(), rows * 4));
  for (size_t i = 0; i < kCalls; ++i) {
    int64_t& next = next_[i % copies_.size()];
    const Tensor wanted = c.host.ids_at(order_, next);
    next = (next + c.host.pattern().num_labels) % static_cast<int64_t>(order_.size());
    const CallInput in = c.host.input(wanted, rows);
    if (i == 0) OCTET_RETURN_IF_ERROR(cuda::copy_bytes(x, in.x, rows * spec.hidden * 2));
    dispatch::LayerCall call{.tokens = rows, .x = x};
    if (is_from_logits()) {
      const std::vector<float> logits = logits_for(wanted);
      OCTET_RETURN_IF_ERROR(cuda::copy_bytes(routing[i], logits.data(), std::ssize(logits) * 4));
      call.logits = reinterpret_cast<const float*>(routing[i]);
      if (has_images()) call.input_ids = {input_ids, false};
      call.topk_ids = ids[i];
      call.topk_weights = weights[i];
    } else {
      OCTET_RETURN_IF_ERROR(cuda::copy_bytes(ids[i], in.ids, slots * 4));
      OCTET_RETURN_IF_ERROR(cuda::copy_bytes(weights[i], in.weights, slots * 4));
      call.given_ids = {ids[i], false};
      call.given_weights = weights[i];
    }
    call.y = c.y;
    c.calls.push_back(call);
    c.ids.push_back(ids[i]);
    c.weights.push_back(weights[i]);
  }
  return {};
}

Status DeviceBench::measure(Calls& c, BenchRow& row, const Progress& progress) {
  OCTET_ASSIGN_OR_RETURN(const auto ours, cuda::DeviceGraph::capture([&](void* stream) -> Status {
                           for (size_t i = 0; i < c.calls.size(); ++i) {
                             OCTET_RETURN_IF_ERROR(copies_[i % copies_.size()].enqueue(
                                 c.calls[i], c.workspace, c.workspace_bytes, stream));
                           }
                           return {};
                         }));
  for (int64_t i = 0; i < kWarmUp; ++i) {
    OCTET_ASSIGN_OR_RETURN([[maybe_unused]] const double seconds, ours->replay());
  }
  int64_t bytes = 0;  // of a replay
  for (const int32_t* from : c.ids) {
    Tensor ids(Dtype::kI32, {c.host.pattern().tokens, c.host.pattern().top_k});
    OCTET_RETURN_IF_ERROR(cuda::copy_bytes(ids.data(), from, c.slots() * 4));
    bytes += c.host.bytes_of(ids);
  }
  const int64_t ceiling_bytes = std::max(bytes, read_bytes_);
  OCTET_ASSIGN_OR_RETURN(const auto ceiling, cuda::DeviceGraph::capture([&](void* stream) {
                           return cuda::launch_read(read_buffer_.get(), read_bytes_, ceiling_bytes,
                                                    stream);
                         }));
  OCTET_ASSIGN_OR_RETURN([[maybe_unused]] const double seconds, ceiling->replay());
  std::vector<double> our_seconds, ceiling_seconds;
  for (int64_t i = 0; i < options_.repeats; ++i) {
    OCTET_ASSIGN_OR_RETURN(const double one, idle_and_replay(*ours));
    OCTET_ASSIGN_OR_RETURN(const double other, idle_and_replay(*ceiling));
    our_seconds.push_back(one / kCalls);
    ceilings_.push_back(static_cast<double>(ceiling_bytes) / other);
    ceiling_seconds.push_back(static_cast<double>(bytes) / kCalls / ceilings_.back());
    if (progress) progress(i + 1, options_.repeats);
  }
  row.bytes = bytes / kCalls;
  row.experts_read = row.bytes / tensors_->expert_bytes();
  row.min_us = least(our_seconds) * 1e6;
  row.median_us = median(our_seconds) * 1e6;
  row.p99_us = percentile(our_seconds, 0.99) * 1e6;
  row.repeats = options_.repeats;
  row.gbs = static_cast<double>(row.bytes) / row.median_us * 1e-3;
  row.of_ceiling = median_ratio(ceiling_seconds, our_seconds);
  return {};
}

// What the last call of the last replay left.
Status DeviceBench::compare(Calls& c, const Progress& progress, BenchRow& row) {
  const int64_t rows = c.host.pattern().tokens, top_k = c.host.pattern().top_k;
  Tensor ids(Dtype::kI32, {rows, top_k}), weights(Dtype::kF32, {rows, top_k}),
      y(Dtype::kBf16, {rows, layer().spec().hidden});
  OCTET_RETURN_IF_ERROR(cuda::copy_bytes(ids.data(), c.ids.back(), c.slots() * 4));
  OCTET_RETURN_IF_ERROR(cuda::copy_bytes(weights.data(), c.weights.back(), c.slots() * 4));
  OCTET_RETURN_IF_ERROR(cuda::copy_bytes(y.data(), c.y, static_cast<int64_t>(y.num_bytes())));
  CallInput in = c.host.input(ids, std::min(rows, kMostCompared));
  in.weights = weights.as<float>();
  compare_output(*tensors_, *layer().selection().kernel, in, y.as<Bf16>(), progress, row);
  return {};
}

Result<BenchRow> DeviceBench::run(int64_t rows, const Progress& progress) {
  const LayerSpec& spec = layer().spec();
  OCTET_ASSIGN_OR_RETURN(Pattern pattern, make_pattern(rows, spec.router.top_k, spec.local_experts,
                                                       options_.distinct, random_));
  Calls calls({layer(), std::move(pattern), executor_->num_threads(), random_});
  BenchRow row;
  row.rows = rows;
  OCTET_RETURN_IF_ERROR(fill_calls(rows, calls));
  OCTET_RETURN_IF_ERROR(measure(calls, row, progress));
  OCTET_RETURN_IF_ERROR(compare(calls, progress, row));
  return row;
}

}  // namespace octet::tools
