// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "simulate.h"

namespace octet::cross {
namespace {

using Json = nlohmann::ordered_json;
using ptxsim::machine::Arithmetic;
using ptxsim::machine::Settings;

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

const char* name_of(Needs needs) {
  return needs == Needs::kTruncatedSums  ? "truncated sums"
         : needs == Needs::kApproxTables ? "tables"
                                         : "nothing";
}

// Calls f(i) for each of so many, by so many threads.
template <class F>
void for_all(size_t count, int threads, F f) {
  std::atomic<size_t> next = 0;
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i)
    workers.emplace_back([&] {
      for (size_t at = next++; at < count; at = next++) f(at);
    });
  for (std::thread& worker : workers) worker.join();
}

// Places between two floats' bits in their order.
int64_t apart(uint32_t a, uint32_t c) {
  const auto ordered = [](uint32_t bits) {
    return (bits >> 31) != 0 ? -int64_t{bits & 0x7FFFFFFF} : int64_t{bits};
  };
  return std::abs(ordered(a) - ordered(c));
}

std::string element(const Bytes& bytes, size_t index, size_t size) {
  std::string text = "0x";
  for (size_t i = size; i-- > 0;) text += fmt::format("{:02x}", bytes[index * size + i]);
  return text;
}

// Null: the same bytes.
Json difference(const Case& what, const Outcome& device, const Outcome& simulator) {
  if (!simulator.error.empty()) return "simulator: " + simulator.error;
  if (!device.error.empty()) return "device: " + device.error;
  const auto size = static_cast<size_t>(what.element_bytes);
  for (size_t i = 0; i < device.outputs.size(); ++i) {
    const Bytes &a = device.outputs[i], &b = simulator.outputs[i];
    if (a.size() != b.size()) return "sizes differ";
    Json found;
    size_t elements = 0;
    int64_t most = 0;
    for (size_t at = 0; at < a.size() / size; ++at) {
      if (std::memcmp(&a[at * size], &b[at * size], size) == 0) continue;
      if (elements++ == 0)
        found = {{"output", i},
                 {"first", at},
                 {"device", element(a, at, size)},
                 {"simulator", element(b, at, size)}};
      uint32_t x = 0, y = 0;
      if (size == 4) {
        std::memcpy(&x, &a[at * 4], 4);
        std::memcpy(&y, &b[at * 4], 4);
        most = std::max(most, apart(x, y));
      }
    }
    if (elements == 0) continue;
    found["elements"] = elements;
    found["of"] = a.size() / size;
    if (size == 4) found["most_apart"] = most;
    return found;
  }
  return nullptr;
}

// The models under which a case is looked at; the last is the one that it needs.
std::vector<std::pair<std::string, Settings>> models_of(const Case& what, bool has_tables) {
  Settings exact, truncated;
  truncated.arithmetic = Arithmetic::kTruncated;
  if (what.needs == Needs::kApproxTables) return {{has_tables ? "tables" : "rounded", exact}};
  const bool has_sums = what.name.starts_with("mma/") || what.name.starts_with("wgmma/");
  if (!has_sums) return {{"bytes", exact}};
  return {{"exact sums", exact}, {"truncated sums", truncated}};
}

Json entry_of(const Case& what, const Outcome& device, bool has_tables, bool* is_right) {
  Json entry = {{"name", what.name}, {"case", hex(digest(what))}};
  Json digests = Json::array();
  for (const Bytes& bytes : device.outputs) digests.push_back(hex(digest(bytes)));
  entry["outputs"] = digests;
  if (what.needs != Needs::kNothing) entry["needs"] = name_of(what.needs);
  Json differs = Json::object();
  *is_right = true;
  for (const auto& [name, settings] : models_of(what, has_tables)) {
    const Json found = difference(what, device, simulate(what, settings));
    if (!found.is_null()) differs[name] = found;
    if (what.needs == Needs::kNothing) {
      *is_right &= found.is_null();
    } else {
      *is_right = found.is_null();  // under the last model
    }
  }
  if (!differs.empty()) entry["differs"] = differs;
  if (!*is_right) entry["unproven"] = true;
  return entry;
}

}  // namespace

