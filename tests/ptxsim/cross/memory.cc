// SPDX-License-Identifier: Apache-2.0
// Loads and stores of every width and space, variables of a module, generic addresses, atomics.
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "case.h"
#include "pieces.h"
#include "values.h"

namespace octet::cross {
namespace {

const char kShared[] = ".shared .align 16 .b8 s[4096];";

Launch threads(uint32_t count, uint32_t blocks = 1) {
  Launch launch;
  launch.block = {count, 1, 1};
  launch.grid = {blocks, 1, 1};
  return launch;
}

void add_loads(std::vector<Case>& cases) {
  std::string text = own_place(0, 0, 16) + own_place(1, 1, 256);
  int at = 0;
  const auto store = [&](const std::string& what) {
    text += fmt::format("st.global.{} [%d1+{}], {};\n", what.substr(0, what.find(' ')), at,
                        what.substr(what.find(' ') + 1));
    at += 16;
  };
  for (const char* type : {"u8", "s8", "u16", "s16", "b32"}) {
    text += fmt::format("ld.global.{} %r1, [%d0+2];\n", type[1] == '3' ? "b32" : type);
    if (type[1] == '3') text.replace(text.rfind("+2"), 2, "+4");
    store("b32 %r1");
  }
  text += "ld.global.s8 %d2, [%d0+5];\n";
  store("b64 %d2");
  text += "ld.global.s32 %d2, [%d0+8];\n";
  store("b64 %d2");
  text += "ld.global.v2.u16 {%h1, %h2}, [%d0+4];\n";
  store("v2.b16 {%h2, %h1}");
  text += "ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%d0+12];\n";
  store("v4.b8 {%h4, %h2, %h3, %h1}");
  text += "ld.global.v2.b32 {%r1, %r2}, [%d0+8];\n";
  store("v2.b32 {%r2, %r1}");
  text += "ld.global.nc.v4.b32 {%r1, %r2, %r3, %r4}, [%d0];\n";
  store("v4.b32 {%r4, %r2, %r3, %r1}");
  text += "ld.global.v2.b64 {%d2, %d3}, [%d0];\n";
  store("v2.b64 {%d3, %d2}");
  text += "ld.volatile.global.b16 %h5, [%d0+6];\n";
  store("b16 %h5");
  text += "ld.global.ca.b8 %h5, [%d0+7];\n";
  store("b8 %h5");
  cases.push_back(simple_case("memory/ld and st of every width", text,
                              {input("a", random_bytes(64 * 16, 41)), output("d", 64 * 256)},
                              threads(64)));
}

// Bytes of a thread go to shared memory by one width and come back by another, and on by relaxed and cached forms.
void add_shared(std::vector<Case>& cases) {
  const std::string body =
      own_place(0, 0, 16) + own_place(1, 1, 128) +
      "mov.u32 %r20, s; mad.lo.u32 %r20, %tx, 64, %r20; ld.relaxed.gpu.global.v4.u32 {%r1, %r2, "
      "%r3, %r4}, [%d0];\n"
      "st.shared.v4.u32 [%r20], {%r2, %r1, %r4, %r3}; mov.b32 {%h0, %h1}, %r1; mov.b32 {%h2, %h3}, "
      "%r3; st.shared.v4.u16 [%r20+16], {%h3, %h0, %h1, %h2}; "
      "st.shared.v2.u16 [%r20+24], {%h1, %h3}; st.shared.u8 [%r20+28], %h2; st.shared.u8 "
      "[%r20+29], %r4; st.shared.u16 [%r20+30], %h0; "
      "st.shared.v4.u8 [%r20+32], {%h0, %h1, %h2, %h3}; st.shared.u32 [%r20+36], %r2; mov.b64 %d2, "
      "{%r1, %r4}; st.shared.u64 "
      "[%r20+40], %d2; "
      "st.shared.v2.u64 [%r20+48], {%d2, %d2};\n"
      "ld.shared.s8 %r5, [%r20+1]; ld.shared.u8 %r6, [%r20+29]; ld.shared.v2.u16 {%h4, %h5}, "
      "[%r20+4]; "
      "ld.shared.v4.u8 {%h6, %h7, %h8, %h9}, [%r20+8]; ld.shared.v2.u32 {%r7, %r8}, [%r20+16]; "
      "ld.shared.v4.u16 {%h10, %h11, %h12, %h13}, [%r20+24]; "
      "ld.shared.u64 %d3, [%r20+48]; ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r20+32];\n"
      "st.relaxed.gpu.global.v2.u32 [%d1], {%r5, %r6}; st.global.v2.u16 [%d1+8], {%h5, %h4}; "
      "st.global.v4.u8 [%d1+12], {%h9, %h8, %h6, %h7}; "
      "st.global.v4.u16 [%d1+16], {%h13, %h10, %h12, %h11}; st.relaxed.gpu.global.u32 [%d1+24], "
      "%r7; st.global.u8 [%d1+28], %r8; "
      "st.global.u64 [%d1+32], %d3; st.v4.u32 [%d1+48], {%r13, %r12, %r11, %r10};\n"
      "ld.relaxed.gpu.global.u64 %d4, [%d0+8]; st.global.u64 [%d1+64], %d4; ld.global.cg.v4.u32 "
      "{%r1, %r2, %r3, %r4}, [%d0]; "
      "membar.cta; membar.gl; st.v4.u32 [%d1+80], {%r1, %r2, %r3, %r4}; "
      "ld.global.nc.L1::no_allocate.v4.u32 {%r1, %r2, %r3, %r4}, [%d0]; "
      "st.v4.u32 [%d1+96], {%r4, %r3, %r2, %r1};";
  cases.push_back(simple_case("memory/shared memory by every width", body,
                              {input("a", random_bytes(64 * 16, 45)), output("d", 64 * 128)},
                              threads(64), kShared));
}

void add_spaces(std::vector<Case>& cases) {
  Case made;
  made.name = "memory/variables, local and generic addresses";
  made.text =
      head() +
      ".const .align 8 .b8 table[16] = {1, 2, 3, 250, 5, 6, 7, 8};\n"
      ".global .align 4 .u32 numbers[4] = {11, 0xFFFFFFFF, 13};\n"
      ".global .align 8 .u64 where = numbers;\n" +
      entry_of(
          "k", 1, 0,
          "ld.param.u64 %d1, [p0]; mad.wide.u32 %d1, %tx, 64, %d1; and.b32 %r1, %tx, 15; "
          "mov.u64 %d2, table; cvt.u64.u32 %d3, %r1; add.u64 %d2, %d2, %d3; ld.const.u8 %r2, "
          "[%d2]; st.global.u32 [%d1], %r2; "
          "ld.const.v2.u32 {%r2, %r3}, [table+0]; st.global.v2.u32 [%d1+8], {%r2, %r3}; "
          "and.b32 %r1, %tx, 3; mul.wide.u32 %d3, %r1, 4; ld.global.u64 %d4, [where]; add.u64 %d4, "
          "%d4, %d3; "
          "ld.u32 %r2, [%d4]; st.global.u32 [%d1+16], %r2; "
          "mov.u64 %d5, mine; mul.wide.u32 %d6, %r1, 4; add.u64 %d5, %d5, %d6; st.local.u32 "
          "[mine], 1; st.local.u32 [mine+4], 2; "
          "st.local.u32 [mine+8], 3; st.local.u32 [mine+12], 4; st.local.u32 [%d5], %tx; "
          "cvta.local.u64 %d7, %d5; ld.u32 %r2, [%d7]; "
          "st.global.u32 [%d1+20], %r2; ld.local.v4.u32 {%r3, %r4, %r5, %r6}, [mine]; "
          "st.global.v4.u32 [%d1+32], {%r3, %r4, %r5, %r6}; "
          "mov.u64 %d8, s; cvta.shared.u64 %d8, %d8; mad.wide.u32 %d8, %tx, 4, %d8; st.u32 [%d8], "
          "%tx; bar.sync 0; "
          "mov.u32 %r7, s; xor.b32 %r8, %tx, 3; mad.lo.u32 %r7, %r8, 4, %r7; ld.shared.u32 %r9, "
          "[%r7]; st.global.u32 [%d1+24], %r9; "
          "cvta.to.shared.u64 %d9, %d8; ld.shared.u32 %r9, [%d9]; st.global.u32 [%d1+28], %r9; "
          "mov.u32 %r10, 0; isspacep.shared %p1, %d8; selp.b32 %r11, 1, 0, %p1; or.b32 %r10, %r10, "
          "%r11; "
          "isspacep.global %p1, %d8; selp.b32 %r11, 2, 0, %p1; or.b32 %r10, %r10, %r11; "
          "isspacep.local %p1, %d7; selp.b32 %r11, 4, 0, %p1; or.b32 %r10, %r10, %r11; "
          "isspacep.global %p1, %d1; selp.b32 %r11, 8, 0, %p1; or.b32 %r10, %r10, %r11; "
          "isspacep.shared::cluster %p1, %d8; selp.b32 %r11, 16, 0, %p1; or.b32 %r10, %r10, %r11; "
          "st.global.u32 [%d1+48], %r10;",
          std::string(kShared) + " .local .align 16 .b8 mine[16];");
  made.buffers = {output("d", 64 * 64)};
  made.launches = {threads(64)};
  cases.push_back(made);
}

std::string type_of(const std::string& form) { return form.substr(form.rfind('.') + 1); }
int bytes_of(const std::string& form) { return type_of(form).substr(1) == "64" ? 8 : 4; }

// Each thread on a number of its own: old value and new one.
Case own_numbers(const std::string& space, const std::string& form) {
  const int bytes = bytes_of(form), count = 4096;
  const bool is_float = type_of(form) == "f32", is_cas = form.substr(0, 3) == "cas";
  const char letter = is_float ? 'F' : bytes == 8 ? 'L' : 'I';
  const std::string a = bytes == 8 ? "%d5" : "%r5", old = bytes == 8 ? "%d6" : "%r6",
                    c = bytes == 8 ? "%d7" : "%r7";
  std::string text =
      own_place(0, 0, bytes) + own_place(1, 1, bytes) + own_place(2, 2, bytes) +
      own_place(3, 3, bytes) +
      fmt::format("ld.global.b{0} {1}, [%d1]; ld.global.b{0} {2}, [%d2];\n", 8 * bytes, a, c);
  const std::string operands = is_cas ? a + ", " + c : a;
  if (space == "shared") {
    text += fmt::format(
        "mov.u32 %r10, s; mad.lo.u32 %r10, %tx, {1}, %r10; ld.global.b{0} {2}, [%d0]; "
        "st.shared.b{0} [%r10], {2}; "
        "atom.shared.{3} {2}, [%r10], {4}; st.global.b{0} [%d3], {2}; ld.shared.b{0} {2}, [%r10]; "
        "st.global.b{0} [%d0], {2};",
        8 * bytes, bytes, old, form, operands);
  } else {
    text += fmt::format("atom.global.{1} {2}, [%d0], {3}; st.global.b{0} [%d3], {2};", 8 * bytes,
                        form, old, operands);
  }
  Buffer numbers = input("numbers", values_of(letter, 2, 0, count));
  numbers.is_output = true;
  Bytes first = values_of(letter, 2, 1, count);
  if (is_cas) {  // half of them find what they compare with
    for (size_t i = 0; i < first.size(); i += static_cast<size_t>(bytes))
      if (hash(i, 43) % 2 == 0) std::copy_n(numbers.bytes.begin() + i, bytes, first.begin() + i);
  }
  Case made = simple_case(fmt::format("memory/atom.{}.{}", space, form), text,
                          {numbers, input("a", first), input("c", values_of(letter, 3, 2, count)),
                           output("old", size_t(count) * bytes)},
                          threads(256, count / 256), kShared);
  made.element_bytes = bytes;
  return made;
}

void add_atomics(std::vector<Case>& cases) {
  for (const char* space : {"global", "shared"}) {
    for (const char* form :
         {"and.b32",  "or.b32",  "xor.b32", "exch.b32", "cas.b32", "add.u32", "add.s32", "inc.u32",
          "dec.u32",  "min.u32", "min.s32", "max.u32",  "max.s32", "and.b64", "or.b64",  "xor.b64",
          "exch.b64", "cas.b64", "add.u64", "min.u64",  "min.s64", "max.u64", "max.s64", "add.f32"})
      cases.push_back(own_numbers(space, form));
  }
  // All threads on a few numbers: what they hold in the end.
  for (const char* form : {"add.u32", "add.u64", "min.s32", "max.u32", "xor.b32", "or.b32",
                           "and.b32", "inc.u32", "add.f32"}) {
    const int bytes = bytes_of(form);
    const bool is_float = type_of(form) == "f32";
    const std::string value = is_float     ? "cvt.rn.f32.u32 %r5, %tx;"
                              : bytes == 8 ? "mad.wide.u32 %d5, %tx, %tx, 1;"
                              : form == std::string("inc.u32")
                                  ? "mov.u32 %r5, 1000;"
                                  : "mad.lo.u32 %r5, %tx, 0x10001, 77;";
    const std::string a = bytes == 8 ? "%d5" : "%r5";
    std::string text = fmt::format(
        "ld.param.u64 %d0, [p0]; and.b32 %r1, %tx, 3; mad.wide.u32 %d0, %r1, {}, %d0; {} "
        "red.relaxed.gpu.global.{} [%d0], {};",
        bytes, value, form, a);
    Buffer numbers = input("numbers", Bytes(4 * static_cast<size_t>(bytes), 0));
    numbers.is_output = true;
    cases.push_back(simple_case(fmt::format("memory/red.global.{} of all threads", form), text,
                                {numbers}, threads(256, 16)));
  }
}

}  // namespace

void add_memory(std::vector<Case>& cases) {
  add_loads(cases);
  add_shared(cases);
  add_spaces(cases);
  add_atomics(cases);
}

}  // namespace octet::cross
