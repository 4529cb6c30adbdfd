// SPDX-License-Identifier: Apache-2.0
#include "case.h"

#include <fmt/format.h>

namespace octet::cross {

std::string head() { return ".version 8.6\n.target sm_90a\n.address_size 64\n"; }

std::string entry_of(const std::string& name, size_t buffers, size_t maps, const std::string& body,
                     const std::string& declarations) {
  std::string parameters;
  const auto add = [&](const std::string& one) {
    parameters += (parameters.empty() ? "" : ", ") + one;
  };
  for (size_t i = 0; i < buffers; ++i) add(fmt::format(".param .u64 p{}", i));
  for (size_t i = 0; i < maps; ++i) add(fmt::format(".param .align 64 .b8 m{}[128]", i));
  return fmt::format(
      ".visible .entry {}({}) {{\n{}\n.reg .pred %p<16>; .reg .b16 %h<40>; .reg .b32 %r<200>, %tx; "
      ".reg .b64 %d<64>;\nmov.u32 %tx, %tid.x;\n{}\nret;\n}}\n",
      name, parameters, declarations, body);
}

std::string module_of(size_t buffers, size_t maps, const std::string& body,
                      const std::string& declarations) {
  return head() + entry_of("k", buffers, maps, body, declarations);
}

Buffer input(std::string name, Bytes bytes) { return {std::move(name), std::move(bytes), false}; }
Buffer output(std::string name, size_t bytes) {
  return {std::move(name), Bytes(bytes, kUntouched), true};
}

Case simple_case(std::string name, std::string body, std::vector<Buffer> buffers, Launch launch,
                 std::string declarations) {
  Case made;
  made.name = std::move(name);
  made.text = module_of(buffers.size(), 0, body, declarations);
  made.buffers = std::move(buffers);
  made.launches = {std::move(launch)};
  return made;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_elementwise(cases);
  add_bit_tables(cases);
  add_warp(cases);
  add_barriers(cases);
  add_memory(cases);
  add_grids(cases);
  add_copies(cases);
  add_tensor_copies(cases);
  add_tensor_maps(cases);
  add_matrix_moves(cases);
  add_mma(cases);
  add_wgmma(cases);
  return cases;
}

}  // namespace octet::cross
