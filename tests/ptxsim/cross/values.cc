// SPDX-License-Identifier: Apache-2.0
#include "values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace octet::cross {
namespace {

// Magnitudes: both signs of each are taken.
constexpr uint32_t kEdges32[] = {
    0x00000000, 0x00000001, 0x00000002, 0x00400000, 0x007FFFFF,  // 0 and subnormal numbers
    0x00800000, 0x00800001, 0x00FFFFFF, 0x01000000, 0x33800000,  // around 2^-126; 2^-24
    0x3F000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FC00000, 0x40200000,  // 0.5 ... 2.5
    0x42FE0000, 0x43000000, 0x437F0000, 0x43E00000, 0x43E80000, 0x477FE000,  // 127 ... 65504
    0x477FEFFF, 0x477FF000, 0x4B000000, 0x4B000001, 0x4EFFFFFF, 0x4F000000,  // 2^23, 2^31
    0x4F800000, 0x5F000000, 0x7E800000, 0x7F000000, 0x7F7F0000, 0x7F7F8000,
    0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FA00000, 0x7FC00000, 0x7FFFFFFF};  // largest, Inf, NaN
constexpr uint64_t kEdges64[] = {0,
                                 1,
                                 0x000FFFFFFFFFFFFF,
                                 0x0010000000000000,
                                 0x36A0000000000000,  // f32's smallest
                                 0x3690000000000001,
                                 0x380FFFFFFFFFFFFF,
                                 0x3FE0000000000000,
                                 0x3FF0000000000000,
                                 0x3FF0000000000001,
                                 0x3FF0000010000000,  // a tie of f32
                                 0x3FF8000000000000,
                                 0x4004000000000000,
                                 0x41DFFFFFFFC00000,
                                 0x41E0000000000000,
                                 0x43E0000000000000,
                                 0x47EFFFFFE0000000,  // f32's largest
                                 0x47EFFFFFEFFFFFFF,
                                 0x47EFFFFFF0000000,
                                 0x7FEFFFFFFFFFFFFF,
                                 0x7FF0000000000000,
                                 0x7FF0000000000001,
                                 0x7FF8000000000000,
                                 0x7FFFFFFFFFFFFFFF};
constexpr uint16_t kEdgesF16[] = {0x0000, 0x0001, 0x0200, 0x03FF, 0x0400, 0x1400,
                                  0x3800, 0x3BFF, 0x3C00, 0x3C01, 0x3E00, 0x6400,
                                  0x7800, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7FFF};
constexpr uint16_t kEdgesBf16[] = {0x0000, 0x0001, 0x0040, 0x007F, 0x0080, 0x3F00,
                                   0x3F7F, 0x3F80, 0x3F81, 0x3FC0, 0x4300, 0x7F00,
                                   0x7F7F, 0x7F80, 0x7F81, 0x7FC0, 0x7FFF};
constexpr uint64_t kEdgesInteger[] = {0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 127, 128, 255, 256};

// Every pair of edges, with both signs: which of the two an operand has.
template <class T, size_t kCount>
T edge(const T (&edges)[kCount], int bits, int position, uint64_t item) {
  const uint64_t both = 2 * kCount;
  const uint64_t index = position == 0   ? item % both
                         : position == 1 ? item / both % both
                                         : hash(item, 7) % both;
  const T magnitude = edges[index / 2];
  return index % 2 == 0 ? magnitude : T(magnitude | T(T{1} << (bits - 1)));
}

// Numbers whose sum or product is near one of the others.
struct FloatForm {
  int mantissa, exponent_bits;
};
uint64_t near(FloatForm form, int operands, int position, uint64_t item) {
  const int bits = 1 + form.mantissa + form.exponent_bits;
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t own = hash(item, uint64_t(position) + 100);
  if (hash(item, 1) % 4 == 0) return own & mask;
  const int64_t most = (int64_t{1} << form.exponent_bits) - 1, bias = most / 2;
  const int64_t reach = form.mantissa + 3;
  const auto off = [&](uint64_t salt) {
    return int64_t(hash(item, salt) % uint64_t(2 * reach + 1)) - reach;
  };
  const bool is_fma = operands == 3;
  const int64_t first = is_fma ? bias + int64_t(hash(item, 2) % uint64_t(bias)) - bias / 2
                               : int64_t(hash(item, 2) % uint64_t(most));
  const int64_t second = is_fma ? bias + off(3) : first + off(3);
  const int64_t third = first + second - bias + off(4);
  const int64_t exponent = std::clamp<int64_t>(position == 0   ? first
                                               : position == 1 ? second
                                                               : third,
                                               0, most - 1);
  uint64_t fraction = own & ((uint64_t{1} << form.mantissa) - 1);
  if (hash(item, 5) % 3 == 0)  // few bits: exact and tied results
    fraction &= ~((uint64_t{1} << (hash(item, 6) % uint64_t(form.mantissa))) - 1);
  const uint64_t sign = own >> 63;
  return sign << (bits - 1) | uint64_t(exponent) << form.mantissa | fraction;
}

constexpr uint64_t kEdgeItems = 8192;  // of which the first hold the pairs of edges

uint64_t f32_value(int operands, int position, uint64_t item) {
  if (item < kEdgeItems) return edge(kEdges32, 32, position, item);
  if (operands > 1) return near({23, 8}, operands, position, item);
  // All exponents; what is beyond 9 bits of mantissa is nothing (a tie), just beside it, or anything.
  constexpr int kTailBits = 14;
  const uint64_t random = hash(item, 11);
  const uint64_t low = random & ((1U << kTailBits) - 1);
  const uint64_t tail[] = {0,   1,   (1U << kTailBits) - 1, 1U << (kTailBits - 1), low,
                           low, low, low & low << 7};
  return (item << kTailBits & 0xFFFFFFFF) | tail[random >> 20 & 7];
}

uint64_t half_value(bool is_bf16, int operands, int position, uint64_t item) {
  if (operands == 1) return item & 0xFFFF;
  if (item < 2048)
    return is_bf16 ? edge(kEdgesBf16, 16, position, item) : edge(kEdgesF16, 16, position, item);
  return near(is_bf16 ? FloatForm{7, 8} : FloatForm{10, 5}, operands, position, item);
}

uint64_t integer_value(int bits, int position, uint64_t item, bool may_be_zero) {
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t random = hash(item, uint64_t(position) + 200);
  uint64_t value = random;
  switch (hash(item, 13) % 4) {
    case 0: {
      constexpr uint64_t kCount = std::size(kEdgesInteger);
      const uint64_t at = (position == 0 ? item / 4 : position == 1 ? item / 4 / 28 : random) % 28;
      value = kEdgesInteger[at % kCount];
      if (at >= kCount)
        value = (random >> 60) % 2 == 0 ? ~value : (uint64_t{1} << (bits - 1)) - value;
      break;
    }
    case 1:
      value = random & hash(random, 1) & hash(random, 2);  // few bits
      break;
    case 2:
      value = random >> (hash(random, 3) % uint64_t(bits));  // short
      break;
    default:
      break;
  }
  value &= mask;
  return value == 0 && !may_be_zero ? 1 + (random >> 40) % 5 : value;
}

uint64_t count_value(int position, uint64_t item) {
  const uint64_t random = hash(item, uint64_t(position) + 300);
  return random % 8 == 0 ? random >> 32 : (random >> 32) % 70;
}

}  // namespace

