// SPDX-License-Identifier: Apache-2.0
// octet explain: which kernel a problem gets, one line a kernel, with the reason for each no.
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/model.h"
#include "checkpoint/model_sizes.h"
#include "checkpoint/shard.h"
#include "command.h"
#include "dispatch/select.h"
#include "layer_flags.h"
#include "report.h"

namespace octet::tools {
namespace {

struct ExplainFlags {
  std::string model;  // empty: the problem of the options below
  int64_t layer = -1;
  int64_t tokens = 0;
  checkpoint::ModelSizes sizes = checkpoint::kV41Flash;
  bool has_sizes = false;  // one of them, or weights, was given
  std::string weights = "mxfp4";
  LayerFlags layer_flags;
  bool json = false;
};

// Loading's own check, of experts and top-k alone: a width that no kernel takes is for the kernels' own reasons.
Status check_routing_sizes(LayerSpec spec) {
  spec.router.kind =
      RouterKind::kSoftmax;  // no router is asked for: one of those with the widest limits
  spec.hidden = kMxBlock;
  spec.intermediate = scale_block(spec.weights);
  return checkpoint::check_spec(spec);
}

Result<dispatch::Problem> problem_of_flags(const ExplainFlags& flags,
                                           const dispatch::LayerOptions& options) {
  OCTET_RETURN_IF_ERROR(check_range("--hidden", flags.sizes.hidden, {1, checkpoint::kMaxWidth}));
  OCTET_RETURN_IF_ERROR(
      check_range("--intermediate", flags.sizes.intermediate, {1, checkpoint::kMaxWidth}));
  OCTET_RETURN_IF_ERROR(
      check_range("--experts", flags.sizes.experts, {1, checkpoint::kMaxExperts}));
  OCTET_RETURN_IF_ERROR(check_range("--top-k", flags.sizes.top_k, {1, checkpoint::kMaxExperts}));
  LayerSpec spec;
  spec.hidden = flags.sizes.hidden;
  spec.intermediate = flags.sizes.intermediate;
  spec.experts = spec.local_experts = flags.sizes.experts;
  spec.router.top_k = flags.sizes.top_k;
  OCTET_ASSIGN_OR_RETURN(spec.weights, weights_from_name(flags.weights));
  OCTET_ASSIGN_OR_RETURN(const checkpoint::LoadOptions load, load_options(flags.layer_flags));
  spec.activations = load.activations.value_or(Activations::kBf16);
  spec.precision = load.precision;
  OCTET_RETURN_IF_ERROR(check_routing_sizes(spec));
  OCTET_RETURN_IF_ERROR(checkpoint::check_shard(spec, load.shard));
  checkpoint::LayerTensors layer;
  layer.spec = checkpoint::shard_spec(spec, load.shard);
  dispatch::Problem problem = dispatch::problem_of(layer, options);
  problem.down_start =
      layer.spec.intermediate * load.shard.tp_rank % scale_block(layer.spec.weights);
  return problem;
}

Result<dispatch::Problem> problem_of_model(const ExplainFlags& flags,
                                           const dispatch::LayerOptions& options) {
  if (flags.layer < 0) return misuse("--layer is missing, want the index of a layer of the model");
  OCTET_ASSIGN_OR_RETURN(const checkpoint::LoadOptions load, load_options(flags.layer_flags));
  OCTET_ASSIGN_OR_RETURN(const checkpoint::Model model, checkpoint::Model::open(flags.model));
  OCTET_ASSIGN_OR_RETURN(const checkpoint::LayerTensors layer, model.layer(flags.layer, load));
  return dispatch::problem_of(layer, options);
}

// Every kernel in the table's order, the chosen one marked.
void print(const dispatch::Problem& problem, const dispatch::Selection& selection, bool json) {
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const dispatch::Kernel& kernel : dispatch::kernels()) {
    const std::string why = dispatch::refusal(kernel, problem);
    const bool chosen = &kernel == selection.kernel;
    const std::string answer = why.empty() ? "yes" : "no";
    rows.push_back({std::string(kernel.name), answer, chosen ? "chosen" : why});
    all.push_back(
        {{"kernel", kernel.name}, {"takes", why.empty()}, {"why", why}, {"chosen", chosen}});
  }
  if (json) {
    print_json(all);
  } else {
    print_table(rows);
  }
}

Status explain(const ExplainFlags& flags) {
  if (!flags.model.empty() && flags.has_sizes) {
    return misuse("explain: a checkpoint and sizes, want one of them");
  }
  OCTET_RETURN_IF_ERROR(check_range("--tokens", flags.tokens, {0, kMaxRows}));
  OCTET_ASSIGN_OR_RETURN(const dispatch::LayerOptions options, layer_options(flags.layer_flags));
  OCTET_ASSIGN_OR_RETURN(dispatch::Problem problem, flags.model.empty()
                                                        ? problem_of_flags(flags, options)
                                                        : problem_of_model(flags, options));
  problem.tokens = flags.tokens;
  const dispatch::Selection selection = dispatch::select(problem);
  print(problem, selection, flags.json);
  if (selection.kernel == nullptr) {
    return unsupported("no kernel takes the problem; the reasons are listed above");
  }
  return {};
}

}  // namespace

int explain_verb(const Args& args) {
  ExplainFlags flags;
  CLI::App app;
  describe_verb(
      app, "explain",
      "Says for each kernel whether it takes a problem and, if not, why; the first yes is\n"
      "the one that runs. The problem is a checkpoint's layer or given by its sizes. Exit\n"
      "status 1 if none takes it.",
      "octet explain --tokens 4 --hidden 4128 --weights mxfp4");
  app.add_option("model", flags.model, "a checkpoint, with --layer; default: the sizes below");
  app.add_option("--layer", flags.layer, "index of the layer, from 0");
  app.add_option("--tokens", flags.tokens, "rows of a call; 0: any number");
  app.add_option("--hidden", flags.sizes.hidden, "hidden size H");
  app.add_option("--intermediate", flags.sizes.intermediate,
                 "intermediate size I, before --tp cuts it");
  app.add_option("--experts", flags.sizes.experts, "experts of the layer, before --ep cuts them");
  app.add_option("--top-k", flags.sizes.top_k, "experts a row");
  app.add_option("--weights,--weight", flags.weights, "mxfp4 or nvfp4");
  add_shard_flags(app, flags.layer_flags);
  app.add_option("--precision", flags.layer_flags.precision, "fast or exact");
  add_backend_flag(app, flags.layer_flags);
  app.add_flag("--trace", flags.layer_flags.trace, "as for a run with --trace");
  app.add_option("--kernel", flags.layer_flags.kernel, "ask for this kernel only");
  app.add_flag("--json", flags.json, "as JSON");
  if (const auto exit = parse(app, args)) return *exit;
  for (const char* size : {"--hidden", "--intermediate", "--experts", "--top-k", "--weights"})
    flags.has_sizes = flags.has_sizes || app.count(size) > 0;
  return finish(explain(flags), "explain");
}

}  // namespace octet::tools
