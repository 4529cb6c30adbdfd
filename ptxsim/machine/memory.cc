// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/machine/memory.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace octet::ptxsim::machine {

bool Memory::all_are(Byte what, uint64_t offset, uint64_t count) const {
  if (state_.empty()) return what == Byte::kSet;
  const uint8_t* from = state_.data() + offset;
  return std::all_of(from, from + count, [&](uint8_t state) { return state == uint8_t(what); });
}

bool Memory::any_is(Byte what, uint64_t offset, uint64_t count) const {
  if (state_.empty()) return what == Byte::kSet;
  const uint8_t* from = state_.data() + offset;
  return std::any_of(from, from + count, [&](uint8_t state) { return state == uint8_t(what); });
}

void Memory::mark(Byte what, uint64_t offset, uint64_t count) {
  if (state_.empty()) {
    if (what == Byte::kSet) return;
    state_.assign(bytes_.size(), uint8_t(Byte::kSet));
  }
  std::fill_n(state_.begin() + int64_t(offset), count, uint8_t(what));
}

void Memory::poison(uint64_t offset, uint64_t count) {
  std::fill_n(bytes_.begin() + int64_t(offset), count, kPoison);
  mark(Byte::kUnset, offset, count);
}

void Memory::write(uint64_t offset, std::span<const uint8_t> from) {
  std::copy(from.begin(), from.end(), bytes_.begin() + int64_t(offset));
  if (offset == 0 && from.size() == bytes_.size()) {
    state_.clear();
    state_.shrink_to_fit();
  } else {
    mark(Byte::kSet, offset, from.size());
  }
}

void Allocation::note_write(uint64_t offset, uint64_t bytes, uint64_t tick) {
  if (written_at.empty()) written_at.resize(memory.size() / kWriteBytes + 1);
  for (uint64_t i = offset / kWriteBytes; i * kWriteBytes < offset + bytes; ++i)
    written_at[i] = tick;
}

uint64_t Allocation::last_write(uint64_t offset, uint64_t bytes) const {
  if (written_at.empty()) return 0;
  const auto first = written_at.begin() + int64_t(offset / kWriteBytes);
  return *std::max_element(
      first, first + int64_t((offset % kWriteBytes + bytes + kWriteBytes - 1) / kWriteBytes));
}

uint64_t GlobalMemory::allocate(std::string name, uint64_t bytes, bool is_read_only) {
  constexpr uint64_t kAlign = 256, kGap = 1 << 20;  // a gap that a stray index does not jump
  const uint64_t base = next_;
  next_ = (base + bytes + kGap + kAlign - 1) / kAlign * kAlign;
  names_.push_back(name);
  allocations_.push_back(std::make_unique<Allocation>(
      Allocation{std::move(name), base, Memory(bytes), is_read_only, names_.size() - 1}));
  return base;
}

bool GlobalMemory::release(uint64_t base) {
  last_ = 0;
  return std::erase_if(allocations_, [&](const auto& a) { return a->base == base; }) != 0;
}

Allocation* GlobalMemory::find(uint64_t address, uint64_t count) {
  const auto holds = [&](const Allocation& a) {
    return address >= a.base && a.memory.covers(address - a.base, count);
  };
  if (last_ < allocations_.size() && holds(*allocations_[last_])) return allocations_[last_].get();
  const auto above =
      std::upper_bound(allocations_.begin(), allocations_.end(), address,
                       [](uint64_t at, const auto& allocation) { return at < allocation->base; });
  if (above == allocations_.begin() || !holds(**(above - 1))) return nullptr;
  last_ = size_t(above - allocations_.begin()) - 1;
  return allocations_[last_].get();
}

std::string GlobalMemory::explain(uint64_t address, uint64_t count) const {
  const Allocation* below = nullptr;
  for (const auto& allocation : allocations_) {
    if (allocation->base <= address) below = allocation.get();
  }
  if (below == nullptr) return fmt::format("address {:#x} is in no allocation", address);
  return fmt::format(
      "{} bytes at {:#x} are not in an allocation; '{}' has {} bytes, these begin at its byte {}",
      count, address, below->name, below->memory.size(), address - below->base);
}

Status GlobalMemory::write(uint64_t address, std::span<const uint8_t> from) {
  Allocation* at = find(address, from.size());
  if (at == nullptr) return invalid_argument(explain(address, from.size()));
  at->memory.write(address - at->base, from);
  return {};
}

Result<std::vector<uint8_t>> GlobalMemory::read(uint64_t address, uint64_t count) {
  Allocation* at = find(address, count);
  if (at == nullptr) return invalid_argument(explain(address, count));
  const uint8_t* from = at->memory.at(address - at->base);
  return std::vector<uint8_t>(from, from + count);
}

}  // namespace octet::ptxsim::machine
