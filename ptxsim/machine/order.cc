// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/machine/order.h"

#include <algorithm>
#include <fmt/format.h>

namespace octet::ptxsim::machine {
namespace {

constexpr uint64_t kWord = 4;
constexpr uint32_t kNoWarp = ~uint32_t{0} - 1;

// f(index of a word, which of its bytes) for all of them; the first that is wrong.
template <class F>
std::string over_words(uint64_t offset, uint64_t bytes, F f) {
  std::string first;
  for (uint64_t at = offset; at < offset + bytes;) {
    const uint64_t end = std::min(at / kWord * kWord + kWord, offset + bytes);
    const auto mask = uint8_t(((1u << (end - at)) - 1) << (at % kWord));
    if (std::string wrong = f(at / kWord, mask); first.empty()) first = std::move(wrong);
    at = end;
  }
  return first;
}

}  // namespace

void Clock::raise(uint32_t component, uint32_t to) {
  if (component >= at_.size()) at_.resize(component + 1, 0);
  at_[component] = std::max(at_[component], to);
}

void Clock::join(const Clock& other) {
  if (other.at_.size() > at_.size()) at_.resize(other.at_.size(), 0);
  for (size_t i = 0; i < other.at_.size(); ++i) at_[i] = std::max(at_[i], other.at_[i]);
}

Order::Order(uint32_t num_ctas, uint32_t warps, uint32_t shared_bytes)
    : warps_(warps),
      num_warps_(num_ctas * warps),
      words_per_cta_((shared_bytes + kWord - 1) / kWord),
      words_(num_ctas * words_per_cta_),
      readers_(num_ctas * words_per_cta_ * num_warps_, 0),
      warps_known_(num_warps_),
      warps_fenced_(num_warps_),
      warps_found_(num_warps_),
      tokens_(1),
      groups_(size_t(num_warps_) * kGroupKinds),
      strong_(1),
      strong_of_(num_ctas * words_per_cta_, 0),
      next_component_(num_warps_) {
  for (uint32_t warp = 0; warp < num_warps_; ++warp) of(warp).known.raise(warp, 1);
}

std::string Order::about(uint64_t index, const std::string& what) const {
  return fmt::format("order: shared byte {}: {}", index * kWord, what);
}

bool Order::knows(const Clock& known, uint32_t token) const {
  const AsyncToken& t = tokens_[token];
  return t.is_complete && known.at(t.component) >= t.epoch;
}

// `insn`s are indices of instructions: the machine puts the lines in (insn/access.cc).
std::string Order::unknown_write(uint32_t warp, const Clock& known, const Word& word, uint8_t bytes,
                                 AccessKind kind) const {
  if (word.write_token != 0 && !knows(known, word.write_token)) {
    return fmt::format(
        "written by the asynchronous operation of #{}, which has not been waited for",
        tokens_[word.write_token].insn);
  }
  if (word.writer == 0 || word.writer == warp + 1 || (word.bytes & bytes) == 0) return "";
  if (kind == AccessKind::kStrong && word.kind == AccessKind::kStrong) return "";
  if (known.at(word.writer - 1) >= word.epoch) return "";
  return fmt::format("written by warp {} at #{}, with nothing that orders the two",
                     (word.writer - 1) % warps_, word.insn);
}

std::string Order::unknown_read(uint32_t warp, uint32_t rank, uint64_t index) {
  const Word& w = word(rank, index);
  if (w.read_token != 0 && !knows(of(warp).known, w.read_token)) {
    return fmt::format("read by the asynchronous operation of #{}, which has not been waited for",
                       tokens_[w.read_token].insn);
  }
  const Clock& known = of(warp).known;
  const uint32_t* readers = &reader(rank, index, 0);
  for (uint32_t other = 0; other < num_warps_; ++other) {
    if (readers[other] == 0 || other == warp || known.at(other) >= readers[other]) continue;
    return fmt::format("read by warp {}, with nothing that orders the two", other % warps_);
  }
  return "";
}

std::string Order::read(uint32_t warp, uint32_t rank, uint64_t offset, uint64_t bytes,
                        AccessKind kind) {
  const uint32_t now = epoch(warp);
  return over_words(offset, bytes, [&](uint64_t index, uint8_t mask) -> std::string {
    if (kind == AccessKind::kStrong)
      of(warp).join(strong_[strong_of_[rank * words_per_cta_ + index]]);
    const std::string wrong = unknown_write(warp, of(warp).known, word(rank, index), mask, kind);
    if (kind == AccessKind::kPlain) reader(rank, index, warp) = now;
    return wrong.empty() ? "" : about(index, wrong);
  });
}

std::string Order::write(uint32_t warp, uint32_t rank, uint64_t offset, uint64_t bytes,
                         AccessKind kind, uint32_t insn) {
  return over_words(offset, bytes, [&](uint64_t index, uint8_t mask) -> std::string {
    Word& w = word(rank, index);
    std::string wrong = unknown_write(warp, of(warp).known, w, mask, kind);
    if (wrong.empty()) wrong = unknown_read(warp, rank, index);
    const bool joins = w.writer == warp + 1 && w.epoch == epoch(warp);
    w = {warp + 1, epoch(warp), insn, 0, 0, uint8_t(joins ? w.bytes | mask : mask), kind};
    if (kind == AccessKind::kStrong) give_by_word(warp, rank, index);
    return wrong.empty() ? "" : about(index, wrong);
  });
}

// A strong write gives what its warp knows to the strong reads of the word.
void Order::give_by_word(uint32_t warp, uint32_t rank, uint64_t index) {
  uint32_t& strong = strong_of_[rank * words_per_cta_ + index];
  if (strong == 0) {
    strong = uint32_t(strong_.size());
    strong_.emplace_back();
  }
  strong_[strong].join(release(warp));
}

std::string Order::update(uint32_t warp, uint32_t rank, uint64_t offset, uint64_t bytes,
                          uint32_t insn) {
  std::string wrong = read(warp, rank, offset, bytes, AccessKind::kStrong);
  std::string wrong_write = write(warp, rank, offset, bytes, AccessKind::kStrong, insn);
  return wrong.empty() ? wrong_write : wrong;
}

std::string Order::may_overwrite(uint32_t warp, uint32_t rank, uint64_t offset, uint64_t bytes) {
  return over_words(offset, bytes, [&](uint64_t index, uint8_t mask) -> std::string {
    std::string wrong =
        unknown_write(warp, of(warp).known, word(rank, index), mask, AccessKind::kPlain);
    if (wrong.empty()) wrong = unknown_read(warp, rank, index);
    return wrong.empty() ? "" : about(index, wrong);
  });
}

std::string Order::is_fenced(uint32_t token, uint32_t rank, uint64_t offset, uint64_t bytes) {
  const Knowledge& issued = tokens_[token].issued;
  return over_words(offset, bytes, [&](uint64_t index, uint8_t mask) -> std::string {
    const Word& w = word(rank, index);
    std::string wrong = unknown_write(kNoWarp, issued.known, w, mask, AccessKind::kPlain);
    if (wrong.empty() && w.writer != 0 && issued.fenced.at(w.writer - 1) < w.epoch) {
      wrong = fmt::format(
          "written by the generic proxy (warp {} at #{}), with no fence.proxy.async behind it",
          (w.writer - 1) % warps_, w.insn);
    }
    return wrong.empty() ? "" : about(index, wrong);
  });
}

uint32_t Order::issue(uint32_t warp, uint32_t insn, bool reads) {
  tokens_.push_back({0, 0, false, insn, reads ? of(warp) : Knowledge{}, {}});
  if (reads) begin_epoch(warp);
  return uint32_t(tokens_.size()) - 1;
}

Order::Groups& Order::groups_of(uint32_t warp, GroupKind kind) {
  Groups& groups = groups_[warp * kGroupKinds + uint32_t(kind)];
  if (groups.component == 0) groups.component = new_component();
  return groups;
}

void Order::join_group(uint32_t token, uint32_t warp, GroupKind kind, bool of_four) {
  Groups& groups = groups_of(warp, kind);
  complete(token, groups.component, ++groups.issued);
  if (!of_four) return;
  const uint32_t first = warp / warps_ * warps_ + warp % warps_ / 4 * 4;
  for (uint32_t other = first; other < first + 4; ++other) {
    groups_of(other, kind).component = groups.component;
    groups_of(other, kind).issued = groups.issued;
  }
}

void Order::commit_group(uint32_t warp, GroupKind kind) {
  Groups& groups = groups_of(warp, kind);
  groups.committed.push_back(groups.issued);
}

void Order::wait_group(uint32_t warp, GroupKind kind, uint64_t left) {
  const Groups& groups = groups_of(warp, kind);
  if (groups.committed.size() <= left) return;
  of(warp).known.raise(groups.component, groups.committed[groups.committed.size() - 1 - left]);
}

void Order::add_groups(uint32_t warp, GroupKind kind, Knowledge* to) {
  to->known.raise(groups_of(warp, kind).component, groups_of(warp, kind).issued);
}

void Order::async_wrote(uint32_t token, uint32_t rank, uint64_t offset, uint64_t bytes) {
  (void)over_words(offset, bytes, [&](uint64_t index, uint8_t) -> std::string {
    Word& w = word(rank, index);
    w.write_token = token;
    w.writer = 0;
    w.read_token = 0;
    return "";
  });
}

void Order::async_read(uint32_t token, uint32_t rank, uint64_t offset, uint64_t bytes) {
  (void)over_words(offset, bytes, [&](uint64_t index, uint8_t) -> std::string {
    word(rank, index).read_token = token;
    return "";
  });
}

void Order::complete(uint32_t token, uint32_t component, uint32_t epoch) {
  tokens_[token].component = component;
  tokens_[token].epoch = epoch;
  tokens_[token].is_complete = true;
}

void Order::fence_proxy(uint32_t warp) {
  of(warp).fenced.join(of(warp).known);
  begin_epoch(warp);
}

void Order::fence(uint32_t warp) {
  of(warp).join(warps_found_[warp]);
  warps_found_[warp] = {};
  warps_fenced_[warp] = release(warp);
}

void Order::acquire(uint32_t warp, const Knowledge& given, bool is_relaxed) {
  (is_relaxed ? warps_found_[warp] : of(warp)).join(given);
}

const Knowledge& Order::release(uint32_t warp, bool is_relaxed) {
  if (is_relaxed) return warps_fenced_[warp];
  // The knowledge given has this epoch; what follows has the next one.
  Knowledge& mine = of(warp);
  given_ = mine;
  begin_epoch(warp);
  return given_;
}

}  // namespace octet::ptxsim::machine
