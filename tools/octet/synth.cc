// SPDX-License-Identifier: Apache-2.0
// octet synth: a checkpoint with a real model's tensor names, dtypes, shapes and config.json, and made-up values.
#include "checkpoint/synth.h"

#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>

#include "command.h"
#include "console.h"
#include "progress_bar.h"
#include "report.h"

namespace octet::tools {
namespace {

Status make(const checkpoint::SynthOptions& options) {
  const Stopwatch watch;
  {
    ProgressBar bar("writing");
    OCTET_RETURN_IF_ERROR(checkpoint::synth(options, bar.callback()));
  }
  print_out("{}: {} in {}\n", options.output.string(), options.preset,
            human_seconds(watch.seconds()));
  return {};
}

}  // namespace

int synth_verb(const Args& args) {
  checkpoint::SynthOptions options;
  std::string output;
  std::string presets;
  for (const std::string_view preset : checkpoint::synth_presets()) {
    presets += fmt::format("{}{}", presets.empty() ? "" : ", ", preset);
  }
  CLI::App app;
  describe_verb(
      app, "synth",
      "Makes a checkpoint with a real model's tensor names, dtypes, shapes and config.json\n"
      "and made-up values: the same bytes for the same seed and sizes.",
      "octet synth deepseek-v4.1-flash --layers 1 --experts 64 --output ckpt");
  app.add_option("preset", options.preset, presets)->required();
  app.add_option("--output", output,
                 "folder to write, made if missing; a checkpoint made there before goes,\n"
                 "also when the exit status is 1")
      ->required();
  app.add_option("--layers", options.layers,
                 "layers; default: as many as show the preset (one, or a few)");
  app.add_option("--experts", options.experts, "experts a layer; default: the model's");
  app.add_option("--hidden", options.hidden, "hidden size H; default: the model's");
  app.add_option("--intermediate", options.intermediate,
                 "intermediate size I; default: the model's");
  app.add_option("--seed", options.seed, "seed of the values");
  if (const auto exit = parse(app, args)) return *exit;
  options.output = output;
  return finish(make(options), "synth");
}

}  // namespace octet::tools
