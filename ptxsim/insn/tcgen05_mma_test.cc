// SPDX-License-Identifier: Apache-2.0
// tcgen05.mma with block scales and of bf16, its operands, its commit.
#include <algorithm>
#include <array>
#include <cmath>

#include "ptxsim/insn/tcgen05_test.h"
#include "ptxsim/matrix/format.h"
#include "ptxsim/matrix/scale_layout.h"
#include "ptxsim/tile/tensor_map.h"

namespace octet::ptxsim::insn {
namespace {

using matrix::Format;

// a [128, 128] e2m1 and b [8, 128] e4m3 by tensor copies, their scales' atoms by ordinary ones, four products of 32.
const char kBlockScaled[] = R"(
  .shared .align 1024 .b8 a[16384]; .shared .align 1024 .b8 b[1024]; .shared .align 128 .b8 sf[1024]; .shared .align 8 .b64 full;
  ld.param.u64 %rd1, [p4];
  mul.wide.u32 %rd2, %me, 8;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.u64 %rd3, [%rd1];
  mov.u32 %r3, sf;
  shl.b32 %r4, %me, 3;
  add.u32 %r3, %r3, %r4;
  st.shared.u64 [%r3], %rd3;
  fence.proxy.async.shared::cta;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  @!%p1 bra ISSUED;
  mov.u32 %r5, full;
  mov.u32 %r6, a; mov.u32 %r7, b; mov.u32 %r8, sf; mov.u32 %r9, bar;
  mbarrier.init.shared::cta.b64 [%r5], 1;
  fence.mbarrier_init.release.cluster;
  ld.param.u64 %rd4, [p2]; ld.param.u64 %rd5, [p3];
  mov.u32 %r10, 0;
  prefetch.tensormap [%rd4];
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 9216;
  cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r6], [%rd4, {%r10, %r10}], [%r5];
  cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r7], [%rd5, {%r10, %r10}], [%r5];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0;
  @!%p2 bra WAIT;
  tcgen05.fence::after_thread_sync;
  // Descriptors: no swizzle and a stride of 128 for the scales, 128-byte swizzle and 1024 for a and b.
  shr.u32 %r11, %r8, 4; cvt.u64.u32 %rd6, %r11; or.b64 %rd6, %rd6, 0x0000400800000000;
  add.u64 %rd7, %rd6, 32;
  shr.u32 %r11, %r6, 4; cvt.u64.u32 %rd8, %r11; or.b64 %rd8, %rd8, 0x4000404000010000;
  shr.u32 %r11, %r7, 4; cvt.u64.u32 %rd9, %r11; or.b64 %rd9, %rd9, 0x4000404000010000;
  add.u32 %r12, %taddr, 16; add.u32 %r13, %taddr, 20;
  tcgen05.cp.cta_group::1.32x128b.warpx4 [%r12], %rd6;
  tcgen05.cp.cta_group::1.32x128b.warpx4 [%r13], %rd7;
  setp.ne.u32 %p3, %r10, 0;
  mov.u32 %r14, 0x08820280;
  tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%taddr], %rd8, %rd9, %r14, [%r12], [%r13], %p3;
  add.u64 %rd8, %rd8, 2; add.u64 %rd9, %rd9, 2; mov.u32 %r14, 0x28820290;
  tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%taddr], %rd8, %rd9, %r14, [%r12], [%r13], !%p3;
  add.u64 %rd8, %rd8, 2; add.u64 %rd9, %rd9, 2; mov.u32 %r14, 0x488202A0;
  tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%taddr], %rd8, %rd9, %r14, [%r12], [%r13], !%p3;
  add.u64 %rd8, %rd8, 2; add.u64 %rd9, %rd9, 2; mov.u32 %r14, 0x688202B0;
  tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%taddr], %rd8, %rd9, %r14, [%r12], [%r13], !%p3;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r9];
ISSUED:
  bar.warp.sync -1;
  mov.u32 %r9, bar;
DONE:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9], 0;
  @!%p2 bra DONE;
  tcgen05.fence::after_thread_sync;
  tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28}, [%r2];
  tcgen05.wait::ld.sync.aligned;
  ld.param.u64 %rd10, [p5];
  mul.wide.u32 %rd11, %me, 32;
  add.u64 %rd10, %rd10, %rd11;
  st.global.v4.u32 [%rd10], {%r21, %r22, %r23, %r24};
  st.global.v4.u32 [%rd10+16], {%r25, %r26, %r27, %r28};
)";

