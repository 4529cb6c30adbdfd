// SPDX-License-Identifier: Apache-2.0
// Deliberate changes of the tensor maps that a test's host side encodes, which its comparisons must notice:
//
//   OCTET_SIM_MAP  list                         a line for each change of each map: "map: gemm1 weights/swizzle 64"
//                  gemm1 weights/swizzle 64     that change is made
//
// Maps are those of a pair of kernels, encoded in turn.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "ptxsim/tile/tensor_map.h"

namespace octet::sim {

struct MapChange {
  const char* name;
  void (*apply)(ptxsim::tile::TensorMapArgs&);
};

inline constexpr MapChange kMapChanges[] = {
    {"swizzle 64", [](auto& a) { a.swizzle = 2; }},
    {"no swizzle", [](auto& a) { a.swizzle = 0; }},
    {"bytes as they are", [](auto& a) { a.type = 0; }},
    {"half the columns of a box", [](auto& a) { a.box[0] /= 2; }},
    {"half the rows of a box", [](auto& a) { a.box[1] /= 2; }},
    {"128 columns fewer", [](auto& a) { a.dims[0] -= 128; }},
    {"a row fewer", [](auto& a) { --a.dims[1]; }},
    {"rows 32 bytes further apart", [](auto& a) { a.strides[0] += 32; }},
    {"32 bytes further on", [](auto& a) { a.base += 32; }},
    {"NaN outside", [](auto& a) { a.fill = 1; }},
};

inline void change_map(ptxsim::tile::TensorMapArgs& args) {
  constexpr const char* kMaps[] = {"gemm1 weights", "gemm1 tokens", "gemm2 weights",
                                   "gemm2 tokens"};
  static size_t encoded = 0;
  const std::string map = kMaps[encoded++ % std::size(kMaps)];
  const char* wanted = std::getenv("OCTET_SIM_MAP");
  if (wanted == nullptr) return;
  for (const MapChange& change : kMapChanges) {
    ptxsim::tile::TensorMapArgs changed = args;
    change.apply(changed);
    const auto before = ptxsim::tile::encode(args), after = ptxsim::tile::encode(changed);
    if (before.ok() && after.ok() && *before == *after) continue;  // it is that already
    const std::string name = map + "/" + change.name;
    if (std::string(wanted) == "list") std::printf("map: %s\n", name.c_str());
    if (wanted != name) continue;
    args = changed;
    return;
  }
}

}  // namespace octet::sim
