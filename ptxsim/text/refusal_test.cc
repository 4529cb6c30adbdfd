// SPDX-License-Identifier: Apache-2.0
// Each error, with its line and column.
#include <fmt/format.h>

#include "ptxsim/text/test_parse.h"

namespace octet::ptxsim::text {
namespace {

struct Refusal {
  const char* text;
  int column;  // of line 4 or 5
  const char* what;
};

void expect_in_module(const std::vector<Refusal>& cases) {
  for (const auto& [text, column, what] : cases) {
    EXPECT_EQ(error_of(module_text(text)), fmt::format("line 4, column {}: {}", column, what))
        << text;
  }
}

void expect_in_body(const std::vector<Refusal>& cases) {
  for (const auto& [text, column, what] : cases) {
    EXPECT_EQ(error_of(body_text(text)), fmt::format("line 5, column {}: {}", column, what))
        << text;
  }
}

TEST(Refusal, OfTheHead) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "line 1, column 1: found the end of the text, want '.version'"},
      {".target sm_80", "line 1, column 1: found '.target', want '.version'"},
      {".version 9", "line 1, column 10: found '9', want a version such as 9.0"},
      {".version x", "line 1, column 10: found 'x', want a version such as 9.0"},
      {".version 9.0e1", "line 1, column 10: found '9.0e1', want a version such as 9.0"},
      {".version 99999999999.0",
       "line 1, column 10: found '99999999999.0', want a version such as 9.0"},
      {".version 9.0\n.entry", "line 2, column 1: found '.entry', want '.target'"},
      {".version 9.0\n.target 80", "line 2, column 9: found '80', want a target such as sm_90a"},
      {".version 9.0\n.target sm_80,",
       "line 2, column 15: found the end of the text, want a target such as sm_90a"},
      {".version 9.0\n.target sm_80\n.address_size 16",
       "line 3, column 15: found '16', want 32 or 64"},
  };
  for (const auto& [text, want] : cases) EXPECT_EQ(error_of(text), want);
}

TEST(Refusal, OfItems) {
  const std::string item =
      "want an item of a module: a linkage, .entry, .func, .global, .const, .shared, .file, "
      ".section "
      "or .pragma";
  for (const char* text :
       {".alias", ".version", ".reg", ".local", ".param", ".tex", ".loc", "ret", "}", ";", "5"}) {
    EXPECT_EQ(error_of(module_text(text)),
              fmt::format("line 4, column 1: found '{}', {}", text, item));
  }
  expect_in_module({
      {".visible .reg .b32 a;", 10, "found '.reg', want .entry, .func, .global, .const or .shared"},
      {".visible .extern .func f;", 10,
       "found '.extern', want .entry, .func, .global, .const or .shared"},
      {".file x", 7, "found 'x', want a file's index"},
      {".file 1 a", 9, "found 'a', want a path in quotes"},
      {".file 1 \"a\", b", 14, "found 'b', want a time"},
      {".file 1 \"a\", 1", 15, "found the end of the text, want ','"},
      {".pragma a;", 9, "found 'a', want a string"},
      {".pragma \"a\"", 12, "found the end of the text, want ';'"},
  });
}

