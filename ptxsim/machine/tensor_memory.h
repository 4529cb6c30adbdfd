// SPDX-License-Identifier: Apache-2.0
// The tensor memory of one block (sm_100): 128 lanes of 512 columns of 32 bits, what is allocated of it, and who still uses what.
//
//   address    lane << 16 | column
//   allocation whole columns: a power of two of them, 32 ... 512, beginning at a multiple of 32 that the seed draws, since a kernel may
//              not take it for 0
//   use        cells that an operation, issued and not yet performed, will read or write: who touches them meanwhile has raced it
//
// A cell that nobody has written has no value, and a read of it is an error.
// Errors: columns that are no power of two in 32 ... 512, or more than an earlier allocation's; allocation after relinquish; deallocation
// of what is not allocated so; a cell outside of every allocation; memory that is still allocated when the block ends.
// Source: PTX ISA 9.7.16.1, 9.7.16.6, 9.7.16.7.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "octet/status.hpp"
#include "ptxsim/machine/random.h"

namespace octet::ptxsim::machine {

constexpr int kTensorLanes = 128;
constexpr int kTensorColumns = 512;

constexpr int tensor_lane(uint32_t address) { return static_cast<int>(address >> 16); }
constexpr int tensor_column(uint32_t address) { return static_cast<int>(address & 0xFFFF); }

struct TensorRect {
  int lane = 0, num_lanes = 0, column = 0, num_columns = 0;
  friend bool operator==(const TensorRect&, const TensorRect&) = default;
  bool meets(const TensorRect& other) const {
    return lane < other.lane + other.num_lanes && other.lane < lane + num_lanes &&
           column < other.column + other.num_columns && other.column < column + num_columns;
  }
};
std::string print(const TensorRect& rect);  // "lanes 0-127, columns 16-19"

// What touches cells: which pairs may follow each other unperformed depends on it (PTX ISA 9.7.16.6.2).
enum class TensorUser { kMma, kCopy, kLoad, kStore };

struct TensorUse {
  TensorRect rect;
  TensorUser user = TensorUser::kMma;
  bool is_write = false;
  int line = 0;  // of the PTX text
};

class TensorMemory {
 public:
  // PTX ISA 9.1 orders cp before mma, not mma before cp; that a copy never overtakes is what `copies_follow_products` says.
  explicit TensorMemory(bool copies_follow_products = false);

  // The address, or nothing: so many columns are not free now, the instruction waits.
  Result<std::optional<uint32_t>> allocate(uint32_t columns, Random& random);
  Status deallocate(uint32_t address, uint32_t columns);
  Status relinquish();
  std::string left_behind() const;  // what is still allocated, or nothing

  // All cells are within allocations.
  Status check(const TensorRect& rect) const;

  // Announces a use, which must not meet another in a way that no rule orders; end() takes it back.
  using Ticket = std::list<TensorUse>::iterator;
  Result<Ticket> begin(const TensorUse& use);
  void end(Ticket ticket) { uses_.erase(ticket); }
  // The use would race one that is under way: what begin() says, without announcing anything.
  Status check_race(const TensorUse& use) const;

  // Of checked cells.
  bool is_set(int lane, int column) const { return set_[index(lane, column)]; }
  uint32_t read(int lane, int column) const { return cells_[index(lane, column)]; }
  void write(int lane, int column, uint32_t value) {
    cells_[index(lane, column)] = value;
    set_[index(lane, column)] = true;
  }
  // The first cell that has no value, or nothing.
  std::optional<std::string> find_unset(const TensorRect& rect) const;

 private:
  static size_t index(int lane, int column) {
    return static_cast<size_t>(lane) * kTensorColumns + static_cast<size_t>(column);
  }
  bool is_pipelined(const TensorUse& first, const TensorUse& second) const;
  struct Allocation {
    uint32_t column, columns;
  };
  std::vector<uint32_t> cells_;
  std::vector<bool> set_;
  std::vector<Allocation> allocations_;
  std::list<TensorUse> uses_;
  uint32_t least_columns_ = kTensorColumns;  // of the allocations so far
  bool is_relinquished_ = false;
  bool copies_follow_products_;
};

}  // namespace octet::ptxsim::machine
