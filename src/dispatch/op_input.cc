// SPDX-License-Identifier: Apache-2.0
#include "dispatch/op_input.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "core/nearest.h"
#include "core/printable.h"

namespace octet::dispatch {
namespace {

// A tensor without elements can claim any shape without a byte behind it; nothing real is longer than this.
constexpr int64_t kMaxEmptyDim = int64_t{1} << 24;
constexpr size_t kMaxRank = 8;
// Outputs are at most so many bytes, and so many times the inputs': the most that any real call needs is about 200 times
// (moe_sort with 192 rows a tile). So no small file makes the machine run out of memory.
constexpr int64_t kFreeOutputBytes = int64_t{256} << 20;
constexpr int64_t kOutputPerInput = 256;

std::string wanted_text(std::initializer_list<Dtype> dtypes, const std::vector<WantedDim>& dims) {
  std::string text;
  for (const Dtype d : dtypes) {
    text += text.empty() ? "" : " or ";
    text += dtype_name(d);
  }
  text += " [";
  for (size_t i = 0; i < dims.size(); ++i) {
    text += i == 0 ? "" : ", ";
    text += dims[i].name != nullptr ? dims[i].name : std::to_string(dims[i].size);
  }
  return text + "]";
}

bool fits(const Dims& found, const std::vector<WantedDim>& wanted) {
  if (found.size() != wanted.size()) return false;
  for (size_t i = 0; i < found.size(); ++i) {
    if (wanted[i].name == nullptr && found[i] != wanted[i].size) return false;
  }
  return true;
}

Status wrong(std::string_view name, const TensorView& found, const std::string& wanted) {
  return invalid_argument(fmt::format("{}: {} {}, want {}", name, dtype_name(found.dtype),
                                      to_string(found.dims), wanted));
}

// Whether sizes are such that no product of a few of them can overflow.
Status check_sane(std::string_view name, const TensorView& t) {
  if (t.dims.size() > kMaxRank) {
    return invalid_argument(
        fmt::format("{}: {} dimensions, want at most {}", name, t.dims.size(), kMaxRank));
  }
  const bool empty = std::find(t.dims.begin(), t.dims.end(), 0) != t.dims.end();
  int64_t elems = 1;
  for (const int64_t d : t.dims) {
    if (d < 0 || d > (empty ? kMaxEmptyDim : std::numeric_limits<int64_t>::max() / 16 / elems)) {
      return invalid_argument(fmt::format("{}: dimension {}, want 0..{}", name, d, kMaxEmptyDim));
    }
    if (!empty) elems *= d;
  }
  if (!empty && t.data == nullptr) return invalid_argument(fmt::format("{}: no data", name));
  return {};
}

// [-+]? ( digits [. digits?] | . digits ) ( e [-+]? digits )?
bool is_number(std::string_view s) {
  size_t i = 0;
  const auto sign = [&] { i += i < s.size() && (s[i] == '-' || s[i] == '+') ? 1 : 0; };
  const auto digits = [&] {
    const size_t from = i;
    while (i < s.size() && s[i] >= '0' && s[i] <= '9') ++i;
    return i - from;
  };
  sign();
  size_t mantissa = digits();
  if (i < s.size() && s[i] == '.') {
    ++i;
    mantissa += digits();
  }
  if (mantissa == 0) return false;
  if (i < s.size() && s[i] == 'e') {
    ++i;
    sign();
    if (digits() == 0) return false;
  }
  return i == s.size();
}

}  // namespace

Status check_multiple(std::string_view name, std::string_view what, int64_t found, int64_t of,
                      int64_t least) {
  if (found % of == 0 && found >= least) return {};
  return invalid_argument(fmt::format("{}: {} {}, want a {}multiple of {}", name, what, found,
                                      least > 0 ? "positive " : "", of));
}

Status OpCall::missing(std::string_view name, const std::string& want) const {
  std::vector<std::string_view> others;  // in the file, and nothing that the operation reads
  for (const auto& input : inputs_) {
    const std::string_view found = input.first;  // clang 14 captures no structured binding
    const bool read = std::any_of(info_.reads.begin(), info_.reads.end(), [&](auto r) {
      return r == found || (r.ends_with('?') && r.substr(0, r.size() - 1) == found);
    });
    if (!read) others.push_back(found);
  }
  // Half of the letters right at least: w2 is no misspelt w13.
  const auto twin = nearest(name, others);
  if (twin && 2 * edit_distance(name, *twin) <= name.size()) {
    return invalid_argument(
        fmt::format("{}: missing (found {}, did you mean that?)", name, shown(*twin)));
  }
  return invalid_argument(
      fmt::format("{}: missing{}{}", name, want.empty() ? "" : ", want ", want));
}

TensorView OpCall::aligned(const TensorView& view) {
  input_bytes_ += static_cast<int64_t>(view.num_bytes());
  if (view.data != nullptr && reinterpret_cast<uintptr_t>(view.data) % kTensorAlignment == 0) {
    return view;
  }
  return aligned_.emplace_back(copy_of(view)).view();
}

Result<TensorView> OpCall::need_any(std::string_view name) {
  const auto it = inputs_.find(name);
  if (it == inputs_.end()) return missing(name);
  OCTET_RETURN_IF_ERROR(check_sane(name, it->second));
  return aligned(it->second);
}

Result<TensorView> OpCall::need(std::string_view name, std::initializer_list<Dtype> dtypes,
                                const std::vector<WantedDim>& dims) {
  const auto it = inputs_.find(name);
  if (it == inputs_.end()) return missing(name, wanted_text(dtypes, dims));
  const TensorView& found = it->second;
  if (std::find(dtypes.begin(), dtypes.end(), found.dtype) == dtypes.end() ||
      !fits(found.dims, dims)) {
    return wrong(name, found, wanted_text(dtypes, dims));
  }
  return need_any(name);
}

Result<TensorView> OpCall::need_any_rank(std::string_view name,
                                         std::initializer_list<Dtype> dtypes) {
  const auto it = inputs_.find(name);
  if (it == inputs_.end()) return missing(name, wanted_text(dtypes, {"...", "K"}));
  const TensorView& found = it->second;
  if (std::find(dtypes.begin(), dtypes.end(), found.dtype) == dtypes.end() || found.dims.empty()) {
    return wrong(name, found, wanted_text(dtypes, {"...", "K"}));
  }
  return need_any(name);
}

Result<TensorView> OpCall::maybe(std::string_view name, std::initializer_list<Dtype> dtypes,
                                 const std::vector<WantedDim>& dims) {
  return has(name) ? need(name, dtypes, dims) : TensorView{};
}

Result<double> OpCall::real(std::string_view key, std::optional<double> otherwise) const {
  const auto it = settings_.find(key);
  if (it == settings_.end()) {
    if (otherwise) return *otherwise;
    return invalid_argument(fmt::format("{}: missing, want --set {}=NUMBER", key, key));
  }
  std::string_view text = it->second;
  if (!is_number(text)) {
    return invalid_argument(fmt::format("{}: '{}' is no number", key, shown(text)));
  }
  if (text.front() == '+') text.remove_prefix(1);
  double v = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), v).ec != std::errc()) {
    return invalid_argument(fmt::format("{}: {} is out of range", key, shown(text)));
  }
  return v;
}

