// SPDX-License-Identifier: Apache-2.0
// The ordering checker of one cluster's shared memory: who wrote and read what, and who knows of it.
//
// Each warp has a clock: of every warp, of every mbarrier and of every warp's own copies how far it knows them. What orders two
// accesses adds one clock to another: barriers, mbarriers (arrive gives, a successful wait takes), strong accesses of the same word.
//
//   access                      wants                                                         else
//   read                        the last write is known                                       a race (R4), or a copy not waited for
//   write                       the last write and all reads are known                        a race, or an operand overwritten (R5)
//   read by the async proxy     the last write by the generic proxy is known and fenced       a missing fence.proxy.async (R3)
//   write by the async proxy    as a write, asked when the copy is issued                     a slot filled that is still read
//
// A warp is one: what its lanes do among each other is not asked. Words of 4 bytes; where two warps write different bytes of one word
// only the last is remembered. Global memory is not watched. Any strong access (volatile, relaxed, atomic) gives and takes, so a
// missing .release, .acquire or fence beside it is not seen; an mbarrier's .relaxed is.
// Source: PTX ISA 8 (memory consistency model: 8.5 scopes, 8.6 proxies, 8.9.5 causality).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octet::ptxsim::machine {

// Grown where a component is first set; what is not there is 0.
class Clock {
 public:
  uint32_t at(uint32_t component) const { return component < at_.size() ? at_[component] : 0; }
  void raise(uint32_t component, uint32_t to);
  void join(const Clock& other);

 private:
  std::vector<uint32_t> at_;
};

// What is known, and of this what is fenced for the asynchronous proxy.
struct Knowledge {
  Clock known, fenced;
  void join(const Knowledge& other) {
    known.join(other.known);
    fenced.join(other.fenced);
  }
};

// An asynchronous operation's accesses: known to whom `component` has reached `epoch`, once that is said (Order::complete).
struct AsyncToken {
  uint32_t component = 0, epoch = 0;
  bool is_complete = false;
  uint32_t insn = 0;
  Knowledge issued;  // of its warp, when it was issued
  Knowledge gives;   // what its arrival on an mbarrier makes known
};

// Groups of asynchronous operations that a warp commits and waits for; each kind has a component of its own.
enum class GroupKind { kCopies, kBulkReads, kWgmma };
constexpr int kGroupKinds = 3;

enum class AccessKind : uint8_t { kPlain, kStrong };

class Order {
 public:
  // Warps are numbered rank * warps + index.
  Order(uint32_t num_ctas, uint32_t warps, uint32_t shared_bytes);

  uint32_t warp_of(uint32_t rank, int index) const { return rank * warps_ + uint32_t(index); }
  Knowledge& of(uint32_t warp) { return warps_known_[warp]; }

  // Each returns what is wrong, or nothing. [offset, offset + bytes) of the shared memory of this rank.
  std::string read(uint32_t warp, uint32_t rank, uint64_t offset, uint64_t bytes, AccessKind kind);
  std::string write(uint32_t warp, uint32_t rank, uint64_t offset, uint64_t bytes, AccessKind kind,
                    uint32_t insn);
  std::string update(uint32_t warp, uint32_t rank, uint64_t offset, uint64_t bytes, uint32_t insn);
  // At issue, by the operation's warp: may these bytes be overwritten; and are these ready for the asynchronous proxy.
  std::string may_overwrite(uint32_t warp, uint32_t rank, uint64_t offset, uint64_t bytes);
  std::string is_fenced(uint32_t token, uint32_t rank, uint64_t offset, uint64_t bytes);

  // Asynchronous operations: a token, what it read and wrote, and when that is known.
  // `reads`: it reads shared memory, of what its warp knows now.
  uint32_t issue(uint32_t warp, uint32_t insn, bool reads);
  AsyncToken& token(uint32_t number) { return tokens_[number]; }
  void async_wrote(uint32_t token, uint32_t rank, uint64_t offset, uint64_t bytes);
  void async_read(uint32_t token, uint32_t rank, uint64_t offset, uint64_t bytes);
  void complete(uint32_t token, uint32_t component, uint32_t epoch);

  // The operation is one of the warp's open group of this kind. `of_four`: it is one of the warpgroup's other warps, too.
  void join_group(uint32_t token, uint32_t warp, GroupKind kind, bool of_four = false);
  void commit_group(uint32_t warp, GroupKind kind);
  // All committed groups but the newest `left` have been waited for.
  void wait_group(uint32_t warp, GroupKind kind, uint64_t left);
  // What the warp has issued in groups of this kind up to here.
  void add_groups(uint32_t warp, GroupKind kind, Knowledge* to);

  // A component of its own: of an mbarrier, of a warp's copies.
  uint32_t new_component() { return next_component_++; }

  // What an arrival of this warp makes known: all that it knows; relaxed, what it knew at its last fence. What the warp does from here on is not
  // known to who has that already.
  const Knowledge& release(uint32_t warp, bool is_relaxed = false);
  // What a wait of this warp has found; relaxed, the warp knows it from its next fence on.
  void acquire(uint32_t warp, const Knowledge& given, bool is_relaxed = false);
  void fence(uint32_t warp);
  void fence_proxy(uint32_t warp);

 private:
  struct Word {
    uint32_t writer = 0;  // a warp, plus 1; 0: none
    uint32_t epoch = 0;
    uint32_t insn = 0;
    uint32_t write_token = 0, read_token = 0;  // of asynchronous operations since; 0: none
    uint8_t bytes = 0;                         // which of the four
    AccessKind kind = AccessKind::kPlain;
  };
  Word& word(uint32_t rank, uint64_t index) { return words_[rank * words_per_cta_ + index]; }
  uint32_t& reader(uint32_t rank, uint64_t index, uint32_t warp) {
    return readers_[(rank * words_per_cta_ + index) * num_warps_ + warp];
  }
  // What the warp does from here on is later than all that it has given, fenced or issued.
  void begin_epoch(uint32_t warp) { of(warp).known.raise(warp, epoch(warp) + 1); }
  uint32_t epoch(uint32_t warp) const { return warps_known_[warp].known.at(warp); }
  struct Groups {
    uint32_t component = 0;
    uint32_t issued = 0;
    std::vector<uint32_t> committed;
  };
  Groups& groups_of(uint32_t warp, GroupKind kind);
  void give_by_word(uint32_t warp, uint32_t rank, uint64_t index);
  bool knows(const Clock& known, uint32_t token) const;
  std::string unknown_write(uint32_t warp, const Clock& known, const Word& word, uint8_t bytes,
                            AccessKind kind) const;
  std::string unknown_read(uint32_t warp, uint32_t rank, uint64_t index);
  std::string about(uint64_t index, const std::string& what) const;

  uint32_t warps_, num_warps_;
  uint64_t words_per_cta_;
  std::vector<Word> words_;
  std::vector<uint32_t> readers_;  // epoch of the last read, word by warp
  std::vector<Knowledge> warps_known_;
  // By relaxed operations, given since the last fence; found and not yet fenced for.
  std::vector<Knowledge> warps_fenced_, warps_found_;
  std::vector<AsyncToken> tokens_;
  std::vector<Groups> groups_;     // warp by kind
  std::vector<Knowledge> strong_;  // what strong accesses of a word have given, by strong_of_
  std::vector<uint32_t> strong_of_;
  uint32_t next_component_;
  Knowledge given_;  // what release returns
};

}  // namespace octet::ptxsim::machine
