// SPDX-License-Identifier: Apache-2.0
// Times one number of rows of a layer: cold weights, in turns with the read ceiling, outputs compared with the reference.
//
// Inside the timed region: Layer::run from x, ids and weights to y, nothing else.
// Cold: the experts stand in a random order; each call takes the next ones, so an expert is read again only after all the
// others. After each call the ceiling reads its own buffer: as many bytes as the call, or as many more as are
// missing to three times the last cache between two uses of an expert. The buffer is that size at least, and read in turn.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checkpoint/model.h"
#include "core/executor.h"
#include "core/progress.h"
#include "dispatch/layer.h"
#include "octet/status.hpp"
#include "random.h"
#include "read_ceiling.h"

namespace octet::tools {

struct BenchRow {
  int64_t rows = 0, experts_read = 0, bytes = 0;
  double min_us = 0, median_us = 0, p99_us = 0;
  int64_t repeats = 0;
  double gbs = 0;         // bytes over the median time
  double of_ceiling = 0;  // median of the turns' ratios
  double max_error_over_bound = 0;
};

class Bench {
 public:
  struct Options {
    std::optional<int64_t> distinct;
    int64_t repeats = 30;
    uint64_t seed = 0;
  };
  Bench(const checkpoint::LayerTensors& tensors, const dispatch::Layer& layer, Executor& executor,
        const Options& options);
  Result<BenchRow> run(int64_t rows, const Progress& progress);
  double ceiling_gbs() const;  // the median of all turns so far

 private:
  struct Call;
  Status turn(Call& call, std::vector<double>& seconds, std::vector<double>& ratios);

  const checkpoint::LayerTensors& tensors_;
  const dispatch::Layer& layer_;
  Executor& executor_;
  Options options_;
  Random random_;
  ReadCeiling ceiling_;
  std::vector<int64_t> order_;  // of the experts
  int64_t next_ = 0;            // in order_
  std::vector<double> ceilings_;
};

// Bytes of the ceiling's buffer.
int64_t ceiling_buffer_bytes();

}  // namespace octet::tools
