// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "ptxsim/insn/tensor_test.h"
#include "ptxsim/matrix/format.h"
#include "ptxsim/matrix/scale_layout.h"
#include "ptxsim/tile/tensor_map.h"

namespace octet::ptxsim::insn {
namespace {

using matrix::Format;

// Four warps: warp 0 allocates 32 columns, each warp does BODY with %taddr = its quarter's address, warp 0 frees them.
std::string with_tensor_memory(const std::string& body) {
  return R"(
  .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .f32 %f<20>;
  .reg .b32 %taddr, %me, %warp, %slot; .reg .pred %first;
  .shared .align 4 .b32 slot; .shared .align 8 .b64 bar;
  mov.u32 %me, %tid.x;
  shr.u32 %warp, %me, 5;
  setp.eq.u32 %first, %warp, 0;
  mov.u32 %slot, slot;
  @!%first bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 32;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ALLOCATED:
  setp.eq.u32 %p1, %me, 0;
  mov.u32 %r1, bar;
  @%p1 mbarrier.init.shared::cta.b64 [%r1], 1;
  @%p1 fence.mbarrier_init.release.cluster;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  ld.shared.u32 %taddr, [%slot];
  shl.b32 %r2, %warp, 21;
  add.u32 %r2, %r2, %taddr;
)" + body +
         R"(
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  @!%first bra FREED;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %taddr, 32;
FREED:
)";
}

// Thread t stores 100 t + i to column i; what a load of another shape gives follows from the shape's own text.
const char kStore[] = R"(
  mul.lo.u32 %r3, %me, 100;
  add.u32 %r4, %r3, 1; add.u32 %r5, %r3, 2; add.u32 %r6, %r3, 3;
  add.u32 %r7, %r3, 4; add.u32 %r8, %r3, 5; add.u32 %r9, %r3, 6; add.u32 %r10, %r3, 7;
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r2], {%r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10};
  tcgen05.wait::st.sync.aligned;
)";
const char kLoad[] = R"(
  tcgen05.ld.sync.aligned.SHAPE.b32 {%r11, %r12, %r13, %r14}, [%r2+LANE];
  tcgen05.wait::ld.sync.aligned;
  ld.param.u64 %rd1, [p0];
  mul.wide.u32 %rd2, %me, 16;
  add.u64 %rd1, %rd1, %rd2;
  st.global.v4.u32 [%rd1], {%r11, %r12, %r13, %r14};
)";

TensorTest store_and_load(const std::string& shape, bool is_upper) {
  TensorTest test("sm_100a", 128, 16, 1, with_tensor_memory(std::string(kStore) + kLoad));
  test.output(128 * 16);
  return test.with("SHAPE", shape).with("LANE", is_upper ? "1048576" : "0");
}

TEST(Tcgen05, StoreAndLoadInEveryShape) {
  struct Case {
    const char* shape;
    bool is_upper;
    uint32_t (*want)(uint32_t lane, uint32_t i);  // 100 * row + column
  };
  const Case cases[] = {
      {"32x32b.x4", false, [](uint32_t l, uint32_t i) { return 100 * l + i; }},
      {"16x64b.x4", false,
       [](uint32_t l, uint32_t i) { return 100 * (l / 4 + 8 * (l % 2)) + 2 * i + l / 2 % 2; }},
      {"16x128b.x2", true,
       [](uint32_t l, uint32_t i) {
         return 100 * (16 + l / 4 + 8 * (i % 2)) + 4 * (i / 2) + l % 4;
       }},
      {"16x256b.x1", false,
       [](uint32_t l, uint32_t i) { return 100 * (l / 4 + 8 * (i / 2)) + 2 * (l % 4) + i % 2; }},
      {"16x256b.x1", true, [](uint32_t l, uint32_t i) {
         return 100 * (16 + l / 4 + 8 * (i / 2)) + 2 * (l % 4) + i % 2;
       }}};
  for (const Case& c : cases) {
    for (const auto time : kTimes) {
      TensorTest test = store_and_load(c.shape, c.is_upper);
      const Status status = test.run(time, 7);
      ASSERT_TRUE(status.ok()) << c.shape << ": " << status.why;
      const auto got = test.values<uint32_t>(0);
      for (uint32_t t = 0; t < 128; ++t) {
        for (uint32_t i = 0; i < 4; ++i)
          EXPECT_EQ(got[t * 4 + i], 3200 * (t / 32) + c.want(t % 32, i)) << c.shape << " " << t;
      }
    }
  }
}

std::string late_error(const TensorTest& test) {
  TensorTest copy = test;
  return copy.run(machine::Time::kLate, 3).why;
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Tcgen05, RulesOfLoadsAndStores) {
  const TensorTest right = store_and_load("32x32b.x4", false);
  EXPECT_EQ(late_error(right), "");
  EXPECT_TRUE(contains(late_error(right.with("tcgen05.wait::st.sync.aligned;", "")),
                       "tcgen05.ld reads tensor memory that tcgen05.st"))
      << late_error(right.with("tcgen05.wait::st.sync.aligned;", ""));
  EXPECT_TRUE(contains(late_error(right.with("tcgen05.wait::ld.sync.aligned;", "")),
                       "no tcgen05.wait::ld has waited for"))
      << late_error(right.with("tcgen05.wait::ld.sync.aligned;", ""));
  EXPECT_TRUE(contains(
      late_error(right.with("bar.sync 0;\n  tcgen05.fence::after_thread_sync;", "bar.sync 0;")),
      "no tcgen05.fence::after_thread_sync since the last wait"));
  EXPECT_TRUE(
      contains(late_error(right.with("[%r2+0]", "[%taddr]")), "lane 0 of tensor memory, warp "))
      << late_error(right.with("[%r2+0]", "[%taddr]"));
  EXPECT_TRUE(contains(late_error(right.with("[%r2+0]", "[%r2+32]")), "is not allocated"));
  EXPECT_TRUE(contains(late_error(right.with("[%r2+0]", "[%r2+8]")), "has no value"));
  EXPECT_TRUE(contains(
      late_error(right.with("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %taddr, 32;", "")),
      "32 columns of tensor memory are not deallocated"));
  EXPECT_TRUE(
      contains(late_error(right.with("[%slot], 32", "[%slot], 48")), "want a power of two"));
  EXPECT_TRUE(contains(late_error(right.with("cta_group::1", "cta_group::2")), "not modelled"));
}

// Without fence::before_thread_sync the barrier signals nothing about tensor memory (R2).
TEST(Tcgen05, ABarrierNeedsTheFenceBefore) {
  const TensorTest right = store_and_load("32x32b.x4", false);
  const std::string tail =
      "tcgen05.fence::before_thread_sync;\n  bar.sync 0;\n  @!%first bra FREED;";
  EXPECT_TRUE(contains(late_error(right.with(tail, "bar.sync 0;\n  @!%first bra FREED;")),
                       "no tcgen05.fence::before_thread_sync"));
}

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

TEST(Tcgen05, BlockScaledProduct) {
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
TEST(Tcgen05, BlockScaledProductBroken) {
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

TEST(Tcgen05, AFromTensorMemoryTwiceAdded) {
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

}  // namespace
}  // namespace octet::ptxsim::insn
