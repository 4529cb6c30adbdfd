// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/machine/schedule.h"

#include <algorithm>
#include <fmt/format.h>

namespace octet::ptxsim::machine {
namespace {

constexpr uint64_t kLongestSlice = 512;  // instructions
constexpr int kMostIdleRounds =
    64;  // rounds without progress and with nothing pending, before a run is stuck
constexpr uint64_t kOtherFragmentOneIn =
    8;                           // a fragment that is not the furthest behind goes on so often
constexpr int kMostPlaces = 24;  // of a report of who stands where

void merge_others_into(Warp& warp, Fragment& into) {
  for (Fragment& other : warp.fragments) {
    if (&other == &into || other.lanes == 0 || other.pc != into.pc || other.ticket != 0) continue;
    into.lanes |= other.lanes;
    other.lanes = 0;
  }
}

void erase_empty(Warp& warp) {
  std::erase_if(warp.fragments, [](const Fragment& f) { return f.lanes == 0; });
}

// A poll that sees what one of the last few saw at the same place makes no progress.
bool sees_something_new(Fragment& fragment, uint64_t seen) {
  const uint64_t poll = (seen * 0x9E3779B97F4A7C15u) ^ (uint64_t{fragment.pc} << 32) ^ fragment.pc;
  if (std::find(fragment.polls.begin(), fragment.polls.end(), poll) != fragment.polls.end())
    return false;
  fragment.polls[fragment.next_poll++ % fragment.polls.size()] = poll;
  return true;
}

bool another_is_behind(const Warp& warp, const Fragment& fragment) {
  return std::any_of(warp.fragments.begin(), warp.fragments.end(), [&](const Fragment& other) {
    return &other != &fragment && other.lanes != 0 && !other.is_blocked && other.pc < fragment.pc;
  });
}

}  // namespace

Status Schedule::run() {
  Grid* before = nullptr;
  for (const Launch& launch : launches_) {
    OCTET_RETURN_IF_ERROR(make_grid(launch, before));
    before = grids_.back().get();
  }
  int idle_rounds = 0;
  for (;;) {
    start_clusters();
    if (resident_.empty()) return {};
    bool progress = false;
    OCTET_RETURN_IF_ERROR(round(&progress));
    idle_rounds = progress ? 0 : idle_rounds + 1;
    if (idle_rounds > kMostIdleRounds) return stuck();
    if (machine_.counts().instructions > machine_.settings().most_instructions) {
      return invalid_argument(fmt::format("{} instructions and no end: {}",
                                          machine_.counts().instructions, stuck().why));
    }
  }
}

Status Schedule::round(bool* progress) {
  const size_t from = machine_.random().below(resident_.size());
  for (size_t i = 0; i < resident_.size(); ++i) {
    Cluster& cluster = *resident_[(from + i) % resident_.size()];
    for (const auto& cta : cluster.ctas) {
      if (!cta->has_ended) OCTET_RETURN_IF_ERROR(turn(*cta, progress));
    }
    OCTET_RETURN_IF_ERROR(end_ctas(cluster));
  }
  std::erase_if(resident_, [&](const auto& cluster) {
    const bool ended = std::all_of(cluster->ctas.begin(), cluster->ctas.end(),
                                   [](const auto& cta) { return cta->has_ended; });
    if (ended) num_resident_ -= uint32_t(cluster->ctas.size());
    return ended;
  });
  return {};
}

Status Schedule::turn(Cta& cta, bool* progress) {
  bool went_on = false;
  const Counts before = machine_.counts();
  const size_t from = machine_.random().below(cta.warps.size());
  for (size_t i = 0; i < cta.warps.size(); ++i) {
    Warp& warp = *cta.warps[(from + i) % cta.warps.size()];
    if (warp.live == 0) continue;
    OCTET_RETURN_IF_ERROR(slice(warp, &went_on));
    if (machine_.settings().time != Time::kEager) {
      bool performed = false;
      OCTET_RETURN_IF_ERROR(perform(cta, false, &performed));
      went_on |= performed;
    }
  }
  if (!went_on) OCTET_RETURN_IF_ERROR(perform(cta, true, &went_on));
  cta.counts += machine_.counts() - before;
  *progress |= went_on;
  return {};
}

Status Schedule::perform(Cta& cta, bool force, bool* performed) {
  AsyncOp op;
  if (!cta.pending.take(machine_.now(), force, machine_.random(), &op)) return {};
  *performed = true;
  return op.perform();
}

Fragment* Schedule::pick(Warp& warp, LaneMask tried) {
  Fragment* best = nullptr;
  int seen = 0;
  const bool any = warp.fragments.size() > 1 && machine_.random().one_in(kOtherFragmentOneIn);
  for (Fragment& fragment : warp.fragments) {
    if ((fragment.lanes & tried) != 0) continue;
    ++seen;
    const bool takes =
        any ? machine_.random().one_in(seen) : best == nullptr || fragment.pc < best->pc;
    if (takes) best = &fragment;
  }
  return best;
}

Status Schedule::slice(Warp& warp, bool* progress) {
  LaneMask tried = 0;
  while (Fragment* fragment = pick(warp, tried)) {
    tried |= fragment->lanes;
    bool went_on = false;
    OCTET_RETURN_IF_ERROR(run_fragment(warp, *fragment, &went_on));
    erase_empty(warp);
    if (went_on) {
      *progress = true;
      break;
    }
  }
  return {};
}

Status Schedule::run_fragment(Warp& warp, Fragment& fragment, bool* progress) {
  Exec x{machine_, *warp.cta, warp, &fragment, warp.registers.data(), 0, 0, {}};
  const Insn* code = warp.cta->grid->program->code.data();
  Counts& counts = machine_.counts_;
  const uint64_t budget = 1 + machine_.random().below(kLongestSlice);
  for (uint64_t done = 0; done < budget; ++done) {
    if (warp.fragments.size() > 1) {
      if (fragment.ticket == 0) merge_others_into(warp, fragment);
      if (done != 0 && another_is_behind(warp, fragment)) {
        *progress = true;
        return {};
      }
    }
    const Insn& insn = code[fragment.pc];
    x.lanes = fragment.lanes;
    if (insn.guard != kNoSlot) {
      x.lanes &= x.registers[insn.guard] ^ insn.guard_flip;
      if (x.lanes == 0 && !insn.is_branch) {
        ++fragment.pc;
        ++counts.instructions;
        continue;
      }
    }
    if (insn.is_aligned) {
      if (x.lanes != fragment.lanes) {
        x.fail(insn, ".aligned, and the guard does not hold for all lanes");
        return x.error;
      }
      if (fragment.lanes != warp.live) {  // until the other lanes come here
        fragment.is_blocked = true;
        ++counts.polls;
        *progress |= done != 0;
        return {};
      }
    }
    x.seen = 0;
    if (machine_.trace_) machine_.trace_(*warp.cta, warp, x.lanes, insn);
    ++counts.instructions;
    counts.lane_instructions += uint64_t(num_lanes(x.lanes));
    switch (insn.run(x, insn)) {
      case Outcome::kNext:
        fragment.is_blocked = false;
        ++fragment.pc;
        break;
      case Outcome::kJumped:
        fragment.is_blocked = false;
        if (fragment.lanes == 0) {  // exited
          *progress = true;
          return {};
        }
        break;
      case Outcome::kBlocked:
        fragment.is_blocked = true;
        ++counts.polls;
        --counts.instructions;
        *progress |= done != 0 && sees_something_new(fragment, x.seen);
        return {};
      case Outcome::kYielded:
        fragment.is_blocked = !sees_something_new(fragment, x.seen);
        *progress |= !fragment.is_blocked;
        ++fragment.pc;
        ++counts.polls;
        return {};
      case Outcome::kFailed:
        return x.error;
    }
  }
  *progress = true;
  return {};
}

Status Schedule::stuck() const {
  std::string places;
  int shown = 0;
  for (const auto& cluster : resident_) {
    for (const auto& cta : cluster->ctas) {
      for (const auto& warp : cta->warps) {
        for (const Fragment& fragment : warp->fragments) {
          if (++shown > kMostPlaces) continue;
          const Insn& insn = cta->grid->program->code[fragment.pc];
          places += fmt::format("\n  block {}, warp {}, lanes {:08x} of {:08x}: line {}: {}",
                                cta->number, warp->index, fragment.lanes, warp->live,
                                insn.place.line, cta->grid->program->texts[insn.index]);
        }
      }
    }
  }
  if (shown > kMostPlaces) places += fmt::format("\n  and {} others", shown - kMostPlaces);
  return invalid_argument("nothing can go on:" + places);
}

Status Machine::run(std::span<const Launch> launches) {
  Schedule schedule(*this, launches);
  Status status = schedule.run();
  grid_counts_ = schedule.counts();
  return status;
}

}  // namespace octet::ptxsim::machine
