// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/text/tree.h"

#include <iterator>

namespace octet::ptxsim::text {

namespace {

struct TypeRow {
  std::string_view name;
  int bits;
};
constexpr TypeRow kTypes[] = {
#define OCTET_PTX_TYPE(name, constant, bits) {#name, bits},
#include "ptxsim/text/types.inc"
#undef OCTET_PTX_TYPE
};

// In the order of the enumerations.
constexpr std::string_view kSpaces[] = {"reg", "param", "shared", "global", "const", "local"};
constexpr std::string_view kLinkages[] = {"", "extern", "visible", "weak", "common"};

}  // namespace

std::string_view type_name(Type type) { return kTypes[static_cast<size_t>(type)].name; }
int type_bits(Type type) { return kTypes[static_cast<size_t>(type)].bits; }
std::optional<Type> find_type(std::string_view name) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].name == name) return static_cast<Type>(i);
  }
  return std::nullopt;
}

std::string_view space_name(Space space) { return kSpaces[static_cast<size_t>(space)]; }
std::optional<Space> find_space(std::string_view name) {
  for (size_t i = 0; i < std::size(kSpaces); ++i) {
    if (kSpaces[i] == name) return static_cast<Space>(i);
  }
  return std::nullopt;
}

std::string_view linkage_name(Linkage linkage) { return kLinkages[static_cast<size_t>(linkage)]; }

}  // namespace octet::ptxsim::text
