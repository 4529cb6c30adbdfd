// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/synth_fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "formats/bf16.h"
#include "formats/e4m3.h"

namespace octet::checkpoint {
namespace {

constexpr uint64_t kStep = 0x9E3779B97F4A7C15U;  // SplitMix64: the counter's step and its finaliser

constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}
constexpr uint64_t word_at(uint64_t key, int64_t i) {
  return mix(key + static_cast<uint64_t>(i + 1) * kStep);
}
constexpr uint64_t every_lane(uint8_t byte) { return byte * 0x0101010101010101U; }

void fill_codes(const Fill& fill, uint64_t key, int64_t first_byte, std::span<std::byte> out) {
  const uint64_t mask = every_lane(fill.mask), base = every_lane(fill.base);
  const int64_t first = first_byte / 8;
  const auto whole = static_cast<int64_t>(out.size() / 8);
  for (int64_t i = 0; i < whole; ++i) {
    const uint64_t word = (word_at(key, first + i) & mask) + base;
    std::memcpy(out.data() + i * 8, &word, 8);
  }
  const uint64_t last = (word_at(key, first + whole) & mask) + base;
  std::memcpy(out.data() + whole * 8, &last, out.size() % 8);
}

double normal_at(uint64_t key, int64_t i, double spread) {
  constexpr double kDeviation = 37837.2271;  // of the sum: sqrt(4 * (65536^2 - 1) / 12)
  const uint64_t w = word_at(key, i);
  const auto sum =
      static_cast<int64_t>((w & 0xFFFF) + (w >> 16 & 0xFFFF) + (w >> 32 & 0xFFFF) + (w >> 48));
  return static_cast<double>(sum - 2 * 65535) * (spread / kDeviation);
}

double number_at(const Fill& fill, uint64_t key, int64_t i) {
  if (fill.kind == Fill::Kind::kNormal) return normal_at(key, i, fill.spread);
  return fill.centre * (0.75 + static_cast<double>(word_at(key, i) >> 40) * 0x1p-25);
}

template <class T, class Make>
void fill_elems(int64_t first_byte, std::span<std::byte> out, const Make& make) {
  const auto first = first_byte / static_cast<int64_t>(sizeof(T));
  for (size_t i = 0; i < out.size() / sizeof(T); ++i) {
    const T value = make(first + static_cast<int64_t>(i));
    std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
  }
}

// Row `row` of kIds, in `ids`; a repeated draw moves on to the next number that is free.
void draw_row(const Fill& fill, uint64_t key, int64_t row, std::vector<int32_t>& ids) {
  const auto k = static_cast<int64_t>(ids.size());
  for (int64_t j = 0; j < k; ++j) {
    auto id = static_cast<int64_t>(word_at(key, row * k + j) % static_cast<uint64_t>(fill.below));
    const auto end = ids.begin() + j;
    while (std::find(ids.begin(), end, id) != end) id = (id + 1) % fill.below;
    ids[static_cast<size_t>(j)] = static_cast<int32_t>(id);
  }
}

void fill_ids(const SynthTensor& tensor, uint64_t key, int64_t first_byte,
              std::span<std::byte> out) {
  std::vector<int32_t> ids(static_cast<size_t>(tensor.dims.back()));
  const auto k = static_cast<int64_t>(ids.size());
  int64_t row = -1;
  fill_elems<int32_t>(first_byte, out, [&](int64_t i) {
    if (i / k != row) draw_row(tensor.fill, key, row = i / k, ids);
    return ids[static_cast<size_t>(i % k)];
  });
}

}  // namespace

Fill ue8m0_fill(double code_rms, int64_t width) {
  // Four neighbouring codes lo ... lo + 3: the mean square of 1, 2, 4, 8 is 21.25.
  const double rms = code_rms * std::sqrt(21.25);
  const double wanted = 1.0 / std::sqrt(static_cast<double>(width));
  int lo = 127;
  while (std::ldexp(rms, lo - 127) > wanted) --lo;
  return {.kind = Fill::Kind::kBytes, .mask = 3, .base = static_cast<uint8_t>(lo)};
}

Fill e4m3_scale_fill() { return {.kind = Fill::Kind::kBytes, .mask = 0x1F, .base = 0x5F}; }

Fill e4m3_factor_fill(int64_t width) {
  const Fill scales = e4m3_scale_fill();
  double squares = 0;
  for (int i = 0; i <= scales.mask; ++i) {
    const auto v = static_cast<double>(formats::e4m3_to_f32(static_cast<uint8_t>(scales.base + i)));
    squares += v * v / (scales.mask + 1);
  }
  const double rms = kE2m1Rms * std::sqrt(squares);
  return {.kind = Fill::Kind::kUniform,
          .centre = 1.0 / (rms * std::sqrt(static_cast<double>(width)))};
}

Fill e4m3_weight_fill() { return {.kind = Fill::Kind::kBytes, .mask = 0x9F, .base = 0x28}; }

uint64_t synth_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325U;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return mix(mix(seed + kStep) ^ hash);
}

void fill_bytes(const SynthTensor& tensor, uint64_t key, int64_t first_byte,
                std::span<std::byte> out) {
  const Fill& fill = tensor.fill;
  if (fill.kind == Fill::Kind::kBytes) return fill_codes(fill, key, first_byte, out);
  if (fill.kind == Fill::Kind::kIds) return fill_ids(tensor, key, first_byte, out);
  if (tensor.dtype == Dtype::kBf16) {
    return fill_elems<Bf16>(first_byte, out, [&](int64_t i) {
      return formats::bf16_from_f64(number_at(fill, key, i));
    });
  }
  fill_elems<float>(first_byte, out,
                    [&](int64_t i) { return static_cast<float>(number_at(fill, key, i)); });
}

}  // namespace octet::checkpoint
