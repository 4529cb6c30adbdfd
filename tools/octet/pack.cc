// SPDX-License-Identifier: Apache-2.0
// octet pack: layers in the library's own streaming layout, which `run` maps and loads nothing.
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "checkpoint/packed.h"
#include "command.h"
#include "console.h"
#include "layer_flags.h"
#include "output_file.h"
#include "progress_bar.h"
#include "report.h"

namespace octet::tools {
namespace {

struct PackFlags {
  std::string model, output;
  std::vector<int64_t> layers;  // empty: all
  bool all = false, verify = false;
  LayerFlags layer_flags;
};

Status pack_model(const PackFlags& flags) {
  if (flags.all && !flags.layers.empty()) return misuse("--all and --layer: found both, want one");
  OCTET_RETURN_IF_ERROR(check_output_folder(flags.output));
  checkpoint::PackOptions options;
  OCTET_ASSIGN_OR_RETURN(options.load, load_options(flags.layer_flags));
  options.layers = flags.layers;
  options.output = flags.output;
  OCTET_ASSIGN_OR_RETURN(const checkpoint::Model model, checkpoint::Model::open(flags.model));
  const Stopwatch watch;
  {
    ProgressBar bar("packing");
    OCTET_RETURN_IF_ERROR(checkpoint::pack(model, options, bar.callback()));
  }
  const double pack_seconds = watch.seconds();
  if (flags.verify) {
    ProgressBar bar("verifying");
    OCTET_RETURN_IF_ERROR(checkpoint::verify_packed(flags.output, bar.callback()));
  }
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(flags.output, ignored);
  const std::set<int64_t> chosen(flags.layers.begin(), flags.layers.end());
  const size_t count = chosen.empty() ? model.layers().size() : chosen.size();
  print_out("{}: {}, {} in {}{}\n", flags.output, count_text(static_cast<int64_t>(count), "layer"),
            human_bytes(static_cast<int64_t>(bytes)), human_seconds(pack_seconds),
            flags.verify ? ", every checksum right" : "");
  return {};
}

}  // namespace

int pack_verb(const Args& args) {
  PackFlags flags;
  CLI::App app;
  describe_verb(
      app, "pack",
      "Writes layers of a checkpoint, or a rank's part of them, as one file in the library's\n"
      "own streaming layout, with the source's digest and a checksum of every tensor. octet\n"
      "run maps it and loads nothing.",
      "octet pack ckpt --layer 0 --tp 0/4 --output layer0.octet");
  app.add_option("model", flags.model, "checkpoint folder or file")->required();
  app.add_option("--layer", flags.layers, "index of a layer, may be repeated; default: all")
      ->allow_extra_args(false);
  app.add_flag("--all", flags.all, "all layers, the default");
  app.add_option("--output", flags.output, kOutputHelp)->required();
  add_shard_flags(app, flags.layer_flags);
  app.add_flag("--verify", flags.verify, "read the file back and compare every checksum");
  if (const auto exit = parse(app, args)) return *exit;
  const auto work = [&] { return pack_model(flags); };
  return finish(write_output(flags.output, {flags.model}, work), "pack");
}

}  // namespace octet::tools
