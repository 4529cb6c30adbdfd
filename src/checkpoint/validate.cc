// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/validate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "checkpoint/format.h"
#include "checkpoint/other_formats.h"
#include "checkpoint/tensor_store.h"
#include "checkpoint/validate_packed.h"
#include "checkpoint/validate_scan.h"
#include "formats/e4m3.h"

namespace octet::checkpoint {
namespace {

// Beyond this no weight of a model lies. A factor that puts the largest weight of its tensor above it, and its reciprocal
// does not, is a divisor in a multiplier's place (compressed-tensors' weight_global_scale is ModelOpt's reciprocal).
constexpr double kPlausibleWeight = 512.0;

Finding whole_tensor(std::string rule, std::string tensor, int64_t expert = -1) {
  Finding finding;
  finding.rule = std::move(rule);
  finding.tensor = std::move(tensor);
  finding.expert = expert;
  return finding;
}

Finding refusal(std::string rule, const Status& status, std::string wanted) {
  Finding finding = whole_tensor(std::move(rule), {});
  finding.found = status.why;
  finding.wanted = std::move(wanted);
  return finding;
}

// A tensor that is there with the dtype and shape that the format wants.
struct Present {
  const TensorPlan* plan;
  const TensorView* view;
};

// The tensors of one matrix of one expert, or of all experts where they are stacked.
struct MatrixTensors {
  Present codes{}, scales{}, factor{};
};

class LayerCheck {
 public:
  LayerCheck(const LayerPlan& plan, const TensorStore& store, Findings& findings)
      : plan_(plan), store_(store), findings_(findings) {}

  // Bytes that are read by `scan`; lists what is missing or of another kind.
  int64_t collect() {
    int64_t bytes = 0;
    for (const TensorPlan& tensor : plan_.tensors) {
      const Present present{&tensor, find(tensor)};
      if (present.view == nullptr) continue;
      ++num_present_;
      bytes += read_bytes(present);
      MatrixTensors& m = matrices_[{tensor.expert, tensor.matrix}];
      if (tensor.part == Part::kCodes) m.codes = present;
      if (tensor.part == Part::kScales) m.scales = present;
      if (tensor.part == Part::kFactor) m.factor = present;
      if (is_numbers(tensor.part)) numbers_.push_back(present);
      if (tensor.part == Part::kTable) table_ = present;
    }
    return bytes;
  }
  int64_t num_present() const { return num_present_; }

  // Experts beyond those of the configuration: it belongs to another model.
  void find_surplus() {
    const TensorPlan& last = plan_.tensors.back();
    const std::string own = fmt::format(".{}.", last.expert);
    const size_t at = last.expert < 0 ? std::string::npos : last.name.rfind(own);
    if (at == std::string::npos) return;
    const std::string next = fmt::format("{}.{}.", last.name.substr(0, at), last.expert + 1);
    if (!store_.has_prefix(next)) return;
    Finding finding = whole_tensor("config-mismatch", next + "*", last.expert + 1);
    finding.found = "tensors of an expert that the configuration does not have";
    finding.wanted = fmt::format("experts 0 ... {}", last.expert);
    findings_.error(std::move(finding));
  }

  // `read(bytes)` after each tensor.
  void scan(const std::function<void(int64_t)>& read) {
    for (const Present& p : numbers_) {
      scan_numbers(p.plan->name, *p.view, findings_);
      read(read_bytes(p));
    }
    if (table_.view != nullptr) {
      scan_table(table_.plan->name, *table_.view, plan_.spec.experts, findings_);
      read(read_bytes(table_));
    }
    for (const auto& [key, m] : matrices_) {
      if (m.scales.view != nullptr && m.codes.view != nullptr) {
        scan_scales({plan_.spec.weights, &m.scales.plan->name, m.scales.view,
                     m.codes.view->as<uint8_t>(), key.first},
                    findings_);
        read(read_bytes(m.scales));
      }
      if (m.factor.view != nullptr) check_factor(m);
      const auto gate = matrices_.find({key.first, Matrix::kGate});
      if (key.second == Matrix::kUp && gate != matrices_.end()) compare_factors(gate->second, m);
    }
  }

 private:
  static bool is_numbers(Part part) {
    return part == Part::kGateWeight || part == Part::kLogitBias || part == Part::kBias ||
           part == Part::kBiasVl || part == Part::kRowBias;
  }
  // Codes are read only under a zero scale: every nibble is a number. A factor is not worth a step of the progress.
  static int64_t read_bytes(const Present& p) {
    const bool is_free = p.plan->part == Part::kCodes || p.plan->part == Part::kFactor;
    return is_free ? 0 : static_cast<int64_t>(p.view->num_bytes());
  }

  const TensorView* find(const TensorPlan& tensor) {
    const TensorView* view = store_.find(tensor.name);
    Finding finding = whole_tensor({}, tensor.name, tensor.expert);
    if (view == nullptr) {
      finding.rule = "missing-tensor";
      finding.found = "no such tensor";
      finding.wanted = fmt::format("{} {}", wanted_dtypes(tensor), wanted_dims(tensor));
    } else if (!check_dtype(tensor, *view).ok()) {
      finding.rule = "unexpected-dtype";
      finding.found = dtype_name(view->dtype);
      finding.wanted = wanted_dtypes(tensor);
    } else if (!check_shape(tensor, *view).ok()) {
      finding.rule = "unexpected-shape";
      finding.found = to_string(view->dims);
      finding.wanted = wanted_dims(tensor);
    } else {
      return view;
    }
    findings_.error(std::move(finding));
    return nullptr;
  }

