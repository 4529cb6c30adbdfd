// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/machine/async.h"

#include <algorithm>

namespace octet::ptxsim::machine {

// Nothing older is in its channel, and nothing that it waits for is left.
bool AsyncQueue::may_be_next(const AsyncOp& op) const {
  for (const AsyncOp& other : ops_) {
    if (other.id == op.id) {
      if (op.after.empty()) return true;
      continue;
    }
    if (other.id < op.id && op.channel != kUnordered && other.channel == op.channel) return false;
    if (std::find(op.after.begin(), op.after.end(), other.id) != op.after.end()) return false;
  }
  return true;
}

bool AsyncQueue::take(uint64_t now, bool force, Random& random, AsyncOp* op) {
  if (ops_.empty()) return false;
  const size_t from = random.below(ops_.size());
  for (size_t i = 0; i < ops_.size(); ++i) {
    const auto at = ops_.begin() + int64_t((from + i) % ops_.size());
    if ((!force && at->due > now) || !may_be_next(*at)) continue;
    *op = std::move(*at);
    ops_.erase(at);
    return true;
  }
  return false;
}

bool AsyncGroups::at_most(uint64_t most) {
  while (left_.size() > 1 && left_.front() == 0) {
    left_.pop_front();
    ++first_;
  }
  // The front is the oldest that is not done; the open group, last, is not committed.
  return left_.size() - 1 <= most;
}

}  // namespace octet::ptxsim::machine
