// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/insn/names.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

#include "ptxsim/machine/special.h"

namespace octet::ptxsim::insn {
namespace {

using machine::kNoSlot;
using machine::Preset;
using machine::Slot;
using text::Declaration;

constexpr uint64_t kMostRegisters = 1 << 20;  // of one declaration: a slot each, once they are used
constexpr uint64_t kMostBytes = 1 << 24;      // of one variable

struct SpecialRow {
  std::string_view text;
  int bits;
};
constexpr SpecialRow kSpecials[] = {
#define OCTET_PTX_SPECIAL(text, name, bits) {text, bits},
#include "ptxsim/machine/special.inc"
#undef OCTET_PTX_SPECIAL
};

bool changes(int special) { return special >= int(machine::SpecialRegister::kClock); }

uint64_t round_up(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

// 0 where it is too large to be one.
uint64_t bytes_of(const Declaration& node) {
  uint64_t bytes = uint64_t(text::type_bits(node.type)) / 8 * uint64_t(node.vector_elems);
  for (const uint64_t dim : node.dims) {
    if (dim > kMostBytes || bytes * dim > kMostBytes) return 0;
    bytes *= dim;
  }
  return bytes;
}

uint64_t align_of(const Declaration& node) {
  const uint64_t natural =
      std::max<uint64_t>(1, uint64_t(text::type_bits(node.type)) / 8) * uint64_t(node.vector_elems);
  return std::max(natural, node.align_bytes);
}

int bits_of(text::Type type) { return type == text::Type::kPred ? 1 : text::type_bits(type); }

}  // namespace

void Names::open_scope() {
  scopes_.push_back({open_, {}, {}, {}, {}});
  open_ = int(scopes_.size()) - 1;
}

void Names::close_scope() { open_ = scopes_[open_].parent; }

bool Names::is_taken(const std::string& name) const {
  const Scope& scope = scopes_[open_];
  return scope.names.contains(name) || scope.symbols.contains(name) || scope.labels.contains(name);
}

Status Names::declare(const Declaration& node) {
  if (is_taken(node.name))
    return text::error_at(node.place, fmt::format("'{}' is declared twice", node.name));
  return node.space == text::Space::kReg ? declare_register(node) : declare_variable(node);
}

Status Names::declare_register(const Declaration& node) {
  if (node.vector_elems != 1 || !node.dims.empty()) {
    return {Code::kUnsupported,
            text::error_at(node.place, "vectors and arrays of registers are not modelled").why};
  }
  const uint64_t count = node.count.value_or(1);
  if (count > kMostRegisters) {
    return text::error_at(node.place,
                          fmt::format("{} registers, at most {}", count, kMostRegisters));
  }
  Scope& scope = scopes_[open_];
  if (node.count && scope.families.contains(node.name)) {
    return text::error_at(node.place, fmt::format("'{}<' is declared twice", node.name));
  }
  (node.count ? scope.families : scope.names)[node.name] = declared_.size();
  declared_.push_back({node, std::vector<Slot>(count, kNoSlot)});
  return {};
}

Status Names::declare_variable(const Declaration& node) {
  if (node.count) return text::error_at(node.place, "numbered names are of registers alone");
  if (node.space == text::Space::kShared) {
    scopes_[open_].symbols[node.name] = place_shared(node);
    return {};
  }
  if (node.space != text::Space::kLocal) {
    return {Code::kUnsupported,
            text::error_at(node.place, fmt::format("'.{}' in a function is not modelled",
                                                   text::space_name(node.space)))
                .why};
  }
  const uint64_t bytes = bytes_of(node);
  if (bytes == 0)
    return text::error_at(node.place,
                          fmt::format("'{}' has no size, or one beyond {}", node.name, kMostBytes));
  const uint64_t at = round_up(program_.local_bytes, align_of(node));
  scopes_[open_].symbols[node.name] = {text::Space::kLocal, at, false, 1};
  program_.local_bytes = uint32_t(at + bytes);
  return {};
}

Names::Symbol Names::place_shared(const Declaration& node) {
  const uint64_t bytes = bytes_of(node), align = align_of(node);
  if (node.linkage == text::Linkage::kExtern || bytes == 0) {
    program_.shared.push_back({node.name, 0, 0, true});
    return {text::Space::kShared, 0, true, align};
  }
  const uint64_t at = round_up(std::max(program_.static_shared_bytes, kReservedSharedBytes), align);
  program_.static_shared_bytes = uint32_t(at + bytes);
  program_.shared.push_back({node.name, uint32_t(at), uint32_t(bytes), false});
  return {text::Space::kShared, at, false, align};
}

Status Names::declare_parameter(const Declaration& node) {
  const uint64_t bytes = bytes_of(node), align = align_of(node);
  if (bytes == 0)
    return text::error_at(node.place, fmt::format("parameter '{}' has no size", node.name));
  const auto at = uint32_t(round_up(program_.parameter_bytes, align));
  program_.parameters.push_back({node.name, at, uint32_t(bytes), uint32_t(align)});
  program_.parameter_bytes = uint32_t(at + bytes);
  scopes_[open_].symbols[node.name] = {text::Space::kParam, at, false, 1};
  return {};
}

Status Names::declare_label(const text::Label& node, uint32_t index) {
  if (is_taken(node.name))
    return text::error_at(node.place, fmt::format("'{}' is declared twice", node.name));
  scopes_[open_].labels[node.name] = index;
  return {};
}

void Names::branch(uint32_t index, const std::string& label, text::Place place) {
  branches_.push_back({index, open_, label, place});
}

Status Names::finish() {
  for (const Branch& branch : branches_) {
    const Scope* found = nullptr;
    for (int at = branch.scope; at >= 0 && found == nullptr; at = scopes_[at].parent) {
      if (scopes_[at].labels.contains(branch.label)) found = &scopes_[at];
    }
    if (found == nullptr)
      return text::error_at(branch.place, fmt::format("no label '{}' here", branch.label));
    program_.code[branch.index].target = found->labels.at(branch.label);
  }
  uint64_t align = 16;  // what dynamic shared memory has in any case
  for (const Dynamic& dynamic : dynamics_) align = std::max(align, dynamic.align);
  const uint64_t base =
      round_up(std::max(program_.static_shared_bytes, kReservedSharedBytes), align);
  program_.static_shared_bytes = uint32_t(base);
  for (const Dynamic& dynamic : dynamics_) {
    program_.presets[dynamic.preset].value = base + uint64_t(dynamic.offset);
  }
  for (auto& shared : program_.shared) {
    if (shared.is_dynamic) shared.offset = uint32_t(base);
  }
  return {};
}

Register Names::register_at(Declared& declared, size_t number) {
  const int bits = bits_of(declared.node.type);
  Slot& slot = declared.slots[number];
  if (slot == kNoSlot) slot = allocate(bits);
  return {slot, bits, declared.node.type};
}

std::optional<Register> Names::find_register(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  const std::string family = name.substr(0, digits);
  for (int at = open_; at >= 0; at = scopes_[at].parent) {
    Scope& scope = scopes_[at];
    if (const auto found = scope.names.find(name); found != scope.names.end()) {
      return register_at(declared_[found->second], 0);
    }
    const auto found = scope.families.find(family);
    const size_t length = name.size() - digits;
    if (found == scope.families.end() || length == 0 || length > 7) continue;
    if (length > 1 && name[digits] == '0') continue;  // %r07 is no %r7
    const size_t number = std::stoul(name.substr(digits));
    if (number < declared_[found->second].slots.size())
      return register_at(declared_[found->second], number);
  }
  return std::nullopt;
}

const Names::Symbol* Names::symbol_of(const std::string& name) {
  for (int at = open_; at >= 0; at = scopes_[at].parent) {
    const auto found = scopes_[at].symbols.find(name);
    if (found != scopes_[at].symbols.end()) return &found->second;
  }
  if (const auto found = module_symbols_.find(name); found != module_symbols_.end())
    return &found->second;
  for (const auto& item : module_.items) {
    const auto* node = std::get_if<Declaration>(&item);
    if (node == nullptr || node->name != name) continue;
    if (node->space == text::Space::kShared) return &(module_symbols_[name] = place_shared(*node));
    return &(module_symbols_[name] = {node->space, data_.address(name), false, 1});
  }
  return nullptr;
}

std::optional<Slot> Names::find_symbol(const std::string& name, int64_t offset, int bits) {
  const Symbol* symbol = symbol_of(name);
  if (symbol == nullptr) return std::nullopt;
  if (symbol->space != text::Space::kShared)
    return literal(bits, symbol->address + uint64_t(offset));
  const auto key = std::pair{name + "@" + std::to_string(symbol->address), std::pair{offset, bits}};
  if (const auto found = shared_slots_.find(key); found != shared_slots_.end())
    return found->second;
  const Slot slot = allocate(bits);
  if (symbol->is_dynamic) dynamics_.push_back({program_.presets.size(), symbol->align, offset});
  program_.presets.push_back(
      {Preset::Kind::kSharedSymbol, slot, uint8_t(bits), symbol->address + uint64_t(offset), 0});
  return shared_slots_[key] = slot;
}

std::optional<int> Names::find_special_number(const std::string& name) {
  for (size_t i = 0; i < std::size(kSpecials); ++i) {
    if (kSpecials[i].text == name) return int(i);
  }
  return std::nullopt;
}

std::optional<Slot> Names::find_special(const std::string& name, int* bits) {
  const auto number = find_special_number(name);
  if (!number || changes(*number)) return std::nullopt;
  *bits = kSpecials[*number].bits;
  if (const auto found = specials_.find(name); found != specials_.end()) return found->second;
  const Slot slot = allocate(*bits);
  program_.presets.push_back({Preset::Kind::kSpecial, slot, uint8_t(*bits), 0, *number});
  return specials_[name] = slot;
}

Slot Names::literal(int bits, uint64_t value) {
  if (bits < 64) value &= (uint64_t{1} << bits) - 1;
  const int width = bits == 64 || bits == 1 ? bits : 32;
  const auto [at, is_new] = literals_.try_emplace({width, value}, kNoSlot);
  if (is_new) {
    at->second = allocate(width);
    program_.presets.push_back({Preset::Kind::kValue, at->second, uint8_t(width), value, 0});
  }
  return at->second;
}

// Slots of 32 lanes begin at a multiple of 64 bytes.
Slot Names::allocate(int bits) {
  constexpr int kLine = 16;
  if (bits == 1) {
    if (predicates_left_ == 0) {
      next_predicate_ = program_.num_words;
      program_.num_words += kLine;
      predicates_left_ = kLine;
    }
    --predicates_left_;
    return next_predicate_++;
  }
  const Slot slot = program_.num_words;
  program_.num_words += machine::kLanes * (bits == 128 ? 4 : bits == 64 ? 2 : 1);
  return slot;
}

}  // namespace octet::ptxsim::insn
