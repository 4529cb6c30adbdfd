// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/text/cursor.h"

#include <fmt/format.h>

namespace octet::ptxsim::text {

const Token& Cursor::take() {
  const Token& token = peek();
  if (token.kind != Token::Kind::kEnd) ++at_;
  return token;
}

bool Cursor::take_if(std::string_view what) {
  if (!at(what)) return false;
  take();
  return true;
}

Status Cursor::refusal(std::string_view want) const {
  return found_want(place(), peek().shown(), want);
}

Status Cursor::expect(std::string_view what) {
  return take_if(what) ? Status{} : refusal(fmt::format("'{}'", what));
}

Result<std::string> Cursor::name(std::string_view want) {
  if (!at(Token::Kind::kName) || at("_")) return refusal(want);
  return std::string(take().text);
}

Result<std::string> Cursor::string(std::string_view want) {
  if (!at(Token::Kind::kString)) return refusal(want);
  const std::string_view text = take().text;
  return std::string(text.substr(1, text.size() - 2));
}

Result<Number> Cursor::number(std::string_view want) {
  const Place begin = place();
  const bool is_negative = take_if("-");
  if (!at(Token::Kind::kNumber)) return refusal(want);
  OCTET_ASSIGN_OR_RETURN(Number number, read_number(take(), is_negative));
  number.place = begin;
  return number;
}

Result<uint64_t> Cursor::natural(std::string_view want) {
  if (!at(Token::Kind::kNumber)) return refusal(want);
  OCTET_ASSIGN_OR_RETURN(const Number number, read_number(peek(), false));
  if (number.kind != Number::Kind::kInteger) return refusal(want);
  take();
  return number.bits;
}

Result<int64_t> Cursor::offset() {
  if (!take_if("+")) return int64_t{0};
  const Place begin = place();
  OCTET_ASSIGN_OR_RETURN(const Number number, this->number("an offset in bytes"));
  if (number.kind != Number::Kind::kInteger) {
    return found_want(begin, "a fraction", "an offset in bytes");
  }
  return static_cast<int64_t>(number.bits);
}

}  // namespace octet::ptxsim::text
