// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/insn/tensor_test.h"
#include "ptxsim/machine/random.h"
#include "ptxsim/tile/tensor_map.h"

namespace octet::ptxsim::insn {
namespace {

// One thread loads a box by map p1 of tensor p0, and stores it by map p3 to tensor p2; coordinates are the first DIM of 8, 2, 1, 1, 1.
const char kThrough[] = R"(
  .reg .pred %p<3>; .reg .b32 %r<10>; .reg .b64 %rd<10>;
  .shared .align 8 .b64 full;
  mov.u32 %r1, s; mov.u32 %r2, full;
  mov.u32 %r3, 16; mov.u32 %r4, 2; mov.u32 %r5, 1;
  mbarrier.init.shared::cta.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster;
  ld.param.u64 %rd1, [p1]; ld.param.u64 %rd2, [p3];
  cp.async.bulk.prefetch.tensor.DIMd.L2.global.tile [%rd1, {COORDINATES}];
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], BYTES;
  cp.async.bulk.tensor.DIMd.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {COORDINATES}], [%r2];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;
  @!%p1 bra WAIT;
  cp.async.bulk.tensor.DIMd.global.shared::cta.tile.bulk_group [%rd2, {COORDINATES}], [%r1];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
)";

std::vector<uint8_t> map_of(int rank, int swizzle, uint64_t base) {
  tile::TensorMapArgs args;
  args.type = static_cast<int>(tile::TileType::kUint8);
  args.rank = rank;
  args.base = base;
  args.dims = {48, 8, 4, 3, 2};
  args.strides = {48, 384, 1536, 4608};
  args.box = {32, 4, 2, 2, 1};
  args.swizzle = swizzle;
  const auto bytes = tile::encode(args);
  EXPECT_TRUE(bytes.ok()) << bytes.status().why;
  return {bytes->begin(), bytes->end()};
}

TensorTest through(int rank, const std::vector<uint8_t>& tensor) {
  const char* const coordinates[] = {"%r3", "%r3, %r4", "%r3, %r4, %r5", "%r3, %r4, %r5, %r5",
                                     "%r3, %r4, %r5, %r5, %r5"};
  const int bytes[] = {32, 128, 256, 512, 512};
  TensorTest test("sm_90a", 1, 1024, 4, kThrough);
  for (int i = 0; i < 3; ++i)
    test = test.with("DIM", std::to_string(rank)).with("COORDINATES", coordinates[rank - 1]);
  test = test.with("BYTES", std::to_string(bytes[rank - 1]));
  test.input(tensor);
  const auto make = [](int r) -> TensorTest::Make {
    switch (r) {
      case 1:
        return [](const std::vector<uint64_t>& at) {
          return map_of(1, 1, at.size() == 1 ? at[0] : at[2]);
        };
      case 2:
        return [](const std::vector<uint64_t>& at) {
          return map_of(2, 1, at.size() == 1 ? at[0] : at[2]);
        };
      case 3:
        return [](const std::vector<uint64_t>& at) {
          return map_of(3, 1, at.size() == 1 ? at[0] : at[2]);
        };
      case 4:
        return [](const std::vector<uint64_t>& at) {
          return map_of(4, 1, at.size() == 1 ? at[0] : at[2]);
        };
      default:
        return [](const std::vector<uint64_t>& at) {
          return map_of(5, 1, at.size() == 1 ? at[0] : at[2]);
        };
    }
  };
  test.made(make(rank));
  test.both(std::vector<uint8_t>(tensor.size(), 0));
  test.made(make(rank));
  return test;
}

std::vector<uint8_t> random_bytes(size_t count) {
  machine::Random random(3);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next() | 1);
  return bytes;
}

