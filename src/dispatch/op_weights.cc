// SPDX-License-Identifier: Apache-2.0
// prepare, unprepare, check_weights, dequantize, quantize_weight.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "cpu/ops.h"
#include "dispatch/op_input.h"
#include "formats/bf16.h"
#include "layouts/prepared.h"
#include "reference/reference.h"

namespace octet::dispatch {
namespace {

Result<WeightFormat> format_setting(OpCall& call) {
  constexpr WeightFormat kFormats[] = {WeightFormat::kMxfp4, WeightFormat::kNvfp4};
  OCTET_ASSIGN_OR_RETURN(const size_t format,
                         call.choice("format", {name_of(kFormats[0]), name_of(kFormats[1])}));
  return kFormats[format];
}

Dtype scale_dtype(WeightFormat format) {
  return format == WeightFormat::kMxfp4 ? Dtype::kU8 : Dtype::kE4m3;
}

// `dims` with another last one.
Dims with_last(Dims dims, int64_t last) {
  dims.back() = last;
  return dims;
}

int64_t num_rows(const Dims& dims) { return num_elems(with_last(dims, 1)); }

// The factors of dequantize: one, or one for each matrix of the leading dimensions.
Result<TensorView> need_factors(OpCall& call, const Dims& weight) {
  OCTET_ASSIGN_OR_RETURN(const TensorView g, call.need_any("global_scale"));
  if (g.dtype != Dtype::kF32) {
    return invalid_argument(fmt::format("global_scale: dtype {}, want F32", dtype_name(g.dtype)));
  }
  const bool leading =
      g.dims.size() < weight.size() && std::equal(g.dims.begin(), g.dims.end(), weight.begin());
  if (!leading && num_elems(g.dims) != 1) {
    return invalid_argument(
        fmt::format("global_scale: {}, want one number or the first dimensions of weight {}",
                    to_string(g.dims), to_string(weight)));
  }
  return g;
}

// -1, or the first element that is NaN or infinite.
int64_t first_not_finite(const TensorView& value) {
  const int64_t n = num_elems(value.dims);
  const bool is_f32 = value.dtype == Dtype::kF32;
  for (int64_t i = 0; i < n; ++i) {
    const float v = is_f32 ? value.as<float>()[i] : formats::bf16_to_f32(value.as<Bf16>()[i]);
    if (!std::isfinite(v)) return i;
  }
  return -1;
}

}  // namespace

Status op_prepare(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const TensorView gate, call.need("gate", {Dtype::kU8}, {"E", "I", "H/2"}));
  const int64_t e = gate.dim(0);
  const int64_t i = gate.dim(1);
  const int64_t h = 2 * gate.dim(2);
  OCTET_RETURN_IF_ERROR(check_multiple("gate", "H", h, layouts::kPreparedPad));
  OCTET_RETURN_IF_ERROR(check_multiple("gate", "I", i, kMxBlock));
  const auto need = [&](std::string_view name, int64_t rows, int64_t cols) {
    return call.need(name, {Dtype::kU8}, {e, rows, cols});
  };
  OCTET_ASSIGN_OR_RETURN(const TensorView up, need("up", i, h / 2));
  OCTET_ASSIGN_OR_RETURN(const TensorView gate_scale, need("gate_scale", i, h / kMxBlock));
  OCTET_ASSIGN_OR_RETURN(const TensorView up_scale, need("up_scale", i, h / kMxBlock));
  OCTET_ASSIGN_OR_RETURN(const TensorView down, need("down", h, i / 2));
  OCTET_ASSIGN_OR_RETURN(const TensorView down_scale, need("down_scale", h, i / kMxBlock));
  OCTET_ASSIGN_OR_RETURN(const float limit, call.number("limit"));
  const int64_t ip = layouts::padded_intermediate(i);
  const auto out = [&](std::string_view name, int64_t rows, int64_t cols) {
    return call.out<uint8_t>(name, Dtype::kU8, {e, rows, cols}, "gate");
  };
  OCTET_ASSIGN_OR_RETURN(uint8_t* const w13, out("w13", 2 * ip, h / 2));
  OCTET_ASSIGN_OR_RETURN(uint8_t* const w13_scale, out("w13_scale", 2 * ip, h / kMxBlock));
  OCTET_ASSIGN_OR_RETURN(uint8_t* const w2, out("w2", h, ip / 2));
  OCTET_ASSIGN_OR_RETURN(uint8_t* const w2_scale, out("w2_scale", h, ip / kMxBlock));
  OCTET_ASSIGN_OR_RETURN(float* const clamp, call.out<float>("clamp", Dtype::kF32, {e}, "gate"));
  const PrepareArgs args{.gate = gate.as<uint8_t>(),
                         .up = up.as<uint8_t>(),
                         .gate_scale = gate_scale.as<uint8_t>(),
                         .up_scale = up_scale.as<uint8_t>(),
                         .down = down.as<uint8_t>(),
                         .down_scale = down_scale.as<uint8_t>(),
                         .limit = limit,
                         .experts = e,
                         .hidden = h,
                         .intermediate = i,
                         .w13 = w13,
                         .w13_scale = w13_scale,
                         .w2 = w2,
                         .w2_scale = w2_scale,
                         .clamp = clamp};
  call.is_reference() ? reference::prepare(args) : layouts::prepare(args, call.executor);
  return {};
}