struct BlockScaled {
  std::vector<uint8_t> a = std::vector<uint8_t>(128 * 64), b = std::vector<uint8_t>(8 * 128);
  std::vector<uint8_t> scales = std::vector<uint8_t>(1024);  // atoms of a and of b
  std::vector<float> want = std::vector<float>(128 * 8);

  // Values whose sums are exact in f32 in any order.
  explicit BlockScaled(uint64_t seed) {
    machine::Random random(seed);
    for (uint8_t& byte : a) byte = static_cast<uint8_t>(random.next());
    constexpr uint8_t kCodes[] = {0x00, 0x30, 0x38, 0x3C, 0x40, 0x44, 0xB8, 0xC4};
    for (uint8_t& byte : b) byte = kCodes[random.below(8)];
    for (uint8_t& byte : scales) byte = static_cast<uint8_t>(125 + random.below(3));
    for (int row = 0; row < 128; ++row) {
      for (int n = 0; n < 8; ++n) want[static_cast<size_t>(row * 8 + n)] = dot(row, n);
    }
  }
  float dot(int row, int n) const {
    double sum = 0;
    for (int k = 0; k < 128; ++k) {
      const uint32_t pair = a[static_cast<size_t>(row * 64 + k / 2)];
      const double scale = std::ldexp(
          1, scales[static_cast<size_t>(matrix::scale_atom_byte(row, k / 32))] +
                 scales[static_cast<size_t>(512 + matrix::scale_atom_byte(n, k / 32))] - 254);
      sum += value_of(Format::kE2m1, k % 2 == 0 ? pair & 15 : pair >> 4) *
             value_of(Format::kE4m3, b[static_cast<size_t>(n * 128 + k)]) * scale;
    }
    return static_cast<float>(sum);
  }
};

std::vector<uint8_t> map_bytes(tile::TileType type, uint64_t base, uint32_t rows, uint64_t stride) {
  tile::TensorMapArgs args;
  args.type = static_cast<int>(type);
  args.rank = 2;
  args.base = base;
  args.dims = {128, rows};
  args.strides = {stride};
  args.box = {128, rows};
  args.swizzle = 3;
  const auto bytes = tile::encode(args);
  EXPECT_TRUE(bytes.ok()) << bytes.status().why;
  return {bytes->begin(), bytes->end()};
}

TensorTest block_scaled(const BlockScaled& problem) {
  TensorTest test("sm_100a", 128, 16, 6, with_tensor_memory(kBlockScaled));
  test.input(problem.a);
  test.input(problem.b);
  test.made([](const std::vector<uint64_t>& at) {
    return map_bytes(tile::TileType::k16u4Align16b, at[0], 128, 64);
  });
  test.made([](const std::vector<uint64_t>& at) {
    return map_bytes(tile::TileType::kUint8, at[1], 8, 128);
  });
  test.input(problem.scales);
  test.output(128 * 8 * 4);
  return test;
}

TEST(Tcgen05Mma, BlockScaledProduct) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const BlockScaled problem(seed);
    for (const auto time : kTimes) {
      for (const auto arithmetic : {machine::Arithmetic::kExact, machine::Arithmetic::kTruncated}) {
        TensorTest test = block_scaled(problem);
        machine::Settings settings;
        settings.time = time;
        settings.seed = seed;
        settings.arithmetic = arithmetic;
        const Status status = test.run(settings);
        ASSERT_TRUE(status.ok()) << status.why;
        EXPECT_EQ(test.values<float>(5), problem.want);
      }
    }
  }
}

