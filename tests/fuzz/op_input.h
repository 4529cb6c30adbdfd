// SPDX-License-Identifier: Apache-2.0
// The input of fuzz_op: byte 0 picks the operation (and, by its high bit, the reference instead of the CPU kernels), a byte
// for each of the operation's settings picks its value, the rest is a safetensors file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace octet::fuzz {

struct SettingValues {
  std::string_view key;
  std::string_view values[8];  // empty: the setting is not given
};

constexpr SettingValues kSettingValues[] = {
    {"layout", {"", "linear", "128x4", "8x4", "16x4", "linear", "128x4", "8x4"}},
    {"router", {"", "dsv4", "deepseek_v3", "softmax", "hash", "flint", "dsv4", "none"}},
    {"format", {"mxfp4", "nvfp4", "mxfp4", "nvfp4", "mxfp4", "nvfp4", "mxfp8", ""}},
    {"top_k", {"", "2", "1", "4", "8", "0", "-1", "99999999999999999999"}},
    {"experts", {"8", "32", "384", "1", "0", "-8", "", "9223372036854775807"}},
    {"local_experts", {"", "8", "4", "1", "0", "-1", "4096", "9223372036854775807"}},
    {"local_offset", {"", "4", "1", "0", "-1", "31", "2147483647", "9223372036854775807"}},
    {"tile", {"8", "16", "32", "192", "7", "0", "", "-8"}},
    {"intermediate", {"32", "64", "80", "128", "0", "-32", "", "9223372036854775807"}},
    {"limit", {"10", "0.5", "0", "-1", "inf", "nan", "", "ten"}},
    {"scale", {"", "1.5", "0", "-1", "inf", "nan", "1e40", "x"}},
    {"image_sentinel_lo", {"", "3", "129257", "0", "-5", "9223372036854775807", "x", "1"}},
    {"groups", {"", "1", "2", "4", "8", "3", "0", "-1"}},
    {"groups_kept", {"", "1", "2", "4", "8", "3", "0", "-1"}},
};

constexpr std::string_view setting_value(std::string_view key, uint8_t pick) {
  for (const SettingValues& setting : kSettingValues)
    if (setting.key == key) return setting.values[pick % 8];
  return {};
}

}  // namespace octet::fuzz
