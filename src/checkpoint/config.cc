// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/config.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/json.h"
#include "checkpoint/safetensors.h"

namespace octet::checkpoint {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;

}  // namespace

struct Config::Node {
  nlohmann::json value = nlohmann::json::object();
  std::string where;
  bool is_there = false;

  // Null: absent.
  const nlohmann::json* find(std::string_view key) const {
    const auto at = value.find(key);
    return at == value.end() || at->is_null() ? nullptr : &*at;
  }
  Status wrong(std::string_view key, std::string_view wanted) const {
    const nlohmann::json* found = find(key);
    std::string shown = found ? found->dump() : std::string("is missing");
    if (shown.size() > 80) shown = shown.substr(0, 77) + "...";
    return invalid_argument(fmt::format("{}: {} {}, wanted {}", where, key, shown, wanted));
  }
};

Config::Config() : node_(std::make_shared<Node>()) {}

Result<Config> Config::parse(std::string_view text, std::string_view where) {
  if (text.size() > kMaxConfigBytes) {
    return invalid_argument(
        fmt::format("{}: {} bytes, wanted at most {}", where, text.size(), kMaxConfigBytes));
  }
  OCTET_ASSIGN_OR_RETURN(nlohmann::json value, parse_json(text, where));
  if (!value.is_object()) {
    return invalid_argument(fmt::format("{}: {}, wanted an object", where, value.type_name()));
  }
  Config config;
  auto node = std::make_shared<Node>();
  node->value = std::move(value);
  node->where = where;
  node->is_there = true;
  config.node_ = std::move(node);
  return config;
}

Result<Config> Config::read(const std::filesystem::path& path) {
  OCTET_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

bool Config::has(std::string_view key) const { return node_->find(key) != nullptr; }
bool Config::is_absent() const { return !node_->is_there; }

bool Config::is_empty_list(std::string_view key) const {
  const nlohmann::json* found = node_->find(key);
  return found != nullptr && found->is_array() && found->empty();
}

Config Config::object(std::string_view key) const {
  Config inner;
  auto node = std::make_shared<Node>();
  node->where = fmt::format("{}: {}", node_->where, key);
  const nlohmann::json* found = node_->find(key);
  if (found != nullptr && found->is_object()) node->value = *found;
  inner.node_ = std::move(node);
  return inner;
}

Result<int64_t> Config::integer(std::string_view key, Range range,
                                std::optional<int64_t> fallback) const {
  const nlohmann::json* found = node_->find(key);
  if (found == nullptr && fallback) return *fallback;
  // An unsigned number beyond int64 would turn negative: it is out of every range.
  const bool is_int = found != nullptr && found->is_number_integer() &&
                      !(found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX);
  const int64_t value = is_int ? found->get<int64_t>() : 0;
  if (!is_int || value < range.least || value > range.most) {
    return node_->wrong(key, fmt::format("an integer in {} ... {}", range.least, range.most));
  }
  return value;
}

Result<double> Config::number(std::string_view key, std::optional<double> fallback) const {
  const nlohmann::json* found = node_->find(key);
  if (found == nullptr && fallback) return *fallback;
  if (found == nullptr || !found->is_number() || !std::isfinite(found->get<double>())) {
    return node_->wrong(key, "a finite number");
  }
  return found->get<double>();
}

Result<bool> Config::boolean(std::string_view key, std::optional<bool> fallback) const {
  const nlohmann::json* found = node_->find(key);
  if (found == nullptr && fallback) return *fallback;
  if (found == nullptr || !found->is_boolean()) return node_->wrong(key, "true or false");
  return found->get<bool>();
}

Result<std::string> Config::text(std::string_view key, std::optional<std::string> fallback) const {
  const nlohmann::json* found = node_->find(key);
  if (found == nullptr && fallback) return *std::move(fallback);
  if (found == nullptr || !found->is_string()) return node_->wrong(key, "a string");
  return found->get<std::string>();
}

}  // namespace octet::checkpoint