// Each change is an error, or another result.
TEST(Tcgen05Mma, BlockScaledProductBroken) {
  const BlockScaled problem(1);
  const TensorTest right = block_scaled(problem);
  const auto outcome = [&](const std::string& find, const std::string& replace) {
    TensorTest test = right.with(find, replace);
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const Status status =
          test.run(seed % 2 == 0 ? machine::Time::kRandom : machine::Time::kLate, seed);
      if (!status.ok()) return status.why;
      if (test.values<float>(5) != problem.want) return std::string("other values");
    }
    return std::string("right");
  };
  EXPECT_EQ(outcome("mov.u32 %r10, 0;", "mov.u32 %r10, 0;"), "right");
  EXPECT_TRUE(contains(outcome("fence.proxy.async.shared::cta;", ""), "no fence.proxy.async"));
  EXPECT_TRUE(contains(outcome("fence.proxy.async.shared::cta;", "fence.proxy.async.global;"),
                       "no fence.proxy.async"));
  EXPECT_EQ(outcome("fence.proxy.async.shared::cta;", "fence.proxy.async;"), "right");
  EXPECT_TRUE(
      contains(outcome("ISSUED:\n", "st.shared.u32 [%r7], %r10;\nISSUED:\n"), "order: shared byte"))
      << "an operand that a product under way reads";
  EXPECT_EQ(outcome("0x28820290", "0x08820290"), "other values");  // id of a's scales
  EXPECT_EQ(outcome("0x28820290", "0x28820280"), "other values");  // of b's
  EXPECT_TRUE(contains(outcome("[%r13], %p3;", "[%r13], !%p3;"), "d: lane 0, column"));
  EXPECT_TRUE(contains(outcome("tcgen05.cp.cta_group::1.32x128b.warpx4 [%r13], %rd7;", ""),
                       "scale of row 0 of b: lane 0"));
  EXPECT_TRUE(contains(outcome("_, [%r5], 9216;", "_, [%r5], 17408;"), "WAIT") ||
              outcome("_, [%r5], 9216;", "_, [%r5], 17408;") != "right");
  EXPECT_NE(outcome("_, [%r5], 9216;", "_, [%r5], 9200;"), "right");
  EXPECT_NE(
      outcome("mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0;\n  @!%p2 bra WAIT;", ""),
      "right");
  EXPECT_NE(
      outcome("mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9], 0;\n  @!%p2 bra DONE;", ""),
      "right");
  EXPECT_NE(
      outcome("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r9];", ""),
      "right");
  EXPECT_TRUE(
      contains(outcome("@!%p2 bra DONE;\n  tcgen05.fence::after_thread_sync;", "@!%p2 bra DONE;"),
               "no tcgen05.fence::after_thread_sync"));
  EXPECT_NE(
      outcome("or.b64 %rd8, %rd8, 0x4000404000010000", "or.b64 %rd8, %rd8, 0x8000404000010000"),
      "right");
  EXPECT_TRUE(contains(
      outcome("or.b64 %rd8, %rd8, 0x4000404000010000", "or.b64 %rd8, %rd8, 0x0000004000010000"),
      "bits 46-48 are 0, want 1"));
  EXPECT_TRUE(
      contains(outcome("mov.u32 %r14, 0x08820280", "mov.u32 %r14, 0x08820380"), "has no format"));
  EXPECT_TRUE(contains(outcome("add.u32 %r13, %taddr, 20", "add.u32 %r13, %taddr, 18"),
                       "tcgen05.cp writes tensor memory that tcgen05.cp"));
  EXPECT_TRUE(contains(outcome("add.u32 %r13, %taddr, 20", "add.u32 %r13, %taddr, 40"),
                       "is not allocated"));
}

// a [128, 16] in tensor memory, b [8, 16] in shared memory, bf16: an identity in b brings a's first columns.
const char kFromTensorMemory[] = R"(
  .shared .align 128 .b8 b[256];
  ld.param.u64 %rd1, [p0];
  setp.lt.u32 %p2, %me, 64;
  mul.wide.u32 %rd2, %me, 4;
  add.u64 %rd1, %rd1, %rd2;
  mov.u32 %r3, b;
  shl.b32 %r4, %me, 2;
  add.u32 %r4, %r3, %r4;
  @%p2 ld.global.u32 %r5, [%rd1];
  @%p2 st.shared.u32 [%r4], %r5;
  fence.proxy.async.shared::cta;
  // Two bf16 a register: row t has t + 256 * (its column's pair), as bits.
  mov.u32 %r11, 0x40003F80; mov.u32 %r12, 0x40804040; mov.u32 %r13, 0x40C040A0; mov.u32 %r14, 0x410040E0;
  mov.u32 %r15, 0; mov.u32 %r16, 0; mov.u32 %r17, 0; mov.u32 %r18, 0;
  setp.eq.u32 %p4, %me, 37;
  selp.b32 %r11, 0x3F80BF80, %r11, %p4;
  add.u32 %r6, %r2, 16;
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r6], {%r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18};
  tcgen05.wait::st.sync.aligned;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  mov.u32 %r9, bar;
  @!%p1 bra ISSUED;
  shr.u32 %r7, %r3, 4; cvt.u64.u32 %rd6, %r7; or.b64 %rd6, %rd6, 0x0000400800080000;
  add.u32 %r8, %taddr, 16;
  setp.ne.u32 %p3, %r15, 0;
  mov.u32 %r10, 0x08020490;
  tcgen05.mma.cta_group::1.kind::f16 [%taddr], [%r8], %rd6, %r10, %p3;
  tcgen05.mma.cta_group::1.kind::f16 [%taddr], [%r8], %rd6, %r10, 1;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r9];
