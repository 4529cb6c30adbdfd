// SPDX-License-Identifier: Apache-2.0
// Instructions of one lane: a row of elementwise.inc is a case for each of its forms, an item a thread.
#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "case.h"
#include "values.h"

namespace octet::cross {
namespace {

struct Row {
  const char* name;
  const char* types;
  const char* body;  // null: the instruction alone
  Needs needs;
};
constexpr Row kRows[] = {
#define OCTET_CROSS_ROW(name, types) {name, types, nullptr, Needs::kNothing},
#define OCTET_CROSS_BODY(name, types, body) {name, types, body, Needs::kNothing},
#define OCTET_CROSS_APPROX(name, types) {name, types, nullptr, Needs::kApproxTables},
#include "elementwise.inc"
#undef OCTET_CROSS_ROW
#undef OCTET_CROSS_BODY
#undef OCTET_CROSS_APPROX
};

// "a{b|c}" as ab and ac.
std::vector<std::string> forms_of(const std::string& pattern) {
  const size_t open = pattern.find('{');
  if (open == std::string::npos) return {pattern};
  const size_t close = pattern.find('}', open);
  std::vector<std::string> forms;
  for (size_t at = open + 1; at <= close;) {
    const size_t end = std::min(pattern.find('|', at), close);
    for (const std::string& rest : forms_of(pattern.substr(close + 1)))
      forms.push_back(pattern.substr(0, open) + pattern.substr(at, end - at) + rest);
    at = end + 1;
  }
  return forms;
}

int width_bits(char width) { return width == 'h' ? 16 : width == 'w' ? 32 : 64; }

// The simulator takes a second of a core for a million items.
uint64_t items_of(const std::string& operands) {
  const char first = operands[0];
  if (operands.size() > 1)
    return first == 'F' || first == 'D' ? uint64_t{1} << 16 : uint64_t{1} << 15;
  if (first == 'F') return uint64_t{1} << 18;
  return first == 'D' || first == 'P' || first == 'Q' ? uint64_t{1} << 16
         : letter_bits(first) == 16                   ? uint64_t{1} << 16
                                                      : uint64_t{1} << 14;
}

std::string replaced(std::string text, const std::string& find, const std::string& by) {
  for (size_t at = 0; (at = text.find(find, at)) != std::string::npos; at += by.size())
    text.replace(at, find.size(), by);
  return text;
}

// The third part of "cvt.rn.satfinite.e4m3x2": what $3 stands for.
std::string part(const std::string& form, size_t index) {
  size_t at = 0;
  for (size_t i = 0; i < index; ++i) at = form.find('.', at) + 1;
  return form.substr(at, form.find_first_of(".,", at) - at);
}

std::string instruction_of(const Row& row, const std::string& form, size_t operands) {
  if (row.body != nullptr)
    return replaced(replaced(row.body, "$3", part(form, 3)), "$", form.substr(0, form.find(' ')));
  std::string text = form + " d, a";
  for (size_t i = 1; i < operands; ++i) text += fmt::format(", {}", char('a' + i));
  return text + ";";
}

// Registers a, b, c, e and d (the result), each of its width; loads, the instruction, a store. 4 operands: a b c and then e, which stands
// where a fourth operand does.
std::string body_of(const Row& row, const std::string& form) {
  const std::string types = row.types, operands = types.substr(2);
  constexpr char kNames[] = {'a', 'b', 'c', 'e'};
  std::string text = fmt::format(".reg .b{} d;", width_bits(types[0]));
  text += "mov.u32 %r100, %ctaid.x; mov.u32 %r101, %ntid.x; mad.lo.u32 %r100, %r100, %r101, %tx;\n";
  for (size_t i = 0; i < operands.size(); ++i) {
    const int bits = letter_bits(operands[i]);
    text += fmt::format(
        ".reg .b{0} {1}; ld.param.u64 %d{2}, [p{3}]; mad.wide.u32 %d{2}, %r100, {4}, %d{2}; "
        "ld.global.b{0} {1}, [%d{2}];\n",
        bits, kNames[i], 10 + i, i, bits / 8);
  }
  if (operands.size() == 1) text += fmt::format(".reg .b{} b;\n", letter_bits(operands[0]));
  std::string instruction = instruction_of(row, form, operands.size());
  if (row.body == nullptr && operands.size() == 4) instruction = form + " d, a, b, c, e;";
  return text + instruction +
         fmt::format(
             "\nld.param.u64 %d20, [p{}]; mad.wide.u32 %d20, %r100, {}, %d20; st.global.b{} "
             "[%d20], d;",
             operands.size(), width_bits(types[0]) / 8, width_bits(types[0]));
}

Case case_of(const Row& row, const std::string& form) {
  const std::string types = row.types, operands = types.substr(2);
  const uint64_t items = items_of(operands);
  const auto count = static_cast<int>(operands.size());
  std::vector<Buffer> buffers;
  for (int i = 0; i < count; ++i)
    buffers.push_back(input(std::string(1, char('a' + i)),
                            values_of(operands[static_cast<size_t>(i)], count, i, items)));
  const auto bytes = static_cast<size_t>(width_bits(types[0])) / 8;
  buffers.push_back(output("d", items * bytes));
  Launch launch;
  launch.block = {256, 1, 1};
  launch.grid = {static_cast<uint32_t>(items / 256), 1, 1};
  Case made = simple_case("elementwise/" + form, body_of(row, form), std::move(buffers), launch);
  made.needs = row.needs;
  made.element_bytes = static_cast<int>(bytes);
  return made;
}

}  // namespace

void add_elementwise(std::vector<Case>& cases) {
  for (const Row& row : kRows) {
    for (const std::string& form : forms_of(row.name)) cases.push_back(case_of(row, form));
  }
}

// Every look-up table of lop3, every selector of prmt's low 16 bits for one word pair.
void add_bit_tables(std::vector<Case>& cases) {
  std::string luts =
      "ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mad.wide.u32 %d1, %tx, 12, %d1; "
      "ld.global.u32 %r1, [%d1]; ld.global.u32 %r2, [%d1+4]; ld.global.u32 %r3, [%d1+8]; "
      "mad.wide.u32 %d2, %tx, 1024, %d2;\n";
  for (int table = 0; table < 256; ++table)
    luts += fmt::format("lop3.b32 %r4, %r1, %r2, %r3, {}; st.global.u32 [%d2+{}], %r4;\n", table,
                        4 * table);
  cases.push_back(simple_case("elementwise/lop3.b32, every table", luts,
                              {input("abc", random_bytes(32 * 12, 1)), output("d", 32 * 1024)},
                              {}));
  const std::string selectors =
      "mov.u32 %r1, %ctaid.x; shl.b32 %r1, %r1, 8; add.u32 %r1, %r1, %tx; "
      "prmt.b32 %r2, 0x83C2E1F0, 0x76A594B7, %r1; ld.param.u64 %d1, [p0]; "
      "mad.wide.u32 %d1, %r1, 4, %d1; st.global.u32 [%d1], %r2;";
  Launch launch;
  launch.grid = {256, 1, 1};
  launch.block = {256, 1, 1};
  cases.push_back(simple_case("elementwise/prmt.b32, every selector", selectors,
                              {output("d", 65536 * 4)}, launch));
}

}  // namespace octet::cross
