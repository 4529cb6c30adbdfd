// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/machine/async.h"

#include <algorithm>

namespace octet::ptxsim::machine {

bool AsyncQueue::take(uint64_t now, bool force, Random& random, AsyncOp* op) {
  if (ops_.empty()) return false;
  // From a place that the seed draws on: the first that is due and whose channel has nothing older.
  const size_t from = random.below(ops_.size());
  for (size_t i = 0; i < ops_.size(); ++i) {
    const size_t k = (from + i) % ops_.size();
    if (!force && ops_[k].due > now) continue;
    const int channel = ops_[k].channel;
    const auto first = channel == kUnordered
                           ? ops_.begin() + int64_t(k)
                           : std::find_if(ops_.begin(), ops_.end(), [&](const AsyncOp& other) {
                               return other.channel == channel;
                             });
    if (!force && first->due > now) continue;
    *op = std::move(*first);
    ops_.erase(first);
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
