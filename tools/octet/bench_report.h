// SPDX-License-Identifier: Apache-2.0
// What `bench` says in the end: JSON or tables, and whether all outputs were right.
#pragma once

#include <vector>

#include "bench_device.h"
#include "bench_run.h"
#include "command.h"
#include "dispatch/layer.h"
#include "octet/status.hpp"

namespace octet::tools {

struct Measured {
  const dispatch::Layer& layer;
  const Peers& peers;
  dispatch::MemoryOptions memory;
  int threads;
  bool quiet_only;
  double ceiling_gbs = 0;
  std::vector<BenchRow> rows;
  const DeviceBench* device = nullptr;  // of a layer on one
};

Json measured_json(const Measured& m);
void print_measured(const Measured& m);
// The first output that is wrong, ours or a peer's.
Status judge(const Measured& m);

}  // namespace octet::tools
