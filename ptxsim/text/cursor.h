// SPDX-License-Identifier: Apache-2.0
// A place in a list of tokens, and the small questions that every part of the parser asks there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptxsim/text/number.h"
#include "ptxsim/text/token.h"

namespace octet::ptxsim::text {

class Cursor {
 public:
  // As lex makes them: the last one is kEnd. It is never passed.
  explicit Cursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Place place() const { return peek().place; }
  bool at(std::string_view what) const { return peek().is(what); }
  bool at(Token::Kind kind) const { return peek().kind == kind; }
  const Token& take();
  // Takes the token if it is `what`.
  bool take_if(std::string_view what);

  Status expect(std::string_view what);
  // A name, and not the sink `_`.
  Result<std::string> name(std::string_view want);
  Result<std::string> string(std::string_view want);  // without its quotes
  Result<Number> number(std::string_view want);       // with its minus, if there is one
  Result<uint64_t> natural(std::string_view want);    // an integer without a minus
  // Nothing, or +12, or +-12. 0 if there is none.
  Result<int64_t> offset();

  // "line 12, column 5: found 'x', want WANT", about the token here.
  Status refusal(std::string_view want) const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace octet::ptxsim::text
