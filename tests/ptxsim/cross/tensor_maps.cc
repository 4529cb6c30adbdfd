// SPDX-License-Identifier: Apache-2.0
// Which parameters of tensor maps the driver refuses, and which the simulator.
#include "case.h"

namespace octet::cross {

using ptxsim::tile::tile_type_bits;
using ptxsim::tile::TileType;

// Each parameter at its limits and beyond, one at a time. Elements of 4 and 6 bits and atoms of 32 and 64 bytes are left out: a Hopper's
// driver refuses them whatever the rest.
void add_tensor_maps(std::vector<Case>& cases) {
  Case made;
  made.name = "tensor maps/which parameters are refused";
  made.element_bytes = 1;
  TensorMapArgs good;
  good.type = static_cast<int>(TileType::kBfloat16);
  good.rank = 3;
  good.dims = {256, 64, 8};
  good.strides = {512, 512 * 64};
  good.box = {64, 16, 2};
  good.swizzle = 3;
  const auto add = [&](auto change) {
    TensorMapArgs args = good;
    args.base = uint64_t{1} << 40;
    change(args);
    made.probes.push_back(args);
  };
  add([](TensorMapArgs&) {});
  for (const uint64_t off : {8, 16, 32, 64}) add([=](TensorMapArgs& a) { a.base += off; });
  for (int type = -1; type <= static_cast<int>(TileType::kTfloat32Ftz); ++type) {
    for (const int swizzle : {0, 1, 2, 3})
      add([=](TensorMapArgs& a) {
        a.type = type;
        a.swizzle = swizzle;
        a.dims[0] = 512;
        a.strides = {4096, 4096 * 64, 0, 0};
        const int bits = type < 0 ? 8 : tile_type_bits(TileType(type));
        a.box[0] = static_cast<uint32_t>((swizzle == 1 ? 256 : 512) / bits);
      });
    for (const int fill : {0, 1, 2})
      add([=](TensorMapArgs& a) {
        a.type = type;
        a.fill = fill;
        a.swizzle = 0;
        a.strides = {4096, 4096 * 64, 0, 0};
        a.box[0] = 32;
      });
  }
  for (const int rank : {0, 1, 2, 3, 6}) add([=](TensorMapArgs& a) { a.rank = rank; });
  for (const uint64_t dim : {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{1} << 31,
                             uint64_t{1} << 32, (uint64_t{1} << 32) + 1}) {
    for (const size_t i : {0, 1, 2})
      add([=](TensorMapArgs& a) {
        a.dims[i] = dim;
        if (i == 0) a.strides = {uint64_t{1} << 36, uint64_t{1} << 37, 0, 0};
      });
  }
  for (const uint64_t stride :
       {uint64_t{0}, uint64_t{8}, uint64_t{16}, uint64_t{496}, uint64_t{512}, uint64_t{520},
        uint64_t{528}, (uint64_t{1} << 40) - 16, uint64_t{1} << 40, (uint64_t{1} << 40) + 16}) {
    for (const size_t i : {0, 1}) add([=](TensorMapArgs& a) { a.strides[i] = stride; });
  }
  for (const uint32_t box : {0, 1, 4, 7, 8, 9, 16, 32, 64, 65, 72, 128, 255, 256, 257, 512}) {
    for (const int swizzle : {0, 1, 2, 3})
      add([=](TensorMapArgs& a) {
        a.box[0] = box;
        a.swizzle = swizzle;
      });
    add([=](TensorMapArgs& a) { a.box[1] = box; });
  }
  for (const uint32_t step : {0, 1, 2, 3, 7, 8, 9, 16}) {
    for (const size_t i : {0, 1, 2}) add([=](TensorMapArgs& a) { a.steps[i] = step; });
  }
  for (const int promotion : {-1, 0, 3, 4})
    add([=](TensorMapArgs& a) { a.l2_promotion = promotion; });
  for (const int swizzle : {-1, 7}) add([=](TensorMapArgs& a) { a.swizzle = swizzle; });
  made.buffers = {output("accepted", made.probes.size())};
  cases.push_back(made);
}

}  // namespace octet::cross
