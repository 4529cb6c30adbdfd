// SPDX-License-Identifier: Apache-2.0
// lex: a PTX text as a list of tokens. The first of three steps: text, tokens, tree.
//
//   ld.param.u64 %rd1, [p+8];  // why     ──►  kName "ld"  kDotted ".param"  kDotted ".u64"  kName "%rd1"
//                                              kMark ","  kMark "["  kName "p"  kMark "+"  kNumber "8"  kMark "]"  kMark ";"
//
// Blanks and comments (// to the end of the line, /* to */) stand between tokens and are dropped.
// Errors: a byte that begins no token, a comment or string without end, a text of more than kMostBytes.
// Source: PTX ISA 4.1 to 4.5.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ptxsim/text/place.h"

namespace octet::ptxsim::text {

// Line numbers are int, and a token is some 30 times the byte that it may be made of.
constexpr size_t kMostBytes = size_t{256} << 20;

struct Token {
  enum class Kind {
    kName,    // ld %rd1 $L__BB0_2 _ : a letter, or one of _ $ % alone or before others
    kDotted,  // .u64 .shared::cta .32x32b : a directive, type or modifier with its dot
    kNumber,  // 12 0x1F 0f3F800000 1.5e-3 : not judged yet; a sign is a mark
    kString,  // "a b" with its quotes; \ keeps the character after it from ending it
    kMark,    // one of { } ( ) [ ] < > , ; : @ ! | + - =
    kEnd,     // behind the last token, once
  };
  Kind kind = Kind::kEnd;
  std::string_view text;  // of the source, which must outlive the token; empty for kEnd
  Place place;

  bool is(std::string_view what) const { return text == what && kind != Kind::kString; }
  // As it may stand in a sentence: '%rd1', or "the end of the text".
  std::string shown() const;
};

Result<std::vector<Token>> lex(std::string_view source);

}  // namespace octet::ptxsim::text