Status op_unprepare(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const TensorView w13,
                         call.need("w13", {Dtype::kU8}, {"E", "2 Ip", "H/2"}));
  const int64_t e = w13.dim(0);
  const int64_t h = 2 * w13.dim(2);
  OCTET_RETURN_IF_ERROR(check_multiple("w13", "2 Ip", w13.dim(1), 2 * layouts::kPreparedPad));
  OCTET_RETURN_IF_ERROR(check_multiple("w13", "H", h, layouts::kPreparedPad));
  const int64_t ip = w13.dim(1) / 2;
  const auto need = [&](std::string_view name, int64_t rows, int64_t cols) {
    return call.need(name, {Dtype::kU8}, {e, rows, cols});
  };
  OCTET_ASSIGN_OR_RETURN(const TensorView w13_scale, need("w13_scale", 2 * ip, h / kMxBlock));
  OCTET_ASSIGN_OR_RETURN(const TensorView w2, need("w2", h, ip / 2));
  OCTET_ASSIGN_OR_RETURN(const TensorView w2_scale, need("w2_scale", h, ip / kMxBlock));
  OCTET_ASSIGN_OR_RETURN(const int64_t i, call.integer("intermediate", {1, ip}));
  OCTET_RETURN_IF_ERROR(check_multiple("intermediate", "I", i, kMxBlock));
  const auto out = [&](std::string_view name, int64_t rows, int64_t cols) {
    return call.out<uint8_t>(name, Dtype::kU8, {e, rows, cols}, "w13");
  };
  OCTET_ASSIGN_OR_RETURN(uint8_t* const gate, out("gate", i, h / 2));
  OCTET_ASSIGN_OR_RETURN(uint8_t* const up, out("up", i, h / 2));
  OCTET_ASSIGN_OR_RETURN(uint8_t* const gate_scale, out("gate_scale", i, h / kMxBlock));
  OCTET_ASSIGN_OR_RETURN(uint8_t* const up_scale, out("up_scale", i, h / kMxBlock));
  OCTET_ASSIGN_OR_RETURN(uint8_t* const down, out("down", h, i / 2));
  OCTET_ASSIGN_OR_RETURN(uint8_t* const down_scale, out("down_scale", h, i / kMxBlock));
  const UnprepareArgs args{.w13 = w13.as<uint8_t>(),
                           .w13_scale = w13_scale.as<uint8_t>(),
                           .w2 = w2.as<uint8_t>(),
                           .w2_scale = w2_scale.as<uint8_t>(),
                           .experts = e,
                           .hidden = h,
                           .padded = ip,
                           .intermediate = i,
                           .gate = gate,
                           .up = up,
                           .gate_scale = gate_scale,
                           .up_scale = up_scale,
                           .down = down,
                           .down_scale = down_scale};
  call.is_reference() ? reference::unprepare(args) : layouts::unprepare(args, call.executor);
  return {};
}