Status compare(const Comparison& c, const std::string& report) {
  std::vector<Json> entries(c.cases.size());
  std::vector<char> is_right(c.cases.size());
  for_all(c.cases.size(), c.threads, [&](size_t i) {
    const auto found = c.device.find(c.cases[i].name);
    const Outcome device = found == c.device.end() ? Outcome{"not run", {}} : found->second;
    bool right = false;
    entries[i] = entry_of(c.cases[i], device, c.has_tables, &right);
    is_right[i] = right ? 1 : 0;
  });
  Json unproven = Json::array();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (is_right[i] != 0) continue;
    unproven.push_back(c.cases[i].name);
    if (!c.differing.empty() && c.device.contains(c.cases[i].name))
      OCTET_RETURN_IF_ERROR(
          append_outcome(c.differing, c.cases[i].name, c.device.at(c.cases[i].name)));
    fmt::print("{}\n  {}\n", c.cases[i].name, entries[i]["differs"].dump());
  }
  Json all = {{"what", "the same PTX on a device and in ptxsim, memory compared byte by byte"},
              {"date", c.date},
              {"device", Json::parse(c.device_description)},
              {"command", c.command},
              {"cases_in_all", entries.size()},
              {"cases_that_agree", entries.size() - unproven.size()},
              {"unproven", unproven}};
  std::string text = all.dump(1);
  text.resize(text.size() - 2);  // "\n}"
  text += ",\n \"cases\": [\n";
  for (size_t i = 0; i < entries.size(); ++i)
    text += "  " + entries[i].dump() + (i + 1 < entries.size() ? ",\n" : "\n");
  std::ofstream out(report, std::ios::binary);
  out << text << " ]\n}\n";
  if (!out) return io_error(report + ": cannot be written");
  fmt::print("{} cases, {} agree, {} differ\n", entries.size(), entries.size() - unproven.size(),
             unproven.size());
  return {};
}

Outcome simulate_as_needed(const Case& what, Settings settings) {
  if (what.needs == Needs::kTruncatedSums) settings.arithmetic = Arithmetic::kTruncated;
  return simulate(what, settings);
}

namespace {

// What a check has found of a case; both empty: it has the report's bytes.
struct Finding {
  std::string wrong, not_asked;
};

Finding find(const Case& what, const std::map<std::string, Json>& kept, const Check& check) {
  const auto found = kept.find(what.name);
  if (found == kept.end()) return {"no device has run it", ""};
  const Json& entry = found->second;
  if (entry["case"] != hex(digest(what))) return {"it has changed since a device ran it", ""};
  if (entry.contains("unproven") && !check.asks_unproven) return {"", "unproven"};
  if (what.needs == Needs::kApproxTables && !check.has_tables)
    return {"", "a device's tables are not here"};
  const Outcome outcome = check.run(what);
  if (!outcome.error.empty()) return {outcome.error, ""};
  for (size_t i = 0; i < outcome.outputs.size(); ++i) {
    if (entry["outputs"][i] != hex(digest(outcome.outputs[i])))
      return {fmt::format("output {} has other bytes than the device's", i), ""};
  }
  return {};
}

}  // namespace

Status check(const std::vector<Case>& cases, const std::string& report, const Check& check) {
  std::ifstream in(report, std::ios::binary);
  const Json all = Json::parse(in, nullptr, false);
  if (all.is_discarded() || !all.contains("cases"))
    return io_error(report + ": no report of a cross-run");
  std::map<std::string, Json> kept;
  for (const Json& entry : all["cases"]) kept[entry["name"]] = entry;
  std::vector<Finding> findings(cases.size());
  for_all(cases.size(), check.threads,
          [&](size_t i) { findings[i] = find(cases[i], kept, check); });
  size_t num_wrong = 0, num_not_asked = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [wrong, not_asked] = findings[i];
    if (!wrong.empty()) fmt::print("{}: {}\n", cases[i].name, wrong);
    if (!not_asked.empty()) fmt::print("{}: not asked: {}\n", cases[i].name, not_asked);
    num_wrong += wrong.empty() ? 0 : 1;
    num_not_asked += not_asked.empty() ? 0 : 1;
  }
  const size_t num_right = cases.size() - num_wrong - num_not_asked;
  fmt::print("{} cases: {} have the device's bytes, {} do not, {} are not asked\n", cases.size(),
             num_right, num_wrong, num_not_asked);
  if (num_wrong == 0 && num_right > 0) return {};
  return internal_error("not the bytes of the report " + report);
}

}  // namespace octet::cross
