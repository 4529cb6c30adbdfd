// SPDX-License-Identifier: Apache-2.0
// octet run: one MoE layer of a checkpoint, router to summed rows.
#include <cstdint>
#include <fmt/format.h>
#include <set>
#include <string>
#include <utility>

#include "checkpoint/safetensors.h"
#include "command.h"
#include "console.h"
#include "layer_session.h"
#include "output_file.h"
#include "report.h"
#include "trace.h"

namespace octet::tools {
namespace {

struct RunFlags {
  std::string model, input, output;
  int64_t layer = 0;
  bool json = false;
  LayerFlags layer_flags;
};

struct RunReport {
  const LayerSession& session;
  const LayerOutput& output;
  int64_t experts_read = 0, bytes = 0;
  double gbs() const { return static_cast<double>(bytes) / output.seconds * 1e-9; }
};

int64_t count_experts(const LayerSpec& spec, const Tensor& ids) {
  std::set<int64_t> distinct;
  for (int64_t i = 0; i < num_elems(ids.dims()); ++i) {
    const int64_t id = ids.as<int32_t>()[i] - spec.first_expert;
    if (id >= 0 && id < spec.local_experts) distinct.insert(id);
  }
  return static_cast<int64_t>(distinct.size());
}

Json report_json(const RunReport& r) {
  return {{"what", "run"},
          {"layer", spec_json(r.session.spec())},
          {"format", r.session.model().format()},
          {"kernel", r.session.layer().selection().kernel->name},
          {"threads", r.session.num_threads()},
          {"rows", r.output.y.dims()[0]},
          {"experts_read", r.experts_read},
          {"bytes", r.bytes},
          {"load_us", r.session.load_seconds() * 1e6},
          {"run_us", r.output.seconds * 1e6},
          {"gbs", r.gbs()}};
}

void print(const RunReport& r, const std::string& output) {
  print_out("{}\n  {}\n", r.session.title(), describe(r.session.spec()));
  print_table(
      {{"  kernel", fmt::format("{}, {}", r.session.layer().selection().kernel->name,
                                count_text(r.session.num_threads(), "thread"))},
       {"  load", fmt::format("{}, {}", human_seconds(r.session.load_seconds()),
                              human_bytes(r.session.layer().weight_bytes()))},
       {"  run", fmt::format("{} for {}: {}, {}, {:.1f} GB/s", human_seconds(r.output.seconds),
                             count_text(r.output.y.dims()[0], "row"),
                             count_text(r.experts_read, "expert"), human_bytes(r.bytes), r.gbs())},
       {"  written", output}});
}

Status save(const RunFlags& flags, const LayerSpec& spec, LayerOutput& out) {
  NamedTensors tensors;
  if (flags.layer_flags.trace) {
    const std::string left_out = add_trace(spec, out, tensors);
    if (!left_out.empty()) note(left_out);
  }
  NamedViews views;
  for (const auto& [name, tensor] : tensors) views[name] = tensor.view();
  views["y"] = out.y.view();
  views["topk_ids"] = out.topk_ids.view();
  views["topk_weights"] = out.topk_weights.view();
  return save_result(flags.output, views);
}

Status run_layer(const RunFlags& flags) {
  OCTET_RETURN_IF_ERROR(check_output_folder(flags.output));
  OCTET_ASSIGN_OR_RETURN(LayerSession session,
                         LayerSession::open(flags.model, flags.layer, flags.layer_flags));
  OCTET_ASSIGN_OR_RETURN(const LayerInput input, read_layer_input(flags.input, session.tensors()));
  OCTET_RETURN_IF_ERROR(session.load());
  OCTET_ASSIGN_OR_RETURN(LayerOutput out, session.run(input, flags.layer_flags.trace));
  OCTET_RETURN_IF_ERROR(save(flags, session.spec(), out));
  const RunReport report{
      session, out, count_experts(session.spec(), out.topk_ids),
      session.layer().bytes_read(out.topk_ids.as<int32_t>(), num_elems(out.topk_ids.dims()))};
  if (session.spec().has_shared_experts) {
    note("y has the routed experts only; the layer's shared experts are not in it");
  }
  if (flags.json) {
    print_json(report_json(report));
  } else {
    print(report, flags.output);
  }
  return {};
}

}  // namespace

int run_verb(const Args& args) {
  RunFlags flags;
  CLI::App app;
  describe_verb(app, "run",
                "Runs one MoE layer of a checkpoint. The input file has x BF16 [T, H], and either\n"
                "topk_ids I32/I64 [T, k] with topk_weights F32 [T, k] (global ids; they win), or\n"
                "logits F32 [T, E], or neither: then the checkpoint's own gate makes the logits.\n"
                "input_ids I32/I64 [T] where the router needs token ids. The output file has\n"
                "y BF16 [T, H] of this rank, topk_ids I32 and topk_weights F32; with --trace also\n"
                "logits, x_quant, x_scale, permuted, record, h_values, h_scales and gemm2_rows as\n"
                "the operations have them (bf16 activations: h, a row a slot). y has the routed\n"
                "experts only.",
                "octet run ckpt --layer 0 --tp 0/4 --input x.safetensors --output y.safetensors");
  app.add_option("model", flags.model, "checkpoint folder, safetensors file or packed file")
      ->required();
  add_layer_flag(app, flags.layer);
  app.add_option("--input", flags.input, "safetensors file to read")->required();
  app.add_option("--output", flags.output, kOutputHelp)->required();
  add_shard_flags(app, flags.layer_flags);
  add_numeric_flags(app, flags.layer_flags);
  add_kernel_flags(app, flags.layer_flags);
  add_memory_flags(app, flags.layer_flags);
  app.add_flag("--trace", flags.layer_flags.trace, "write every intermediate too");
  app.add_flag("--json", flags.json, "the report as JSON");
  if (const auto exit = parse(app, args)) return *exit;
  const auto work = [&] { return run_layer(flags); };
  return finish(write_output(flags.output, {flags.input, flags.model}, work), "run");
}

}  // namespace octet::tools
