// SPDX-License-Identifier: Apache-2.0
// Times one number of rows of a layer: cold weights, in turns with the read ceiling and with peers, outputs compared.
//
// Inside the timed region: Layer::run from x, ids and weights to y, nothing else.
// Cold: the experts stand in a random order; each call takes the next ones, so an expert is read again only after all the
// others. After each call the ceiling reads its own buffer: as many bytes as the call, or as many more as are
// missing to three times the last cache between two uses of an expert. The buffer is that size at least, and read in turn.
// With peers a round is one turn each, the first one another in every round, all with the same experts, each with weights of
// its own. Whoever's turn it is has slept meanwhile, so a turn is two calls: one with other experts, then the timed one.
// With a QuietMeter a round in which other processes ran is dropped and repeated with the next experts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench_accuracy.h"
#include "bench_peer.h"
#include "bench_quiet.h"
#include "checkpoint/model.h"
#include "core/executor.h"
#include "core/progress.h"
#include "dispatch/layer.h"
#include "octet/status.hpp"
#include "random.h"
#include "read_ceiling.h"

namespace octet::tools {

struct PeerRow {
  std::string name;
  double min_us = 0, median_us = 0;
  double gbs = 0;    // the same bytes over its median time
  double ratio = 0;  // median of the rounds' ratios: its time over ours
  double nmse = 0;   // bench_accuracy.h
};

struct BenchRow {
  int64_t rows = 0, experts_read = 0, bytes = 0;
  double min_us = 0, median_us = 0, p99_us = 0;
  int64_t repeats = 0;
  double gbs = 0;         // bytes over the median time
  double of_ceiling = 0;  // median of the turns' ratios
  double max_error_over_bound = 0;
  double nmse = 0;  // bench_accuracy.h
  std::optional<double>
      nmse_before_rounding;  // of y before its last rounding, where the kernel gives its rows
  int64_t rounds_dropped = 0;
  std::vector<PeerRow> peers;
};

using Peers = std::vector<std::unique_ptr<PeerProcess>>;

class Bench {
 public:
  struct Options {
    std::optional<int64_t> distinct;
    int64_t repeats = 30;
    uint64_t seed = 0;
    bool quiet_only = false;
  };
  // All of them outlive the Bench.
  struct Subjects {
    const checkpoint::LayerTensors& tensors;
    const dispatch::Layer& layer;
    Peers& peers;
  };
  Bench(const Subjects& subjects, Executor& executor, const Options& options);
  Result<BenchRow> run(int64_t rows, const Progress& progress);
  double ceiling_gbs() const;  // the median of all turns so far

 private:
  struct Call;
  struct Rounds;
  Result<bool> round(Call& call, Rounds& rounds);
  Status turn(Call& call, size_t party, double& seconds);
  Status peer_turn(Call& call, PeerProcess& peer, double& seconds);
  Status own_turn(Call& call, double& seconds);
  double ceiling_turn(const Call& call);
  pid_t pid_of(size_t party) const;
  Status measure(Call& call, Rounds& rounds, const Progress& progress);
  Status compare(Call& call, BenchRow& row, const Progress& progress);
  Status compare_peers(Call& call, const std::vector<double>& want, BenchRow& row);

  const checkpoint::LayerTensors& tensors_;
  const dispatch::Layer& layer_;
  Peers& peers_;
  Executor& executor_;
  Options options_;
  Random random_;
  ReadCeiling ceiling_;
  std::optional<QuietMeter> quiet_;
  std::vector<int64_t> order_;  // of the experts
  int64_t next_ = 0;            // in order_
  size_t first_ = 0;            // whose turn is first in the next round
  std::vector<double> ceilings_;
};

constexpr int64_t kCachesApart = 3;   // how many last caches are read between two uses of an expert
constexpr int64_t kMostCompared = 8;  // rows that the reference computes

// Bytes of the ceiling's buffer.
int64_t ceiling_buffer_bytes();

// y [T, H] of a call against the reference and the layer in float64: max_error_over_bound and nmse of the row. Returns the latter's y.
std::vector<double> compare_output(const checkpoint::LayerTensors& tensors,
                                   const dispatch::Kernel& kernel, const CallInput& call,
                                   const Bf16* y, const Progress& progress, BenchRow& row);

}  // namespace octet::tools
