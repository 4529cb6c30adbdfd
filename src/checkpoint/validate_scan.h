// SPDX-License-Identifier: Apache-2.0
// What validate() looks for in one tensor, and the list of what it found.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "checkpoint/validate.h"
#include "core/shape.h"
#include "core/tensor.h"

namespace octet::checkpoint {

// Keeps the first kMaxFindingsPerRule of each rule and counts the others.
class Findings {
 public:
  explicit Findings(ValidateReport& report) : report_(report) {}
  void error(Finding finding) { add(true, std::move(finding)); }
  void warning(Finding finding) { add(false, std::move(finding)); }

 private:
  void add(bool is_error, Finding finding);
  ValidateReport& report_;
  std::map<std::string, int64_t> num_by_rule_;
};

// NaN, a zero of either sign, a negative number. UE8M0 has only the first.
enum class ScaleFault : uint8_t { kNone, kNan, kZero, kNegative };
ScaleFault scale_fault(WeightFormat format, uint8_t code);

// The first index at or after `from` whose scale is at fault; scales.size() if there is none. Reads at memory speed.
size_t next_scale_fault(WeightFormat format, std::span<const uint8_t> scales, size_t from);

// One faulty scale as a finding: `at` has tensor, expert, row and column. A zero over zero codes is none.
void report_scale(WeightFormat format, uint8_t code, bool codes_are_zero, Finding at,
                  Findings& findings);

// Every scale of a tensor [(experts,) rows, blocks], with the codes that it scales: one block after another, as scales are.
struct ScaledCodes {
  WeightFormat format;
  const std::string* name;  // of the scales
  const TensorView* scales;
  const uint8_t* codes;
  int64_t expert;  // negative: the first axis
};
void scan_scales(const ScaledCodes& tensor, Findings& findings);

// The first number of a BF16 or F32 tensor that is not finite: of the gate an error, as no choice of experts that such a number
// leads to is the model's; of an expert's bias a warning.
void scan_numbers(const std::string& name, const TensorView& tensor, bool is_gate,
                  Findings& findings);
// Ids of a table that are not in 0 ... experts - 1, as errors; the first row that names an expert twice, as a warning.
void scan_table(const std::string& name, const TensorView& tensor, int64_t experts,
                Findings& findings);

}  // namespace octet::checkpoint
