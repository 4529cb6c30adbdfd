// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_store.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "checkpoint/json.h"

namespace octet::checkpoint {
namespace {

namespace fs = std::filesystem;

// Tensor name to shard file name.
Result<std::map<std::string, std::string>> read_index(const fs::path& path) {
  OCTET_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  const std::string where = path.string();
  OCTET_ASSIGN_OR_RETURN(
      const nlohmann::json root,
      parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, where));
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object()) {
    return invalid_argument(fmt::format("{}: no object weight_map", where));
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, shard] : root["weight_map"].items()) {
    if (!shard.is_string()) {
      return invalid_argument(
          fmt::format("{}: tensor {}: {}, wanted a file name", where, name, shard.type_name()));
    }
    const auto& text = shard.get_ref<const std::string&>();
    const fs::path as_path(text);
    if (text.empty() || text.find('\0') != std::string::npos || text == "." || text == ".." ||
        as_path.filename() != as_path) {
      return invalid_argument(
          fmt::format("{}: tensor {}: file {}, wanted a name in the folder itself", where, name,
                      nlohmann::json(text).dump()));
    }
    shard_of.emplace(name, text);
  }
  return shard_of;
}

Result<std::vector<fs::path>> files_by_ending(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".safetensors") paths.push_back(it->path());
  }
  if (error) return io_error(fmt::format("{}: {}", folder.string(), error.message()));
  if (paths.empty()) {
    return invalid_argument(fmt::format("{}: no *.safetensors in the folder", folder.string()));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<Config> config_if_there(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Config();
  return Config::read(path);
}

}  // namespace

Status TensorStore::add(SafetensorsFile file) {
  const auto twice = [&](const std::string& name) {
    return invalid_argument(fmt::format("{}: tensor {} stands in two files", path_.string(), name));
  };
  for (const auto& [name, view] : file.tensors()) {
    if (others_.contains(name) || !tensors_.emplace(name, view).second) return twice(name);
  }
  for (const auto& [name, other] : file.header().others) {
    if (tensors_.contains(name) || !others_.emplace(name, other).second) return twice(name);
  }
  files_->push_back(std::move(file));
  return {};
}

Status TensorStore::add_indexed(const fs::path& index) {
  OCTET_ASSIGN_OR_RETURN(const auto shard_of, read_index(index));
  std::map<std::string, std::set<std::string>> shards;
  for (const auto& [name, shard] : shard_of) shards.try_emplace(shard);
  for (auto& [shard, names] : shards) {
    OCTET_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path_ / shard));
    for (const auto& [name, view] : file.tensors()) names.insert(name);
    for (const auto& [name, other] : file.header().others) names.insert(name);
    OCTET_RETURN_IF_ERROR(add(std::move(file)));
  }
  for (const auto& [name, shard] : shard_of) {
    if (!shards[shard].contains(name)) {
      return invalid_argument(
          fmt::format("{}: tensor {} is not in {}", index.string(), name, shard));
    }
  }
  return {};
}

Result<TensorStore> TensorStore::open(const fs::path& path) {
  TensorStore store;
  store.path_ = path;
  store.files_ = std::make_shared<std::vector<SafetensorsFile>>();
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  const fs::path folder = is_folder ? path : path.parent_path();
  OCTET_ASSIGN_OR_RETURN(store.config_, config_if_there(folder / "config.json"));
  OCTET_ASSIGN_OR_RETURN(store.quant_, config_if_there(folder / "hf_quant_config.json"));
  if (is_folder && fs::exists(path / kIndexName, ignored)) {
    OCTET_RETURN_IF_ERROR(store.add_indexed(path / kIndexName));
    return store;
  }
  std::vector<fs::path> paths = {path};
  if (is_folder) {
    OCTET_ASSIGN_OR_RETURN(paths, files_by_ending(path));
  }
  for (const fs::path& p : paths) {
    OCTET_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(p));
    OCTET_RETURN_IF_ERROR(store.add(std::move(file)));
  }
  return store;
}

const TensorView* TensorStore::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

const OtherTensor* TensorStore::find_other(std::string_view name) const {
  const auto at = others_.find(name);
  return at == others_.end() ? nullptr : &at->second;
}

bool TensorStore::has_prefix(std::string_view prefix) const {
  const auto has = [&](const auto& named) {
    const auto at = named.lower_bound(prefix);
    return at != named.end() && at->first.starts_with(prefix);
  };
  return has(tensors_) || has(others_);
}

std::vector<int64_t> TensorStore::numbers(std::string_view before, std::string_view after) const {
  std::set<int64_t> found;
  const auto add_name = [&](std::string_view name) {
    const std::string_view rest = name.substr(before.size());
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits == 0 || digits > 9 || (digits > 1 && rest[0] == '0')) return;
    if (!rest.substr(digits).starts_with(after)) return;
    int64_t number = 0;
    std::from_chars(rest.data(), rest.data() + digits, number);
    found.insert(number);
  };
  const auto add_all = [&](const auto& named) {
    for (auto at = named.lower_bound(before); at != named.end() && at->first.starts_with(before);
         ++at)
      add_name(at->first);
  };
  add_all(tensors_);
  add_all(others_);
  return {found.begin(), found.end()};
}

}  // namespace octet::checkpoint
