// SPDX-License-Identifier: Apache-2.0
// check_weights: whether prepared tensors can be used. semantics.md section 6.
#include <fmt/format.h>
#include <string_view>

#include "core/shape.h"
#include "formats/e2m1.h"
#include "reference/index.h"
#include "reference/reference.h"

namespace octet::reference {
namespace {

constexpr int64_t kMostIntermediate = int64_t{1} << 31;

struct Wanted {
  std::string_view name;
  const TensorView& tensor;
  Dims dims;
  uintptr_t alignment;
};

Status check_tensor(const Wanted& w) {
  const TensorView& t = w.tensor;
  if (t.data == nullptr) {
    return invalid_argument(fmt::format("{}: missing, want U8 {}", w.name, to_string(w.dims)));
  }
  if (dtype_bytes(t.dtype) != 1) {
    return invalid_argument(
        fmt::format("{}: dtype {}, want 1-byte elements", w.name, dtype_name(t.dtype)));
  }
  if (t.dims != w.dims) {
    return invalid_argument(
        fmt::format("{}: shape {}, want {}", w.name, to_string(t.dims), to_string(w.dims)));
  }
  const uintptr_t off = reinterpret_cast<uintptr_t>(t.data) % w.alignment;
  if (off == 0) return {};
  return invalid_argument(fmt::format("{}: address is {} past a multiple of {}, want a multiple",
                                      w.name, off, w.alignment));
}

Status check_sizes(const CheckWeightsArgs& a) {
  for (const auto& [name, t] :
       {std::pair<std::string_view, const TensorView&>{"w13", a.w13}, {"w2", a.w2}}) {
    if (t.data != nullptr && t.dims.size() == 3) continue;
    return invalid_argument(fmt::format("{}: {} dimensions, want 3", name, t.dims.size()));
  }
  if (a.intermediate < 1 || a.intermediate > kMostIntermediate) {
    return invalid_argument(
        fmt::format("intermediate {}, want 1..{}", a.intermediate, kMostIntermediate));
  }
  const int64_t experts = a.w13.dim(0);
  const int64_t half_hidden = a.w13.dim(2);
  if (half_hidden < 64 || half_hidden % 64 != 0) {
    return invalid_argument(
        fmt::format("w13: {} bytes a row, want a positive multiple of 64", half_hidden));
  }
  if (experts < 32 || experts > 384 || experts % 32 != 0) {
    return invalid_argument(
        fmt::format("w13: experts {}, want a multiple of 32 in 32..384", experts));
  }
  if (a.top_k >= 1 && a.top_k <= 8) return {};
  return invalid_argument(fmt::format("top_k {}, want 1..8", a.top_k));
}

// Stored rows of w13 that hold a column of h beyond I: zero bytes.
Status check_w13_padding(const CheckWeightsArgs& a) {
  const int64_t rows = a.w13.dim(1);
  const int64_t bytes = a.w13.dim(2);
  const uint8_t* w13 = a.w13.as<uint8_t>();
  for (int64_t i = 0; i < a.w13.dim(0) * rows; ++i) {
    if (w13_place(i % rows).column < a.intermediate) continue;
    for (int64_t b = 0; b < bytes; ++b) {
      if (w13[i * bytes + b] == 0) continue;
      return invalid_argument(fmt::format("w13: padding byte [{}, {}, {}] is {}, want 0", i / rows,
                                          i % rows, b, w13[i * bytes + b]));
    }
  }
  return {};
}

// Elements of w2's rows from column I on: zero codes.
Status check_w2_padding(const CheckWeightsArgs& a) {
  const int64_t rows = a.w2.dim(1);
  const int64_t bytes = a.w2.dim(2);
  for (int64_t i = 0; i < a.w2.dim(0) * rows; ++i) {
    const uint8_t* row = a.w2.as<uint8_t>() + i * bytes;
    for (int64_t c = a.intermediate; c < 2 * bytes; ++c) {
      if (formats::e2m1_at(row, c) == 0) continue;
      return invalid_argument(fmt::format("w2: padding byte [{}, {}, {}] is {}, want 0", i / rows,
                                          i % rows, c / 2, row[c / 2]));
    }
  }
  return {};
}

}  // namespace

Status check_weights(const CheckWeightsArgs& a) {
  OCTET_RETURN_IF_ERROR(check_sizes(a));
  const int64_t experts = a.w13.dim(0);
  const int64_t hidden = 2 * a.w13.dim(2);
  const int64_t padded = round_up(a.intermediate, 128);
  const Wanted wanted[] = {
      {"w13", a.w13, {experts, 2 * padded, hidden / 2}, 32},
      {"w13_scale", a.w13_scale, {experts, 2 * padded, hidden / 32}, 16},
      {"w2", a.w2, {experts, hidden, padded / 2}, 32},
      {"w2_scale", a.w2_scale, {experts, hidden, padded / 32}, 16},
  };
  for (const Wanted& w : wanted) OCTET_RETURN_IF_ERROR(check_tensor(w));
  const TensorView& clamp = a.clamp;
  if (clamp.data == nullptr || clamp.dtype != Dtype::kF32 || clamp.dims != Dims{experts}) {
    return invalid_argument(fmt::format("clamp: {} {}, want F32 [{}]", dtype_name(clamp.dtype),
                                        to_string(clamp.dims), experts));
  }
  OCTET_RETURN_IF_ERROR(check_w13_padding(a));
  return check_w2_padding(a);
}

}  // namespace octet::reference
