// SPDX-License-Identifier: Apache-2.0
#include "reference/product.h"

#include <algorithm>
#include <cmath>

#include "core/shape.h"

namespace octet::reference {
namespace {

// The sum of term(0) ... term(n - 1) in four running sums, so that additions do not wait for each other.
template <class Term>
double sum(size_t n, const Term& term) {
  double s[4] = {};
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    s[0] += term(i);
    s[1] += term(i + 1);
    s[2] += term(i + 2);
    s[3] += term(i + 3);
  }
  for (; i < n; ++i) s[0] += term(i);
  return (s[0] + s[1]) + (s[2] + s[3]);
}

double room_of(const Room& room, const double* w) {
  const size_t n = room.most.size();
  const double certain = sum(n, [&](size_t i) { return room.most[i] * std::fabs(w[i]); });
  const double variance = sum(n, [&](size_t i) { return room.square[i] * (w[i] * w[i]); });
  return least(certain, 8 * std::sqrt(variance));
}

// NaN loses against numbers; a block without a finite amax above 0 has unit 0.
double fixed_point_unit(const double* begin, const double* end) {
  double amax = 0;
  for (const double* v = begin; v < end; ++v) amax = std::fmax(amax, std::fabs(*v));
  if (!std::isfinite(amax) || amax == 0) return 0;
  int e = 0;
  std::frexp(amax, &e);  // 2^(e - 1) <= amax
  const double unit = std::ldexp(1.0, e - 1 - 14);
  return amax > 32639 * unit ? 2 * unit : unit;
}

// 32 truncated products a block.
double fp8_unit_room(const std::vector<double>& a, const double* w) {
  double room = 0;
  for (size_t begin = 0; begin < a.size(); begin += kMxBlock) {
    double most = 0;
    for (size_t i = begin; i < std::min(begin + kMxBlock, a.size()); ++i)
      most = std::fmax(most, std::fabs(a[i] * w[i]));
    room += kMxBlock * 0x1p-13 * most;
  }
  return room;
}

}  // namespace

double sum_error(int64_t k) {
  const auto n = static_cast<double>(k);
  return std::min(n + 1, 8 * std::sqrt(n) + n / 8) * kUnitRoundoff;
}

Room fixed_point_room(const std::vector<double>& row, int64_t block, int64_t start) {
  const auto n = static_cast<int64_t>(row.size());
  Room room{std::vector<double>(n), std::vector<double>(n)};
  for (int64_t begin = 0; begin < n;) {
    const int64_t end = std::min(begin + block - (start + begin) % block, n);
    const double unit = fixed_point_unit(&row[begin], row.data() + end);
    for (; begin < end; ++begin) {
      room.most[begin] = 0.5 * unit;
      room.square[begin] = unit * unit / 12;
    }
  }
  return room;
}

void hold_as_fixed_point(Activation& a, int64_t block, int64_t start) {
  a.fixed_point.push_back(fixed_point_room(a.value, block, 0));
  if (start != 0) a.fixed_point.push_back(fixed_point_room(a.value, block, start));
}

Activation activation_of(const std::vector<Span>& row) {
  Activation a;
  for (const Span& s : row) {
    double width = greatest(s.hi - s.value, s.value - s.lo);
    if (!std::isfinite(width)) width = 0;
    a.value.push_back(s.value);
    a.spread.most.push_back(width);
    a.spread.square.push_back(width * width);
  }
  return a;
}

Span product(const Activation& a, const double* w, Sums sums) {
  const size_t n = a.value.size();
  const double value = sum(n, [&](size_t i) { return a.value[i] * w[i]; });
  const double mass = sum(n, [&](size_t i) { return std::fabs(a.value[i] * w[i]); });
  double fixed_point = 0;
  for (const Room& room : a.fixed_point) fixed_point = greatest(fixed_point, room_of(room, w));
  double eps = sum_error(static_cast<int64_t>(n)) * mass + fixed_point + room_of(a.spread, w);
  if (sums == Sums::kFp8Unit) eps += fp8_unit_room(a.value, w);
  return exact_if_odd({value, value - eps, value + eps});
}

}  // namespace octet::reference
