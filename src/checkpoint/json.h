// SPDX-License-Identifier: Apache-2.0
// Strict JSON: valid UTF-8, no duplicate keys, at most kMaxJsonDepth deep and kMaxJsonValues values. No exceptions.
// Only for this folder's .cc files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "octet/status.hpp"

namespace octet::checkpoint {

constexpr size_t kMaxJsonDepth = 64;
constexpr size_t kMaxJsonValues = size_t{16} << 20;

// `where` begins the message.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view where);

}  // namespace octet::checkpoint
