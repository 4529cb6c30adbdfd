// SPDX-License-Identifier: Apache-2.0
// Reads every weight and scale of a checkpoint's MoE layers and lists what is wrong. cli-contract.md, `validate --json`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/progress.h"
#include "octet/status.hpp"

namespace octet::checkpoint {

struct Finding {
  bool is_error = true;  // else a warning
  std::string
      rule;  // missing-tensor, unexpected-shape, unexpected-dtype, scale-nan, scale-zero-block, scale-negative,
  // global-scale-invalid, global-scale-reciprocal, gate-up-scales-differ, gate-not-finite, value-not-finite, table-id, table-repeat,
  // truncated-file, bad-header, bad-index, duplicate-tensor, config-mismatch, checksum, no-such-file, unreadable-file, unsupported-format
  std::string tensor;
  int64_t expert = -1, row = -1, column = -1;  // -1: does not apply
  std::string found, wanted;
};

struct ValidateReport {
  std::string format;
  int64_t layers = 0;
  int64_t tensors_read = 0;
  std::vector<Finding> findings;
  int64_t findings_left_out = 0;  // beyond the first kMaxFindingsPerRule of each rule
  bool ok() const;                // no error
};
constexpr int64_t kMaxFindingsPerRule = 20;

// Never fails: what stops the reading is a finding.
ValidateReport validate(const std::filesystem::path& path, const Progress& progress = {});

}  // namespace octet::checkpoint
