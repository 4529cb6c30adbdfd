// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/text/token.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/printable.h"

namespace octet::ptxsim::text {

namespace {

// Not <cctype>: what a letter is must not follow the locale.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool begins_name(char c) { return is_letter(c) || c == '_' || c == '$' || c == '%'; }
bool in_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }
bool in_name(char c) { return in_word(c) || c == '$'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> run() {
    std::vector<Token> tokens;
    for (;;) {
      OCTET_RETURN_IF_ERROR(skip_blanks());
      OCTET_ASSIGN_OR_RETURN(const Token token, next());
      tokens.push_back(token);
      if (token.kind == Token::Kind::kEnd) return tokens;
    }
  }

 private:
  char at(size_t i) const { return i < source_.size() ? source_[i] : '\0'; }
  Place place() const { return {line_, static_cast<int>(at_ - line_begin_) + 1}; }

  void advance_to(size_t end) {
    for (; at_ < end; ++at_) {
      if (source_[at_] != '\n') continue;
      ++line_;
      line_begin_ = at_ + 1;
    }
  }

  Status skip_blanks() {
    for (;;) {
      if (at_ < source_.size() && is_blank(source_[at_])) {
        advance_to(at_ + 1);
      } else if (source_.substr(at_, 2) == "//") {
        advance_to(std::min(source_.find('\n', at_), source_.size()));
      } else if (source_.substr(at_, 2) == "/*") {
        const size_t end = source_.find("*/", at_ + 2);
        if (end == source_.npos) return error_at(place(), "a comment without its */");
        advance_to(end + 2);
      } else {
        return {};
      }
    }
  }

  Result<Token> next() {
    using Kind = Token::Kind;
    const char c = at(at_);
    if (at_ == source_.size()) return take(Kind::kEnd, at_);
    if (begins_name(c)) return take(Kind::kName, name_end());
    if (c == '.' && in_word(at(at_ + 1))) return take(Kind::kDotted, dotted_end());
    if (is_digit(c)) return take(Kind::kNumber, number_end());
    if (c == '"') return string();
    if (c != '\0' && std::string_view("{}()[]<>,;:@!|+-=").find(c) != std::string_view::npos)
      return take(Kind::kMark, at_ + 1);
    return found_want(place(), byte_shown(c), "a name, a number, a string or a mark");
  }

  Token take(Token::Kind kind, size_t end) {
    const Token token{kind, source_.substr(at_, end - at_), place()};
    advance_to(end);
    return token;
  }

  static std::string byte_shown(char c) {
    if (c > ' ' && c < '\x7F') return fmt::format("'{}'", c);
    return fmt::format("byte 0x{:02X}", static_cast<unsigned char>(c));
  }

  size_t name_end() const {
    size_t i = at_ + 1;
    while (in_name(at(i))) ++i;
    return i;
  }

  // .mbarrier::complete_tx::bytes is one token.
  size_t dotted_end() const {
    size_t i = at_ + 1;
    for (;;) {
      while (in_word(at(i))) ++i;
      if (at(i) != ':' || at(i + 1) != ':' || !in_word(at(i + 2))) return i;
      i += 2;
    }
  }

  // Digits with a fraction and an exponent, and every letter glued to them: what it is worth, if anything, is number.cc's.
  size_t number_end() const {
    size_t i = at_;
    while (is_digit(at(i))) ++i;
    const bool is_prefixed = i == at_ + 1 && source_[at_] == '0' && is_letter(at(i));
    if (!is_prefixed && at(i) == '.' && is_digit(at(i + 1))) {
      ++i;
      while (is_digit(at(i))) ++i;
    }
    if (!is_prefixed && (at(i) == 'e' || at(i) == 'E') && (at(i + 1) == '+' || at(i + 1) == '-')) {
      i += 2;
    }
    while (in_name(at(i))) ++i;
    return i;
  }

  Result<Token> string() {
    size_t i = at_ + 1;
    while (i < source_.size() && source_[i] != '"' && source_[i] != '\n') {
      i += source_[i] == '\\' && at(i + 1) != '\n' ? 2 : 1;
    }
    if (at(i) != '"') return error_at(place(), "a string without its closing quote in this line");
    return take(Token::Kind::kString, i + 1);
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_begin_ = 0;
};

}  // namespace

std::string Token::shown() const {
  if (kind == Kind::kEnd) return "the end of the text";
  return fmt::format("'{}'", octet::shown(text));
}

Result<std::vector<Token>> lex(std::string_view source) {
  if (source.size() > kMostBytes) {
    return error_at({1, 1},
                    fmt::format("{} bytes of text, want at most {}", source.size(), kMostBytes));
  }
  return Lexer(source).run();
}

}  // namespace octet::ptxsim::text