TEST(TensorCopy, ABoxThroughSharedMemory) {
  const std::vector<uint8_t> tensor = random_bytes(48 * 8 * 4 * 3 * 2);
  for (int rank = 1; rank <= 5; ++rank) {
    for (const auto time : kTimes) {
      TensorTest test = through(rank, tensor);
      const Status status = test.run(time, 3);
      ASSERT_TRUE(status.ok()) << rank << ": " << status.why;
      const auto got = test.values<uint8_t>(2);
      const size_t dims[] = {48, 8, 4, 3, 2}, first[] = {16, 2, 1, 1, 1}, box[] = {32, 4, 2, 2, 1};
      for (size_t i = 0; i < got.size(); ++i) {
        size_t rest = i;
        bool is_in = true;
        for (size_t d = 0; d < 5; ++d) {
          const size_t x = rest % dims[d];
          rest /= dims[d];
          const size_t begin = static_cast<int>(d) < rank ? first[d] : 0;
          is_in &= x >= begin && x < begin + (static_cast<int>(d) < rank ? box[d] : 1);
        }
        EXPECT_EQ(got[i], is_in ? tensor[i] : 0) << rank << " " << i;
      }
    }
  }
}

TEST(TensorCopy, BrokenKernels) {
  const std::vector<uint8_t> tensor = random_bytes(48 * 8 * 4 * 3 * 2);
  const auto why = [&](const std::string& find, const std::string& replace) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      TensorTest test = through(2, tensor).with(find, replace);
      const Status status = test.run(machine::Time::kRandom, seed);
      if (!status.ok()) return status.why;
    }
    return std::string();
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(why("mov.u32 %r3, 16;", "mov.u32 %r3, 16;"), "");
  EXPECT_TRUE(contains(why("mov.u32 %r3, 16;", "mov.u32 %r3, 8;"), "want a multiple of 16 bytes"));
  EXPECT_TRUE(contains(why("_, [%r2], 128;", "_, [%r2], 112;"), ""));
  EXPECT_NE(why("_, [%r2], 128;", "_, [%r2], 144;"), "") << "never ends";
  EXPECT_NE(why("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n  @!%p1 bra WAIT;", ""),
            "");
  EXPECT_EQ(
      why("cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group 0; st.shared.u32 [%r1], %r3;"),
      "");
  EXPECT_EQ(
      why("cp.async.bulk.wait_group 0;",
          "cp.async.bulk.wait_group.read 0; st.shared.u32 [%r1], %r3; cp.async.bulk.wait_group 0;"),
      "");
  EXPECT_NE(
      why("cp.async.bulk.wait_group 0;", "st.shared.u32 [%r1], %r3; cp.async.bulk.wait_group 0;"),
      "")
      << "what the store still reads";
  EXPECT_NE(why("cp.async.bulk.wait_group 0;", ""), "") << "exits with work under way";
  EXPECT_TRUE(contains(why("mov.u32 %r1, s;", "add.u32 %r1, %r1, 64; mov.u32 %r1, 64;"),
                       "want a multiple of 128"));
  EXPECT_TRUE(contains(why("ld.param.u64 %rd1, [p1];", "ld.param.u64 %rd1, [p0];"),
                       "none that this simulator's encode made"));
  EXPECT_TRUE(
      contains(why("ld.param.u64 %rd1, [p1];", "ld.param.u64 %rd1, [p1]; add.u64 %rd1, %rd1, 8;"),
               "want a multiple of 64"));
}

TEST(TensorCopy, DimensionsAreTheMaps) {
  const std::vector<uint8_t> tensor = random_bytes(48 * 8 * 4 * 3 * 2);
  TensorTest test = through(2, tensor).with("prefetch.tensor.2d.L2.global.tile [%rd1, {%r3, %r4}]",
                                            "prefetch.tensor.1d.L2.global.tile [%rd1, {%r3}]");
  const Status status = test.run(machine::Time::kEager, 1);
  EXPECT_NE(status.why.find("a tensor map of 2 dimensions, want 1"), std::string::npos)
      << status.why;
}

}  // namespace
}  // namespace octet::ptxsim::insn