TEST(Refusal, OfVariables) {
  expect_in_module({
      {".global a;", 9, "found 'a', want a type"},
      {".global .bf16 a;", 9, "found '.bf16', want a type"},
      {".global .v3 .b32 a;", 9, "found '.v3', want a type"},
      {".global .pred a;", 9,
       "found '.pred', want a type other than .pred, which a register alone has"},
      {".global .v4 .b64 a;", 13,
       "found '.b64', want a type of which the vector has at most 128 bits"},
      {".global .align 3 .b8 a;", 16, "found '3', want an alignment that is a power of two"},
      {".global .align 0 .b8 a;", 16, "found '0', want an alignment that is a power of two"},
      {".global .align x .b8 a;", 16, "found 'x', want an alignment in bytes"},
      {".global .attribute(.x) .b8 a;", 20, "found '.x', want '.managed'"},
      {".global .b8 5;", 13, "found '5', want a name"},
      {".global .b8 _;", 13, "found '_', want a name"},
      {".global .b8 a, ;", 16, "found ';', want a name"},
      {".global .b8 a b;", 15, "found 'b', want ';'"},
      {".global .b8 a[x];", 15, "found 'x', want a number of elements"},
      {".global .b8 a[1.0];", 15, "found '1.0', want a number of elements"},
      {".global .b8 a[-1];", 15, "found '-', want a number of elements"},
      {".global .b8 a[0];", 15, "found 0, want at least one element"},
      {".global .b8 a[2][];", 18, "found ']', want a number of elements"},
      {".global .b8 a[2;", 16, "found ';', want ']'"},
      {".global .b32 a[1048576][1048576];", 25, "'a' has more than 1099511627776 bytes"},
      {".global .b8 a[18446744073709551615];", 15, "'a' has more than 1099511627776 bytes"},
      {".global .b8 a[];", 13,
       "'a' has no number of elements, want one where it is neither .extern nor initialised"},
      {".global .b8 a<4>;", 14, "found '<', want ',' or ';': only registers are numbered"},
      {".shared .b8 a = 1;", 15,
       "found '=', want ',' or ';': only .global and .const have initialisers"},
  });
}

TEST(Refusal, OfInitialisers) {
  expect_in_module({
      {".global .b32 a = ;", 18, "found ';', want a number, a symbol or '{'"},
      {".global .b32 a = {1,};", 21, "found '}', want a number, a symbol or '{'"},
      {".global .b32 a = {1 2};", 21, "found '2', want '}'"},
      {".global .b32 a = -b;", 19, "found 'b', want a number"},
      {".global .b32 a = b-4;", 19, "found '-', want ';'"},
      {".global .b32 a = b+c;", 20, "found 'c', want an offset in bytes"},
      {".global .b32 a = b+1.5;", 20, "found a fraction, want an offset in bytes"},
      {".global .b32 a = generic(5);", 26, "found '5', want a symbol"},
      {".global .b32 a = generic(b;", 27, "found ';', want ')'"},
      {".global .b8 a = 0xFFF(b);", 17,
       "found '0xFFF', want a mask of one byte: 0xFF, 0xFF00, ..."},
      {".global .b8 a = 0(b);", 17, "found '0', want a mask of one byte: 0xFF, 0xFF00, ..."},
      {".global .b8 a = 0xFF(5);", 22, "found '5', want a number, a symbol or '{'"},
      {".global .b32 a = 1+2;", 19, "found '+', want ';'"},
      {".global .b32 a = (1);", 18, "found '(', want a number, a symbol or '{'"},
  });
  const std::string deep(kMostLists + 1, '{');
  EXPECT_EQ(error_of(module_text(".global .b8 a = " + deep)),
            "line 4, column 33: more than 16 lists within each other");
}

TEST(Refusal, OfFunctions) {
  expect_in_module({
      {".entry 5", 8, "found '5', want a function's name"},
      {".entry (.param .b32 r) k { }", 8, "found '(', want a function's name"},
      {".entry k(", 10, "found the end of the text, want .param or .reg"},
      {".entry k(.param .b32 a,)", 24, "found ')', want .param or .reg"},
      {".entry k(.param .b32)", 21, "found ')', want a parameter's name"},
      {".entry k(.param .b32 a b)", 24, "found 'b', want ')'"},
      {".entry k(.param .u64 .ptr .reg a)", 27,
       "found '.reg', want .global, .const, .shared, .local or .align"},
      {".func f(.reg .b32 a[2])", 20, "found '[', want a register that is no array"},
      {".func f(.reg .u64 .ptr a)", 19, "found '.ptr', want a parameter's name"},
      {".entry k() .maxntid { }", 21, "found '{', want a number for .maxntid"},
      {".entry k() .maxntid 1, { }", 24, "found '{', want a number for .maxntid"},
      {".entry k() .maxntid 1, 2, 3, 4 { }", 28,
       "found ',', want a function's directive, '{' or ';'"},
      {".entry k() .explicitcluster 1 { }", 29,
       "found '1', want a function's directive, '{' or ';'"},
      {".entry k() .unknown 1 { }", 12,
       "found '.unknown', want a function's directive, '{' or ';'"},
      {".entry k() .noreturn { }", 12, "found '.noreturn', want a directive of a kernel"},
      {".func f() .maxntid 1 { }", 11, "found '.maxntid', want a directive of a device function"},
      {".func f()", 10, "found the end of the text, want a function's directive, '{' or ';'"},
      {".entry k() {", 13, "found the end of the text, want the '}' of line 4, column 12"},
      {".entry k() { {", 15, "found the end of the text, want the '}' of line 4, column 14"},
  });
}