Result<int64_t> OpCall::integer(std::string_view key, IntRange range,
                                std::optional<int64_t> otherwise) const {
  const std::optional<double> fallback =
      otherwise ? std::optional(static_cast<double>(*otherwise)) : std::nullopt;
  OCTET_ASSIGN_OR_RETURN(const double v, real(key, fallback));
  if (v != std::trunc(v)) {
    return invalid_argument(fmt::format("{}: {} is no whole number", key, v));
  }
  if (v < static_cast<double>(range.min) || v > static_cast<double>(range.max)) {
    return invalid_argument(fmt::format("{} {:.17g}, want {}..{}", key, v, range.min, range.max));
  }
  return static_cast<int64_t>(v);
}

Result<float> OpCall::number(std::string_view key, std::optional<float> otherwise) const {
  const std::optional<double> fallback =
      otherwise ? std::optional(static_cast<double>(*otherwise)) : std::nullopt;
  OCTET_ASSIGN_OR_RETURN(const double v, real(key, fallback));
  const float f = static_cast<float>(v);
  if (!std::isfinite(f)) {
    return invalid_argument(fmt::format("{} {}, want a finite binary32 number", key, v));
  }
  return f;
}

Result<size_t> OpCall::choice(std::string_view key, const std::vector<std::string_view>& names,
                              std::optional<size_t> otherwise) const {
  std::string all;
  for (size_t i = 0; i < names.size(); ++i) {
    all += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    all += names[i];
  }
  const auto it = settings_.find(key);
  if (it == settings_.end()) {
    if (otherwise) return *otherwise;
    return invalid_argument(fmt::format("{}: missing, want {}", key, all));
  }
  const auto found = std::find(names.begin(), names.end(), it->second);
  if (found == names.end()) {
    return invalid_argument(fmt::format("{} {}: want {}", key, shown(it->second), all));
  }
  return static_cast<size_t>(found - names.begin());
}

Result<Tensor*> OpCall::allocate(std::string_view name, Dtype dtype, const Dims& dims,
                                 std::string_view culprit) {
  const int64_t most = kFreeOutputBytes + kOutputPerInput * input_bytes_;
  int64_t bytes = static_cast<int64_t>(dtype_bytes(dtype));
  const bool empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  for (const int64_t d : dims) {
    if (d < 0 || (!empty && d > most / bytes)) {
      return invalid_argument(fmt::format("{}: {} would be {} {}, want at most {} bytes", culprit,
                                          name, dtype_name(dtype), to_string(dims), most));
    }
    bytes = empty ? 0 : bytes * d;
  }
  output_bytes_ += bytes;
  if (output_bytes_ > most) {
    return invalid_argument(fmt::format("{}: {} outputs of {} bytes and more, want at most {}",
                                        culprit, info_.name, output_bytes_, most));
  }
  return &(outputs_[std::string(name)] = Tensor(dtype, dims));
}

}  // namespace octet::dispatch
