// SPDX-License-Identifier: Apache-2.0
#include "layouts/prepared.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "layouts/scale_layout.h"

namespace octet::layouts {
namespace {

// The scales of stored row `row` of a 128x4 tensor of `cols` columns, to or from a linear row.
void gather_scales(const uint8_t* swizzled, int64_t cols, int64_t row, uint8_t* linear) {
  for (int64_t c = 0; c < cols; ++c)
    linear[c] = swizzled[scale_offset(ScaleLayout::k128x4, cols, row, c)];
}
void scatter_scales(const uint8_t* linear, int64_t count, int64_t cols, int64_t row,
                    uint8_t* swizzled) {
  for (int64_t c = 0; c < count; ++c)
    swizzled[scale_offset(ScaleLayout::k128x4, cols, row, c)] = linear[c];
}

void copy(uint8_t* to, const uint8_t* from, int64_t bytes) { std::copy_n(from, bytes, to); }
void zero(uint8_t* to, int64_t bytes) { std::fill_n(to, bytes, uint8_t{0}); }

Status check_dims(std::string_view name, const TensorView& t, const Dims& want) {
  if (t.data == nullptr) return invalid_argument(fmt::format("{}: missing", name));
  if (dtype_bytes(t.dtype) != 1) {
    return invalid_argument(
        fmt::format("{}: dtype {}, want 1-byte elements", name, dtype_name(t.dtype)));
  }
  if (t.dims != want) {
    return invalid_argument(
        fmt::format("{}: shape {}, want {}", name, to_string(t.dims), to_string(want)));
  }
  return {};
}

Status check_aligned(std::string_view name, const TensorView& t, uintptr_t alignment) {
  const uintptr_t off = reinterpret_cast<uintptr_t>(t.data) % alignment;
  if (off == 0) return {};
  return invalid_argument(fmt::format("{}: address is {} past a multiple of {}, want a multiple",
                                      name, off, alignment));
}

// The first non-zero byte of [from, from + bytes), or -1.
int64_t first_nonzero(const uint8_t* from, int64_t bytes) {
  const uint8_t* end = from + bytes;
  const uint8_t* at = std::find_if(from, end, [](uint8_t b) { return b != 0; });
  return at == end ? -1 : at - from;
}

Status check_padding(const PreparedTensors& t, int64_t intermediate) {
  const int64_t experts = t.w13.dim(0);
  const int64_t half_h = t.w13.dim(2);
  const int64_t padded = t.w13.dim(1) / 2;
  for (int64_t e = 0; e < experts; ++e) {
    const uint8_t* w13 = t.w13.as<uint8_t>() + e * 2 * padded * half_h;
    for (int64_t col = intermediate; col < padded; ++col) {
      for (const bool is_gate : {false, true}) {
        const int64_t row = w13_stored_row({col, is_gate});
        const int64_t at = first_nonzero(w13 + row * half_h, half_h);
        if (at < 0) continue;
        return invalid_argument(fmt::format("w13: padding byte [{}, {}, {}] is {}, want 0", e, row,
                                            at, w13[row * half_h + at]));
      }
    }
    const uint8_t* w2 = t.w2.as<uint8_t>() + e * 2 * half_h * padded / 2;
    for (int64_t row = 0; row < 2 * half_h; ++row) {
      const uint8_t* bytes = w2 + row * padded / 2;
      // An odd I shares its last byte with the first padding element.
      if (intermediate % 2 == 1 && (bytes[intermediate / 2] >> 4) != 0) {
        return invalid_argument(
            fmt::format("w2: padding nibble of [{}, {}, {}] is not 0", e, row, intermediate / 2));
      }
      const int64_t from = ceil_div(intermediate, 2);
      const int64_t at = first_nonzero(bytes + from, padded / 2 - from);
      if (at < 0) continue;
      return invalid_argument(fmt::format("w2: padding byte [{}, {}, {}] is {}, want 0", e, row,
                                          from + at, bytes[from + at]));
    }
  }
  return {};
}

// What one expert takes, of every tensor.
void prepare_expert(const PrepareArgs& a, int64_t e) {
  const int64_t padded = padded_intermediate(a.intermediate);
  const int64_t half_h = a.hidden / 2;
  const int64_t h_cols = a.hidden / kMxBlock;
  const int64_t i_cols = a.intermediate / kMxBlock;
  const int64_t p_cols = padded / kMxBlock;
  uint8_t* const w13 = a.w13 + e * 2 * padded * half_h;
  uint8_t* const w13_scale = a.w13_scale + e * 2 * padded * h_cols;
  uint8_t* const w2 = a.w2 + e * a.hidden * padded / 2;
  uint8_t* const w2_scale = a.w2_scale + e * a.hidden * p_cols;
  zero(w13, 2 * padded * half_h);
  zero(w13_scale, 2 * padded * h_cols);
  zero(w2, a.hidden * padded / 2);
  zero(w2_scale, a.hidden * p_cols);
  for (int64_t col = 0; col < a.intermediate; ++col) {
    for (const bool is_gate : {false, true}) {
      const int64_t from = e * a.intermediate + col;
      const int64_t row = w13_stored_row({col, is_gate});
      copy(w13 + row * half_h, (is_gate ? a.gate : a.up) + from * half_h, half_h);
      scatter_scales((is_gate ? a.gate_scale : a.up_scale) + from * h_cols, h_cols, h_cols, row,
                     w13_scale);
    }
  }
  for (int64_t n = 0; n < a.hidden; ++n) {
    const int64_t from = e * a.hidden + n;
    const int64_t row = shuffled_row(n);
    copy(w2 + row * padded / 2, a.down + from * a.intermediate / 2, a.intermediate / 2);
    scatter_scales(a.down_scale + from * i_cols, i_cols, p_cols, row, w2_scale);
  }
  a.clamp[e] = a.limit;
}

void unprepare_expert(const UnprepareArgs& a, int64_t e) {
  const int64_t half_h = a.hidden / 2;
  const int64_t h_cols = a.hidden / kMxBlock;
  const int64_t i_cols = a.intermediate / kMxBlock;
  const PreparedExpert expert{a.w13 + e * 2 * a.padded * half_h,
                              a.w13_scale + e * 2 * a.padded * h_cols,
                              a.w2 + e * a.hidden * a.padded / 2,
                              a.w2_scale + e * a.hidden * a.padded / kMxBlock,
                              a.hidden,
                              a.padded};
  std::vector<uint8_t> scales(static_cast<size_t>(std::max(h_cols, a.padded / kMxBlock)));
  for (int64_t col = 0; col < a.intermediate; ++col) {
    for (const bool is_gate : {false, true}) {
      const int64_t to = e * a.intermediate + col;
      copy((is_gate ? a.gate : a.up) + to * half_h, w13_row(expert, {col, is_gate}, scales.data()),
           half_h);
      copy((is_gate ? a.gate_scale : a.up_scale) + to * h_cols, scales.data(), h_cols);
    }
  }
  for (int64_t n = 0; n < a.hidden; ++n) {
    const int64_t to = e * a.hidden + n;
    copy(a.down + to * a.intermediate / 2, w2_row(expert, n, scales.data()), a.intermediate / 2);
    copy(a.down_scale + to * i_cols, scales.data(), i_cols);
  }
}

}  // namespace

void prepare(const PrepareArgs& args, Executor& executor) {
  parallel_for(executor, args.experts, [&](int64_t e, int) { prepare_expert(args, e); });
}

void unprepare(const UnprepareArgs& args, Executor& executor) {
  parallel_for(executor, args.experts, [&](int64_t e, int) { unprepare_expert(args, e); });
}

PreparedExpert prepared_expert(const Gemm1Args& a, int64_t e) {
  return {a.w13 + e * 2 * a.padded * a.hidden / 2,
          a.w13_scale + e * 2 * a.padded * a.hidden / kMxBlock,
          nullptr,
          nullptr,
          a.hidden,
          a.padded};
}

PreparedExpert prepared_expert(const Gemm2Args& a, int64_t e) {
  return {nullptr,
          nullptr,
          a.w2 + e * a.hidden * a.padded / 2,
          a.w2_scale + e * a.hidden * a.padded / kMxBlock,
          a.hidden,
          a.padded};
}

const uint8_t* w13_row(const PreparedExpert& e, W13Row row, uint8_t* scales) {
  const int64_t stored = w13_stored_row(row);
  gather_scales(e.w13_scale, e.hidden / kMxBlock, stored, scales);
  return e.w13 + stored * e.hidden / 2;
}

const uint8_t* w2_row(const PreparedExpert& e, int64_t channel, uint8_t* scales) {
  const int64_t stored = shuffled_row(channel);
  gather_scales(e.w2_scale, e.padded / kMxBlock, stored, scales);
  return e.w2 + stored * e.padded / 2;
}

Status check_weights(const PreparedTensors& t, int64_t top_k, int64_t intermediate) {
  for (const auto& [name, view] :
       {std::pair<const char*, const TensorView&>{"w13", t.w13}, {"w2", t.w2}}) {
    if (view.data == nullptr) return invalid_argument(fmt::format("{}: missing", name));
    if (view.dims.size() != 3) {
      return invalid_argument(fmt::format("{}: {} dimensions, want 3", name, view.dims.size()));
    }
  }
  if (intermediate <= 0)
    return invalid_argument(fmt::format("intermediate {}, want above 0", intermediate));
  const int64_t experts = t.w13.dim(0);
  const int64_t hidden = 2 * t.w13.dim(2);
  const int64_t padded = padded_intermediate(intermediate);
  OCTET_RETURN_IF_ERROR(check_dims("w13", t.w13, {experts, 2 * padded, hidden / 2}));
  OCTET_RETURN_IF_ERROR(
      check_dims("w13_scale", t.w13_scale, {experts, 2 * padded, hidden / kMxBlock}));
  OCTET_RETURN_IF_ERROR(check_dims("w2", t.w2, {experts, hidden, padded / 2}));
  OCTET_RETURN_IF_ERROR(check_dims("w2_scale", t.w2_scale, {experts, hidden, padded / kMxBlock}));
  OCTET_RETURN_IF_ERROR(check_aligned("w13", t.w13, 32));
  OCTET_RETURN_IF_ERROR(check_aligned("w2", t.w2, 32));
  OCTET_RETURN_IF_ERROR(check_aligned("w13_scale", t.w13_scale, 16));
  OCTET_RETURN_IF_ERROR(check_aligned("w2_scale", t.w2_scale, 16));
  if (hidden == 0 || hidden % kPreparedPad != 0) {
    return invalid_argument(
        fmt::format("w13: hidden {} is not a multiple of {}", hidden, kPreparedPad));
  }
  if (experts % 32 != 0 || experts <= 0 || experts > kPreparedMaxExperts) {
    return invalid_argument(
        fmt::format("experts {}, want a multiple of 32 in 32..{}", experts, kPreparedMaxExperts));
  }
  if (top_k < 1 || top_k > kPreparedMaxTopK) {
    return invalid_argument(fmt::format("top_k {}, want 1..{}", top_k, kPreparedMaxTopK));
  }
  if (t.clamp.data == nullptr) return invalid_argument("clamp: missing, want F32 [E]");
  if (t.clamp.dtype != Dtype::kF32 || t.clamp.dims != Dims{experts}) {
    return invalid_argument(fmt::format("clamp: {} {}, want F32 [{}]", dtype_name(t.clamp.dtype),
                                        to_string(t.clamp.dims), experts));
  }
  return check_padding(t, intermediate);
}

}  // namespace octet::layouts
