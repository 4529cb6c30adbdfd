// SPDX-License-Identifier: Apache-2.0
#include "layer_flags.h"

#include <array>
#include <charconv>
#include <fmt/format.h>
#include <limits>
#include <span>
#include <vector>

#include "command.h"
#include "core/nearest.h"
#include "cpu/thread_pool.h"

namespace octet::tools {
namespace {

// The index of `name` among `names`, or kMisuse with the nearest.
Result<size_t> find_name(std::string_view option, std::string_view name,
                         std::span<const std::string_view> names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
  }
  // More would hide the sentence.
  constexpr size_t kMostShown = 10;
  const std::string all = names.size() <= kMostShown ? fmt::format("{}", fmt::join(names, ", "))
                                                     : "those of octet list";
  return misuse(fmt::format("{}: found '{}', want one of {}{}", option, name, all,
                            did_you_mean(name, names)));
}

bool parse_int(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// The one of `all` whose name is `name`.
template <class T, size_t kCount>
Result<T> value_from_name(std::string_view option, std::string_view name,
                          const std::array<T, kCount>& all) {
  std::array<std::string_view, kCount> names;
  for (size_t i = 0; i < kCount; ++i) names[i] = name_of(all[i]);
  OCTET_ASSIGN_OR_RETURN(const size_t i, find_name(option, name, names));
  return all[i];
}

Result<dispatch::MemoryOptions> memory_options(const LayerFlags& flags) {
  using dispatch::Numa;
  using dispatch::PackedUse;
  using dispatch::Pages;
  dispatch::MemoryOptions options;
  OCTET_ASSIGN_OR_RETURN(options.pages, value_from_name("--pages", flags.pages,
                                                        std::array{Pages::kHuge, Pages::kSmall}));
  OCTET_ASSIGN_OR_RETURN(
      options.numa,
      value_from_name("--numa", flags.numa, std::array{Numa::kFirstTouch, Numa::kInterleave}));
  OCTET_ASSIGN_OR_RETURN(
      options.packed,
      value_from_name("--packed", flags.packed, std::array{PackedUse::kMmap, PackedUse::kCopy}));
  return options;
}

struct Part {
  int64_t rank = 0, ranks = 1;
};

// "r/n", ranks from 0.
Result<Part> parse_part(std::string_view option, std::string_view text) {
  const size_t slash = text.find('/');
  Part part;
  if (slash == std::string_view::npos || !parse_int(text.substr(0, slash), part.rank) ||
      !parse_int(text.substr(slash + 1), part.ranks)) {
    return invalid_argument(fmt::format("{}: found '{}', want r/n such as 0/4", option, text));
  }
  if (part.ranks < 1) {
    return invalid_argument(
        fmt::format("{}: found '{}', want at least 1 rank after the /", option, text));
  }
  if (part.rank < 0 || part.rank >= part.ranks) {
    return invalid_argument(fmt::format("{}: found rank {} of {}, want 0..{}", option, part.rank,
                                        part.ranks, part.ranks - 1));
  }
  return part;
}

}  // namespace

void add_layer_flag(CLI::App& app, int64_t& layer) {
  app.add_option("--layer", layer, "index of the layer, from 0")->required()->default_str("");
}

void add_shard_flags(CLI::App& app, LayerFlags& flags) {
  app.add_option("--tp", flags.tp, "this rank's part of the intermediate columns, r/n from 0/n");
  app.add_option("--ep", flags.ep, "this rank's part of the experts, r/n from 0/n");
  app.add_option(
      "--activations", flags.activations,
      "bf16 or mxfp8; default: mxfp8 for DeepSeek-V4 and V4.1 with FP4 experts, else bf16");
}

void add_numeric_flags(CLI::App& app, LayerFlags& flags) {
  app.add_option(
      "--precision", flags.precision,
      "fast: kernels may hold h of bf16 layers as integers of 15 bits and sign a block,\n"
      "and add products of mxfp8 layers on Hopper's FP8 unit, to 13 fraction bits;\n"
      "exact: of 22 bits where a block needs them, as x, so that all from 2^-14 of its\n"
      "largest on are exact");
  app.add_option("--image-sentinel-lo", flags.image_sentinel_lo,
                 "first of the five image token ids, 0 for none; default: the configuration's");
}

void add_backend_flag(CLI::App& app, LayerFlags& flags) {
  app.add_option("--backend", flags.backend, "auto, cpu, cuda or reference");
}

void add_threads_flag(CLI::App& app, LayerFlags& flags) {
  app.add_option("--threads", flags.threads, "threads, at least 1; default: all cores");
}

void add_kernel_flags(CLI::App& app, LayerFlags& flags) {
  add_backend_flag(app, flags);
  app.add_option("--kernel", flags.kernel, "a kernel of octet list; default: the best that fits");
  add_threads_flag(app, flags);
}

void add_memory_flags(CLI::App& app, LayerFlags& flags) {
  app.add_option("--pages", flags.pages,
                 "huge: the loaded weights in 2 MB pages where the system has any to give; small");
  app.add_option("--numa", flags.numa,
                 "first-touch: each page of the loaded weights on the node of the thread that\n"
                 "fills it; interleave: page by page over all nodes");
  app.add_option("--packed", flags.packed,
                 "mmap: a packed file is read where it is mapped, shared with other processes;\n"
                 "copy: loaded, so that --pages and --numa hold");
}

Result<Activations> activations_from_name(std::string_view name) {
  return value_from_name("--activations", name,
                         std::array{Activations::kBf16, Activations::kMxfp8});
}

Result<WeightFormat> weights_from_name(std::string_view name) {
  return value_from_name("--weights", name, std::array{WeightFormat::kMxfp4, WeightFormat::kNvfp4});
}

Result<checkpoint::LoadOptions> load_options(const LayerFlags& flags) {
  checkpoint::LoadOptions options;
  OCTET_ASSIGN_OR_RETURN(const Part tp, parse_part("--tp", flags.tp));
  OCTET_ASSIGN_OR_RETURN(const Part ep, parse_part("--ep", flags.ep));
  options.shard = {tp.rank, tp.ranks, ep.rank, ep.ranks};
  if (!flags.activations.empty()) {
    OCTET_ASSIGN_OR_RETURN(options.activations, activations_from_name(flags.activations));
  }
  OCTET_ASSIGN_OR_RETURN(options.precision,
                         value_from_name("--precision", flags.precision,
                                         std::array{Precision::kFast, Precision::kExact}));
  if (flags.image_sentinel_lo) {
    constexpr int64_t kMaxTokenId = std::numeric_limits<int32_t>::max();
    OCTET_RETURN_IF_ERROR(
        check_range("--image-sentinel-lo", *flags.image_sentinel_lo, {0, kMaxTokenId}));
  }
  options.image_sentinel_lo = flags.image_sentinel_lo;
  return options;
}

Result<dispatch::LayerOptions> layer_options(const LayerFlags& flags) {
  dispatch::LayerOptions options;
  OCTET_ASSIGN_OR_RETURN(options.backend, backend_from_name(flags.backend));
  if (!flags.kernel.empty()) {
    std::vector<std::string_view> names;
    for (const dispatch::Kernel& kernel : dispatch::kernels()) names.push_back(kernel.name);
    OCTET_ASSIGN_OR_RETURN([[maybe_unused]] const size_t found,
                           find_name("--kernel", flags.kernel, names));
  }
  options.kernel = flags.kernel;
  options.rows = flags.trace;
  OCTET_ASSIGN_OR_RETURN(options.memory, memory_options(flags));
  return options;
}

Result<int> num_threads(const LayerFlags& flags) {
  if (!flags.threads) return 0;
  OCTET_RETURN_IF_ERROR(check_range("--threads", *flags.threads, {1, cpu::kMaxThreads}));
  return static_cast<int>(*flags.threads);
}

}  // namespace octet::tools
