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

// Bits an element of the format's dtypes that core/dtype.h does not have; 0: not known.
int other_bits(std::string_view dtype) {
  constexpr std::pair<std::string_view, int> kOthers[] = {
      {"U16", 16},        {"U32", 32},    {"U64", 64},    {"C64", 64}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
  for (const auto& [name, bits] : kOthers) {
    if (name == dtype) return bits;
  }
  return 0;
}

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
    OCTET_RETURN_IF_ERROR(check_extents());
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
      return wrong(fmt::format(
          "header of {} bytes, wanted at most {}: the file is cut off, or no safetensors file",
          length, room));
    }
    data_ = file_.subspan(kLengthBytes + length);
    header_.text = {reinterpret_cast<const char*>(file_.data()), kLengthBytes + length};
    OCTET_ASSIGN_OR_RETURN(json root, parse_json(header_.text.substr(kLengthBytes),
                                                 fmt::format("{}: header", where_)));
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
    if (!entry["dtype"].is_string()) {
      return wrong_tensor(name, fmt::format("dtype {}, wanted a string", shown(entry["dtype"])));
    }
    const auto& dtype = entry["dtype"].get_ref<const std::string&>();
    const auto built = dtype_from_name(dtype);
    const int bits = built ? static_cast<int>(8 * dtype_bytes(*built)) : other_bits(dtype);
    OCTET_ASSIGN_OR_RETURN(Dims dims, shape(name, entry["shape"], std::max(bits / 8, 1)));
    OCTET_ASSIGN_OR_RETURN(const auto bytes, extent(name, entry["data_offsets"]));
    if (bits != 0) OCTET_RETURN_IF_ERROR(check_size(name, dtype, dims, bits, entry));
    if (built) {
      header_.tensors.emplace(name, TensorView{*built, std::move(dims), bytes.data()});
    } else {
      header_.others.emplace(name, OtherTensor{dtype, std::move(dims), bytes});
    }
    extents_.push_back({bytes.data(), bytes.data() + bytes.size(), name});
    return {};
  }

  // Sizes of every part of the shape fit int64, not only their product: [0, 2^62, 2^62] is refused too.
  Result<Dims> shape(const std::string& name, const json& entry, int64_t element_bytes) const {
    if (!entry.is_array() || entry.size() > kMaxRank) {
      return wrong_tensor(name,
                          fmt::format("shape {}, wanted at most {} sizes", shown(entry), kMaxRank));
    }
    Dims dims;
    int64_t bytes = element_bytes;
    for (const json& size : entry) {
      const auto n = natural(size);
      if (!n || __builtin_mul_overflow(bytes, std::max<int64_t>(*n, 1), &bytes)) {
        return wrong_tensor(
            name, fmt::format("shape {}, wanted sizes whose bytes fit 63 bits", shown(entry)));
      }
      dims.push_back(*n);
    }
    return dims;
  }

  Result<std::span<const std::byte>> extent(const std::string& name, const json& entry) const {
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
    return data_.subspan(static_cast<size_t>(*begin), static_cast<size_t>(*end - *begin));
  }

  // In bits, as elements may be less than a byte: those of a tensor fill whole bytes.
  Status check_size(const std::string& name, std::string_view dtype, const Dims& dims, int bits,
                    const json& entry) const {
    const json& offsets = entry["data_offsets"];
    const int64_t found = offsets[1].get<int64_t>() - offsets[0].get<int64_t>();
    // Eight elements at a time: all of them in bits may be more than 63 bits hold.
    const int64_t n = num_elems(dims), rest = n % 8 * bits;
    const int64_t wanted = n / 8 * bits + rest / 8;
    if (rest % 8 == 0 && wanted == found) return {};
    const std::string bytes = rest % 8 == 0 ? std::to_string(wanted) : "whole bytes";
    return wrong_tensor(
        name,
        fmt::format("data_offsets [{}, {}] hold {} bytes, wanted {} for {} {}", shown(offsets[0]),
                    shown(offsets[1]), found, bytes, dtype, to_string(dims)));
  }

  Status check_extents() {
    const std::byte* end = data_.data();
    for (const Extent& e : extents_) end = std::max(end, e.end);
    const auto used = static_cast<size_t>(end - data_.data());
    std::erase_if(extents_, [](const Extent& e) { return e.begin == e.end; });
    std::sort(extents_.begin(), extents_.end(),
              [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < extents_.size(); ++i) {
      if (extents_[i].begin < extents_[i - 1].end) {
        return wrong(
            fmt::format("tensors {} and {} overlap", extents_[i - 1].name, extents_[i].name));
      }
    }
    if (used == data_.size()) return {};
    return wrong(
        fmt::format("data of {} bytes, wanted {}, where the last tensor ends", data_.size(), used));
  }

  struct Extent {
    const std::byte *begin, *end;
    std::string name;
  };
  std::span<const std::byte> file_, data_;
  std::string_view where_;
  SafetensorsHeader header_;
  std::vector<Extent> extents_;
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
