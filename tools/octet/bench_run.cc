// SPDX-License-Identifier: Apache-2.0
#include "bench_run.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "bench_accuracy.h"
#include "bench_call.h"
#include "bench_case.h"
#include "bench_statistics.h"
#include "command.h"
#include "compare.h"
#include "core/tensor.h"
#include "formats/bf16.h"
#include "memory.h"
#include "report.h"

namespace octet::tools {
namespace {

constexpr int64_t kWarmUp = 2;  // untimed turns
constexpr std::chrono::milliseconds kSettle(
    1);  // before a turn beside peers: the last one's threads go to sleep

// Who takes a turn in a round; then the peers.
constexpr size_t kOurs = 0;
constexpr size_t kCeiling = 1;
constexpr size_t kFirstPeer = 2;

// Of a --quiet-only run, for each round that is wanted.
constexpr int64_t kMostDropped = 20;
constexpr double kMostWaitedSeconds = 2;  // for the machine to become quiet

}  // namespace

int64_t ceiling_buffer_bytes() { return kCachesApart * last_cache_bytes(); }

std::vector<double> compare_output(const checkpoint::LayerTensors& tensors,
                                   const dispatch::Kernel& kernel, const CallInput& call,
                                   const Bf16* y, const Progress& progress, BenchRow& row) {
  const Comparison compared =
      compare_with_reference(tensors,
                             {call.tokens, call.top_k, call.x, call.ids, call.weights, y, nullptr,
                              dispatch::sums_of(kernel)},
                             progress);
  row.max_error_over_bound = compared.worst.share;
  std::vector<double> want = exact_layer(tensors, call, progress);
  row.nmse = nmse(want, [&](size_t e) { return formats::bf16_to_f32(y[e]); });
  return want;
}

// One number of rows: what is called, and which experts this round's turns read.
struct Bench::Call {
  BenchCall layer;
  Tensor warm_ids, ids;
  int64_t bytes = 0;
};

// What the rounds that count gave: [party][round], seconds; of the ceiling those that our call's bytes would take.
struct Bench::Rounds {
  std::vector<std::vector<double>> seconds;
  int64_t dropped = 0;

  explicit Rounds(size_t num_parties) : seconds(num_parties) {}
  int64_t kept() const { return static_cast<int64_t>(seconds[kOurs].size()); }
};

Bench::Bench(const Subjects& subjects, Executor& executor, const Options& options)
    : tensors_(subjects.tensors),
      layer_(subjects.layer),
      peers_(subjects.peers),
      executor_(executor),
      options_(options),
      random_(options.seed),
      ceiling_(ceiling_buffer_bytes()),
      order_(random_.permutation(subjects.layer.spec().local_experts)) {
  if (!options.quiet_only) return;
  std::vector<pid_t> own;
  for (size_t i = kOurs; i < kFirstPeer + peers_.size(); ++i) own.push_back(pid_of(i));
  quiet_.emplace(std::move(own));
}

double Bench::ceiling_gbs() const { return median(ceilings_) * 1e-9; }

pid_t Bench::pid_of(size_t party) const {
  return party < kFirstPeer ? ::getpid() : peers_[party - kFirstPeer]->pid();
}

Status Bench::own_turn(Call& call, double& seconds) {
  if (!peers_.empty()) OCTET_RETURN_IF_ERROR(call.layer.run(call.warm_ids, executor_));
  const Stopwatch watch;
  OCTET_RETURN_IF_ERROR(call.layer.run(call.ids, executor_));
  seconds = watch.seconds();
  return {};
}

// Bytes a second.
double Bench::ceiling_turn(const Call& call) {
  const auto experts = static_cast<int64_t>(order_.size());
  const int64_t calls = std::max<int64_t>(experts / call.layer.pattern().num_labels, 1);
  const int64_t missing = kCachesApart * last_cache_bytes() - (calls - 1) * call.bytes;
  const int64_t bytes = std::max(call.bytes, missing / calls);
  if (!peers_.empty()) ceiling_.read(bytes, executor_);
  return ceiling_.read(bytes, executor_);
}

Status Bench::peer_turn(Call& call, PeerProcess& peer, double& seconds) {
  peer.resume();
  for (const Tensor* ids : {&call.warm_ids, &call.ids}) {
    OCTET_ASSIGN_OR_RETURN(seconds, call.layer.run(*ids, peer, executor_.num_threads()));
  }
  return peer.park();
}

Status Bench::turn(Call& call, size_t party, double& seconds) {
  if (party == kOurs) return own_turn(call, seconds);
  if (party >= kFirstPeer) return peer_turn(call, *peers_[party - kFirstPeer], seconds);
  ceilings_.push_back(ceiling_turn(call));
  seconds = static_cast<double>(call.bytes) / ceilings_.back();
  return {};
}

// Whether the round counts.
Result<bool> Bench::round(Call& call, Rounds& rounds) {
  const auto experts = static_cast<int64_t>(order_.size());
  const int64_t taken = call.layer.pattern().num_labels;
  if (!peers_.empty()) {
    call.warm_ids = call.layer.ids_at(order_, next_);
    next_ = (next_ + taken) % experts;
  }
  call.ids = call.layer.ids_at(order_, next_);
  next_ = (next_ + taken) % experts;
  call.bytes = call.layer.bytes_of(call.ids);

  const size_t num_parties = rounds.seconds.size();
  const size_t num_ceilings = ceilings_.size();
  std::vector<double> seconds(num_parties);
  for (size_t i = 0; i < num_parties; ++i) {
    const size_t party = (first_ + i) % num_parties;
    if (!peers_.empty()) std::this_thread::sleep_for(kSettle);
    if (quiet_) quiet_->begin(pid_of(party));
    OCTET_RETURN_IF_ERROR(turn(call, party, seconds[party]));
    if (!quiet_ || quiet_->end()) continue;
    ceilings_.resize(num_ceilings);
    return false;
  }
  if (!peers_.empty()) first_ = (first_ + 1) % num_parties;
  for (size_t p = 0; p < num_parties; ++p) rounds.seconds[p].push_back(seconds[p]);
  return true;
}

Status Bench::measure(Call& call, Rounds& rounds, const Progress& progress) {
  Rounds warm_up(rounds.seconds.size());
  for (int64_t i = 0; i < kWarmUp; ++i) {
    OCTET_ASSIGN_OR_RETURN([[maybe_unused]] const bool counts, round(call, warm_up));
  }
  double waited = 0;
  while (rounds.kept() < options_.repeats && rounds.dropped < kMostDropped * options_.repeats &&
         waited < kMostWaitedSeconds * static_cast<double>(options_.repeats)) {
    const Stopwatch watch;
    if (quiet_ && !quiet_->wait_until_quiet(kMostWaitedSeconds)) {
      waited += watch.seconds();
      continue;
    }
    OCTET_ASSIGN_OR_RETURN(const bool counts, round(call, rounds));
    if (!counts) ++rounds.dropped;
    if (progress) progress(rounds.kept(), options_.repeats);
  }
  if (rounds.kept() == options_.repeats) return {};
  const std::string what =
      fmt::format("--quiet-only, {}: found {} in which no other process ran, and dropped {}",
                  count_text(call.layer.pattern().tokens, "row"),
                  count_text(rounds.kept(), "round"), rounds.dropped);
  if (rounds.kept() == 0) {
    return invalid_argument(fmt::format(
        "{} in {:.0f} s of waiting: the machine is busy, want it idle, or no --quiet-only", what,
        waited));
  }
  note(what);
  return {};
}

Status Bench::compare_peers(Call& call, const std::vector<double>& want, BenchRow& row) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    double seconds = 0;
    OCTET_RETURN_IF_ERROR(peer_turn(call, *peers_[i], seconds));
    const float* const y = call.layer.peer_y();
    row.peers[i].nmse = nmse(want, [&](size_t e) { return y[e]; });
  }
  return {};
}

