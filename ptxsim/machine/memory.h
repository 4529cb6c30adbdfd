// SPDX-License-Identifier: Apache-2.0
// Bytes with bounds, of which each is known to be written or not; and the global memory, a list of them.
//
// A byte that nobody has written holds the poison 0xFF: an f32 of it is NaN, an address of it points nowhere, an index is -1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "octet/status.hpp"

namespace octet::ptxsim::machine {

constexpr uint8_t kPoison = 0xFF;

class Memory {
 public:
  enum class Byte : uint8_t {
    kUnset = 0,
    kSet = 1,
    kMbarrier = 2,  // of an mbarrier object: only mbarrier's instructions may touch it
  };

  explicit Memory(size_t bytes) : bytes_(bytes, kPoison), state_(bytes, uint8_t(Byte::kUnset)) {}

  size_t size() const { return bytes_.size(); }
  bool covers(uint64_t offset, uint64_t count) const {
    return offset <= bytes_.size() && count <= bytes_.size() - offset;
  }
  uint8_t* at(uint64_t offset) { return bytes_.data() + offset; }
  const uint8_t* at(uint64_t offset) const { return bytes_.data() + offset; }

  bool all_are(Byte what, uint64_t offset, uint64_t count) const;
  bool any_is(Byte what, uint64_t offset, uint64_t count) const;
  void mark(Byte what, uint64_t offset, uint64_t count);
  // Poisons the bytes, which are then unset.
  void poison(uint64_t offset, uint64_t count);
  // Writes from the host: the bytes are set.
  void write(uint64_t offset, std::span<const uint8_t> from);

 private:
  std::vector<uint8_t> bytes_;
  std::vector<uint8_t> state_;  // Byte; empty: all are set, which is what inputs are
};

// Where what is seen by a generic address. Global memory is everything from kGlobalBase on.
constexpr uint64_t kSharedWindow = uint64_t{1} << 40;  // + a shared::cluster address (32 bits)
constexpr uint64_t kParamWindow = uint64_t{2} << 40;
constexpr uint64_t kLocalWindow = uint64_t{3} << 40;
constexpr uint64_t kGlobalBase = uint64_t{0x70} << 40;

struct Allocation {
  std::string name;
  uint64_t base = 0;
  Memory memory;
  bool is_read_only = false;
  size_t number = 0;  // of all that were ever made

  // When kernels' generic proxy has last written, by kWriteBytes; ticks of the machine.
  static constexpr uint64_t kWriteBytes = 16;
  std::vector<uint64_t> written_at = {};  // empty: never
  void note_write(uint64_t offset, uint64_t bytes, uint64_t tick);
  uint64_t last_write(uint64_t offset, uint64_t bytes) const;
};

class GlobalMemory {
 public:
  // Unset bytes at an address that is a multiple of 256 bytes, with nothing near it on either side.
  uint64_t allocate(std::string name, uint64_t bytes, bool is_read_only = false);

  // False: no allocation begins there.
  bool release(uint64_t base);

  // The allocation that [address, address + count) lies in, or null.
  Allocation* find(uint64_t address, uint64_t count);
  const std::string& name(size_t number) const { return names_[number]; }
  // Why find finds none: the address, and the allocation that is nearest below it.
  std::string explain(uint64_t address, uint64_t count) const;

  Status write(uint64_t address, std::span<const uint8_t> from);  // from the host
  Result<std::vector<uint8_t>> read(uint64_t address, uint64_t count);

 private:
  std::vector<std::unique_ptr<Allocation>> allocations_;  // ascending
  std::vector<std::string> names_;                        // of all that were ever made
  size_t last_ = 0;                                       // where the last find found
  uint64_t next_ = kGlobalBase;
};

}  // namespace octet::ptxsim::machine