int letter_bits(char letter) {
  switch (letter) {
    case 'H':
    case 'B':
    case 'z':
    case 'h':
    case 'j':
      return 16;
    case 'D':
    case 'L':
    case 'M':
    case 'l':
      return 64;
    default:
      return 32;
  }
}

uint64_t hash(uint64_t a, uint64_t b) {  // SplitMix64's mixer, of both
  uint64_t x = a * 0x9E3779B97F4A7C15 + b * 0xD1B54A32D192ED03 + 0x632BE59BD9B4E019;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

uint64_t value_of(char letter, int operands, int position, uint64_t item) {
  switch (letter) {
    case 'F':
      return f32_value(operands, position, item);
    case 'D':
      return item < kEdgeItems ? edge(kEdges64, 64, position, item)
                               : near({52, 11}, operands, position, item);
    case 'H':
    case 'B':
      return half_value(letter == 'B', operands, position, item);
    case 'P':
    case 'Q':
      return half_value(letter == 'Q', 2, position, item) |
             half_value(letter == 'Q', operands == 1 ? 2 : operands, position, item + 77777) << 16;
    case 'z':
      return item & 0xFFFF;
    case 'n':
      return count_value(position, item);
    case 'm':
      return count_value(position, item) & 0xFF;
    default:
      break;
  }
  const bool may_be_zero = letter == 'h' || letter == 'I' || letter == 'L';
  return integer_value(letter_bits(letter), position, item, may_be_zero);
}

Bytes values_of(char letter, int operands, int position, uint64_t count) {
  const size_t bytes = static_cast<size_t>(letter_bits(letter)) / 8;
  Bytes out(count * bytes);
  for (uint64_t item = 0; item < count; ++item) {
    const uint64_t value = value_of(letter, operands, position, item);
    std::memcpy(out.data() + item * bytes, &value, bytes);
  }
  return out;
}

Bytes random_bytes(size_t count, uint64_t seed) {
  Bytes out(count);
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<uint8_t>(hash(i / 8, seed) >> (i % 8 * 8));
  return out;
}

}  // namespace octet::cross
