// SPDX-License-Identifier: Apache-2.0
// wgmma: descriptors of every swizzle and major, every width, a in registers and in shared memory, signs, chains of products, and the sum.
//
// Shared memory holds random codes throughout: which of them an element is, the device and the simulator each find by the descriptor.
#include <fmt/format.h>
#include <vector>

#include "case.h"
#include "factors.h"
#include "pieces.h"
#include "values.h"

namespace octet::cross {
namespace {

constexpr int kWords = 11264;  // 44 KiB: a in the first 11, b behind it
constexpr uint64_t kBAt = 11264;
const char kShared[] = ".shared .align 1024 .b8 s[45056];";
constexpr uint32_t kThreads = 128;

struct Layout {
  const char* name;
  uint64_t leading, stride, code;  // bytes, and bits 62-63
  bool is_mn;
};
// Rows (columns of b) up to 256, 32 bytes of k; MN-major: 16 of k. None overlap, all stay within 32 KiB.
constexpr Layout kKMajor[] = {{"K none", 4096, 128, 0, false},
                              {"K 32", 0, 256, 3, false},
                              {"K 64", 0, 512, 2, false},
                              {"K 128", 0, 1024, 1, false}};
constexpr Layout kMnMajor[] = {{"MN none", 4096, 128, 0, true},
                               {"MN 32", 512, 256, 3, true},
                               {"MN 64", 1024, 512, 2, true},
                               {"MN 128", 2048, 1024, 1, true}};

struct Product {
  int n = 64, k = 16;
  const char *a = "bf16", *b = "bf16";
  Layout a_layout = kKMajor[3], b_layout = kKMajor[3];
  bool a_is_registers = false;
  bool accumulates = true;
  int a_sign = 1, b_sign = 1;
  Draw draw = Draw::kExact;
  uint32_t blocks = 1;
  int steps = 1;          // products in a chain, each 32 bytes of k further
  uint64_t a_offset = 0;  // bytes by which a begins later
};

// Address of s / 16 in %d10; the descriptor in %d<reg>.
std::string descriptor(int reg, const Layout& layout, uint64_t start) {
  const uint64_t bits = layout.leading >> 4 << 16 | layout.stride >> 4 << 32 | layout.code << 62;
  return fmt::format("add.u64 %d{0}, %d10, {1}; or.b64 %d{0}, %d{0}, 0x{2:X};\n", reg, start >> 4,
                     bits);
}

std::string registers(int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}%r{}", i == 0 ? "" : ", ", first + i);
  return text + "}";
}

std::string instruction(const Product& p) {
  std::string text =
      fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}.f32.{}.{} {}, {}, %d12, %p1, {}, {}", p.n,
                  p.k, p.a, p.b, registers(0, p.n / 2),
                  p.a_is_registers ? registers(160, 4) : "%d11", p.a_sign, p.b_sign);
  if (p.k == 16) {
    if (!p.a_is_registers) text += p.a_layout.is_mn ? ", 1" : ", 0";
    text += p.b_layout.is_mn ? ", 1" : ", 0";
  }
  return text + ";\n";
}

// Parameters: shared memory, c [thread][n / 2], d, a's registers [thread][4]; each block has its own.
std::string text_of(const Product& p) {
  std::string text =
      load_shared(0, kWords, kThreads) + own_place(1, 1, 2 * p.n) + own_place(2, 2, 2 * p.n);
  if (p.a_is_registers) {
    text += own_place(3, 3, 16);
    for (int i = 0; i < 4; ++i)
      text += fmt::format("ld.global.b32 %r{}, [%d3+{}]; ", 160 + i, 4 * i);
  }
  for (int i = 0; i < p.n / 2; ++i) text += fmt::format("ld.global.b32 %r{}, [%d1+{}]; ", i, 4 * i);
  text +=
      "\nfence.proxy.async.shared::cta; bar.sync 0; mov.u32 %r150, s; shr.u32 %r150, %r150, 4; "
      "cvt.u64.u32 %d10, %r150;\n" +
      descriptor(11, p.a_layout, p.a_offset) + descriptor(12, p.b_layout, kBAt) +
      fmt::format("setp.eq.u32 %p1, 0, {};\nwgmma.fence.sync.aligned;\n", p.accumulates ? 0 : 1);
  for (int i = 0; i < p.steps; ++i) {
    text += instruction(p);
    if (i + 1 < p.steps)
      text +=
          "wgmma.commit_group.sync.aligned;\nadd.u64 %d11, %d11, 2; add.u64 %d12, %d12, 2; "
          "setp.eq.u32 %p1, 0, 0;\n";
  }
  text += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
  for (int i = 0; i < p.n / 2; ++i) text += fmt::format("st.global.b32 [%d2+{}], %r{}; ", 4 * i, i);
  return text;
}

