// SPDX-License-Identifier: Apache-2.0
#include "run_file.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "ptxsim/machine/random.h"

namespace octet::ptxsim::tool {
namespace {

using Json = nlohmann::json;

Status check_keys(const Json& node, std::string_view what,
                  std::initializer_list<std::string_view> known) {
  if (!node.is_object()) return invalid_argument(fmt::format("{}: want an object", what));
  for (const auto& [key, value] : node.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return invalid_argument(fmt::format("{}: '{}' is not known", what, key));
    }
  }
  return {};
}

Result<machine::Dim3> dim_of(const Json& run, const char* name) {
  machine::Dim3 dim;
  if (!run.contains(name)) return dim;
  const Json& from = run[name];
  uint32_t* parts[] = {&dim.x, &dim.y, &dim.z};
  if (!from.is_array() || from.empty() || from.size() > 3)
    return invalid_argument(fmt::format("{}: want one to three numbers", name));
  for (size_t i = 0; i < from.size(); ++i) {
    if (!from[i].is_number_unsigned())
      return invalid_argument(fmt::format("{}: want one to three numbers", name));
    *parts[i] = from[i];
  }
  return dim;
}

struct Filled {
  std::vector<uint8_t> bytes;
  uint64_t count = 0;
  bool is_set = false;
};

Result<Filled> fill(const std::string& name, const Json& node) {
  OCTET_RETURN_IF_ERROR(
      check_keys(node, name, {"file", "bytes", "fill", "random", "is_read_only"}));
  Filled filled;
  if (node.contains("file")) {
    if (!node["file"].is_string()) return invalid_argument(name + ": want a file's name");
    OCTET_ASSIGN_OR_RETURN(const std::string read, read_file(node["file"]));
    filled.bytes.assign(read.begin(), read.end());
    filled.count = read.size();
    filled.is_set = true;
    return filled;
  }
  if (!node.contains("bytes") || !node["bytes"].is_number_unsigned())
    return invalid_argument(name + ": want \"file\" or \"bytes\"");
  filled.count = node["bytes"];
  filled.is_set = node.contains("fill") || node.contains("random");
  if (!filled.is_set) return filled;
  filled.bytes.resize(filled.count);
  if (node.contains("fill")) {
    if (!node["fill"].is_number_unsigned())
      return invalid_argument(name + ": want a byte to fill with");
    std::fill(filled.bytes.begin(), filled.bytes.end(), node["fill"].get<uint8_t>());
  } else {
    if (!node["random"].is_number_unsigned()) return invalid_argument(name + ": want a seed");
    machine::Random random(node["random"].get<uint64_t>());
    for (uint8_t& byte : filled.bytes) byte = uint8_t(random.next());
  }
  return filled;
}

Status make_buffers(const Json& run, machine::GlobalMemory& memory, RunFile* into) {
  if (!run.contains("buffers")) return {};
  if (!run["buffers"].is_object()) return invalid_argument("buffers: want an object");
  for (const auto& [name, node] : run["buffers"].items()) {
    OCTET_ASSIGN_OR_RETURN(const Filled filled, fill(name, node));
    const uint64_t at = memory.allocate(name, filled.count, node.value("is_read_only", false));
    if (filled.is_set) OCTET_RETURN_IF_ERROR(memory.write(at, filled.bytes));
    into->buffers[name] = at;
    into->sizes[name] = filled.count;
  }
  return {};
}

void align(std::vector<uint8_t>& bytes, size_t to) {
  bytes.resize((bytes.size() + to - 1) / to * to);
}

template <class T>
void append(std::vector<uint8_t>& bytes, T value) {
  align(bytes, sizeof(T));
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// One field: its bytes behind what is there. `widest`: the alignment of what it stands in.
Status add_field(const Json& node, const RunFile& run, std::vector<uint8_t>& bytes,
                 size_t* widest) {
  if (!node.is_object() || node.size() != 1)
    return invalid_argument("a parameter: want an object of one name");
  const std::string kind = node.begin().key();
  const Json& value = node.begin().value();
  const auto number = [&](auto zero) -> Status {
    if (!value.is_number())
      return invalid_argument(fmt::format("parameter {}: want a number", node.dump()));
    *widest = std::max(*widest, sizeof(zero));
    append(bytes, value.get<decltype(zero)>());
    return {};
  };
  if (kind == "buffer") {
    if (!value.is_string() || !run.buffers.contains(value))
      return invalid_argument(fmt::format("parameter {}: no such buffer", node.dump()));
    *widest = std::max(*widest, sizeof(uint64_t));
    append(bytes, run.buffers.at(value));
    return {};
  }
  if (kind == "u8") return number(uint8_t{});
  if (kind == "i32") return number(int32_t{});
  if (kind == "u32") return number(uint32_t{});
  if (kind == "i64") return number(int64_t{});
  if (kind == "u64") return number(uint64_t{});
  if (kind == "f32") return number(float{});
  if (kind != "struct" || !value.is_array())
    return invalid_argument(fmt::format("parameter {}: not known", node.dump()));
  std::vector<uint8_t> inner;
  size_t inner_widest = 1;
  for (const Json& field : value)
    OCTET_RETURN_IF_ERROR(add_field(field, run, inner, &inner_widest));
  align(inner, inner_widest);
  align(bytes, inner_widest);
  bytes.insert(bytes.end(), inner.begin(), inner.end());
  *widest = std::max(*widest, inner_widest);
  return {};
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return io_error(path + ": cannot be read");
  return std::string{std::istreambuf_iterator<char>(in), {}};
}

Result<RunFile> read_run(const std::string& path, machine::GlobalMemory& memory) {
  OCTET_ASSIGN_OR_RETURN(const std::string source, read_file(path));
  const Json run = Json::parse(source, nullptr, false);
  if (run.is_discarded()) return invalid_argument(path + ": not JSON");
  OCTET_RETURN_IF_ERROR(check_keys(
      run, path,
      {"kernel", "grid", "block", "cluster", "shared_bytes", "buffers", "parameters", "write"}));
  RunFile into;
  into.kernel = run.value("kernel", "");
  into.shared_bytes = run.value("shared_bytes", 0u);
  OCTET_ASSIGN_OR_RETURN(into.grid, dim_of(run, "grid"));
  OCTET_ASSIGN_OR_RETURN(into.block, dim_of(run, "block"));
  OCTET_ASSIGN_OR_RETURN(into.cluster, dim_of(run, "cluster"));
  OCTET_RETURN_IF_ERROR(make_buffers(run, memory, &into));
  size_t widest = 1;
  for (const Json& node : run.value("parameters", Json::array())) {
    OCTET_RETURN_IF_ERROR(add_field(node, into, into.parameters, &widest));
  }
  const Json write = run.value("write", Json::object());
  for (const auto& [name, file] : write.items()) {
    if (!into.buffers.contains(name) || !file.is_string())
      return invalid_argument(fmt::format("write: '{}' is no buffer, or has no file", name));
    into.write[name] = file;
  }
  return into;
}

}  // namespace octet::ptxsim::tool
