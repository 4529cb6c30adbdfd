// SPDX-License-Identifier: Apache-2.0
// Who goes on when: grids start, blocks take turns, warps run slices of instructions, pending operations are performed.
//
//   round:  start what may start ──► each resident block in a drawn order: a turn
//   turn:   each warp from a drawn one on: a slice ──► perform what is due, or, if nothing went on, one operation by force
//   slice:  the fragment that is furthest behind (now and then another), until it blocks, polls in vain or its budget is spent
//
// Nothing goes on where every fragment is blocked or polls and sees what it saw before. If that holds for all blocks and no operation
// is pending, the run is stuck: an error that says where everybody stands.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ptxsim/machine/exec.h"
#include "ptxsim/machine/machine.h"

namespace octet::ptxsim::machine {

class Schedule {
 public:
  Schedule(Machine& machine, std::span<const Launch> launches)
      : machine_(machine), launches_(launches) {}
  Status run();
  std::vector<GridCounts> counts() const;  // of the grids

 private:
  // grids.cc
  Status make_grid(const Launch& launch, Grid* before);
  bool may_start(size_t grid) const;
  void start_clusters();
  void start_cluster(Grid& grid, uint64_t number);
  std::unique_ptr<Cta> make_cta(Grid& grid, Cluster& cluster, uint32_t rank,
                                uint64_t cluster_number);
  Status end_ctas(Cluster& cluster);

  // schedule.cc
  Status round(bool* progress);
  Status turn(Cta& cta, bool* progress);
  Status perform(Cta& cta, bool force, bool* performed);
  Status slice(Warp& warp, bool* progress);
  Fragment* pick(Warp& warp, LaneMask tried);
  Status run_fragment(Warp& warp, Fragment& fragment, bool* progress);
  Status stuck() const;

  Machine& machine_;
  std::span<const Launch> launches_;
  std::vector<std::unique_ptr<Grid>> grids_;
  std::vector<std::unique_ptr<Cluster>> resident_;
  uint32_t num_resident_ = 0;  // blocks
};

}  // namespace octet::ptxsim::machine
