// SPDX-License-Identifier: Apache-2.0
// A kernel as fixed records: what insn/decode.h makes of a function of text/tree.h, once, and what every warp steps through.
//
//   registers, literals, special registers, addresses of symbols ──► slots of a warp's register file
//
// A slot is an index of 32-bit words. What stands there, lane after lane:
//   predicate                        1 word, a bit a lane
//   8, 16 and 32 bits                32 words, upper bits 0
//   64 bits                          32 x 2 words, the slot is even
//   128 bits                         32 x 4 words, the slot is even
// So every operand that has a value is read in the same way: literals and addresses stand in the file from the start.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ptxsim/machine/lanes.h"
#include "ptxsim/text/place.h"

namespace octet::ptxsim::machine {

struct Exec;
struct Insn;

// What one instruction came to, for the lanes that ran it.
enum class Outcome {
  kNext,     // done: on to the instruction behind it
  kJumped,   // done: the lanes' places are set already (branches, ret, exit)
  kBlocked,  // not done: the same instruction again, once others have run
  kYielded,  // done, but the lanes poll: others go first. Exec::seen is what they saw
  kFailed,   // Exec::error says what is wrong
};
using Run = Outcome (*)(Exec&, const Insn&);

using Slot = uint32_t;
constexpr Slot kNoSlot = ~Slot{0};  // the sink `_`, or nothing

struct Arg {
  Slot slot = kNoSlot;   // of the value, or of an address's base
  int32_t offset = 0;    // bytes behind an address's base
  uint32_t list = 0;     // a vector: Program::lists[list ...], `count` slots
  uint16_t count = 0;    // 0: no vector
  uint8_t bits = 0;      // of the register: 1 predicate, 8, 16, 32, 64, 128
  bool negated = false;  // !p
};

constexpr int kMostArgs = 8;
constexpr int kMostMods = 6;

struct Insn {
  Run run = nullptr;
  Slot guard = kNoSlot;
  LaneMask guard_flip = 0;  // all ones for @!p
  bool is_branch = false;   // runs even where the guard holds for no lane
  bool is_aligned = false;  // .aligned: all live lanes of the warp, together
  uint8_t num_args = 0;
  uint8_t bits = 0;                       // of the instruction's type
  uint32_t target = 0;                    // of a branch: index of an instruction
  uint32_t index = 0;                     // of this instruction
  uint32_t special = 0;                   // a family's own: index of a table of its own
  std::array<int32_t, kMostMods> mods{};  // a family's own: its modifiers
  std::array<Arg, kMostArgs> args{};
  text::Place place;
};

// What a slot holds from a warp's start.
struct Preset {
  enum class Kind {
    kValue,         // `value`, in every lane
    kSharedSymbol,  // the shared address value + the block's rank in its cluster << 24
    kSpecial,       // `special`, which does not change while the warp lives
  };
  Kind kind = Kind::kValue;
  Slot slot = 0;
  uint8_t bits = 32;
  uint64_t value = 0;
  int special = 0;  // SpecialRegister
};

struct Parameter {
  std::string name;
  uint32_t offset = 0, bytes = 0, align = 1;
};

// On hardware the first KiB of a block's shared memory is the system's; here an address of 0 is a mistake that shows.
constexpr uint32_t kReservedSharedBytes = 1024;

struct SharedSymbol {
  std::string name;
  uint32_t offset = 0, bytes = 0;
  bool is_dynamic = false;  // .extern: behind all others, as many bytes as the launch says
};

struct Program {
  std::string name;
  std::vector<Insn> code;
  std::vector<std::string> texts;  // of code, as print writes them: for errors and traces
  std::vector<Slot> lists;
  std::vector<Slot> fenced;  // slots that wgmma.fence is about: those of all its products
  std::vector<Preset> presets;
  uint32_t num_words = 0;  // of a warp's register file
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  std::vector<SharedSymbol> shared;
  uint32_t static_shared_bytes =
      0;                     // where the dynamic ones begin: with what is reserved for the system
  uint32_t local_bytes = 0;  // a thread
  std::array<uint32_t, 3> required_threads{};  // .reqntid; 0: not said
  std::array<uint32_t, 3> most_threads{};      // .maxntid; 0: not said
  std::array<uint32_t, 3> cluster{};           // .reqnctapercluster; 0: not said
};

}  // namespace octet::ptxsim::machine
