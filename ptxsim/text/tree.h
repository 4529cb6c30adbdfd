// SPDX-License-Identifier: Apache-2.0
// The tree of a PTX module: plain structs, each with the place where it stands.
//
//   Module ── items ──┬─ Declaration   .global .shared .const, with its Initializer
//                     ├─ Function      .entry .func: parameters, directives, body
//                     ├─ File, Section, Pragma
//   Function ─ body ──┴─ Scope ── statements ──┬─ Instruction ── operands
//                                              ├─ Declaration, Label, Scope
//                                              └─ Location, Pragma, TargetList, CallPrototype
//
// Everything is in the order of the text. Names are as written: whether %r1 is a register of this scope, a special register or
// nothing at all is not known here. Trees are equal when they say the same, wherever it stands (Place).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ptxsim/text/number.h"
#include "ptxsim/text/place.h"

namespace octet::ptxsim::text {

enum class Type {
#define OCTET_PTX_TYPE(name, constant, bits) k##constant,
#include "ptxsim/text/types.inc"
#undef OCTET_PTX_TYPE
};
std::string_view type_name(Type type);  // "u64"
int type_bits(Type type);
std::optional<Type> find_type(std::string_view name);

enum class Space { kReg, kParam, kShared, kGlobal, kConst, kLocal };
std::string_view space_name(Space space);  // "shared"
std::optional<Space> find_space(std::string_view name);

enum class Linkage { kNone, kExtern, kVisible, kWeak, kCommon };
std::string_view linkage_name(Linkage linkage);  // "visible"; empty for kNone

// What a variable begins with: a number, an address, or a list of them in braces.
struct Initializer {
  enum class Kind {
    kNumber,   // `number`
    kAddress,  // of `symbol`, plus `offset`
    kList,     // `items`
  };
  Place place;
  Kind kind = Kind::kNumber;
  Number number;
  std::string symbol;
  bool is_generic = false;  // generic(symbol): the address in the generic space
  int64_t offset = 0;       // bytes
  uint64_t mask = 0;  // 0xFF00(symbol): the one byte of the address that is meant; 0: all of it
  std::vector<Initializer> items;
  friend bool operator==(const Initializer&, const Initializer&) = default;
};

// `.ptr`: what a parameter of a kernel points to.
struct Pointee {
  Place place;
  std::optional<Space> space;  // none: generic
  uint64_t align_bytes = 0;    // 0: none given
  friend bool operator==(const Pointee&, const Pointee&) = default;
};

// One name of a declaration; a list of names makes as many.
struct Declaration {
  Place place;  // of the name
  Linkage linkage = Linkage::kNone;
  Space space = Space::kReg;
  bool is_managed = false;   // .attribute(.managed)
  uint64_t align_bytes = 0;  // a power of two; 0: none given
  int vector_elems = 1;      // 2 for .v2, 4 for .v4
  Type type = Type::kB32;
  std::optional<Pointee> pointee;  // kParam alone
  std::string name;                // "_" in a prototype
  std::optional<uint64_t> count;   // %r<5>: the registers %r0 to %r4
  std::vector<uint64_t> dims;      // array; the first may be 0, not given: `[]`
  std::optional<Initializer> initializer;
  friend bool operator==(const Declaration&, const Declaration&) = default;
};

struct Operand {
  enum class Kind {
    kName,     // %r1  !%p  %tid.x  symbol+8 : `name` with what the fields below say
    kNumber,   // `number`
    kSink,     // _
    kVector,   // {a, b}: `parts`, names, numbers and sinks
    kAddress,  // [a+8]  [a, {b, c}]: `parts`, names, numbers and vectors
    kPair,     // a|b: two `parts`, names and sinks
    kList,     // (a, b): `parts`, names and numbers; arguments and results of a call
  };
  Place place;
  Kind kind = Kind::kName;
  std::string name;
  std::string component;  // x of %tid.x; empty: none
  bool is_negated = false;
  int64_t offset = 0;  // bytes
  Number number;
  std::vector<Operand> parts;
  friend bool operator==(const Operand&, const Operand&) = default;
};

struct Guard {  // @%p1 or @!%p1
  Place place;
  bool is_negated = false;
  std::string name;
  friend bool operator==(const Guard&, const Guard&) = default;
};

struct Instruction {
  Place place;  // of the opcode
  std::optional<Guard> guard;
  std::string opcode;                  // "ld"
  std::vector<std::string> modifiers;  // "param", "u64": in order, without their dots
  std::vector<Operand> operands;
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

struct Label {
  Place place;
  std::string name;
  friend bool operator==(const Label&, const Label&) = default;
};

struct TargetList {  // name: .branchtargets a, b;  or .calltargets
  Place place;
  std::string name;
  bool is_calls = false;
  std::vector<std::string> targets;
  friend bool operator==(const TargetList&, const TargetList&) = default;
};

struct CallPrototype {  // name: .callprototype (results) _ (parameters);
  Place place;
  std::string name;
  std::vector<Declaration> results;
  std::vector<Declaration> parameters;
  bool is_noreturn = false;
  friend bool operator==(const CallPrototype&, const CallPrototype&) = default;
};

struct SourcePoint {
  uint64_t file = 0, line = 0, column = 0;
  friend bool operator==(const SourcePoint&, const SourcePoint&) = default;
};

struct InlinedAt {
  std::string function;  // label in .debug_str
  uint64_t offset = 0;   // bytes behind it
  SourcePoint at;
  friend bool operator==(const InlinedAt&, const InlinedAt&) = default;
};

struct Location {  // .loc file line column, function_name label, inlined_at file line column
  Place place;
  SourcePoint at;
  std::optional<InlinedAt> inlined;
  friend bool operator==(const Location&, const Location&) = default;
};

struct Pragma {
  Place place;
  std::vector<std::string> strings;  // between their quotes, as written
  friend bool operator==(const Pragma&, const Pragma&) = default;
};

struct Statement;

struct Scope {  // { statements }
  Place place;
  std::vector<Statement> statements;
  friend bool operator==(const Scope&, const Scope&);
};

struct Statement {
  std::variant<Instruction, Label, Declaration, Scope, Location, Pragma, TargetList, CallPrototype>
      node;
  friend bool operator==(const Statement&, const Statement&) = default;
};

inline bool operator==(const Scope& a, const Scope& b) { return a.statements == b.statements; }

// .maxntid 256, 1, 1 and its like (directives.inc has which there are).
struct Directive {
  Place place;
  std::string name;  // without its dot
  std::vector<uint64_t> values;
  friend bool operator==(const Directive&, const Directive&) = default;
};

struct Function {
  Place place;  // of the name
  Linkage linkage = Linkage::kNone;
  bool is_entry = false;
  std::string name;
  std::vector<Declaration> results;  // .func alone
  std::vector<Declaration> parameters;
  std::vector<Directive> directives;
  std::optional<Scope> body;  // none: declared here, defined elsewhere
  friend bool operator==(const Function&, const Function&) = default;
};

struct FileStamp {
  uint64_t time = 0, bytes = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

struct File {  // .file 1 "path", timestamp, bytes
  Place place;
  uint64_t index = 0;
  std::string path;  // between its quotes, as written
  std::optional<FileStamp> stamp;
  friend bool operator==(const File&, const File&) = default;
};

struct SectionValue {  // 12  -1  label+4  .debug_abbrev  label1-label2
  Place place;
  std::string name;  // with its dot where it is a section's; empty: a number
  std::string minus;
  Number number;  // without a name
  int64_t offset = 0;
  friend bool operator==(const SectionValue&, const SectionValue&) = default;
};

struct SectionLine {  // label:   or   .b8 1, 2
  Place place;
  std::string label;
  Type type = Type::kB8;
  std::vector<SectionValue> values;
  friend bool operator==(const SectionLine&, const SectionLine&) = default;
};

struct Section {  // .section .debug_str { lines }
  Place place;
  std::string name;
  std::vector<SectionLine> lines;
  friend bool operator==(const Section&, const Section&) = default;
};

struct Module {
  int version_major = 0, version_minor = 0;
  std::vector<std::string> targets;  // "sm_90a", "debug"
  int address_bits = 32;             // without .address_size
  std::vector<std::variant<Declaration, Function, File, Section, Pragma>> items;
  friend bool operator==(const Module&, const Module&) = default;
};

}  // namespace octet::ptxsim::text