ISSUED:
  bar.warp.sync -1;
DONE:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9], 0;
  @!%p2 bra DONE;
  tcgen05.fence::after_thread_sync;
  tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28}, [%r2];
  tcgen05.wait::ld.sync.aligned;
  ld.param.u64 %rd10, [p1];
  mul.wide.u32 %rd11, %me, 32;
  add.u64 %rd10, %rd10, %rd11;
  st.global.v4.u32 [%rd10], {%r21, %r22, %r23, %r24};
  st.global.v4.u32 [%rd10+16], {%r25, %r26, %r27, %r28};
)";

TEST(Tcgen05Mma, AFromTensorMemoryTwiceAdded) {
  // b as a K-major matrix without swizzle: column n's k in chunks of 8, 16 bytes a column, the next 8 k 128 bytes on.
  std::vector<uint16_t> b(128);
  for (size_t n = 0; n < 8; ++n) b[n * 8 + n] = 0x3F80;
  for (const auto time : kTimes) {
    TensorTest test("sm_100a", 128, 16, 2, with_tensor_memory(kFromTensorMemory));
    test.input(bytes_of(b));
    test.output(128 * 8 * 4);
    const Status status = test.run(time, 2);
    ASSERT_TRUE(status.ok()) << status.why;
    const auto got = test.values<float>(1);
    for (size_t row = 0; row < 128; ++row) {
      for (size_t n = 0; n < 8; ++n) {
        float want = static_cast<float>(n + 1);
        if (row == 37 && n < 2) want = n == 0 ? -1.0F : 1.0F;
        EXPECT_EQ(got[row * 8 + n], 2 * want) << row << " " << n;
      }
    }
  }
}

// a [128, 16] and b [16, 16] bf16 in shared memory as p0 has them; d [thread][16] to p1.
const char kFromShared[] = R"(
  ld.param.u64 %rd1, [p0];
  mov.u32 %r3, 0; mov.u32 %r8, s;
COPY:
  shl.b32 %r4, %r3, 9; shl.b32 %r5, %me, 2; add.u32 %r4, %r4, %r5;
  cvt.u64.u32 %rd2, %r4; add.u64 %rd2, %rd1, %rd2;
  ld.global.u32 %r6, [%rd2];
  add.u32 %r7, %r8, %r4;
  st.shared.u32 [%r7], %r6;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, 48;
  @%p2 bra COPY;
  fence.proxy.async.shared::cta;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  mov.u32 %r9, bar;
  @!%p1 bra ISSUED;
  shr.u32 %r10, %r8, 4; cvt.u64.u32 %rd6, %r10;
  add.u64 %rd7, %rd6, 1024;
  or.b64 %rd6, %rd6, DESC; or.b64 %rd7, %rd7, DESC;
  mov.u32 %r11, IDESC;
  tcgen05.mma.cta_group::1.kind::f16 [%taddr], %rd6, %rd7, %r11, 0;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r9];
ISSUED:
  bar.warp.sync -1;
DONE:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9], 0;
  @!%p2 bra DONE;
  tcgen05.fence::after_thread_sync;
  tcgen05.ld.sync.aligned.32x32b.x16.b32 {%r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28, %r29, %r30, %r31, %r32, %r33, %r34, %r35, %r36}, [%r2];
  tcgen05.wait::ld.sync.aligned;
  ld.param.u64 %rd10, [p1];
  mul.wide.u32 %rd11, %me, 64;
  add.u64 %rd10, %rd10, %rd11;
  st.global.v4.u32 [%rd10], {%r21, %r22, %r23, %r24}; st.global.v4.u32 [%rd10+16], {%r25, %r26, %r27, %r28};
  st.global.v4.u32 [%rd10+32], {%r29, %r30, %r31, %r32}; st.global.v4.u32 [%rd10+48], {%r33, %r34, %r35, %r36};
)";

