// SPDX-License-Identifier: Apache-2.0
// Text that came from a file or a user as it may stand in a message: one line, nothing that a terminal obeys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace octet {

// Bytes of the UTF-8 letter at the front of `text`, or 0 if there is none: a control character, a byte that begins nothing, an
// overlong form, a surrogate.
inline size_t letter_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return 0;
  if (byte(0) < 0x80) return byte(0) >= ' ' && byte(0) < 0x7F ? 1 : 0;
  const size_t n = byte(0) < 0xC0   ? 0
                   : byte(0) < 0xE0 ? 2
                   : byte(0) < 0xF0 ? 3
                   : byte(0) < 0xF8 ? 4
                                    : 0;
  if (n == 0 || text.size() < n) return 0;
  unsigned letter = byte(0) & (0x7FU >> n);
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    letter = letter << 6 | (byte(i) & 0x3FU);
  }
  constexpr unsigned kLeast[] = {0, 0, 0xA0, 0x800, 0x10000};  // U+0080 to U+009F are controls
  const bool is_separator = letter == 0x2028 || letter == 0x2029;
  const bool is_surrogate = letter >= 0xD800 && letter < 0xE000;
  return letter < kLeast[n] || letter > 0x10FFFF || is_separator || is_surrogate ? 0 : n;
}

// With '?' for every byte that is part of no letter.
inline std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t n = letter_bytes(text);
    if (n == 0) {
      out += '?';
    } else {
      out += text.substr(0, n);
    }
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

// A name or value in a sentence: no longer than it takes to know it again.
inline std::string shown(std::string_view text) {
  constexpr size_t kMost = 60;
  return text.size() > kMost ? printable(text.substr(0, kMost)) + "..." : printable(text);
}

}  // namespace octet
