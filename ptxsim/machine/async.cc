// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/machine/async.h"

#include <algorithm>

namespace octet::ptxsim::machine {
namespace {

constexpr uint64_t kAnyOneIn = 4;  // by force: the newest otherwise

}  // namespace

bool AsyncQueue::waits_for_another(const AsyncOp& op) const {
  return std::any_of(op.after.begin(), op.after.end(), [&](uint64_t id) {
    return std::any_of(ops_.begin(), ops_.end(),
                       [&](const AsyncOp& other) { return other.id == id; });
  });
}

bool AsyncQueue::take(uint64_t now, bool force, Random& random, AsyncOp* op) {
  std::vector<int> seen;  // channels, of which the oldest operation alone may be next
  uint64_t eligible = 0;
  size_t taken = ops_.size();
  const bool takes_newest = force && !random.one_in(kAnyOneIn);
  for (size_t i = 0; i < ops_.size(); ++i) {
    const AsyncOp& each = ops_[i];
    if (each.channel != kUnordered) {
      if (std::find(seen.begin(), seen.end(), each.channel) != seen.end()) continue;
      seen.push_back(each.channel);
    }
    if ((!force && each.due > now) || waits_for_another(each)) continue;
    if (takes_newest || random.one_in(++eligible)) taken = i;  // each as likely as the others
  }
  if (taken == ops_.size()) return false;
  *op = std::move(ops_[taken]);
  bytes_ -= op->bytes;
  ops_.erase(ops_.begin() + int64_t(taken));
  return true;
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