// How a matrix of 16-bit elements lies, before the swizzle: from the ISA's canonical layouts (9.7.16.3.3), T = 8.
struct Lying {
  const char* name;
  uint64_t leading, stride, code;
  bool is_transposed;
  uint32_t (*element)(uint32_t row, uint32_t k);
  uint32_t mask,
      shift;  // bits of the address that the swizzle changes, and how far above stand those it changes them by
};

TEST(Tcgen05Mma, EverySwizzleInBothMajors) {
  using U = uint32_t;
  const Lying cases[] = {
      {"K none", 4096, 128, 0, false,
       [](U row, U k) { return row % 8 * 16 + row / 8 * 128 + k % 8 * 2 + k / 8 * 4096; }, 0, 0},
      {"K 32", 16, 256, 6, false, [](U row, U k) { return row % 8 * 32 + row / 8 * 256 + k * 2; },
       0x10, 3},
      {"K 64", 16, 512, 4, false, [](U row, U k) { return row % 8 * 64 + row / 8 * 512 + k * 2; },
       0x30, 3},
      {"K 128", 16, 1024, 2, false,
       [](U row, U k) { return row % 8 * 128 + row / 8 * 1024 + k * 2; }, 0x70, 3},
      {"K 128, atoms of 32", 16, 1024, 1, false,
       [](U row, U k) { return row % 8 * 128 + row / 8 * 1024 + k * 2; }, 0x60, 2},
      {"MN none", 2048, 128, 0, true,
       [](U row, U k) { return row % 8 * 2 + row / 8 * 128 + k % 8 * 16 + k / 8 * 2048; }, 0, 0},
      {"MN 32", 512, 256, 6, true,
       [](U row, U k) { return row % 16 * 2 + row / 16 * 512 + k % 8 * 32 + k / 8 * 256; }, 0x10,
       3},
      {"MN 64", 1024, 512, 4, true,
       [](U row, U k) { return row % 32 * 2 + row / 32 * 1024 + k % 8 * 64 + k / 8 * 512; }, 0x30,
       3},
      {"MN 128", 2048, 1024, 2, true,
       [](U row, U k) { return row % 64 * 2 + row / 64 * 2048 + k % 8 * 128 + k / 8 * 1024; }, 0x70,
       3}};
  constexpr U kBAt = 16384;
  const auto a_value = [](U row, U k) { return static_cast<int>(row % 7 + k) - 5; };
  const auto b_value = [](U n, U k) { return static_cast<int>(n * 3 + k * 5) % 9 - 4; };
  for (const Lying& c : cases) {
    std::vector<uint16_t> shared(12288);
    const auto put = [&](U at, int value) {
      U bits;
      const auto f = static_cast<float>(value);
      std::memcpy(&bits, &f, 4);
      shared[(at ^ (at >> c.shift & c.mask)) / 2] = static_cast<uint16_t>(bits >> 16);
    };
    for (U k = 0; k < 16; ++k) {
      for (U row = 0; row < 128; ++row) put(c.element(row, k), a_value(row, k));
      for (U n = 0; n < 16; ++n) put(kBAt + c.element(n, k), b_value(n, k));
    }
    const uint64_t descriptor =
        c.leading >> 4 << 16 | c.stride >> 4 << 32 | uint64_t{1} << 46 | c.code << 61;
    TensorTest test("sm_100a", 128, 24576, 2, with_tensor_memory(kFromShared));
    test = test.with("DESC", std::to_string(descriptor))
               .with("DESC", std::to_string(descriptor))
               .with("IDESC", std::to_string(0x08040490U | (c.is_transposed ? 3U << 15 : 0)));
    test.input(bytes_of(shared));
    test.output(128 * 64);
    const Status status = test.run(machine::Time::kRandom, 1);
    ASSERT_TRUE(status.ok()) << c.name << ": " << status.why;
    const auto got = test.values<float>(1);
    for (U row = 0; row < 128; ++row) {
      for (U n = 0; n < 16; ++n) {
        int want = 0;
        for (U k = 0; k < 16; ++k) want += a_value(row, k) * b_value(n, k);
        EXPECT_EQ(got[row * 16 + n], static_cast<float>(want)) << c.name << " " << row << " " << n;
      }
    }
  }
}

}  // namespace
}  // namespace octet::ptxsim::insn
