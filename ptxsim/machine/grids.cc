// SPDX-License-Identifier: Apache-2.0
// The part of Schedule that starts and ends grids, clusters and blocks.
#include <algorithm>
#include <fmt/format.h>

#include "ptxsim/machine/presets.h"
#include "ptxsim/machine/schedule.h"

namespace octet::ptxsim::machine {
namespace {

constexpr uint64_t kMostThreads = 1024;
constexpr uint64_t kMostBlocks = 32;  // of a multiprocessor

bool is_given(const std::array<uint32_t, 3>& d) { return d[0] != 0; }
bool is(const std::array<uint32_t, 3>& d, const Dim3& e) {
  return d[0] == e.x && d[1] == e.y && d[2] == e.z;
}

// With what is reserved for the system.
uint64_t shared_bytes_of(const Launch& launch) {
  return uint64_t{launch.program->static_shared_bytes} + launch.dynamic_shared_bytes;
}

Status check(const Launch& launch, const Dim3& cluster, const Settings& settings) {
  const Program& p = *launch.program;
  const uint64_t threads = launch.block.count();
  if (threads < 1 || threads > kMostThreads) {
    return invalid_argument(fmt::format("{} threads a block, want 1 to {}", threads, kMostThreads));
  }
  if (is_given(p.required_threads) && !is(p.required_threads, launch.block)) {
    return invalid_argument(
        fmt::format("{} threads a block, .reqntid wants {}", threads, p.required_threads[0]));
  }
  const uint64_t most = uint64_t{p.most_threads[0]} * p.most_threads[1] * p.most_threads[2];
  if (most != 0 && threads > most) {
    return invalid_argument(fmt::format("{} threads a block, .maxntid lets {}", threads, most));
  }
  if (launch.grid.count() < 1) return invalid_argument("a grid without blocks");
  if (launch.grid.x % cluster.x != 0 || launch.grid.y % cluster.y != 0 ||
      launch.grid.z % cluster.z != 0) {
    return invalid_argument(
        fmt::format("a grid of {} x {} x {} is not made of clusters of {} x {} x {}", launch.grid.x,
                    launch.grid.y, launch.grid.z, cluster.x, cluster.y, cluster.z));
  }
  const uint64_t shared = shared_bytes_of(launch);
  if (shared > settings.sm_shared_bytes) {
    return invalid_argument(
        fmt::format("{} bytes of shared memory, at most {}", shared, settings.sm_shared_bytes));
  }
  if (launch.parameters.size() != p.parameter_bytes) {
    return invalid_argument(fmt::format("{} bytes of parameters, '{}' has {}",
                                        launch.parameters.size(), p.name, p.parameter_bytes));
  }
  return {};
}

GridCounts counts_of(const Launch& launch, const Settings& settings) {
  GridCounts counts;
  counts.kernel = launch.program->name;
  counts.blocks = launch.grid.count();
  counts.threads = uint32_t(launch.block.count());
  counts.shared_bytes = uint32_t(shared_bytes_of(launch));
  counts.blocks_per_sm =
      std::min({kMostBlocks, uint64_t{settings.sm_threads / counts.threads},
                uint64_t{settings.sm_shared_bytes / std::max(counts.shared_bytes, 1U)}});
  const uint64_t of_a_wave = counts.blocks_per_sm * settings.num_sms;
  counts.waves = (counts.blocks + of_a_wave - 1) / of_a_wave;
  return counts;
}

Dim3 unflatten(uint64_t number, const Dim3& size) {
  return {uint32_t(number % size.x), uint32_t(number / size.x % size.y),
          uint32_t(number / size.x / size.y)};
}

std::unique_ptr<Warp> make_warp(Cta& cta, int index, uint32_t num_sms) {
  auto warp = std::make_unique<Warp>();
  warp->cta = &cta;
  warp->index = index;
  warp->registers = cta.grid->initial_registers;
  const uint64_t threads = cta.grid->block.count() - uint64_t(index) * kLanes;
  warp->live = threads >= kLanes ? kAllLanes : (LaneMask{1} << threads) - 1;
  warp->fragments.reserve(kLanes + 1);  // pointers to them stay while a branch adds one
  warp->fragments.push_back({.pc = 0, .lanes = warp->live});
  fill_presets(*warp, num_sms);
  return warp;
}

}  // namespace

Status Schedule::make_grid(const Launch& launch, Grid* before) {
  const auto& wants = launch.program->cluster;
  const Dim3 cluster = is_given(wants) ? Dim3{wants[0], wants[1], wants[2]} : launch.cluster;
  OCTET_RETURN_IF_ERROR(check(launch, cluster, machine_.settings()));
  auto grid = std::make_unique<Grid>();
  grid->id = ++machine_.grids_made_;
  grid->program = launch.program;
  grid->size = launch.grid;
  grid->block = launch.block;
  grid->cluster = cluster;
  grid->dynamic_shared_bytes = launch.dynamic_shared_bytes;
  grid->parameters = Memory(launch.parameters.size());
  grid->parameters.write(0, launch.parameters);
  grid->is_programmatic = launch.is_programmatic;
  grid->before = before;
  grid->initial_registers = initial_registers(*launch.program);
  grid->counts = counts_of(launch, machine_.settings());
  const uint64_t clusters = launch.grid.count() / cluster.count();
  for (uint64_t i = 0; i < clusters; ++i) grid->order.push_back(i);
  if (machine_.settings().time != Time::kEager) {
    for (uint64_t i = clusters; i > 1; --i)
      std::swap(grid->order[i - 1], grid->order[machine_.random().below(i)]);
  }
  grids_.push_back(std::move(grid));
  return {};
}

bool Schedule::may_start(size_t grid) const {
  if (grid == 0) return true;
  const Grid& before = *grids_[grid - 1];
  if (grids_[grid]->is_programmatic && before.dependents_launched == before.size.count())
    return true;
  return std::all_of(grids_.begin(), grids_.begin() + int64_t(grid),
                     [](const auto& g) { return g->has_ended(); });
}

void Schedule::start_clusters() {
  for (size_t i = 0; i < grids_.size(); ++i) {
    Grid& grid = *grids_[i];
    if (grid.started == grid.order.size()) continue;
    if (!may_start(i)) return;
    if (grid.started == 0) grid.started_at = machine_.now();
    while (grid.started < grid.order.size()) {
      const uint64_t blocks = grid.cluster.count();
      if (num_resident_ != 0 && num_resident_ + blocks > machine_.settings().most_resident) return;
      start_cluster(grid, grid.order[grid.started++]);
    }
  }
}

void Schedule::start_cluster(Grid& grid, uint64_t number) {
  if (grid.before != nullptr && !grid.before->has_ended())
    grid.counts.begun_early += grid.cluster.count();
  auto cluster = std::make_unique<Cluster>();
  for (uint32_t rank = 0; rank < grid.cluster.count(); ++rank) {
    cluster->ctas.push_back(make_cta(grid, *cluster, rank, number));
    cluster->live_warps += cluster->ctas.back()->live_warps;
    ++num_resident_;
  }
  if (machine_.settings().order != OrderCheck::kOff) {
    const Cta& first = *cluster->ctas[0];
    cluster->order =
        std::make_unique<Order>(uint32_t(cluster->ctas.size()), uint32_t(first.warps.size()),
                                uint32_t(first.shared.size()));
  }
  resident_.push_back(std::move(cluster));
}

std::unique_ptr<Cta> Schedule::make_cta(Grid& grid, Cluster& cluster, uint32_t rank,
                                        uint64_t cluster_number) {
  auto cta = std::make_unique<Cta>(grid.program->static_shared_bytes + grid.dynamic_shared_bytes);
  const Dim3 clusters{grid.size.x / grid.cluster.x, grid.size.y / grid.cluster.y,
                      grid.size.z / grid.cluster.z};
  const Dim3 of = unflatten(cluster_number, clusters), in = unflatten(rank, grid.cluster);
  cta->grid = &grid;
  cta->cluster = &cluster;
  cta->rank = rank;
  cta->index = {of.x * grid.cluster.x + in.x, of.y * grid.cluster.y + in.y,
                of.z * grid.cluster.z + in.z};
  cta->number =
      cta->index.x + uint64_t{grid.size.x} * (cta->index.y + uint64_t{grid.size.y} * cta->index.z);
  const auto warps = int((grid.block.count() + kLanes - 1) / kLanes);
  cta->live_warps = uint32_t(warps);
  for (int i = 0; i < warps; ++i) cta->warps.push_back(nullptr);  // %nwarpid counts them
  for (int i = 0; i < warps; ++i) cta->warps[i] = make_warp(*cta, i, machine_.settings().num_sms);
  cta->warpgroups.resize((warps + 3) / 4);
  return cta;
}

std::vector<GridCounts> Schedule::counts() const {
  std::vector<GridCounts> all;
  for (const auto& grid : grids_) {
    all.push_back(grid->counts);
    for (size_t i = 0; i < grid->read_bytes.size(); ++i) {
      if (grid->read_bytes[i] != 0)
        all.back().read_bytes[machine_.memory().name(i)] += grid->read_bytes[i];
    }
  }
  return all;
}

// Blocks whose threads have all exited. What is pending then would read or write memory that another block may have by then.
Status Schedule::end_ctas(Cluster& cluster) {
  for (const auto& cta : cluster.ctas) {
    if (cta->has_ended || cta->live_warps != 0) continue;
    if (!cta->pending.empty()) {
      return async_error(
          *cta, *cta->pending.all().front().insn,
          fmt::format("the block has exited with {} operations in flight", cta->pending.size()));
    }
    if (cta->tensor != nullptr) {
      if (const std::string left = cta->tensor->left_behind(); !left.empty()) {
        return invalid_argument(fmt::format("block {} has exited: {}", cta->number, left));
      }
    }
    cta->has_ended = true;
    for (auto& warp : cta->warps) warp->registers = {};
    GridCounts& counts = cta->grid->counts;
    counts.all += cta->counts;
    counts.most.raise_to(cta->counts);
    counts.most_bytes_in_flight = std::max(counts.most_bytes_in_flight, cta->pending.most_bytes());
    if (!cta->launched_dependents) ++cta->grid->dependents_launched;
    cta->launched_dependents = true;
    ++cta->grid->ended;
  }
  return {};
}

}  // namespace octet::ptxsim::machine
