// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoint/json.h"

namespace octet::checkpoint {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as the format's own library
constexpr size_t kMaxTensors = 1'000'000;
constexpr size_t kMaxRank = 8;

// A number that a size or an offset may be; none for negative ones, fractions and what does not fit.
std::optional<int64_t> natural(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<int64_t>();
}

std::string shown(const json& value) {
  const std::string text = value.dump();
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

class Parser {
 public:
  Parser(std::span<const std::byte> file, std::string_view where) : file_(file), where_(where) {}

  Result<SafetensorsHeader> run() {
    OCTET_ASSIGN_OR_RETURN(const json root, root_object());
    for (const auto& [name, entry] : root.items()) {
      OCTET_RETURN_IF_ERROR(name == "__metadata__" ? metadata(entry) : tensor(name, entry));
    }
    OCTET_RETURN_IF_ERROR(no_overlap());
    return std::move(header_);
  }

 private:
  Status wrong(std::string why) const {
    return invalid_argument(fmt::format("{}: {}", where_, why));
  }
  Status wrong_tensor(std::string_view name, std::string why) const {
    return wrong(fmt::format("tensor {}: {}", name, why));
  }

  Result<json> root_object() {
    if (file_.size() < kLengthBytes) {
      return wrong(fmt::format("{} bytes, wanted at least 8", file_.size()));
    }
    uint64_t length = 0;
    std::memcpy(&length, file_.data(), kLengthBytes);
    const uint64_t room = std::min<uint64_t>(file_.size() - kLengthBytes, kMaxHeaderBytes);
    if (length > room) {
      return wrong(fmt::format("header of {} bytes, wanted at most {}", length, room));
    }
    data_ = file_.subspan(kLengthBytes + length);
    const auto* text = reinterpret_cast<const char*>(file_.data()) + kLengthBytes;
    OCTET_ASSIGN_OR_RETURN(json root,
                           parse_json({text, length}, fmt::format("{}: header", where_)));
    if (!root.is_object()) {
      return wrong(fmt::format("header is {}, wanted an object", root.type_name()));
    }
    if (root.size() > kMaxTensors) {
      return wrong(fmt::format("{} tensors, wanted at most {}", root.size(), kMaxTensors));
    }
    return root;
  }

  Status metadata(const json& entry) {
    if (!entry.is_object()) return wrong("__metadata__ is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) {
        return wrong(fmt::format("__metadata__ {}: {}, wanted a string", key, shown(value)));
      }
      header_.metadata.emplace(key, value.get<std::string>());
    }
    return {};
  }

  Status tensor(const std::string& name, const json& entry) {
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      if (!entry.is_object() || !entry.contains(key)) {
        return wrong_tensor(name, fmt::format("{} is missing", key));
      }
    }
    TensorView view;
    const json& dtype = entry["dtype"];
    const auto known =
        dtype.is_string() ? dtype_from_name(dtype.get_ref<const std::string&>()) : std::nullopt;
    if (!known) return wrong_tensor(name, fmt::format("dtype {} is not known", shown(dtype)));
    view.dtype = *known;
    OCTET_RETURN_IF_ERROR(shape(name, entry["shape"], view));
    OCTET_RETURN_IF_ERROR(offsets(name, entry["data_offsets"], view));
    header_.tensors.emplace(name, std::move(view));
    return {};
  }

  // Sizes of every part of the shape fit int64, not only their product: [0, 2^62, 2^62] is refused too.
  Status shape(const std::string& name, const json& entry, TensorView& view) const {
    if (!entry.is_array() || entry.size() > kMaxRank) {
      return wrong_tensor(name,
                          fmt::format("shape {}, wanted at most {} sizes", shown(entry), kMaxRank));
    }
    auto bytes = static_cast<int64_t>(dtype_bytes(view.dtype));
    for (const json& size : entry) {
      const auto n = natural(size);
      if (!n || __builtin_mul_overflow(bytes, std::max<int64_t>(*n, 1), &bytes)) {
        return wrong_tensor(
            name, fmt::format("shape {}, wanted sizes whose bytes fit 63 bits", shown(entry)));
      }
      view.dims.push_back(*n);
    }
    return {};
  }

  Status offsets(const std::string& name, const json& entry, TensorView& view) const {
    const auto begin = entry.is_array() && entry.size() == 2 ? natural(entry[0]) : std::nullopt;
    const auto end = begin ? natural(entry[1]) : std::nullopt;
    if (!end || *begin > *end) {
      return wrong_tensor(name, fmt::format("data_offsets {}, wanted [begin, end]", shown(entry)));
    }
    if (*end > static_cast<int64_t>(data_.size())) {
      return wrong_tensor(
          name, fmt::format("data_offsets [{}, {}] lie outside the data of {} bytes", *begin, *end,
                            data_.size()));
    }
    if (*end - *begin != static_cast<int64_t>(view.num_bytes())) {
      return wrong_tensor(
          name, fmt::format("data_offsets [{}, {}] hold {} bytes, wanted {} for {} {}", *begin,
                            *end, *end - *begin, view.num_bytes(), dtype_name(view.dtype),
                            to_string(view.dims)));
    }
    view.data = data_.data() + *begin;
    return {};
  }

  Status no_overlap() const {
    struct Extent {
      const std::byte *begin, *end;
      const std::string* name;
    };
    std::vector<Extent> extents;
    for (const auto& [name, view] : header_.tensors) {
      if (view.num_bytes() != 0)
        extents.push_back({view.data, view.data + view.num_bytes(), &name});
    }
    std::sort(extents.begin(), extents.end(),
              [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < extents.size(); ++i) {
      if (extents[i].begin < extents[i - 1].end) {
        return wrong(
            fmt::format("tensors {} and {} overlap", *extents[i - 1].name, *extents[i].name));
      }
    }
    return {};
  }

  std::span<const std::byte> file_, data_;
  std::string_view where_;
  SafetensorsHeader header_;
};

}  // namespace

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file,
                                            std::string_view where) {
  return Parser(file, where).run();
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile opened;
  OCTET_ASSIGN_OR_RETURN(opened.file_, MappedFile::open(path));
  OCTET_ASSIGN_OR_RETURN(opened.header_, parse_safetensors(opened.file_->bytes(), path.string()));
  return opened;
}

}  // namespace octet::checkpoint
