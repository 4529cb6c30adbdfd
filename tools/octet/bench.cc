// SPDX-License-Identifier: Apache-2.0
// octet bench: times a layer with cold weights beside the memory's read ceiling. bench_run.h says what is timed.
#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench_case.h"
#include "bench_device.h"
#include "bench_peer.h"
#include "bench_quiet.h"
#include "bench_report.h"
#include "bench_run.h"
#include "checkpoint/model.h"
#include "command.h"
#include "cpu/thread_pool.h"
#include "dispatch/layer.h"
#include "layer_flags.h"
#include "memory.h"
#include "progress_bar.h"
#include "read_ceiling.h"
#include "report.h"

namespace octet::tools {
namespace {

struct BenchFlags {
  std::string model, shape, weights;
  std::optional<int64_t> layer, experts, distinct;
  std::vector<int64_t> rows = {1, 2, 4, 6, 8};
  int64_t repeats = 30;
  uint64_t seed = 0;
  std::vector<std::string> peers;  // NAME=COMMAND
  LayerFlags layer_flags;
  bool quiet_only = false, json = false;
};

// Weights to time: a checkpoint's layer, or random ones.
struct Subject {
  std::optional<RandomLayer> random;
  checkpoint::LayerTensors loaded;
  const checkpoint::LayerTensors& tensors() const { return random ? random->tensors() : loaded; }
};

Status check_counts(const BenchFlags& flags) {
  constexpr int64_t kMaxRepeats = 1'000'000;
  for (const int64_t rows : flags.rows) {
    OCTET_RETURN_IF_ERROR(check_range("--rows", rows, {1, kMaxRows}));
  }
  OCTET_RETURN_IF_ERROR(check_range("--repeats", flags.repeats, {1, kMaxRepeats}));
  if (flags.model.empty() == flags.shape.empty()) {
    return misuse("want either --model with --layer or --shape");
  }
  if (!flags.model.empty() && !flags.layer) {
    return misuse("--layer is missing, want the index of a layer of --model");
  }
  if (!flags.model.empty() && (flags.experts || !flags.weights.empty())) {
    return misuse("--experts and --weights change a --shape; a --model has its own");
  }
  if (!flags.shape.empty() && flags.layer) return misuse("--layer is a layer of a --model");
  if (!flags.shape.empty() && (flags.layer_flags.tp != "0/1" || flags.layer_flags.ep != "0/1")) {
    return misuse("--tp and --ep cut a --model; the shapes are a rank's own");
  }
  return {};
}

Result<LayerSpec> spec_of_shape(const BenchFlags& flags) {
  OCTET_ASSIGN_OR_RETURN(const Shape shape, shape_from_name(flags.shape));
  OCTET_ASSIGN_OR_RETURN(const checkpoint::LoadOptions load, load_options(flags.layer_flags));
  LayerSpec spec;
  spec.hidden = shape.sizes.hidden;
  spec.intermediate = shape.sizes.intermediate;
  spec.experts = spec.local_experts = flags.experts.value_or(shape.sizes.experts);
  spec.router.top_k = shape.sizes.top_k;
  spec.swiglu = shape.swiglu;
  spec.weights = shape.weights;
  if (!flags.weights.empty()) {
    OCTET_ASSIGN_OR_RETURN(spec.weights, weights_from_name(flags.weights));
  }
  spec.activations = load.activations.value_or(shape.activations);
  spec.precision = load.precision;
  OCTET_RETURN_IF_ERROR(
      check_range("--experts", spec.experts, {shape.sizes.top_k, checkpoint::kMaxExperts}));
  return spec;
}

// Panels may be a sixteenth larger than the weights that they hold.
Status check_layer_memory(const checkpoint::LayerTensors& tensors) {
  const int64_t bytes = tensors.weight_bytes();
  return check_memory(
      count_text(tensors.spec.local_experts, "expert") + " and the read ceiling's buffer",
      bytes + bytes / 16 + ceiling_buffer_bytes());
}

Result<Subject> make_subject(const BenchFlags& flags) {
  Subject subject;
  if (!flags.shape.empty()) {
    OCTET_ASSIGN_OR_RETURN(const LayerSpec spec, spec_of_shape(flags));
    subject.random.emplace(spec, flags.seed);
    return subject;
  }
  OCTET_ASSIGN_OR_RETURN(const checkpoint::LoadOptions load, load_options(flags.layer_flags));
  OCTET_ASSIGN_OR_RETURN(const checkpoint::Model model, checkpoint::Model::open(flags.model));
  OCTET_ASSIGN_OR_RETURN(subject.loaded, model.layer(*flags.layer, load));
  return subject;
}

// Started one after another, with one copy of the weights to load from, which is gone afterwards.
Result<Peers> start_peers(const std::vector<PeerFlag>& flags,
                          const checkpoint::LayerTensors& tensors) {
  Peers peers;
  if (flags.empty()) return peers;
  // Each holds its weights, and while it loads, perhaps most of them twice.
  const auto copies = static_cast<int64_t>(flags.size()) + 2;
  OCTET_RETURN_IF_ERROR(
      check_memory(fmt::format("the weights of {} and one to load from",
                               count_text(static_cast<int64_t>(flags.size()), "peer")),
                   copies * peer_weights_bytes(tensors.spec)));
  OCTET_ASSIGN_OR_RETURN(const SharedFile weights, peer_weights(tensors));
  for (const PeerFlag& flag : flags) {
    ProgressBar bar("loading " + flag.name);
    OCTET_ASSIGN_OR_RETURN(auto peer, PeerProcess::start(flag, tensors, weights));
    peers.push_back(std::move(peer));
  }
  return peers;
}

// NAME=COMMAND each, every name once.
Result<std::vector<PeerFlag>> peer_flags(const BenchFlags& flags) {
  std::vector<PeerFlag> peers;
  for (const std::string& text : flags.peers) {
    OCTET_ASSIGN_OR_RETURN(PeerFlag peer, parse_peer_flag(text));
    for (const PeerFlag& other : peers) {
      if (other.name == peer.name) {
        return misuse(fmt::format("--peer: found the name '{}' twice, want each once", peer.name));
      }
    }
    peers.push_back(std::move(peer));
  }
  return peers;
}

Status report(const Measured& measured, bool json) {
  if (json) {
    print_json(measured_json(measured));
  } else {
    print_measured(measured);
  }
  return judge(measured);
}

// What cannot be had of a layer on a CUDA device.
Status check_device_flags(const BenchFlags& flags) {
  if (!flags.peers.empty()) return misuse("--peer: runs on the host, the layer on a CUDA device");
  if (flags.quiet_only)
    return misuse("--quiet-only: looks at the host, the layer is on a CUDA device");
  return {};
}

Status bench_device(const BenchFlags& flags, const Subject& subject,
                    const dispatch::LayerOptions& options, Executor& executor) {
  OCTET_RETURN_IF_ERROR(check_memory_of_device_load(subject.tensors()));
  std::optional<DeviceBench> bench;
  {
    ProgressBar bar("loading");
    OCTET_ASSIGN_OR_RETURN(
        bench,
        DeviceBench::make(subject.tensors(), options,
                          *std::max_element(flags.rows.begin(), flags.rows.end()), executor,
                          {flags.distinct, flags.repeats, flags.seed, false}, bar.callback()));
  }
  const Peers none;
  Measured measured{bench->layer(), none, options.memory, executor.num_threads(), false, 0, {},
                    &*bench};
  for (const int64_t rows : flags.rows) {
    ProgressBar bar(count_text(rows, "row"));
    OCTET_ASSIGN_OR_RETURN(BenchRow row, bench->run(rows, bar.callback()));
    measured.rows.push_back(std::move(row));
  }
  measured.ceiling_gbs = bench->ceiling_gbs();
  return report(measured, flags.json);
}

Status bench(const BenchFlags& flags) {
  OCTET_RETURN_IF_ERROR(check_counts(flags));
  OCTET_ASSIGN_OR_RETURN(const dispatch::LayerOptions options, layer_options(flags.layer_flags));
  OCTET_ASSIGN_OR_RETURN(const int threads, num_threads(flags.layer_flags));
  OCTET_ASSIGN_OR_RETURN(const std::vector<PeerFlag> wanted_peers, peer_flags(flags));
  if (dispatch::asks_for_cuda(options)) OCTET_RETURN_IF_ERROR(check_device_flags(flags));
  if (flags.quiet_only) OCTET_RETURN_IF_ERROR(QuietMeter::check_readable());
  OCTET_ASSIGN_OR_RETURN(const Subject subject, make_subject(flags));
  cpu::ThreadPool pool(threads);
  const dispatch::Kernel* const kernel =
      dispatch::select(dispatch::problem_of(subject.tensors(), options)).kernel;
  if (kernel != nullptr && dispatch::is_cuda(kernel->isa))
    return bench_device(flags, subject, options, pool);
  if (kernel != nullptr) OCTET_RETURN_IF_ERROR(check_layer_memory(subject.tensors()));
  dispatch::Layer layer;
  {
    ProgressBar bar("loading");
    OCTET_ASSIGN_OR_RETURN(layer,
                           dispatch::Layer::load(subject.tensors(), options, pool, bar.callback()));
  }
  OCTET_ASSIGN_OR_RETURN(Peers peers, start_peers(wanted_peers, subject.tensors()));
  Bench bench({subject.tensors(), layer, peers}, pool,
              {flags.distinct, flags.repeats, flags.seed, flags.quiet_only});
  Measured measured{layer, peers, options.memory, pool.num_threads(), flags.quiet_only, 0, {}};
  for (const int64_t rows : flags.rows) {
    ProgressBar bar(count_text(rows, "row"));
    OCTET_ASSIGN_OR_RETURN(BenchRow row, bench.run(rows, bar.callback()));
    measured.rows.push_back(std::move(row));
  }
  measured.ceiling_gbs = bench.ceiling_gbs();
  return report(measured, flags.json);
}

}  // namespace

int bench_verb(const Args& args) {
  BenchFlags flags;
  std::string names;
  for (const Shape& shape : shapes()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
  }
  CLI::App app;
  describe_verb(
      app, "bench",
      "Times a layer from x, ids and weights to y. Weights are cold: each call reads other\n"
      "experts, three times the last cache lies between two uses of one. The read ceiling\n"
      "is measured in turns with the kernel, with the same threads; of_ceiling is the median\n"
      "of the turns' ratios. The outputs of each row count are compared with the reference.\n"
      "On a CUDA device: the device's time from x and logits (ids, where the router does not\n"
      "run there) to y, of replays of a graph of 48 calls after 15 ms of idling; clock_mhz is\n"
      "the highest that the device may have.\n"
      "--peer times another program on the same weights in the same rounds (ours, the ceiling,\n"
      "each peer, the order rotated); bench/baselines has ggml and ik_llama.cpp.",
      "octet bench --shape v4.1-tp4 --experts 96 --weights mxfp4 --rows 1,8 --json");
  app.add_option("--model", flags.model, "checkpoint folder, safetensors file or packed file");
  app.add_option("--layer", flags.layer, "index of the layer of --model");
  app.add_option("--shape", flags.shape, "random weights of a shape: " + names);
  app.add_option("--experts", flags.experts, "experts of the --shape; default: the model's");
  app.add_option("--weights", flags.weights,
                 "mxfp4 or nvfp4 for the --shape; default: the model's");
  app.add_option("--rows", flags.rows, "rows of a call")->delimiter(',');
  app.add_option("--distinct", flags.distinct,
                 "experts that the rows read together; default: each row its own at random");
  app.add_option("--repeats", flags.repeats, "timed calls of each row count");
  app.add_option("--seed", flags.seed, "seed of weights, rows and ids");
  app.add_option("--peer", flags.peers,
                 "NAME=COMMAND: a program that runs the layer too (bench/baselines/peer.h)")
      ->allow_extra_args(false);
  app.add_flag("--quiet-only", flags.quiet_only,
               "repeat rounds in which other processes took 4 % of a core (Linux)");
  add_shard_flags(app, flags.layer_flags);
  app.add_option("--precision", flags.layer_flags.precision, "fast or exact");
  add_kernel_flags(app, flags.layer_flags);
  add_memory_flags(app, flags.layer_flags);
  app.add_flag("--json", flags.json, "the report as JSON");
  if (const auto exit = parse(app, args)) return *exit;
  return finish(bench(flags), "bench");
}

}  // namespace octet::tools
