// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace octet::checkpoint {
namespace {

using nlohmann::json;

// Builds the tree; the library's own builder keeps the last of duplicate keys without a word, and with a callback it is
// quadratic in the keys of an object.
class Builder final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(number_integer_t v) override { return add(v); }
  bool number_unsigned(number_unsigned_t v) override { return add(v); }
  bool number_float(number_float_t v, const string_t&) override { return add(v); }
  bool string(string_t& v) override { return add(std::move(v)); }
  bool binary(binary_t&) override { return fail("binary values"); }
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& v) override {
    const auto [at, is_new] = open_.back()->emplace(v, nullptr);
    if (!is_new) return fail(fmt::format("the key {} occurs twice", json(v).dump()));
    slot_ = &*at;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return fail(fmt::format("not JSON at byte {}", position));
  }

  json take() { return std::move(root_); }
  const std::string& why() const { return why_; }

 private:
  bool fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }

  // Where the next value goes: the key's place, the end of the array, or the root.
  json* place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool add(json value) {
    if (++num_values_ > kMaxJsonValues) {
      return fail(fmt::format("more than {} values", kMaxJsonValues));
    }
    place(std::move(value));
    return true;
  }

  bool open(json value) {
    if (open_.size() >= kMaxJsonDepth) {
      return fail(fmt::format("nested more than {} deep", kMaxJsonDepth));
    }
    if (++num_values_ > kMaxJsonValues) {
      return fail(fmt::format("more than {} values", kMaxJsonValues));
    }
    open_.push_back(place(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*> open_;  // objects and arrays that are not closed yet; only the last one grows
  json* slot_ = nullptr;
  size_t num_values_ = 0;
  std::string why_;
};

}  // namespace

Result<json> parse_json(std::string_view text, std::string_view where) {
  Builder builder;
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    return invalid_argument(fmt::format("{}: {}", where, builder.why()));
  }
  return builder.take();
}

}  // namespace octet::checkpoint
