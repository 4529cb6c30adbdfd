// SPDX-License-Identifier: Apache-2.0
// ModuleData: the variables of .global and .const, PTX ISA 5.4.4 (initialisers).
#include <cstring>
#include <fmt/format.h>

#include "ptxsim/insn/decode.h"

namespace octet::ptxsim::insn {
namespace {

using text::Declaration;
using text::Initializer;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

bool is_data(const Declaration& node) {
  return node.space == text::Space::kGlobal || node.space == text::Space::kConst;
}

uint64_t element_bytes(const Declaration& node) { return uint64_t(text::type_bits(node.type)) / 8; }

Result<uint64_t> bytes_of(const Declaration& node) {
  uint64_t bytes = element_bytes(node) * uint64_t(node.vector_elems);
  for (const uint64_t dim : node.dims) {
    if (dim == 0 || dim > kMostBytes || bytes * dim > kMostBytes) {
      return text::error_at(
          node.place, fmt::format("'{}' has no size, or one beyond {}", node.name, kMostBytes));
    }
    bytes *= dim;
  }
  return bytes;
}

// Elements in the order of the text; an address is one element of 8 bytes, or its bytes one by one where it has a mask.
class Filler {
 public:
  Filler(const Declaration& node, const ModuleData& data, std::vector<uint8_t>& bytes)
      : node_(node), data_(data), bytes_(bytes) {}

  Status fill(const Initializer& from) {
    if (from.kind == Initializer::Kind::kList) {
      for (const Initializer& item : from.items) OCTET_RETURN_IF_ERROR(fill(item));
      return {};
    }
    uint64_t value = from.number.bits;
    if (from.kind == Initializer::Kind::kAddress) {
      value = data_.address(from.symbol);
      if (value == 0)
        return text::error_at(
            from.place, fmt::format("'{}' is no variable that stands before this", from.symbol));
      value += uint64_t(from.offset);
      for (uint64_t mask = from.mask; mask > 0xFF; mask >>= 8) value >>= 8;
    }
    const uint64_t count = element_bytes(node_);
    if (next_ + count > bytes_.size())
      return text::error_at(from.place, fmt::format("more values than '{}' holds", node_.name));
    std::memcpy(bytes_.data() + next_, &value, count);
    next_ += count;
    return {};
  }

 private:
  const Declaration& node_;
  const ModuleData& data_;
  std::vector<uint8_t>& bytes_;
  uint64_t next_ = 0;
};

}  // namespace

Result<ModuleData> ModuleData::load(const text::Module& module, machine::GlobalMemory& memory) {
  ModuleData data;
  for (const auto& item : module.items) {
    const auto* node = std::get_if<Declaration>(&item);
    if (node == nullptr || !is_data(*node) || node->linkage == text::Linkage::kExtern) continue;
    OCTET_ASSIGN_OR_RETURN(const uint64_t count, bytes_of(*node));
    const uint64_t at = memory.allocate(node->name, count, node->space == text::Space::kConst);
    data.at_.emplace_back(node->name, at);
    // Without an initialiser these are zeros (PTX ISA 5.4.4).
    std::vector<uint8_t> bytes(count, 0);
    if (node->initializer)
      OCTET_RETURN_IF_ERROR(Filler(*node, data, bytes).fill(*node->initializer));
    OCTET_RETURN_IF_ERROR(memory.write(at, bytes));
  }
  return data;
}

uint64_t ModuleData::address(std::string_view name) const {
  for (const auto& [at_name, at] : at_) {
    if (at_name == name) return at;
  }
  return 0;
}

}  // namespace octet::ptxsim::insn
