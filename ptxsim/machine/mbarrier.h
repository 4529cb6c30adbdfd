// SPDX-License-Identifier: Apache-2.0
// The mbarrier objects of one block's shared memory, by their offsets there.
//
// A phase ends when no arrival is pending and the transaction count is 0; the next one begins with the expected count pending.
// Source: PTX ISA 9.7.13.15 (mbarrier): 1 to 2^20 - 1 arrivals, transactions within +-(2^20 - 1).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "ptxsim/machine/order.h"

namespace octet::ptxsim::machine {

constexpr int64_t kMostArrivals = (1 << 20) - 1;
constexpr int64_t kMostTransactions = (1 << 20) - 1;
constexpr uint32_t kMbarrierBytes = 8;

struct Mbarrier {
  int64_t expected = 0;      // arrivals a phase
  int64_t pending = 0;       // arrivals that this phase still waits for
  int64_t transactions = 0;  // bytes announced and not yet there; negative where they came first
  uint64_t phase = 0;        // phases that have ended
  Knowledge given, ended;    // of this phase's arrivals; of those of phases that have ended
  uint32_t component =
      0;  // of clocks: how many phases are known to have ended; 0: order is not checked
  uint64_t seen_phase = 0;  // the newest phase that a wait has found ended

  // The phase of this parity has ended: test_wait.parity, try_wait.parity.
  bool has_ended(uint32_t parity) const { return (phase & 1) != (parity & 1); }
  // What arrive returns: which phase it arrived in, and that the token is one.
  uint64_t token() const { return (phase << 1) | 1; }

  // Each returns what is wrong, or nothing.
  std::string expect(int64_t bytes);    // expect_tx
  std::string complete(int64_t bytes);  // complete_tx, by an asynchronous operation
  std::string arrive(int64_t count);
  std::string drop(int64_t count);  // arrive_drop: also from the expected count of later phases

 private:
  void end_phase_if_due();
};

class Mbarriers {
 public:
  Mbarrier* find(uint32_t offset) {
    const auto found = at_.find(offset);
    return found == at_.end() ? nullptr : &found->second;
  }
  void init(uint32_t offset, int64_t count);
  bool invalidate(uint32_t offset) { return at_.erase(offset) != 0; }
  const std::unordered_map<uint32_t, Mbarrier>& all() const { return at_; }

 private:
  std::unordered_map<uint32_t, Mbarrier> at_;
};

}  // namespace octet::ptxsim::machine
