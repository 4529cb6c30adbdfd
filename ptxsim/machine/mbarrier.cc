// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/machine/mbarrier.h"

#include <fmt/format.h>

namespace octet::ptxsim::machine {

void Mbarrier::end_phase_if_due() {
  if (pending != 0 || transactions != 0) return;
  ++phase;
  pending = expected;
  if (component == 0) return;
  ended.join(given);
  ended.known.raise(component, uint32_t(phase));
  given = {};
}

std::string Mbarrier::expect(int64_t bytes) {
  transactions += bytes;
  if (transactions > kMostTransactions) {
    return fmt::format("the mbarrier's transaction count would be {}, at most {}", transactions,
                       kMostTransactions);
  }
  end_phase_if_due();
  return "";
}

std::string Mbarrier::complete(int64_t bytes) {
  transactions -= bytes;
  if (transactions < -kMostTransactions) {
    return fmt::format("the mbarrier's transaction count would be {}, at least {}", transactions,
                       -kMostTransactions);
  }
  end_phase_if_due();
  return "";
}

std::string Mbarrier::arrive(int64_t count) {
  if (count < 1 || count > pending) {
    return fmt::format("{} arrivals at an mbarrier whose phase {} waits for {} of {}", count, phase,
                       pending, expected);
  }
  pending -= count;
  end_phase_if_due();
  return "";
}

std::string Mbarrier::drop(int64_t count) {
  if (count > expected) {
    return fmt::format("{} arrivals dropped from an mbarrier that expects {}", count, expected);
  }
  expected -= count;
  return arrive(count);
}

void Mbarriers::init(uint32_t offset, int64_t count) {
  Mbarrier& made = at_[offset];
  made = {};
  made.expected = made.pending = count;
}

}  // namespace octet::ptxsim::machine
