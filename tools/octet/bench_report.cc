// SPDX-License-Identifier: Apache-2.0
#include "bench_report.h"

#include <chrono>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <string>
#include <utility>

#include "build_info.h"
#include "console.h"
#include "report.h"

namespace octet::tools {
namespace {

// Activations rounded to 8 bits give 1e-3 at most; another layer, or none, gives about 1.
constexpr double kMostPeerNmse = 1e-2;

std::string device_of(const Measured& m) {
  return m.device != nullptr ? m.device->device().name : device_name();
}

Json peer_rows_json(const BenchRow& row) {
  Json all = Json::array();
  for (const PeerRow& p : row.peers) {
    all.push_back({{"name", p.name},
                   {"min_us", p.min_us},
                   {"median_us", p.median_us},
                   {"gbs", p.gbs},
                   {"ratio", p.ratio},
                   {"nmse", p.nmse}});
  }
  return all;
}

Json row_json(const Measured& m, const BenchRow& r) {
  const LayerSpec& spec = m.layer.spec();
  Json row = {{"kernel", m.layer.selection().kernel->name},
              {"weights", name_of(spec.weights)},
              {"activations", name_of(spec.activations)},
              {"rows", r.rows},
              {"experts_read", r.experts_read},
              {"bytes", r.bytes},
              {"min_us", r.min_us},
              {"median_us", r.median_us},
              {"p99_us", r.p99_us},
              {"repeats", r.repeats},
              {"gbs", r.gbs},
              {"of_ceiling", r.of_ceiling},
              {"max_error_over_bound", r.max_error_over_bound},
              {"nmse", r.nmse},
              {"nmse_before_rounding", nullptr}};
  if (r.nmse_before_rounding) row["nmse_before_rounding"] = *r.nmse_before_rounding;
  if (m.quiet_only) row["rounds_dropped"] = r.rounds_dropped;
  if (!m.peers.empty()) row["peers"] = peer_rows_json(r);
  return row;
}

void print_rows(const Measured& m) {
  std::vector<std::vector<std::string>> table = {
      {"rows", "experts", "bytes", "min", "median", "p99", "GB/s", "of ceiling", "error/bound"}};
  if (m.quiet_only) table[0].emplace_back("rounds dropped");
  for (const BenchRow& r : m.rows) {
    table.push_back({std::to_string(r.rows), std::to_string(r.experts_read), human_bytes(r.bytes),
                     human_seconds(r.min_us * 1e-6), human_seconds(r.median_us * 1e-6),
                     human_seconds(r.p99_us * 1e-6), fmt::format("{:.1f}", r.gbs),
                     fmt::format("{:.2f}", r.of_ceiling),
                     fmt::format("{:.2f}", r.max_error_over_bound)});
    if (!m.quiet_only) continue;
    table.back().push_back(fmt::format("{} of {}", r.rounds_dropped, r.rounds_dropped + r.repeats));
  }
  print_table(table);
}

void print_peers(const Measured& m) {
  print_out(
      "\nThe same rounds, each with weights of its own; ratio: median of the rounds' times over "
      "ours;\nNMSE against float64 without rounding\n\n");
  std::vector<std::vector<std::string>> table = {
      {"rows", "who", "min", "median", "GB/s", "ratio", "NMSE"}};
  const auto add = [&](const BenchRow& r, const PeerRow& p) {
    table.push_back({std::to_string(r.rows), p.name, human_seconds(p.min_us * 1e-6),
                     human_seconds(p.median_us * 1e-6), fmt::format("{:.1f}", p.gbs),
                     fmt::format("{:.2f}", p.ratio), fmt::format("{:.1e}", p.nmse)});
  };
  for (const BenchRow& r : m.rows) {
    add(r, {"octet", r.min_us, r.median_us, r.gbs, 1.0, r.nmse});
    for (const PeerRow& p : r.peers) add(r, p);
  }
  print_table(table);
}

}  // namespace

Json measured_json(const Measured& m) {
  Json results = Json::array();
  for (const BenchRow& r : m.rows) results.push_back(row_json(m, r));
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  Json report = {{"what", "layer"},
                 {"device", device_of(m)},
                 {"clock_mhz", m.device ? m.device->device().most_clock_mhz : clock_mhz()},
                 {"threads", m.threads},
                 {"pages", name_of(m.memory.pages)},
                 {"numa", name_of(m.memory.numa)},
                 {"packed", name_of(m.memory.packed)},
                 {"precision", name_of(m.layer.spec().precision)},
                 {"read_ceiling_gbs", m.ceiling_gbs},
                 {"git", kGitRevision},
                 {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
                 {"layer", spec_json(m.layer.spec())}};
  if (m.device != nullptr) {
    report["clock"] = "the highest that the device may have";
    report["from"] = m.device->is_from_logits() ? "x, logits" : "x, ids, weights";
    report["calls_a_replay"] = DeviceBench::kCalls;
    report["layer_copies"] = m.device->num_copies();
  }
  if (!m.peers.empty()) {
    Json& peers = report["peers"] = Json::array();
    for (const auto& p : m.peers) {
      peers.push_back({{"name", p->name()}, {"command", p->command()}});
    }
  }
  report["results"] = std::move(results);
  return report;
}

void print_measured(const Measured& m) {
  print_out("{}\n{}, {} on {}; read ceiling {:.1f} GB/s\n\n", describe(m.layer.spec()),
            m.layer.selection().kernel->name,
            m.device != nullptr ? fmt::format("{} calls a replay", DeviceBench::kCalls)
                                : count_text(m.threads, "thread"),
            device_of(m), m.ceiling_gbs);
  print_rows(m);
  if (!m.peers.empty()) print_peers(m);
}

Status judge(const Measured& m) {
  for (const BenchRow& r : m.rows) {
    if (r.max_error_over_bound > 1) {
      return invalid_argument(fmt::format("{}: found an error of {:.3g} bounds, want at most 1",
                                          count_text(r.rows, "row"), r.max_error_over_bound));
    }
    for (const PeerRow& p : r.peers) {
      if (p.nmse <= kMostPeerNmse) continue;  // not so if it is NaN
      return invalid_argument(
          fmt::format("--peer {}, {}: found an NMSE of {:.3g} against float64, want at most {}",
                      p.name, count_text(r.rows, "row"), p.nmse, kMostPeerNmse));
    }
  }
  return {};
}

}  // namespace octet::tools