// All with the last round's experts, once more: a round that was dropped left some without their call.
Status Bench::compare(Call& call, BenchRow& row, const Progress& progress) {
  OCTET_RETURN_IF_ERROR(call.layer.run(call.ids, executor_));
  const CallInput in = call.layer.input(call.ids, std::min(row.rows, kMostCompared));
  const dispatch::Kernel& kernel = *layer_.selection().kernel;
  const std::vector<double> want =
      compare_output(tensors_, kernel, in, call.layer.y(), progress, row);
  if (kernel.isa != dispatch::Isa::kReference) {  // which has y only
    OCTET_ASSIGN_OR_RETURN(const std::vector<double> unrounded,
                           call.layer.unrounded(call.ids, in.tokens, executor_));
    row.nmse_before_rounding = nmse(want, [&](size_t e) { return unrounded[e]; });
  }
  return compare_peers(call, want, row);
}

Result<BenchRow> Bench::run(int64_t rows, const Progress& progress) {
  const LayerSpec& spec = layer_.spec();
  const int64_t elements =
      rows * (2 * spec.hidden + 12 * spec.router.top_k);  // x and y; ids, weights
  OCTET_RETURN_IF_ERROR(check_memory(
      count_text(rows, "row"),
      elements * 2 + layer_.workspace_bytes(rows, spec.router.top_k, executor_.num_threads())));
  OCTET_ASSIGN_OR_RETURN(Pattern pattern, make_pattern(rows, spec.router.top_k, spec.local_experts,
                                                       options_.distinct, random_));
  Call call{{layer_, std::move(pattern), executor_.num_threads(), random_}, {}, {}, 0};
  if (!peers_.empty()) OCTET_RETURN_IF_ERROR(call.layer.share());
  Rounds rounds(kFirstPeer + peers_.size());
  OCTET_RETURN_IF_ERROR(measure(call, rounds, progress));

  const std::vector<double>& ours = rounds.seconds[kOurs];
  BenchRow row;
  row.rows = rows;
  row.experts_read = call.layer.pattern().num_labels;
  row.bytes = call.bytes;
  row.min_us = least(ours) * 1e6;
  row.median_us = median(ours) * 1e6;
  row.p99_us = percentile(ours, 0.99) * 1e6;
  row.repeats = rounds.kept();
  row.gbs = static_cast<double>(call.bytes) / row.median_us * 1e-3;
  row.of_ceiling = median_ratio(rounds.seconds[kCeiling], ours);
  row.rounds_dropped = rounds.dropped;
  for (size_t i = 0; i < peers_.size(); ++i) {
    const std::vector<double>& theirs = rounds.seconds[kFirstPeer + i];
    const double median_us = median(theirs) * 1e6;
    row.peers.push_back({peers_[i]->name(), least(theirs) * 1e6, median_us,
                         static_cast<double>(call.bytes) / median_us * 1e-3,
                         median_ratio(theirs, ours), 0});
  }
  OCTET_RETURN_IF_ERROR(compare(call, row, progress));
  return row;
}

}  // namespace octet::tools
