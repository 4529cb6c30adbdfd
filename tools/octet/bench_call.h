// SPDX-License-Identifier: Apache-2.0
// What `bench` calls again and again with one number of rows: its tensors, and the same for peers.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "bench_accuracy.h"
#include "bench_case.h"
#include "bench_peer.h"
#include "core/executor.h"
#include "core/tensor.h"
#include "dispatch/layer.h"
#include "octet/status.hpp"
#include "random.h"

namespace octet::tools {

class BenchCall {
 public:
  BenchCall(const dispatch::Layer& layer, Pattern made, int threads, Random& random);

  const Pattern& pattern() const { return pattern_; }
  // The pattern's experts are those of `order` from `next` on.
  Tensor ids_at(const std::vector<int64_t>& order, int64_t next) const;
  int64_t bytes_of(const Tensor& ids) const;
  CallInput input(const Tensor& ids, int64_t rows) const;  // of the first `rows`

  Status run(const Tensor& ids, Executor& executor);
  const Bf16* y() const { return y_.as<Bf16>(); }
  // y of the first `rows` rows before its last rounding: their experts' rows, weighted and summed in float64.
  Result<std::vector<double>> unrounded(const Tensor& ids, int64_t rows, Executor& executor);

  Status share();  // makes the file that peers read x and write y in
  Result<double> run(const Tensor& ids, PeerProcess& peer, int threads);
  const float* peer_y() const;

 private:
  dispatch::LayerCall call_of(const Tensor& ids,
                              int64_t rows) const;  // of the first `rows`; no outputs
  float* shared_part(int64_t elems_before) const;

  const dispatch::Layer& layer_;
  Pattern pattern_;
  Tensor x_, weights_, y_, out_ids_, out_weights_, workspace_;
  std::optional<SharedFile> shared_;
};

}  // namespace octet::tools
