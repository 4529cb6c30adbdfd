// SPDX-License-Identifier: Apache-2.0
// octet explain: which kernel a problem gets, one line a kernel, with the reason for each no.
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "checkpoint/model.h"
#include "command.h"
#include "dispatch/select.h"
#include "layer_flags.h"
#include "report.h"

namespace octet::tools {
namespace {

struct ExplainFlags {
  std::string model;  // empty: the problem of the options below
  int64_t layer = -1;
  int64_t tokens = 0, hidden = 5120, intermediate = 2304, experts = 384, top_k = 6;
  std::string weights = "mxfp4";
  LayerFlags layer_flags;
  bool json = false;
};

Status check_count(const char* option, int64_t found, int64_t least) {
  if (found >= least) return {};
  return invalid_argument(fmt::format("{}: found {}, want at least {}", option, found, least));
}

Result<LayerSpec> spec_of_flags(const ExplainFlags& flags) {
  OCTET_RETURN_IF_ERROR(check_count("--hidden", flags.hidden, 1));
  OCTET_RETURN_IF_ERROR(check_count("--intermediate", flags.intermediate, 1));
  OCTET_RETURN_IF_ERROR(check_count("--experts", flags.experts, 1));
  OCTET_RETURN_IF_ERROR(check_count("--top-k", flags.top_k, 1));
  LayerSpec spec;
  spec.hidden = flags.hidden;
  spec.intermediate = flags.intermediate;
  spec.experts = spec.local_experts = flags.experts;
  spec.router.top_k = flags.top_k;
  OCTET_ASSIGN_OR_RETURN(spec.weights, weights_from_name(flags.weights));
  OCTET_ASSIGN_OR_RETURN(const checkpoint::LoadOptions load, load_options(flags.layer_flags));
  spec.activations = load.activations.value_or(Activations::kBf16);
  spec.precision = load.precision;
  return spec;
}

Result<LayerSpec> spec_of_model(const ExplainFlags& flags) {
  if (flags.layer < 0) return misuse("--layer is missing, want the index of a layer of the model");
  OCTET_ASSIGN_OR_RETURN(const checkpoint::LoadOptions load, load_options(flags.layer_flags));
  OCTET_ASSIGN_OR_RETURN(const checkpoint::Model model, checkpoint::Model::open(flags.model));
  OCTET_ASSIGN_OR_RETURN(const checkpoint::LayerTensors layer, model.layer(flags.layer, load));
  return layer.spec;
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
  OCTET_RETURN_IF_ERROR(check_count("--tokens", flags.tokens, 0));
  dispatch::Problem problem;
  OCTET_ASSIGN_OR_RETURN(problem.spec,
                         flags.model.empty() ? spec_of_flags(flags) : spec_of_model(flags));
  OCTET_ASSIGN_OR_RETURN(const dispatch::LayerOptions options, layer_options(flags.layer_flags));
  problem.tokens = flags.tokens;
  problem.backend = options.backend;
  problem.kernel = options.kernel;
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
  app.add_option("--hidden", flags.hidden, "hidden size H");
  app.add_option("--intermediate", flags.intermediate, "intermediate size I of this rank");
  app.add_option("--experts", flags.experts, "experts of the layer");
  app.add_option("--top-k", flags.top_k, "experts a row");
  app.add_option("--weights,--weight", flags.weights, "mxfp4 or nvfp4");
  add_shard_flags(app, flags.layer_flags);
  app.add_option("--precision", flags.layer_flags.precision, "fast or exact");
  add_backend_flag(app, flags.layer_flags);
  app.add_option("--kernel", flags.layer_flags.kernel, "ask for this kernel only");
  app.add_flag("--json", flags.json, "as JSON");
  if (const auto exit = parse(app, args)) return *exit;
  return finish(explain(flags), "explain");
}

}  // namespace octet::tools