Status op_check_weights(OpCall& call) {
  layouts::PreparedTensors t;
  OCTET_ASSIGN_OR_RETURN(t.w13, call.need_any("w13"));
  OCTET_ASSIGN_OR_RETURN(t.w13_scale, call.need_any("w13_scale"));
  OCTET_ASSIGN_OR_RETURN(t.w2, call.need_any("w2"));
  OCTET_ASSIGN_OR_RETURN(t.w2_scale, call.need_any("w2_scale"));
  OCTET_ASSIGN_OR_RETURN(t.clamp, call.need_any("clamp"));
  OCTET_ASSIGN_OR_RETURN(const int64_t top_k,
                         call.integer("top_k", {1, layouts::kPreparedMaxTopK}, 6));
  OCTET_ASSIGN_OR_RETURN(const int64_t i, call.integer("intermediate", {1, kMaxSize}));
  if (call.is_reference()) {
    return reference::check_weights({t.w13, t.w13_scale, t.w2, t.w2_scale, t.clamp, top_k, i});
  }
  return layouts::check_weights(t, top_k, i);
}

Status op_dequantize(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const WeightFormat format, format_setting(call));
  OCTET_ASSIGN_OR_RETURN(const TensorView weight, call.need_any_rank("weight", {Dtype::kU8}));
  const int64_t width = 2 * weight.dims.back();
  OCTET_RETURN_IF_ERROR(check_multiple("weight", "K", width, scale_block(format), 0));
  std::vector<WantedDim> scale_dims(weight.dims.begin(), weight.dims.end());
  scale_dims.back() = width / scale_block(format);
  OCTET_ASSIGN_OR_RETURN(const TensorView scale,
                         call.need("scale", {scale_dtype(format)}, scale_dims));
  DequantizeArgs args{.format = format,
                      .weight = weight.as<uint8_t>(),
                      .scale = scale.as<uint8_t>(),
                      .rows = num_rows(weight.dims),
                      .width = width,
                      .value = nullptr};
  if (call.has("global_scale")) {
    OCTET_ASSIGN_OR_RETURN(const TensorView factors, need_factors(call, weight.dims));
    args.global_scale = factors.as<float>();
    args.num_globals = num_elems(factors.dims);
  }
  OCTET_ASSIGN_OR_RETURN(
      args.value, call.out<float>("value", Dtype::kF32, with_last(weight.dims, width), "weight"));
  if (num_elems(weight.dims) == 0) return {};
  call.is_reference() ? reference::dequantize(args) : cpu::dequantize(args, call.executor);
  return {};
}

Status op_quantize_weight(OpCall& call) {
  OCTET_ASSIGN_OR_RETURN(const WeightFormat format, format_setting(call));
  OCTET_ASSIGN_OR_RETURN(const TensorView value,
                         call.need_any_rank("value", {Dtype::kF32, Dtype::kBf16}));
  const int64_t width = value.dims.back();
  OCTET_RETURN_IF_ERROR(check_multiple("value", "K", width, scale_block(format), 0));
  if (const int64_t at = first_not_finite(value); at >= 0) {
    return invalid_argument(
        fmt::format("value: element {} is infinite or NaN, want finite numbers", at));
  }
  const bool is_f32 = value.dtype == Dtype::kF32;
  QuantizeWeightArgs args{.format = format,
                          .value_f32 = is_f32 ? value.as<float>() : nullptr,
                          .value_bf16 = is_f32 ? nullptr : value.as<Bf16>(),
                          .rows = num_rows(value.dims),
                          .width = width,
                          .weight = nullptr,
                          .scale = nullptr};
  OCTET_ASSIGN_OR_RETURN(args.weight, call.out<uint8_t>("weight", Dtype::kU8,
                                                        with_last(value.dims, width / 2), "value"));
  OCTET_ASSIGN_OR_RETURN(
      args.scale, call.out<uint8_t>("scale", scale_dtype(format),
                                    with_last(value.dims, width / scale_block(format)), "value"));
  if (format == WeightFormat::kNvfp4) {
    OCTET_ASSIGN_OR_RETURN(args.global_scale,
                           call.out<float>("global_scale", Dtype::kF32, {1}, "value"));
  }
  call.is_reference() ? reference::quantize_weight(args)
                      : cpu::quantize_weight(args, call.executor);
  return {};
}

}  // namespace octet::dispatch
