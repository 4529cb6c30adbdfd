// SPDX-License-Identifier: Apache-2.0
// octet check: a layer's routing and rows from the chosen kernel against the float64 reference.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <string>

#include "check_routing.h"
#include "command.h"
#include "compare.h"
#include "console.h"
#include "layer_session.h"
#include "memory.h"
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
  LayerOutput& output;
  reference::RoutingVerdict routing;
  Comparison compared;
  double reference_seconds = 0;
  bool ok() const { return routing.ok() && compared.ok(); }
  int64_t tokens() const { return output.y.dims()[0]; }
  int64_t bytes() const {
    return session.layer().bytes_read(output.topk_ids.as<int32_t>(),
                                      num_elems(output.topk_ids.dims()));
  }
};

// Standard normal rows; token ids where the router may ask for them.
Result<LayerInput> random_input(const CheckFlags& flags, const checkpoint::LayerTensors& layer) {
  // x, and what is known before anything is loaded of the rest: y twice, an interval an element.
  constexpr auto kElementBytes = static_cast<int64_t>(3 * sizeof(Bf16) + sizeof(reference::Span));
  OCTET_RETURN_IF_ERROR(check_memory(fmt::format("--rows {}", flags.rows),
                                     flags.rows * layer.spec.hidden * kElementBytes));
  Random random(flags.seed);
  LayerInput input;
  input.x = gaussian_rows(flags.rows, layer.spec.hidden, random);
  const bool by_token = layer.gate.table.data != nullptr || layer.gate.bias_vl.data != nullptr;
  if (by_token) {
    constexpr int64_t kSomeVocabulary = 100000;  // below the image ids of every model we know
    constexpr int64_t kRowsAnImage = 4;          // one row in so many is an image
    const bool has_images =
        layer.gate.bias_vl.data != nullptr && layer.spec.router.image_sentinel_lo > 0;
    const int64_t vocab =
        layer.gate.table.data != nullptr ? layer.gate.table.dim(0) : kSomeVocabulary;
    input.input_ids = Tensor(Dtype::kI64, {flags.rows});
    for (int64_t t = 0; t < flags.rows; ++t) {
      const bool image = has_images && t % kRowsAnImage == kRowsAnImage - 1;
      input.input_ids.as<int64_t>()[t] =
          image ? layer.spec.router.image_sentinel_lo : random.below(vocab);
    }
  }
  OCTET_RETURN_IF_ERROR(check_router_input(input, layer));
  return input;
}

void print_routing(const LayerOutput& out) {
  constexpr int64_t kMostRows = 8;
  const int64_t tokens = out.topk_ids.dims()[0];
  const int64_t top_k = out.top_k();
  print_out("  row   expert and weight, {} a row\n", top_k);
  for (int64_t t = 0; t < std::min(tokens, kMostRows); ++t) {
    std::string line = fmt::format("  {:3} ", t);
    for (int64_t j = 0; j < top_k; ++j) {
      line += fmt::format(" {:4} {:.3f}", out.topk_ids.as<int32_t>()[t * top_k + j],
                          out.topk_weights.as<float>()[t * top_k + j]);
    }
    print_out("{}\n", line);
  }
  if (tokens > kMostRows) print_out("  and {} more\n", count_text(tokens - kMostRows, "row"));
}

// What became of h, or why it was not judged.
std::string hidden_text(const Checked& c) {
  const reference::HiddenVerdict& h = c.compared.h;
  if (h.num_elems == 0) return "not judged";
  if (h.num_outside == 0) return fmt::format("{} elements, all inside their bounds", h.num_elems);
  return fmt::format("{} of {} elements OUTSIDE; slot {}, column {}: got {:.6g}, want {:.6g}",
                     h.num_outside, h.num_elems, h.slot, h.column, h.got, h.want.value);
}

std::string y_text(const Checked& c) {
  const Comparison& r = c.compared;
  return fmt::format("{} elements, {}; {} are the reference's own BF16 value", r.num_elems,
                     r.worst.num_outside == 0 ? "all inside their bounds"
                                              : fmt::format("{} OUTSIDE", r.worst.num_outside),
                     r.num_exact);
}