  static float factor_of(const Present& factor) {
    float value = 0;  // files need not be aligned
    std::memcpy(&value, factor.view->data, sizeof(value));
    return value;
  }

  void check_factor(const MatrixTensors& m) {
    const float factor = factor_of(m.factor);
    Finding finding = whole_tensor({}, m.factor.plan->name, m.factor.plan->expert);
    finding.found = fmt::format("{}", factor);
    if (!(factor > 0) || std::isinf(factor)) {
      finding.rule = "global-scale-invalid";
      finding.wanted = "a finite number above 0";
      return findings_.error(std::move(finding));
    }
    if (m.scales.view == nullptr) return;
    const auto largest = static_cast<double>(largest_scale(*m.scales.view)) * 6.0;
    if (largest * static_cast<double>(factor) > kPlausibleWeight &&
        largest / static_cast<double>(factor) <= kPlausibleWeight) {
      finding.rule = "global-scale-reciprocal";
      finding.wanted =
          fmt::format("a multiplier, amax / 2688; weights reach {:g} with it, {:g} with {:g}",
                      largest * static_cast<double>(factor), largest / static_cast<double>(factor),
                      1.0F / factor);
      findings_.error(std::move(finding));
    }
  }

  static float largest_scale(const TensorView& scales) {
    const auto* codes = scales.as<uint8_t>();
    uint8_t largest = 0;  // magnitudes are in the order of their codes; NaN is not a number
    for (size_t i = 0, n = scales.num_bytes(); i < n; ++i) {
      const auto magnitude = static_cast<uint8_t>(codes[i] & 0x7F);
      largest = std::max(largest, magnitude == formats::kE4m3Nan ? uint8_t{0} : magnitude);
    }
    return formats::e4m3_to_f32(largest);
  }

  void compare_factors(const MatrixTensors& gate, const MatrixTensors& up) {
    if (gate.factor.view == nullptr || up.factor.view == nullptr) return;
    if (factor_of(gate.factor) == factor_of(up.factor)) return;
    Finding finding =
        whole_tensor("gate-up-scales-differ", up.factor.plan->name, up.factor.plan->expert);
    finding.found = fmt::format("{}", factor_of(up.factor));
    finding.wanted =
        fmt::format("the gate's {}; handled, each with its own", factor_of(gate.factor));
    findings_.warning(std::move(finding));
  }

  const LayerPlan& plan_;
  const TensorStore& store_;
  Findings& findings_;
  std::map<std::pair<int64_t, Matrix>, MatrixTensors> matrices_;
  std::vector<Present> numbers_;
  Present table_{};
  int64_t num_present_ = 0;
};

// The rule that a failure to open falls under.
Finding open_failure(const std::filesystem::path& path, const Status& status) {
  const std::string wanted = "a checkpoint folder, a safetensors file or a packed file, whole";
  for (const char* name : {"config.json", "hf_quant_config.json"}) {
    const std::string start = (path / name).string();
    if (status.why.starts_with(start)) return refusal("config-mismatch", status, "valid JSON");
  }
  const bool is_absent =
      status.why.find(" is not in ") != std::string::npos ||  // index against shard
      status.why.find("no *.safetensors") != std::string::npos;
  return refusal(is_absent ? "missing-tensor" : "truncated-file", status, wanted);
}

void validate_store(const TensorStore& store, const Progress& progress, ValidateReport& report) {
  Findings findings(report);
  auto format = make_format(store.config(), store.quant_config(), &store);
  if (!format.ok()) {
    return findings.error(
        refusal("config-mismatch", format.status(), fmt::format("one of {}", kFormatsBuilt)));
  }
  report.format = (*format)->name();
  const std::vector<int64_t> layers = (*format)->layers(store);
  report.layers = static_cast<int64_t>(layers.size());
  if (layers.empty()) {
    Finding none = whole_tensor("missing-tensor", {});
    none.found = "no layer with experts";
    none.wanted = fmt::format("at least one, named as {} does", report.format);
    return findings.error(std::move(none));
  }
  std::vector<LayerPlan> plans;
  for (const int64_t n : layers) plans.push_back((*format)->plan(n, &store));
  std::vector<LayerCheck> checks;
  int64_t total = 0, done = 0;
  for (const LayerPlan& plan : plans) {
    if (const Status status = check_spec(plan.spec); !status.ok())
      return findings.error(refusal("config-mismatch", status, "sizes that a layer can have"));
    total += checks.emplace_back(plan, store, findings).collect();
    report.tensors_read += checks.back().num_present();
    checks.back().find_surplus();
  }
  for (LayerCheck& check : checks) {
    check.scan([&](int64_t bytes) {
      done += bytes;
      if (progress) progress(done, total);
    });
  }
}

}  // namespace

bool ValidateReport::ok() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& f) { return f.is_error; });
}

ValidateReport validate(const std::filesystem::path& path, const Progress& progress) {
  ValidateReport report;
  if (const Status status = check_is_readable_format(path); !status.ok()) {
    const bool is_other = status.code == Code::kUnsupported;
    Findings(report).error(refusal(is_other ? "unsupported-format" : "no-such-file", status,
                                   "a checkpoint folder, a safetensors file or a packed file"));
    return report;
  }
  const Result<TensorStore> store = TensorStore::open(path);
  if (!store.ok()) {
    Findings(report).error(open_failure(path, store.status()));
  } else if (is_packed(*store)) {
    validate_packed(path, *store, progress, report);
  } else {
    validate_store(*store, progress, report);
  }
  return report;
}

}  // namespace octet::checkpoint
