// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/text/token.h"

#include <gtest/gtest.h>

namespace octet::ptxsim::text {
namespace {

using Kind = Token::Kind;

std::vector<Token> tokens_of(std::string_view source) {
  auto tokens = lex(source);
  EXPECT_TRUE(tokens.ok()) << tokens.status().why;
  return tokens.ok() ? std::move(tokens).value() : std::vector<Token>{};
}

std::string error_of(std::string_view source) {
  const auto tokens = lex(source);
  return tokens.ok() ? "" : tokens.status().why;
}

// One token of that kind and the end.
void expect_one(std::string_view source, Kind kind) {
  const auto tokens = tokens_of(source);
  ASSERT_EQ(tokens.size(), 2U) << source;
  EXPECT_EQ(tokens[0].kind, kind) << source;
  EXPECT_EQ(tokens[0].text, source);
  EXPECT_EQ(tokens[1].kind, Kind::kEnd);
}

TEST(Lexer, KnowsNames) {
  for (const char* name : {"ld", "%rd1", "$L__BB0_2", "_", "%", "a$b", "_Z1kPi", "WARP_SZ"}) {
    expect_one(name, Kind::kName);
  }
}

TEST(Lexer, KeepsAModifierInOnePiece) {
  for (const char* word :
       {".u64", ".32x128b", ".shared::cta", ".mbarrier::complete_tx::bytes", "._"}) {
    expect_one(word, Kind::kDotted);
  }
  EXPECT_EQ(tokens_of(".a::.b").size(), 5U);  // .a : : .b
  EXPECT_EQ(tokens_of(".x:").size(), 3U);
}

TEST(Lexer, KeepsANumberInOnePiece) {
  for (const char* number : {"0", "12U", "0x1F", "0b101", "017", "9.0", "1.5e-3", "1e+3", "1e3",
                             "0f3F800000", "0d3FF0000000000000", "12abc", "0x1e"}) {
    expect_one(number, Kind::kNumber);
  }
  EXPECT_EQ(tokens_of("0x1e+4").size(), 4U);  // a sum, no exponent
  EXPECT_EQ(tokens_of("-1").size(), 3U);
}

TEST(Lexer, KnowsStringsAndMarks) {
  expect_one(R"("a \" b")", Kind::kString);
  expect_one("\"\"", Kind::kString);
  for (const char c : std::string("{}()[]<>,;:@!|+-=")) expect_one(std::string(1, c), Kind::kMark);
}

TEST(Lexer, DropsBlanksAndComments) {
  const auto tokens = tokens_of("a // b ; \"\n/* c\n * d */ e\r\n\t/**/f//");
  ASSERT_EQ(tokens.size(), 4U);
  EXPECT_EQ(tokens[0].text, "a");
  EXPECT_EQ(tokens[1].text, "e");
  EXPECT_EQ(tokens[2].text, "f");
}

TEST(Lexer, KnowsLineAndColumn) {
  const auto tokens = tokens_of("a b\n\n\t c/* \n */ d");
  ASSERT_EQ(tokens.size(), 5U);
  const int want[][2] = {{1, 1}, {1, 3}, {3, 3}, {4, 5}, {4, 6}};
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i].place.line, want[i][0]) << i;
    EXPECT_EQ(tokens[i].place.column, want[i][1]) << i;
  }
}

TEST(Lexer, RefusesWhatBeginsNoToken) {
  const std::string want = ", want a name, a number, a string or a mark";
  EXPECT_EQ(error_of("a\n #"), "line 2, column 2: found '#'" + want);
  EXPECT_EQ(error_of(std::string_view("a\0", 2)), "line 1, column 2: found byte 0x00" + want);
  EXPECT_EQ(error_of("\xC3\xA4"), "line 1, column 1: found byte 0xC3" + want);
  EXPECT_EQ(error_of("a ."), "line 1, column 3: found '.'" + want);
  EXPECT_EQ(error_of("a . b"), "line 1, column 3: found '.'" + want);
  EXPECT_EQ(error_of("a /b"), "line 1, column 3: found '/'" + want);
}

TEST(Lexer, RefusesWhatDoesNotEnd) {
  EXPECT_EQ(error_of("a\n/* b *"), "line 2, column 1: a comment without its */");
  EXPECT_EQ(error_of("/*/"), "line 1, column 1: a comment without its */");
  const std::string want = ": a string without its closing quote in this line";
  for (const char* text : {" \"abc", " \"abc\n\"", " \"abc\\\"", " \"abc\\", " \"abc\\\n\""}) {
    EXPECT_EQ(error_of(text), "line 1, column 2" + want) << text;
  }
}

TEST(Lexer, RefusesATextTooLong) {
  const char first = ' ';  // the only byte there is: the length alone is looked at
  EXPECT_EQ(error_of({&first, kMostBytes + 1}),
            "line 1, column 1: 268435457 bytes of text, want at most 268435456");
}

}  // namespace
}  // namespace octet::ptxsim::text
