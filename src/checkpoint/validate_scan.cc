// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/validate_scan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "formats/bf16.h"
#include "formats/e4m3.h"
#include "formats/ue8m0.h"

namespace octet::checkpoint {
namespace {

constexpr size_t kChunk = 64;

// Whether any of 64 scales may be at fault: one comparison a byte, so that the compiler makes vectors of it.
bool chunk_has_fault(WeightFormat format, const uint8_t* scales) {
  unsigned any = 0;
  if (format == WeightFormat::kMxfp4) {
    for (size_t i = 0; i < kChunk; ++i) any |= scales[i] == formats::kUe8m0Nan ? 1U : 0U;
  } else {  // 0x00, or 0x7F and above
    for (size_t i = 0; i < kChunk; ++i)
      any |= static_cast<uint8_t>(scales[i] - 1) >= formats::kE4m3Nan - 1 ? 1U : 0U;
  }
  return any != 0;
}

bool all_codes_zero(const uint8_t* pairs, int64_t num_pairs) {
  return std::all_of(pairs, pairs + num_pairs, [](uint8_t pair) { return (pair & 0x77) == 0; });
}

template <class T>
T load(const TensorView& tensor, int64_t i) {
  T value;  // files need not be aligned
  std::memcpy(&value, tensor.data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// Of element i of a tensor of one dimension or two.
Finding finding_at(std::string_view rule, const std::string& name, const TensorView& tensor,
                   int64_t i) {
  const int64_t cols = tensor.dims.empty() ? 1 : tensor.dims.back();
  Finding finding;
  finding.rule = rule;
  finding.tensor = name;
  finding.row = tensor.dims.size() > 1 ? i / cols : -1;
  finding.column = i % cols;
  return finding;
}

// The first id of a table that stands in its row a second time.
void scan_repeats(const std::string& name, const TensorView& tensor, Findings& findings) {
  const int64_t cols = tensor.dims.back();
  for (int64_t i = 0, n = num_elems(tensor.dims); i < n; ++i) {
    const auto id = load<int32_t>(tensor, i);
    for (int64_t j = i / cols * cols; j < i; ++j) {
      if (load<int32_t>(tensor, j) != id) continue;
      Finding finding = finding_at("table-repeat", name, tensor, i);
      finding.found = fmt::format("{} again", id);
      finding.wanted = "every expert of a row once";
      return findings.warning(std::move(finding));
    }
  }
}

}  // namespace

void Findings::add(bool is_error, Finding finding) {
  if (++num_by_rule_[finding.rule] > kMaxFindingsPerRule) {
    // An error beyond the limit is behind kMaxFindingsPerRule others: ok() does not depend on it.
    ++report_.findings_left_out;
    return;
  }
  finding.is_error = is_error;
  report_.findings.push_back(std::move(finding));
}

ScaleFault scale_fault(WeightFormat format, uint8_t code) {
  if (format == WeightFormat::kMxfp4)
    return code == formats::kUe8m0Nan ? ScaleFault::kNan : ScaleFault::kNone;
  if (formats::e4m3_is_nan(code)) return ScaleFault::kNan;
  if ((code & 0x7F) == 0) return ScaleFault::kZero;
  return (code & 0x80) != 0 ? ScaleFault::kNegative : ScaleFault::kNone;
}

size_t next_scale_fault(WeightFormat format, std::span<const uint8_t> scales, size_t from) {
  size_t i = from;
  while (i < scales.size()) {
    if (i + kChunk <= scales.size() && !chunk_has_fault(format, &scales[i])) {
      i += kChunk;
      continue;
    }
    for (const size_t end = std::min(i + kChunk, scales.size()); i < end; ++i)
      if (scale_fault(format, scales[i]) != ScaleFault::kNone) return i;
  }
  return scales.size();
}

void report_scale(WeightFormat format, uint8_t code, bool codes_are_zero, Finding at,
                  Findings& findings) {
  at.found = fmt::format("0x{:02X}", code);
  switch (scale_fault(format, code)) {
    case ScaleFault::kNone:
      return;
    case ScaleFault::kNan:
      at.rule = "scale-nan";
      at.wanted =
          fmt::format("a finite {} scale", format == WeightFormat::kMxfp4 ? "E8M0" : "E4M3");
      return findings.error(std::move(at));
    case ScaleFault::kZero:
      if (codes_are_zero) return;
      at.rule = "scale-zero-block";
      at.wanted = "a scale above 0: codes of the block are not zero";
      return findings.error(std::move(at));
    case ScaleFault::kNegative:
      at.rule = "scale-negative";
      at.wanted = "a scale above 0; read as its negative value";
      return findings.warning(std::move(at));
  }
}

void scan_scales(const ScaledCodes& t, Findings& findings) {
  const Dims& dims = t.scales->dims;
  const int64_t cols = dims.back(), rows = dims[dims.size() - 2];
  const int64_t pairs_per_scale = scale_block(t.format) / 2;
  const std::span scales(reinterpret_cast<const uint8_t*>(t.scales->data), t.scales->num_bytes());
  for (size_t i = 0; (i = next_scale_fault(t.format, scales, i)) < scales.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t row = at / cols;
    Finding finding;
    finding.tensor = *t.name;
    finding.expert = t.expert < 0 ? row / rows : t.expert;
    finding.row = row % rows;
    finding.column = at % cols;
    const bool zero = all_codes_zero(t.codes + at * pairs_per_scale, pairs_per_scale);
    report_scale(t.format, scales[i], zero, std::move(finding), findings);
  }
}

void scan_numbers(const std::string& name, const TensorView& tensor, bool is_gate,
                  Findings& findings) {
  for (int64_t i = 0, n = num_elems(tensor.dims); i < n; ++i) {
    const float v = tensor.dtype == Dtype::kBf16 ? formats::bf16_to_f32(load<Bf16>(tensor, i))
                                                 : load<float>(tensor, i);
    if (std::isfinite(v)) continue;
    Finding finding = finding_at(is_gate ? "gate-not-finite" : "value-not-finite", name, tensor, i);
    finding.found = fmt::format("{}", v);
    finding.wanted = "finite numbers";
    return is_gate ? findings.error(std::move(finding)) : findings.warning(std::move(finding));
  }
}

void scan_table(const std::string& name, const TensorView& tensor, int64_t experts,
                Findings& findings) {
  for (int64_t i = 0, n = num_elems(tensor.dims); i < n; ++i) {
    const int64_t id = load<int32_t>(tensor, i);
    if (id >= 0 && id < experts) continue;
    Finding finding = finding_at("table-id", name, tensor, i);
    finding.found = fmt::format("{}", id);
    finding.wanted = fmt::format("an expert in 0 ... {}", experts - 1);
    findings.error(std::move(finding));
  }
  scan_repeats(name, tensor, findings);
}

}  // namespace octet::checkpoint
