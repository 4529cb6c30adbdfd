// SPDX-License-Identifier: Apache-2.0
// octet inspect: the MoE layers of a checkpoint, and which kernels take them.
#include <string>

#include "command.h"
#include "layer_flags.h"
#include "model_report.h"

namespace octet::tools {
namespace {

struct InspectFlags {
  std::string model;
  LayerFlags layer_flags;
  bool json = false;
};

Status inspect(const InspectFlags& flags) {
  OCTET_ASSIGN_OR_RETURN(const checkpoint::LoadOptions load, load_options(flags.layer_flags));
  OCTET_ASSIGN_OR_RETURN(const dispatch::LayerOptions options, layer_options(flags.layer_flags));
  OCTET_ASSIGN_OR_RETURN(const ModelReport report,
                         read_model(flags.model, load, options, BrokenLayers::kFail));
  if (flags.json) {
    print_json(to_json(report));
  } else {
    print(report);
  }
  return {};
}

}  // namespace

int inspect_verb(const Args& args) {
  InspectFlags flags;
  CLI::App app;
  describe_verb(
      app, "inspect",
      "Lists the MoE layers of a checkpoint: format, shapes, router, bytes; and which kernels\n"
      "take them, with the reasons of those that do not, counted over the layers. No weight is\n"
      "read: octet validate does that.",
      "octet inspect ckpt --tp 0/4");
  app.add_option("model", flags.model, "checkpoint folder, safetensors file or packed file")
      ->required();
  add_shard_flags(app, flags.layer_flags);
  add_backend_flag(app, flags.layer_flags);
  app.add_flag("--json", flags.json, "the report as JSON");
  if (const auto exit = parse(app, args)) return *exit;
  return finish(inspect(flags), "inspect");
}

}  // namespace octet::tools
