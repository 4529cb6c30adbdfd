// SPDX-License-Identifier: Apache-2.0
// A configuration file (config.json, hf_quant_config.json) with typed, range-checked values.
// A key that is null counts as absent. Errors say file, key, value found and value wanted:
// "config.json: hidden_size \"big\", wanted an integer in 1 ... 1048576".
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "octet/status.hpp"

namespace octet::checkpoint {

class Config {
 public:
  Config();  // of a file that is not there: no keys
  // A JSON object without duplicate keys.
  static Result<Config> parse(std::string_view text, std::string_view where);
  static Result<Config> read(const std::filesystem::path& path);

  bool has(std::string_view key) const;
  bool is_absent() const;  // not even {}
  bool is_empty_list(std::string_view key) const;
  // The object under `key`; without keys if there is none.
  Config object(std::string_view key) const;

  struct Range {
    int64_t least, most;
  };
  // Without a fallback the key must be there.
  Result<int64_t> integer(std::string_view key, Range range,
                          std::optional<int64_t> fallback = {}) const;
  Result<double> number(std::string_view key, std::optional<double> fallback = {}) const;
  Result<bool> boolean(std::string_view key, std::optional<bool> fallback = {}) const;
  Result<std::string> text(std::string_view key, std::optional<std::string> fallback = {}) const;

 private:
  struct Node;
  std::shared_ptr<const Node> node_;
};

}  // namespace octet::checkpoint
