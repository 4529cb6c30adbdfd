// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/machine/tensor_memory.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace octet::ptxsim::machine {
namespace {

constexpr uint32_t kTensorPoison = 0xFFFFFFFF;
constexpr uint32_t kUnitColumns = 32;

Status check_columns(uint32_t columns) {
  if (columns < kUnitColumns || columns > kTensorColumns || !std::has_single_bit(columns))
    return invalid_argument(
        fmt::format("{} columns of tensor memory, want a power of two in 32 ... 512", columns));
  return {};
}

std::string_view user_name(TensorUser user) {
  switch (user) {
    case TensorUser::kMma:
      return "tcgen05.mma";
    case TensorUser::kCopy:
      return "tcgen05.cp";
    case TensorUser::kLoad:
      return "tcgen05.ld";
    case TensorUser::kStore:
      return "tcgen05.st";
  }
  return "";
}

}  // namespace

std::string print(const TensorRect& rect) {
  return fmt::format("lanes {}-{}, columns {}-{}", rect.lane, rect.lane + rect.num_lanes - 1,
                     rect.column, rect.column + rect.num_columns - 1);
}

TensorMemory::TensorMemory(bool copies_follow_products)
    : cells_(size_t{kTensorLanes} * kTensorColumns, kTensorPoison),
      set_(size_t{kTensorLanes} * kTensorColumns),
      copies_follow_products_(copies_follow_products) {}

// PTX ISA 9.7.16.6.2: mma follows mma of the same accumulator and shape, and cp; what else touches cells in use has raced.
bool TensorMemory::is_pipelined(const TensorUse& first, const TensorUse& second) const {
  const bool first_is_mma = first.user == TensorUser::kMma;
  if (second.user == TensorUser::kCopy)
    return copies_follow_products_ && (first_is_mma || first.user == TensorUser::kCopy);
  if (second.user != TensorUser::kMma) return false;
  if (first.user == TensorUser::kCopy) return true;
  return first_is_mma && first.is_write && second.is_write && first.rect == second.rect;
}

Result<std::optional<uint32_t>> TensorMemory::allocate(uint32_t columns, Random& random) {
  OCTET_RETURN_IF_ERROR(check_columns(columns));
  if (is_relinquished_)
    return invalid_argument("allocation of tensor memory after relinquish_alloc_permit");
  if (columns > least_columns_)
    return invalid_argument(fmt::format("allocation of {} columns after one of {}: want no more",
                                        columns, least_columns_));
  std::vector<uint32_t> free;  // where so many columns are free
  for (uint32_t column = 0; column + columns <= kTensorColumns; column += kUnitColumns) {
    const bool is_taken =
        std::any_of(allocations_.begin(), allocations_.end(), [&](const Allocation& other) {
          return column < other.column + other.columns && other.column < column + columns;
        });
    if (!is_taken) free.push_back(column);
  }
  if (free.empty()) return std::optional<uint32_t>();
  const uint32_t column = free[random.below(free.size())];
  allocations_.push_back({column, columns});
  least_columns_ = columns;
  return std::optional<uint32_t>(column);
}

Status TensorMemory::deallocate(uint32_t address, uint32_t columns) {
  OCTET_RETURN_IF_ERROR(check_columns(columns));
  const auto found =
      std::find_if(allocations_.begin(), allocations_.end(), [&](const Allocation& allocation) {
        return allocation.column == address && allocation.columns == columns;
      });
  if (found == allocations_.end())
    return invalid_argument(fmt::format(
        "deallocation of {} columns at 0x{:x}, which are no allocation", columns, address));
  const TensorRect rect = {0, kTensorLanes, static_cast<int>(found->column),
                           static_cast<int>(found->columns)};
  for (const TensorUse& use : uses_) {
    if (use.rect.meets(rect))
      return invalid_argument(
          fmt::format("deallocation of tensor memory that {} of line {} still uses",
                      user_name(use.user), use.line));
  }
  for (int lane = 0; lane < kTensorLanes; ++lane) {
    for (int column = rect.column; column < rect.column + rect.num_columns; ++column) {
      cells_[index(lane, column)] = kTensorPoison;
      set_[index(lane, column)] = false;
    }
  }
  allocations_.erase(found);
  return {};
}

Status TensorMemory::relinquish() {
  is_relinquished_ = true;
  return {};
}

std::string TensorMemory::left_behind() const {
  if (allocations_.empty()) return "";
  uint32_t columns = 0;
  for (const Allocation& allocation : allocations_) columns += allocation.columns;
  return fmt::format("{} columns of tensor memory are not deallocated", columns);
}

Status TensorMemory::check(const TensorRect& rect) const {
  if (rect.lane < 0 || rect.lane + rect.num_lanes > kTensorLanes)
    return invalid_argument("tensor memory has 128 lanes: " + print(rect));
  for (int column = rect.column; column < rect.column + rect.num_columns; ++column) {
    const auto at = static_cast<uint32_t>(column);
    const bool is_allocated =
        std::any_of(allocations_.begin(), allocations_.end(), [&](const Allocation& allocation) {
          return at >= allocation.column && at < allocation.column + allocation.columns;
        });
    if (!is_allocated)
      return invalid_argument(
          fmt::format("column {} of tensor memory is not allocated: {}", column, print(rect)));
  }
  return {};
}

Status TensorMemory::check_race(const TensorUse& use) const {
  for (const TensorUse& other : uses_) {
    if (!(use.is_write || other.is_write) || !use.rect.meets(other.rect) ||
        is_pipelined(other, use))
      continue;
    return invalid_argument(fmt::format(
        "{} {} tensor memory that {} of line {} still has to {}: {} and {}", user_name(use.user),
        use.is_write ? "writes" : "reads", user_name(other.user), other.line,
        other.is_write ? "write" : "read", print(use.rect), print(other.rect)));
  }
  return {};
}

Result<TensorMemory::Ticket> TensorMemory::begin(const TensorUse& use) {
  OCTET_RETURN_IF_ERROR(check(use.rect));
  OCTET_RETURN_IF_ERROR(check_race(use));
  uses_.push_back(use);
  return std::prev(uses_.end());
}

std::optional<std::string> TensorMemory::find_unset(const TensorRect& rect) const {
  for (int lane = rect.lane; lane < rect.lane + rect.num_lanes; ++lane) {
    for (int column = rect.column; column < rect.column + rect.num_columns; ++column) {
      if (!is_set(lane, column))
        return fmt::format("lane {}, column {} of tensor memory has no value", lane, column);
    }
  }
  return std::nullopt;
}

}  // namespace octet::ptxsim::machine