TEST(Refusal, OfSections) {
  expect_in_module({
      {".section 5", 10, "found '5', want a number, a label or a section"},
      {".section .s", 12, "found the end of the text, want '{'"},
      {".section .s { 5 }", 15, "found '5', want a label, .b8, .b16, .b32, .b64 or '}'"},
      {".section .s { .f32 1 }", 15, "found '.f32', want a label, .b8, .b16, .b32, .b64 or '}'"},
      {".section .s { a }", 17, "found '}', want ':'"},
      {".section .s { .b8 }", 19, "found '}', want a number, a label or a section"},
      {".section .s { .b8 a-1 }", 21, "found '1', want a number, a label or a section"},
      {".section .s { .b8 1", 20,
       "found the end of the text, want a label, .b8, .b16, .b32, .b64 or '}'"},
  });
}

TEST(Refusal, OfStatements) {
  const char* statement =
      ", want a statement: .reg, .shared, .local, .param, .loc, .pragma, a label or an instruction";
  for (const char* text :
       {".global", ".const", ".file", ".visible", ".branchtargets", ".maxntid"}) {
    EXPECT_EQ(error_of(body_text(text)),
              fmt::format("line 5, column 1: found '{}'{}", text, statement));
  }
  expect_in_body({
      {";", 1, "found ';', want an opcode"},
      {"ret;;", 5, "found ';', want an opcode"},
      {"_: ret;", 1, "found '_', want an opcode"},
      {"5;", 1, "found '5', want an opcode"},
      {"@5 ret;", 2, "found '5', want a predicate"},
      {"@!!p ret;", 3, "found '!', want a predicate"},
      {"@p: ret;", 3, "found ':', want an opcode"},
      {".reg .b32 %r<x>;", 14, "found 'x', want a number of registers"},
      {".reg .b32 %r<4;", 15, "found ';', want '>'"},
      {".reg .b32 a[2];", 12, "found '[', want a register that is no array"},
      {".loc 1 2;", 9, "found ';', want a column"},
      {".loc 1 2 3, x", 13, "found 'x', want 'function_name'"},
      {".loc 1 2 3, function_name f, x", 30, "found 'x', want 'inlined_at'"},
      {"a: .branchtargets;", 18, "found ';', want a target"},
      {"a: .branchtargets b c;", 21, "found 'c', want ';'"},
      {"a: .callprototype f;", 19, "found 'f', want '_'"},
      {"a: .callprototype _ .x;", 21, "found '.x', want ';'"},
  });
}

