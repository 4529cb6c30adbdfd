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

// A refusal's own sentence ends in what was wanted; `wanted` is for one that does not.
Finding refusal(std::string rule, const Status& status, std::string wanted) {
  constexpr std::string_view kWanted = ", wanted ";
  Finding finding = whole_tensor(std::move(rule), {});
  const size_t at = status.why.rfind(kWanted);
  finding.found = status.why.substr(0, at);
  finding.wanted =
      at == std::string::npos ? std::move(wanted) : status.why.substr(at + kWanted.size());
  return finding;
}

// Of a configuration: key and value without the file and the object that they stand in.
Finding config_refusal(const std::filesystem::path& file, const Status& status,
                       std::string wanted) {
  Finding finding = refusal("config-mismatch", status, std::move(wanted));
  std::string& found = finding.found;
  const std::string start = file.string() + ": ";
  if (!found.starts_with(start)) return finding;
  found.erase(0, start.size());
  for (size_t at;
       (at = found.find(": ")) != std::string::npos && found.find_first_of(" \"{[") > at;)
    found.erase(0, at + 2);
  return finding;
}

std::filesystem::path config_path(const std::filesystem::path& path, const char* name) {
  std::error_code ignored;
  return (std::filesystem::is_directory(path, ignored) ? path : path.parent_path()) / name;
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
      const bool is_gate = p.plan->part != Part::kRowBias;
      scan_numbers(p.plan->name, *p.view, is_gate, findings_);
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
    const OtherTensor* other = store_.find_other(tensor.name);
    Finding finding = whole_tensor({}, tensor.name, tensor.expert);
    if (other != nullptr) {
      finding.rule = "unexpected-dtype";
      finding.found = other->dtype;
      finding.wanted = wanted_dtypes(tensor);
    } else if (view == nullptr) {
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
  const auto says = [&](std::string_view words) {
    return status.why.find(words) != std::string::npos;
  };
  if (status.code == Code::kIo) {
    return refusal(says("No such file") ? "no-such-file" : "unreadable-file", status,
                   "a file that can be read");
  }
  for (const char* name : {"config.json", "hf_quant_config.json"}) {
    const auto file = config_path(path, name);
    if (status.why.starts_with(file.string())) return config_refusal(file, status, "valid JSON");
  }
  constexpr std::pair<std::string_view, const char*> kRules[] = {
      {" is not in ", "missing-tensor"},  // index against shard
      {"no *.safetensors", "missing-tensor"},
      {kIndexName, "bad-index"},
      {"stands in two files", "duplicate-tensor"},
      {"wanted at least 8", "truncated-file"},
      {"header of ", "truncated-file"},
      {"lie outside the data", "truncated-file"},
      {"the file is empty", "truncated-file"},
  };
  for (const auto& [words, rule] : kRules) {
    if (says(words)) return refusal(rule, status, wanted);
  }
  return refusal("bad-header", status, wanted);
}

// Layers that are not there at all: between others, or of those that the configuration counts. A single file may be a
// part, and a folder may begin with a later layer (an extract).
void find_missing_layers(const Format& format, const TensorStore& store,
                         const std::vector<int64_t>& layers, Findings& findings) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(store.path(), ignored)) return;
  const auto num = format.num_layers();
  const auto name_of_layer = [&](int64_t n) {
    std::string name = format.plan(layers.front(), &store).tensors.front().name;
    const std::string own = fmt::format(".{}.", layers.front());
    return fmt::format("{}.{}.", name.substr(0, name.find(own)), n);
  };
  for (int64_t n = layers.front(), end = num.value_or(layers.back()); n < end; ++n) {
    if (std::binary_search(layers.begin(), layers.end(), n)) continue;
    if (format.is_other_layer(n, store)) continue;
    Finding finding = whole_tensor("missing-tensor", name_of_layer(n));
    finding.found = "none";
    finding.wanted =
        num ? fmt::format("{} MoE layers by config.json", *num)
            : fmt::format("MoE layers {} ... {} without a gap", layers.front(), layers.back());
    findings.error(std::move(finding));
  }
}

void validate_store(const TensorStore& store, const Progress& progress, ValidateReport& report) {
  Findings findings(report);
  auto format = make_format(store.config(), store.quant_config(), &store);
  if (!format.ok()) {
    const bool is_other = format.status().code == Code::kUnsupported;
    return findings.error(config_refusal(
        config_path(store.path(), "config.json"), format.status(),
        is_other ? fmt::format("one of {}", kFormatsBuilt) : "sizes that a layer can have"));
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
  find_missing_layers(**format, store, layers, findings);
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
