// SPDX-License-Identifier: Apache-2.0
// What of a kernel's instructions is mutated, and how: a row for each kind of instruction that hands data over, orders it, describes or
// scales it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace octet::mutation {

// How a row alters an instruction.
enum class Action {
  kRemove,
  kPass,    // a wait: its predicate becomes true at once
  kAll,     // elect.sync: every lane is elected
  kOthers,  // elect.sync: all lanes but the elected one
  kXor,     // bits of an operand
  kAdd,     // to an operand, 32 bits
  kOffset,  // bytes, to an address
  kTrue,    // a predicate that it reads
  kFalse,
  kRelax,  // .release, .acquire, .acq_rel become .relaxed
};

// The place of an operand: index in the list, or counted among the addresses, among the others, from the end; then a part of it.
struct At {
  enum class Among { kAll, kAddresses, kOthers, kFromEnd };
  Among among = Among::kAll;
  size_t index = 0;
  int part = -1, of_part = -1;
};
constexpr At address(size_t i, int part = -1, int of_part = -1) {
  return {At::Among::kAddresses, i, part, of_part};
}
constexpr At value(size_t i, int part = -1) { return {At::Among::kOthers, i, part, -1}; }
constexpr At last(int part = -1) { return {At::Among::kFromEnd, 0, part, -1}; }

struct Alter {
  std::string_view name;
  Action action;
  At at{};
  uint64_t by = 0;
  int bits = 32;
};

struct Rule {
  std::string_view opcode, kind;  // of an instruction that has several rows, the longest counts
  std::vector<Alter> alters;
};

const std::vector<Rule>& rules();

}  // namespace octet::mutation