TEST(Refusal, OfOperands) {
  expect_in_body({
      {"add a, ;", 8, "found ';', want an operand"},
      {"add a b;", 7, "found 'b', want ';'"},
      {"add , a;", 5, "found ',', want an operand"},
      {"add %a.xy;", 7, "found '.xy', want a component: .x .y .z .w .r .g .b .a"},
      {"add !5;", 6, "found '5', want an operand"},
      {"add !_;", 6, "found '_', want an operand"},
      {"add -a;", 6, "found 'a', want a number"},
      {"add ~1;", 5, "found '~', want a name, a number, a string or a mark"},
      {"add 1+2;", 6, "found '+', want ';'"},
      {"add a+b;", 7, "found 'b', want an offset in bytes"},
      {"add a+0f3F800000;", 7, "found a fraction, want an offset in bytes"},
      {"add -0f3F800000;", 6,
       "found '0f3F800000', want the sign in the bits, no minus before them"},
      {"add {};", 6, "found '}', want an operand"},
      {"add {a;", 7, "found ';', want '}'"},
      {"add {a, {b}};", 9, "found '{', want an operand"},
      {"add {a|b};", 7, "found '|', want '}'"},
      {"ld [];", 5, "found ']', want an operand"},
      {"ld [a-4];", 6, "found '-', want ']'"},
      {"ld [a];]", 8, "found ']', want an opcode"},
      {"ld [_];", 5, "found '_', want an address"},
      {"ld [[a]];", 5, "found '[', want an operand"},
      {"ld [a, {b, [c]}];", 12, "found '[', want an operand"},
      {"ld a[2];", 5, "found '[', want ';'"},
      {"call (a, {b}), f;", 10, "found '{', want an operand"},
      {"call (a,), f;", 9, "found ')', want an operand"},
      {"shfl a|5;", 8, "found a number, want a name or '_'"},
      {"shfl 5|a;", 7, "found '|', want ',' or ';': a pair is of names"},
      {"shfl a+4|b;", 9, "found '|', want ',' or ';': a pair is of names"},
      {"shfl a|b|c;", 9, "found '|', want ';'"},
      {"shfl !a|b;", 8, "found '|', want ';'"},
      {"op \"a\";", 4, "found '\"a\"', want an operand"},
  });
}

TEST(Refusal, OfScopesTooDeep) {
  const auto nested = [](int n) {
    return module_text(".entry k()\n" + std::string(n, '{') + std::string(n, '}'));
  };
  EXPECT_EQ(error_of(nested(kMostScopes)), "");
  EXPECT_EQ(error_of(nested(kMostScopes + 1)),
            "line 5, column 65: more than 64 scopes within each other");
  EXPECT_EQ(error_of(module_text(".entry k()\n" + std::string(1000000, '{'))),
            "line 5, column 65: more than 64 scopes within each other");
}

TEST(Refusal, ShowsNoMoreThanOnePrintableLine) {
  const std::string name(100, 'x');
  EXPECT_EQ(error_of(module_text(name)).substr(0, 88),
            "line 4, column 1: found '" + name.substr(0, 60) + "...");
  EXPECT_EQ(error_of(body_text("op \"\x1b[1m\xff\";")),
            "line 5, column 4: found '\"?[1m?\"', want an operand");
}

// A text cut anywhere, or with a byte of it changed, is read or refused, and nothing else.
TEST(Refusal, OfEveryCutAndEveryChange) {
  const std::string whole = module_text(
      ".extern .shared .align 16 .b8 s[];\n.global .u64 g[2] = {generic(s)+4, 0xFF(s)};\n"
      ".visible .entry k(.param .u64 .ptr .align 1 p)\n.maxntid 256, 1, 1\n{\n.reg .b32 %r<4>;\n"
      ".loc 1 2 3, function_name f, inlined_at 1 2 3\nl: @!%p1 ld.v2.u32 {%r1, _}, [p+-8];\n"
      "shfl.sync.b32 %r1|%p1, 0f3F800000, !%p2;\n{ call (r), f, (); } }\n.section .s { a: .b8 1 "
      "}\n");
  ASSERT_EQ(error_of(whole), "");
  for (size_t n = 0; n < whole.size(); ++n) {
    error_of(whole.substr(0, n));
    for (const char c : std::string("\0{[(\"'.5a;-", 11)) {
      std::string changed = whole;
      changed[n] = c;
      if (parse_exactly(changed).ok()) tree_of(changed);
    }
  }
}

}  // namespace
}  // namespace octet::ptxsim::text