std::string worst_text(const reference::Worst& w) {
  return fmt::format(
      "y[{}, {}]: got {:.6g}, want {:.6g} in [{:.6g}, {:.6g}]: {:.0f} % of its bound", w.token,
      w.column, w.got, w.want.value, w.want.lo, w.want.hi, w.share * 100);
}

void print(const Checked& c) {
  const LayerSession& s = c.session;
  const double gbs = static_cast<double>(c.bytes()) / c.output.seconds * 1e-9;
  print_out("{}\n{}\n\n", s.title(), describe(s.spec()));
  print_routing(c.output);
  print_out("\n");
  print_table({{"  loaded", fmt::format("{} in {}", human_bytes(s.layer().weight_bytes()),
                                        human_seconds(s.load_seconds()))},
               {"  kernel", fmt::format("{}, {}", s.layer().selection().kernel->name,
                                        count_text(s.num_threads(), "thread"))},
               {"  run", fmt::format("{} for {}: {} of weights, {:.1f} GB/s",
                                     human_seconds(c.output.seconds), count_text(c.tokens(), "row"),
                                     human_bytes(c.bytes()), gbs)},
               {"  reference", fmt::format("{} in float64", human_seconds(c.reference_seconds))},
               {"  logits", logits_text(c.routing)},
               {"  routing", routing_text(c.routing)},
               {"  h", hidden_text(c)},
               {"  y", y_text(c)},
               {"  worst", worst_text(c.compared.worst)},
               {"  result", c.ok() ? "ok" : "WRONG"}});
}

Json checked_json(const Checked& c) {
  const LayerOutput& out = c.output;
  const int64_t slots = num_elems(out.topk_ids.dims());
  const reference::Worst& w = c.compared.worst;
  Json report = {{"what", "check"},
                 {"ok", c.ok()},
                 {"layer", spec_json(c.session.spec())},
                 {"kernel", c.session.layer().selection().kernel->name},
                 {"threads", c.session.num_threads()},
                 {"rows", c.tokens()},
                 {"topk_ids", std::vector<int32_t>(out.topk_ids.as<int32_t>(),
                                                   out.topk_ids.as<int32_t>() + slots)},
                 {"topk_weights", std::vector<float>(out.topk_weights.as<float>(),
                                                     out.topk_weights.as<float>() + slots)},
                 {"bytes", c.bytes()},
                 {"load_us", c.session.load_seconds() * 1e6},
                 {"run_us", out.seconds * 1e6},
                 {"reference_us", c.reference_seconds * 1e6},
                 {"max_error_over_bound", w.share},
                 {"outside", w.num_outside},
                 {"exact", c.compared.num_exact},
                 {"h_elements", c.compared.h.num_elems},
                 {"h_outside", c.compared.h.num_outside},
                 {"worst",
                  {{"row", w.token},
                   {"column", w.column},
                   {"got", w.got},
                   {"want", w.want.value},
                   {"lo", w.want.lo},
                   {"hi", w.want.hi}}}};
  add_routing(c.routing, report);
  return report;
}

// The first failure, or success.
Status verdict(const std::string& model, const Checked& checked) {
  OCTET_RETURN_IF_ERROR(routing_status(model, checked.routing));
  const Comparison& c = checked.compared;
  const reference::HiddenVerdict& h = c.h;
  if (h.num_outside > 0) {
    return invalid_argument(fmt::format(
        "{}: h of slot {}, column {}: found {:.9g}, want {:.9g}..{:.9g}; {} of {} elements outside",
        model, h.slot, h.column, h.got, h.want.lo, h.want.hi, h.num_outside, h.num_elems));
  }
  const reference::Worst& w = c.worst;
  if (w.num_outside == 0) return {};
  return invalid_argument(fmt::format(
      "{}: y[{}, {}]: found {:.9g}, want {:.9g}..{:.9g}; {} of {} elements outside", model, w.token,
      w.column, w.got, w.want.lo, w.want.hi, w.num_outside, c.num_elems));
}

