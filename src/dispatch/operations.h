// SPDX-License-Identifier: Apache-2.0
// The operations by name on named tensors: cli-contract.md's table. Every check of a call stands here, once for all backends.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/executor.h"
#include "core/tensor.h"
#include "dispatch/select.h"
#include "octet/status.hpp"

namespace octet::dispatch {

using Settings = std::map<std::string, std::string, std::less<>>;

struct OperationInfo {
  std::string_view name;
  std::string_view summary;                // one line
  std::vector<std::string_view> reads;     // tensor names; optional ones end in '?'
  std::vector<std::string_view> settings;  // keys of --set
  std::vector<std::string_view> writes;
};
std::span<const OperationInfo> operations();

// Outputs by name. kMisuse: no such operation or setting (with the nearest right one); kInvalidArgument: a tensor or value is
// wrong: "NAME: found, want". Inputs that the operation does not name are ignored. Nothing is half done.
Result<NamedTensors> run_operation(std::string_view name, const NamedViews& inputs,
                                   const Settings& settings, Backend backend, Executor& executor);

}  // namespace octet::dispatch
