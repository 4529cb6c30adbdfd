// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/tile/tensor_map.h"

#include <gtest/gtest.h>

namespace octet::ptxsim::tile {
namespace {

// [rows, 640] e2m1 as the tensor cores want it: what w2 of the V4.1 slice is bound as.
TensorMapArgs fp4() {
  TensorMapArgs args;
  args.type = static_cast<int>(TileType::k16u4Align16b);
  args.rank = 2;
  args.base = 0x7000'0000'0020;
  args.dims = {640, 5120};
  args.strides = {320};
  args.box = {128, 128};
  args.swizzle = 3;
  return args;
}

TensorMapArgs bf16() {
  TensorMapArgs args;
  args.type = static_cast<int>(TileType::kBfloat16);
  args.rank = 3;
  args.base = 0x1000;
  args.dims = {100, uint64_t{1} << 32, 3};
  args.strides = {208, 4096};
  args.box = {64, 8, 2};
  args.steps = {1, 2, 1};
  args.swizzle = 3;
  args.fill = 1;
  return args;
}

std::string why(const TensorMapArgs& args) {
  const auto bytes = encode(args);
  return bytes.ok() ? "" : bytes.status().why;
}

TEST(TensorMap, IsReadAsItWasMade) {
  const auto bytes = encode(bf16());
  ASSERT_TRUE(bytes.ok()) << bytes.status().why;
  const auto map = decode(*bytes);
  ASSERT_TRUE(map.ok()) << map.status().why;
  EXPECT_EQ(map->type, TileType::kBfloat16);
  EXPECT_EQ(map->rank, 3);
  EXPECT_EQ(map->base, 0x1000U);
  EXPECT_EQ(map->dims[0], 100U);
  EXPECT_EQ(map->dims[1], uint64_t{1} << 32);
  EXPECT_EQ(map->strides[1], 208U);
  EXPECT_EQ(map->strides[2], 4096U);
  EXPECT_EQ(map->box[2], 2U);
  EXPECT_EQ(map->steps[1], 2U);
  EXPECT_EQ(map->swizzle, matrix::Swizzle::k128);
  EXPECT_TRUE(map->fills_nan);
  const auto packed = encode(fp4());
  ASSERT_TRUE(packed.ok()) << packed.status().why;
  EXPECT_EQ(decode(*packed)->type, TileType::k16u4Align16b);
  EXPECT_FALSE(decode(*packed)->fills_nan);
}

TEST(TensorMap, ForeignOrChangedBytesAreAnError) {
  auto bytes = encode(bf16()).value();
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto changed = bytes;
    changed[i] ^= 1;
    EXPECT_FALSE(decode(changed).ok()) << i;
  }
  EXPECT_EQ(decode(TensorMapBytes{}).status().why,
            "tensor map: bytes begin with 0x0000000000000000: none that this simulator's encode "
            "made");
  EXPECT_FALSE(decode(std::span(bytes).first(64)).ok());
}

template <class Change>
std::string why_of(TensorMapArgs args, Change change) {
  change(args);
  return why(args);
}

TEST(TensorMap, ChecksOfTheTensor) {
  using A = TensorMapArgs;
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.base = 0x1008; }),
            "tensor map: base 0x1008 is not a multiple of 16");
  EXPECT_EQ(why_of(fp4(), [](A& a) { a.base = 0x10; }),
            "tensor map: base 0x10 is not a multiple of 32");
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.rank = 6; }), "tensor map: rank 6, want 1 ... 5");
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.rank = 0; }), "tensor map: rank 0, want 1 ... 5");
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.dims[2] = 0; }),
            "tensor map: dimension 2 has 0 elements, want 1 ... 2^32");
  EXPECT_NE(why_of(bf16(), [](A& a) { a.dims[1] += 1; }), "");
  EXPECT_EQ(why_of(fp4(), [](A& a) { a.dims[0] = 576; }),
            "tensor map: dimension 0 has 576 elements, want a multiple of 128");
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.strides[0] = 200; }),
            "tensor map: stride 200 of dimension 1, want a multiple of 16 below 2^40");
  EXPECT_EQ(why_of(fp4(), [](A& a) { a.strides[0] = 336; }),
            "tensor map: stride 336 of dimension 1, want a multiple of 32 below 2^40");
  EXPECT_NE(why_of(bf16(), [](A& a) { a.strides[1] = uint64_t{1} << 40; }), "");
}

TEST(TensorMap, ChecksOfTheBox) {
  using A = TensorMapArgs;
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.box[1] = 257; }),
            "tensor map: box has 257 elements in dimension 1, want 1 ... 256");
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.box[0] = 60; }),
            "tensor map: box's inner dimension is 960 bits, want a multiple of 16 bytes");
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.box[0] = 72; }),
            "tensor map: box's inner dimension is 144 bytes, want at most the swizzle's 128");
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.swizzle = 2; }),
            "tensor map: box's inner dimension is 128 bytes, want at most the swizzle's 64");
  EXPECT_NE(why_of(bf16(), [](A& a) { a.swizzle = 1; }), "");
  EXPECT_EQ(why_of(bf16(),
                   [](A& a) {
                     a.swizzle = 0;
                     a.box[0] = 256;
                   }),
            "");
  EXPECT_EQ(why_of(fp4(), [](A& a) { a.box[0] = 64; }),
            "tensor map: box has 64 elements in dimension 0, want 128 of 16u4_align16b");
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.steps[1] = 9; }),
            "tensor map: step 9 in dimension 1, want 1 ... 8");
  EXPECT_EQ(why_of(fp4(), [](A& a) { a.swizzle = 2; }),
            "tensor map: swizzle 2 of 16u4_align16b, want 0, 3 or 4");
}

TEST(TensorMap, ChecksOfTheNumbers) {
  using A = TensorMapArgs;
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.type = 16; }), "tensor map: no element type 16");
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.swizzle = 7; }), "tensor map: no swizzle 7");
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.fill = 2; }), "tensor map: no fill 2");
  EXPECT_EQ(why_of(bf16(), [](A& a) { a.l2_promotion = 4; }), "tensor map: no L2 promotion 4");
  EXPECT_EQ(why_of(fp4(), [](A& a) { a.fill = 1; }),
            "tensor map: fill with NaN of 16u4_align16b, which is no floating-point type");
  for (const int interleave : {1, 2}) {
    TensorMapArgs args = bf16();
    args.interleave = interleave;
    EXPECT_EQ(encode(args).status().code, Code::kUnsupported);
  }
  TensorMapArgs flip = bf16();
  flip.swizzle = 5;
  EXPECT_EQ(encode(flip).status().code, Code::kUnsupported);
}

}  // namespace
}  // namespace octet::ptxsim::tile
