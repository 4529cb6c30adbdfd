// SPDX-License-Identifier: Apache-2.0
// octet validate: reads every weight and scale of a checkpoint and lists what is wrong.
#include "checkpoint/validate.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>

#include "command.h"
#include "console.h"
#include "core/printable.h"
#include "model_report.h"
#include "progress_bar.h"
#include "report.h"

namespace octet::tools {
namespace {

using checkpoint::Finding;
using checkpoint::ValidateReport;

// "TENSOR, expert 3, row 17, column 4: ": what applies.
std::string where(const Finding& f) {
  if (f.tensor.empty()) return {};  // the file or the configuration
  std::string text = f.tensor;
  if (f.expert >= 0) text += fmt::format(", expert {}", f.expert);
  if (f.row >= 0) text += fmt::format(", row {}", f.row);
  if (f.column >= 0) text += fmt::format(", column {}", f.column);
  return text + ": ";
}

Json finding_json(const Finding& f) {
  Json json = {{"severity", f.is_error ? "error" : "warning"}, {"tensor", f.tensor}};
  if (f.expert >= 0) json["expert"] = f.expert;
  if (f.row >= 0) json["row"] = f.row;
  if (f.column >= 0) json["column"] = f.column;
  json["found"] = f.found;
  json["wanted"] = f.wanted;
  json["rule"] = f.rule;
  return json;
}

// `model` is what inspect reports; null where nothing of it can be had.
void print_report_json(const ValidateReport& report, const Result<ModelReport>& model) {
  Json findings = Json::array();
  for (const Finding& f : report.findings) findings.push_back(finding_json(f));
  print_json({{"ok", report.ok()},
              {"format", report.format},
              {"layers", report.layers},
              {"tensors_read", report.tensors_read},
              {"findings", std::move(findings)},
              {"findings_left_out", report.findings_left_out},
              {"inspected", model.ok() ? to_json(*model) : Json()}});
}

void print_report(const ValidateReport& report, const Result<ModelReport>& model) {
  if (model.ok()) print(*model);
  for (const Finding& f : report.findings) {
    print_out("{}\n",
              printable(fmt::format("{} {}: {}found {}, want {}", f.is_error ? "error" : "warning",
                                    f.rule, where(f), f.found, f.wanted)));
  }
  if (report.findings_left_out > 0) {
    print_out("and {} more of the same rules\n", report.findings_left_out);
  }
  print_out("{}: {}, {} read: {}\n", report.format.empty() ? "unknown format" : report.format,
            count_text(report.layers, "layer"), count_text(report.tensors_read, "tensor"),
            report.ok() ? "ok" : "not ok");
}

Status verdict(const std::string& model, const ValidateReport& report) {
  const auto first = std::find_if(report.findings.begin(), report.findings.end(),
                                  [](const Finding& f) { return f.is_error; });
  if (first == report.findings.end()) return {};
  const auto errors = std::count_if(report.findings.begin(), report.findings.end(),
                                    [](const Finding& f) { return f.is_error; });
  return invalid_argument(fmt::format("{}: {}found {}, want {} ({} in all)", model, where(*first),
                                      first->found, first->wanted, count_text(errors, "error")));
}

}  // namespace

int validate_verb(const Args& args) {
  std::string model;
  bool json = false;
  CLI::App app;
  describe_verb(
      app, "validate",
      "Lists the MoE layers as octet inspect does, reads every weight and scale of them and\n"
      "lists what is wrong: missing tensors, shapes, dtypes, NaN, zero or negative scales,\n"
      "global factors, the configuration. Exit status 1 if there is an error, 0 for warnings.",
      "octet validate ckpt --json");
  app.add_option("model", model, "checkpoint folder, safetensors file or packed file")->required();
  app.add_flag("--json", json, "the report as JSON");
  if (const auto exit = parse(app, args)) return *exit;
  ValidateReport report;
  {
    ProgressBar bar("reading");
    report = checkpoint::validate(model, bar.callback());
  }
  const auto inspected = read_model(model, {}, {}, BrokenLayers::kLeftOut);  // they are findings
  if (json) {
    print_report_json(report, inspected);
  } else {
    print_report(report, inspected);
  }
  return finish(verdict(model, report), "validate");
}

}  // namespace octet::tools