// h of the same call run again, which must change no byte of y.
Result<reference::MadeHidden> make_hidden(LayerSession& session, const LayerInput& input,
                                          const LayerOutput& first, LayerOutput& traced) {
  OCTET_ASSIGN_OR_RETURN(traced, session.run(input, true));
  if (std::memcmp(first.y.data(), traced.y.data(), first.y.num_bytes()) != 0) {
    return internal_error("y: two runs of the same call differ, want the same bytes");
  }
  reference::MadeHidden made;
  made.permuted = traced.permuted.as<int32_t>();
  if (session.spec().activations == Activations::kMxfp8) {
    made.values = traced.h_values.as<uint8_t>();
    made.scales = traced.h_scales.as<uint8_t>();
  } else {
    made.rounded = traced.h.as<Bf16>();
  }
  return made;
}

Status check(const CheckFlags& flags) {
  OCTET_RETURN_IF_ERROR(check_range("--rows", flags.rows, {1, kMaxRows}));
  OCTET_ASSIGN_OR_RETURN(LayerSession session,
                         LayerSession::open(flags.model, flags.layer, flags.layer_flags));
  OCTET_ASSIGN_OR_RETURN(const LayerInput input,
                         flags.input.empty() ? random_input(flags, session.tensors())
                                             : read_layer_input(flags.input, session.tensors()));
  OCTET_RETURN_IF_ERROR(session.load());
  OCTET_ASSIGN_OR_RETURN(LayerOutput out, session.run(input, false));
  CallView call{input.tokens(),
                out.top_k(),
                input.x.as<Bf16>(),
                out.topk_ids.as<int32_t>(),
                out.topk_weights.as<float>(),
                out.y.as<Bf16>()};
  const dispatch::Kernel& kernel = *session.layer().selection().kernel;
  call.sums = dispatch::sums_of(kernel);
  LayerOutput traced;
  reference::MadeHidden made;
  if (kernel.isa != dispatch::Isa::kReference) {  // which has y only
    OCTET_ASSIGN_OR_RETURN(made, make_hidden(session, input, out, traced));
    call.made = &made;
  }
  Checked checked{session, out, {}, {}, 0};
  const Stopwatch watch;
  {
    checked.routing = check_routing(session.tensors(), input, out);
    ProgressBar bar("reference");
    checked.compared = compare_with_reference(session.tensors(), call, bar.callback());
  }
  checked.reference_seconds = watch.seconds();
  if (flags.json) {
    print_json(checked_json(checked));
  } else {
    print(checked);
  }
  return verdict(flags.model, checked);
}

}  // namespace

int check_verb(const Args& args) {
  CheckFlags flags;
  CLI::App app;
  describe_verb(
      app, "check",
      "Runs a layer on random rows, or on those of --input, and compares with the float64\n"
      "reference: each logit of the gate, the ids and weights that the router made of them,\n"
      "and each element of h and y, with the interval of right answers. Prints routing, times\n"
      "and the worst element. Exit status 1 if an element is outside or an id wrong. An id\n"
      "that differs from the reference's only because two keys stand closer than the logits'\n"
      "bound allows is right: a tie.",
      "octet check ckpt --layer 0 --tp 0/4 --rows 6");
  app.add_option("model", flags.model, "checkpoint folder, safetensors file or packed file")
      ->required();
  add_layer_flag(app, flags.layer);
  app.add_option("--rows", flags.rows, "random rows");
  app.add_option("--seed", flags.seed, "seed of the random rows");
  app.add_option("--input", flags.input, "safetensors file as octet run reads it");
  add_shard_flags(app, flags.layer_flags);
  add_numeric_flags(app, flags.layer_flags);
  add_kernel_flags(app, flags.layer_flags);
  add_memory_flags(app, flags.layer_flags);
  app.add_flag("--json", flags.json, "the report as JSON");
  if (const auto exit = parse(app, args)) return *exit;
  return finish(check(flags), "check");
}

}  // namespace octet::tools
