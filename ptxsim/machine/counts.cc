// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/machine/counts.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

namespace octet::ptxsim::machine {
namespace {

constexpr std::array<std::pair<const char*, uint64_t Counts::*>, 8> kNumbers = {{
    {"instructions", &Counts::instructions},
    {"lane_instructions", &Counts::lane_instructions},
    {"polls", &Counts::polls},
    {"global_read_bytes", &Counts::global_read_bytes},
    {"global_written_bytes", &Counts::global_written_bytes},
    {"copied_bytes", &Counts::copied_bytes},
    {"async_ops", &Counts::async_ops},
    {"products", &Counts::products},
}};
static_assert(sizeof(Counts) == kNumbers.size() * sizeof(uint64_t));

std::string json_of(const Counts& counts) {
  std::string text;
  for (const auto& [name, number] : kNumbers)
    text += fmt::format("{}\"{}\": {}", text.empty() ? "{" : ", ", name, counts.*number);
  return text + "}";
}

// Names are kernels' and buffers': a quote or a control character in one is not worth more than its loss.
std::string quoted(const std::string& name) {
  std::string plain;
  for (const char c : name)
    plain += c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ' ? '_' : c;
  return '"' + plain + '"';
}

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
  for (const auto& [name, number] : kNumbers) this->*number += other.*number;
  return *this;
}

Counts Counts::operator-(const Counts& other) const {
  Counts difference = *this;
  for (const auto& [name, number] : kNumbers) difference.*number -= other.*number;
  return difference;
}

void Counts::raise_to(const Counts& other) {
  for (const auto& [name, number] : kNumbers)
    this->*number = std::max(this->*number, other.*number);
}

std::string json_of(const GridCounts& counts) {
  std::string reads;
  for (const auto& [name, bytes] : counts.read_bytes)
    reads += fmt::format("{}{}: {}", reads.empty() ? "" : ", ", quoted(name), bytes);
  return fmt::format(
      "{{\"kernel\": {}, \"blocks\": {}, \"threads\": {}, \"shared_bytes\": {}, "
      "\"blocks_per_sm\": {}, \"waves\": {}, \"begun_early\": {}, \"all\": {}, "
      "\"most_of_a_block\": {}, "
      "\"most_bytes_in_flight\": {}, \"read_bytes\": {{{}}}}}",
      quoted(counts.kernel), counts.blocks, counts.threads, counts.shared_bytes,
      counts.blocks_per_sm, counts.waves, counts.begun_early, json_of(counts.all),
      json_of(counts.most), counts.most_bytes_in_flight, reads);
}

}  // namespace octet::ptxsim::machine
