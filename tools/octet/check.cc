// SPDX-License-Identifier: Apache-2.0
// octet check: a layer's rows from the chosen kernel against the float64 reference.
#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <string>

#include "command.h"
#include "compare.h"
#include "layer_session.h"
#include "progress_bar.h"
#include "random.h"
#include "report.h"

namespace octet::tools {
namespace {

struct CheckFlags {
  std::string model, input;
  int64_t layer = 0;
  int64_t rows = 6;
  uint64_t seed = 0;
  LayerFlags layer_flags;
  bool json = false;
};

struct Checked {
  const LayerSession& session;
  const LayerOutput& output;
  reference::Worst worst;
  double reference_seconds = 0;
  int64_t tokens() const { return output.y.dims()[0]; }
  int64_t elements() const { return num_elems(output.y.dims()); }
  int64_t bytes() const {
    return session.layer().bytes_read(output.topk_ids.as<int32_t>(),
                                      num_elems(output.topk_ids.dims()));
  }
  bool ok() const { return worst.num_outside == 0; }
};

// Standard normal rows; token ids where the router may ask for them.
Result<LayerInput> random_input(const CheckFlags& flags, const checkpoint::LayerTensors& layer) {
  if (flags.rows < 0) {
    return invalid_argument(fmt::format("--rows: found {}, want at least 0", flags.rows));
  }
  Random random(flags.seed);
  LayerInput input;
  input.x = gaussian_rows(flags.rows, layer.spec.hidden, random);
  const bool by_token = layer.gate.table.data != nullptr || layer.gate.bias_vl.data != nullptr;
  if (by_token) {
    constexpr int64_t kSomeVocabulary = 100000;  // below the image ids of every model we know
    const int64_t vocab =
        layer.gate.table.data != nullptr ? layer.gate.table.dim(0) : kSomeVocabulary;
    input.input_ids = Tensor(Dtype::kI64, {flags.rows});
    for (int64_t t = 0; t < flags.rows; ++t) {
      input.input_ids.as<int64_t>()[t] = random.below(vocab);
    }
  }
  OCTET_RETURN_IF_ERROR(check_router_input(input, layer));
  return input;
}

void print_routing(const LayerOutput& out) {
  constexpr int64_t kMostRows = 8;
  const int64_t tokens = out.topk_ids.dims()[0];
  const int64_t top_k = out.top_k();
  fmt::print("  row   expert and weight, {} a row\n", top_k);
  for (int64_t t = 0; t < std::min(tokens, kMostRows); ++t) {
    std::string line = fmt::format("  {:3} ", t);
    for (int64_t j = 0; j < top_k; ++j) {
      line += fmt::format(" {:4} {:.3f}", out.topk_ids.as<int32_t>()[t * top_k + j],
                          out.topk_weights.as<float>()[t * top_k + j]);
    }
    fmt::print("{}\n", line);
  }
  if (tokens > kMostRows) fmt::print("  and {} rows more\n", tokens - kMostRows);
}

void print(const Checked& c) {
  const LayerSession& s = c.session;
  const double gbs = static_cast<double>(c.bytes()) / c.output.seconds * 1e-9;
  fmt::print("{}\n{}\n\n", s.title(), describe(s.spec()));
  print_routing(c.output);
  const reference::Worst& w = c.worst;
  fmt::print("\n");
  print_table(
      {{"  loaded", fmt::format("{} in {}", human_bytes(s.layer().weight_bytes()),
                                human_seconds(s.load_seconds()))},
       {"  kernel", fmt::format("{} for {} rows, {} of weights, {:.1f} GB/s: {}, {} threads",
                                human_seconds(c.output.seconds), c.tokens(), human_bytes(c.bytes()),
                                gbs, s.layer().selection().kernel->name, s.num_threads())},
       {"  reference", fmt::format("{} in float64", human_seconds(c.reference_seconds))},
       {"  worst",
        fmt::format("y[{}, {}]: got {:.6g}, want {:.6g} in [{:.6g}, {:.6g}]: {:.0f} % of "
                    "its bound",
                    w.token, w.column, w.got, w.want.value, w.want.lo, w.want.hi, w.share * 100)},
       {"  y", fmt::format("{} of {} elements inside their bounds: {}",
                           c.elements() - w.num_outside, c.elements(), c.ok() ? "ok" : "WRONG")}});
}

Json checked_json(const Checked& c) {
  const LayerOutput& out = c.output;
  const int64_t slots = num_elems(out.topk_ids.dims());
  const reference::Worst& w = c.worst;
  return {{"what", "check"},
          {"ok", c.ok()},
          {"layer", spec_json(c.session.spec())},
          {"kernel", c.session.layer().selection().kernel->name},
          {"threads", c.session.num_threads()},
          {"rows", c.tokens()},
          {"topk_ids",
           std::vector<int32_t>(out.topk_ids.as<int32_t>(), out.topk_ids.as<int32_t>() + slots)},
          {"topk_weights",
           std::vector<float>(out.topk_weights.as<float>(), out.topk_weights.as<float>() + slots)},
          {"bytes", c.bytes()},
          {"load_us", c.session.load_seconds() * 1e6},
          {"run_us", out.seconds * 1e6},
          {"reference_us", c.reference_seconds * 1e6},
          {"max_error_over_bound", w.share},
          {"outside", w.num_outside},
          {"worst",
           {{"row", w.token},
            {"column", w.column},
            {"got", w.got},
            {"want", w.want.value},
            {"lo", w.want.lo},
            {"hi", w.want.hi}}}};
}

Status check(const CheckFlags& flags) {
  OCTET_ASSIGN_OR_RETURN(LayerSession session,
                         LayerSession::open(flags.model, flags.layer, flags.layer_flags));
  OCTET_ASSIGN_OR_RETURN(const LayerInput input,
                         flags.input.empty() ? random_input(flags, session.tensors())
                                             : read_layer_input(flags.input, session.tensors()));
  OCTET_RETURN_IF_ERROR(session.load());
  OCTET_ASSIGN_OR_RETURN(const LayerOutput out, session.run(input, false));
  Checked checked{session, out, {}, 0};
  const Stopwatch watch;
  {
    ProgressBar bar("reference");
    checked.worst = compare_with_reference(
        session.tensors(),
        {input.tokens(), out.top_k(), input.x.as<Bf16>(), out.topk_ids.as<int32_t>(),
         out.topk_weights.as<float>(), out.y.as<Bf16>()},
        bar.callback());
  }
  checked.reference_seconds = watch.seconds();
  if (flags.json) {
    print_json(checked_json(checked));
  } else {
    print(checked);
  }
  if (checked.ok()) return {};
  const reference::Worst& w = checked.worst;
  return invalid_argument(
      fmt::format("{}: y[{}, {}]: found {:.9g}, want {:.9g}..{:.9g}; {} of {} elements are outside",
                  flags.model, w.token, w.column, w.got, w.want.lo, w.want.hi, w.num_outside,
                  checked.elements()));
}

}  // namespace

int check_verb(const Args& args) {
  CheckFlags flags;
  CLI::App app;
  describe_verb(
      app, "check",
      "Runs a layer on random rows, or on those of --input, and compares each element of y\n"
      "with the interval that the float64 reference derives for it. Prints routing, times\n"
      "and the worst element. Exit status 1 if an element is outside.",
      "octet check ckpt --layer 0 --tp 0/4 --rows 6");
  app.add_option("model", flags.model, "checkpoint folder, safetensors file or packed file")
      ->required();
  app.add_option("--layer", flags.layer, "index of the layer, from 0")->required();
  app.add_option("--rows", flags.rows, "random rows");
  app.add_option("--seed", flags.seed, "seed of the random rows");
  app.add_option("--input", flags.input, "safetensors file as octet run reads it");
  add_shard_flags(app, flags.layer_flags);
  add_numeric_flags(app, flags.layer_flags);
  add_kernel_flags(app, flags.layer_flags);
  app.add_flag("--json", flags.json, "the report as JSON");
  if (const auto exit = parse(app, args)) return *exit;
  return finish(check(flags), "check");
}

}  // namespace octet::tools
