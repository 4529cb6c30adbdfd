// SPDX-License-Identifier: Apache-2.0
// Asynchronous operations that are issued and not yet performed.
//
//   issue    the instruction decides what is to be done, poisons what will be written, posts an AsyncOp
//   perform  later: sources are read then, written is then, and then an mbarrier or a group is told
//
// When later is, is the run's Time: kEager performs at issue; kRandom draws for each operation a moment by the seed; kLate performs
// only when nothing else of the block can go on, or has gone on for long (warps that ask for a word of memory in a loop always do).
// Operations of one channel are performed in the order of their issue (tcgen05's pipelines, wgmma's groups); those of kUnordered in any
// order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "octet/status.hpp"
#include "ptxsim/machine/random.h"

namespace octet::ptxsim::machine {

struct Insn;

enum class Time { kEager, kRandom, kLate };

constexpr int kUnordered = -1;

struct AsyncOp {
  const Insn* insn = nullptr;  // that issued it: for errors and reports
  int warp = 0;                // of the block
  int channel = kUnordered;
  uint64_t due = 0;                  // not before this tick, unless nothing else can go on
  uint64_t id = 0;                   // given by push
  std::vector<uint64_t> after = {};  // operations that must be performed before it
  uint64_t bytes = 0;                // of global memory that it reads
  std::function<Status()> perform;
};

class AsyncQueue {
 public:
  uint64_t push(AsyncOp op) {
    op.id = ++last_id_;
    bytes_ += op.bytes;
    most_bytes_ = std::max(most_bytes_, bytes_);
    ops_.push_back(std::move(op));
    return last_id_;
  }
  bool empty() const { return ops_.empty(); }
  size_t size() const { return ops_.size(); }
  uint64_t most_bytes() const {
    return most_bytes_;
  }  // that its operations were to read, at one time
  const std::deque<AsyncOp>& all() const { return ops_; }

  // Takes one operation that may be performed now, the first of its channel: one that is due, each as likely; or, with `force`, any, mostly
  // the newest, so that an operation that nobody waits for stays behind.
  bool take(uint64_t now, bool force, Random& random, AsyncOp* op);

 private:
  bool waits_for_another(const AsyncOp& op) const;

  std::deque<AsyncOp> ops_;  // in the order of their issue
  uint64_t last_id_ = 0;
  uint64_t bytes_ = 0, most_bytes_ = 0;
};

// One thread's groups of asynchronous copies: cp.async.commit_group, cp.async.wait_group and those of cp.async.bulk.
class AsyncGroups {
 public:
  // A copy joins the open group, whose number this is: hand it to `done`.
  uint64_t join() {
    ++left_.back();
    return first_ + left_.size() - 1;
  }
  void done(uint64_t group) { --left_[group - first_]; }
  void commit() { left_.push_back(0); }
  // All committed groups but the newest `most` are performed.
  bool at_most(uint64_t most);
  // The open group's copies, too.
  bool none_left() { return at_most(0) && left_.front() == 0; }

 private:
  uint64_t first_ = 0;               // number of the oldest group that is kept
  std::deque<uint32_t> left_ = {0};  // copies to perform, the open group last
};

}  // namespace octet::ptxsim::machine