void add(std::vector<Case>& cases, const std::string& name, const Product& p) {
  const size_t elements = 4 * size_t{kWords} / (p.k == 16 ? 2 : 1),
               all = size_t{kThreads} * p.blocks;
  const auto seed = static_cast<uint64_t>(p.draw) * 16 + 1000;
  // a's part of shared memory has codes of a, b's part of b.
  Bytes shared;
  for (uint32_t block = 0; block < p.blocks; ++block) {
    const Bytes a = codes_of(p.a, p.draw, elements, seed + 4 * block),
                b = codes_of(p.b, p.draw, elements, seed + 4 * block + 1);
    shared.insert(shared.end(), a.begin(), a.begin() + static_cast<int64_t>(kBAt));
    shared.insert(shared.end(), b.begin() + static_cast<int64_t>(kBAt), b.end());
  }
  const auto outputs = all * static_cast<size_t>(p.n / 2);
  std::vector<Buffer> buffers = {input("shared", shared),
                                 input("c", accumulators_of(p.a, p.draw, outputs, seed + 2)),
                                 output("d", outputs * 4)};
  if (p.a_is_registers)
    buffers.push_back(input("a", codes_of(p.a, p.draw, all * 4 * (p.k == 16 ? 2 : 4), seed + 3)));
  Launch launch;
  launch.block = {kThreads, 1, 1};
  launch.grid = {p.blocks, 1, 1};
  Case made = simple_case("wgmma/" + name, text_of(p), std::move(buffers), launch, kShared);
  made.needs = p.draw == Draw::kExact ? Needs::kNothing : Needs::kTruncatedSums;
  cases.push_back(std::move(made));
}

struct Pair {
  int k;
  const char *a, *b;
};
constexpr Pair kPairs[] = {{16, "bf16", "bf16"}, {16, "f16", "f16"},   {32, "e4m3", "e4m3"},
                           {32, "e4m3", "e5m2"}, {32, "e5m2", "e4m3"}, {32, "e5m2", "e5m2"}};

Product product_of(const Pair& pair) {
  Product p;
  p.k = pair.k;
  p.a = pair.a;
  p.b = pair.b;
  return p;
}

void add_widths(std::vector<Case>& cases) {
  for (int n = 8; n <= 256; n += 8) {
    for (const Pair& pair : {kPairs[0], kPairs[2]}) {
      Product p = product_of(pair);
      p.n = n;
      p.a_is_registers = n % 16 == 0;
      add(cases, fmt::format("n {}, {}", n, pair.a), p);
    }
  }
}

void add_layouts(std::vector<Case>& cases) {
  for (const Pair& pair : kPairs) {
    for (const Layout& a : kKMajor) {
      for (const Layout& b : kKMajor) {
        Product p = product_of(pair);
        p.a_layout = a;
        p.b_layout = b;
        if (&a - kKMajor == &b - kKMajor || pair.a == kPairs[0].a)
          add(cases, fmt::format("{} x {}, a {}, b {}", pair.a, pair.b, a.name, b.name), p);
      }
    }
  }
  for (const Pair& pair : {kPairs[0], kPairs[1]}) {
    for (int i = 0; i < 4; ++i) {
      for (int majors = 1; majors < 4; ++majors) {
        Product p = product_of(pair);
        p.n = 128;
        p.a_layout = (majors & 1) != 0 ? kMnMajor[i] : kKMajor[i];
        p.b_layout = (majors & 2) != 0 ? kMnMajor[i] : kKMajor[i];
        // Wider than one span: the leading dimension counts.
        add(cases, fmt::format("{}, a {}, b {}", pair.a, p.a_layout.name, p.b_layout.name), p);
      }
    }
  }
  Product p;
  p.a_offset = 1024 + 64;
  add(cases, "a begins within a span", p);
  p.a_offset = 0;
  p.steps = 4;
  add(cases, "a chain of four products along a span, bf16", p);
  Product bytes = product_of(kPairs[2]);
  bytes.steps = 4;
  add(cases, "a chain of four products along a span, e4m3", bytes);
  for (const Pair& pair : kPairs) {
    for (const int signs : {0, 1, 2, 3}) {
      Product q = product_of(pair);
      q.accumulates = signs % 2 == 0;
      q.a_sign = (signs & 1) != 0 ? -1 : 1;
      q.b_sign = (signs & 2) != 0 ? -1 : 1;
      q.a_is_registers = signs == 2;
      if (q.a_is_registers) q.a_sign = 1;
      add(cases,
          fmt::format("{} x {}, signs {} {}, scale-d {}", pair.a, pair.b, q.a_sign, q.b_sign,
                      q.accumulates ? 1 : 0),
          q);
    }
  }
}

void add_sums(std::vector<Case>& cases) {
  for (const Pair& pair : kPairs) {
    for (const Draw draw :
         {Draw::kNear, Draw::kAny, Draw::kSpecial, Draw::kSubnormal, Draw::kLarge, Draw::kZeros}) {
      for (const bool accumulates : {true, false}) {
        Product p = product_of(pair);
        p.draw = draw;
        p.accumulates = accumulates;
        p.blocks = 16;
        p.a_is_registers = accumulates;
        add(cases,
            fmt::format("{} x {}, {}, scale-d {}", pair.a, pair.b,
                        kDrawNames[static_cast<size_t>(draw)], accumulates ? 1 : 0),
            p);
      }
    }
  }
  for (const Pair& pair : {kPairs[0], kPairs[2]}) {
    Product p = product_of(pair);
    p.draw = Draw::kNear;
    p.steps = 4;
    p.blocks = 16;
    add(cases, fmt::format("{}, near, a chain of four", pair.a), p);
  }
}

}  // namespace

void add_wgmma(std::vector<Case>& cases) {
  add_widths(cases);
  add_layouts(cases);
  add_sums(cases);
}

}  // namespace octet::cross
