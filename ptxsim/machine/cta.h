// SPDX-License-Identifier: Apache-2.0
// A block (CTA), its cluster and its grid: state only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ptxsim/machine/async.h"
#include "ptxsim/machine/counts.h"
#include "ptxsim/machine/gate.h"
#include "ptxsim/machine/mbarrier.h"
#include "ptxsim/machine/memory.h"
#include "ptxsim/machine/order.h"
#include "ptxsim/machine/program.h"
#include "ptxsim/machine/warp.h"

namespace octet::ptxsim::machine {

struct Grid;
struct Cluster;

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

constexpr int kNamedBarriers = 16;
constexpr int kRankShift =
    24;  // of a shared::cluster address: the block's rank; below it the offset
constexpr uint32_t kSharedOffsetMask = (1u << kRankShift) - 1;

// What a family keeps a block beside all this, such as tensor memory.
class CtaExtension {
 public:
  virtual ~CtaExtension() = default;
  // Asked once all threads have exited and nothing is pending: what was left behind, or nothing.
  virtual std::string left_behind() const { return ""; }
  // Lanes of a warp have passed a wait: on an mbarrier, a barrier of threads or a cluster's.
  virtual void passed_wait(int /*warp*/, LaneMask /*lanes*/) {}
  // What keeps lanes of a warp from arriving there, or nothing.
  virtual std::string may_signal(int /*warp*/, LaneMask /*lanes*/) const { return ""; }
};

struct Cta {
  Grid* grid = nullptr;
  Cluster* cluster = nullptr;
  Dim3 index;           // %ctaid
  uint64_t number = 0;  // x + y * ... : its place in the grid
  uint32_t rank = 0;    // in its cluster
  Memory shared;
  Mbarriers mbarriers;
  std::array<Gate, kNamedBarriers> barriers;
  std::vector<Gate> warpgroups;  // of 4 warps each
  std::vector<std::unique_ptr<Warp>> warps;
  AsyncQueue pending;
  std::unique_ptr<CtaExtension> tensor;  // tensor memory, made by its family
  bool launched_dependents = false;      // griddepcontrol.launch_dependents, or exited
  bool has_ended =
      false;  // its threads have exited; its shared memory stays while the cluster does
  uint32_t live_warps = 0;
  Counts counts;

  explicit Cta(size_t shared_bytes) : shared(shared_bytes) {}
};

// What the tensor families want to know of lanes that arrive somewhere or have waited: CtaExtension.
inline std::string may_signal(const Cta& cta, const Warp& warp, LaneMask lanes) {
  return cta.tensor == nullptr ? "" : cta.tensor->may_signal(warp.index, lanes);
}
inline void passed_wait(Cta& cta, const Warp& warp, LaneMask lanes) {
  if (cta.tensor != nullptr) cta.tensor->passed_wait(warp.index, lanes);
}

struct Cluster {
  std::vector<std::unique_ptr<Cta>> ctas;  // by rank; they go together
  Gate barrier;                            // barrier.cluster
  uint32_t live_warps = 0;
  std::unique_ptr<Order> order;  // of its shared memory; null: not checked
};

struct Grid {
  uint64_t id = 0;  // %gridid: of the machine's grids, from 1 on
  const Program* program = nullptr;
  Dim3 size, block, cluster;
  uint32_t dynamic_shared_bytes = 0;
  Memory parameters{0};
  bool is_programmatic = false;  // may start before the grid before it has ended
  Grid* before = nullptr;        // the grid that griddepcontrol.wait waits for
  uint64_t started = 0;          // clusters
  uint64_t started_at = 0;       // tick
  uint64_t dependents_launched = 0;
  uint64_t ended = 0;
  std::vector<uint32_t> initial_registers;  // of a warp, but for what differs between warps
  std::vector<uint64_t> order;              // in which its clusters start
  GridCounts counts;
  std::vector<uint64_t> read_bytes;  // by Allocation::number

  void count_read(size_t allocation, uint64_t bytes) {
    if (read_bytes.size() <= allocation) read_bytes.resize(allocation + 1);
    read_bytes[allocation] += bytes;
  }
  bool has_ended() const { return ended == size.count(); }
  // The tick at which everything that its stream ran before was over: what was written until then every proxy may read.
  uint64_t whole_since() const {
    return is_programmatic && before != nullptr ? before->whole_since() : started_at;
  }
};

}  // namespace octet::ptxsim::machine
