// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/synth.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "checkpoint/model_sizes.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/synth_presets.h"
#include "checkpoint/tensor_store.h"
#include "core/shape.h"

namespace octet::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark = "octet_synth";  // metadata key of every file made here
constexpr int64_t kChunkBytes = int64_t{4} << 20;

struct ShardFile {
  std::string file;
  std::vector<SynthTensor> tensors;
};

struct Plan {
  std::vector<ShardFile> shards;
  std::vector<SynthText> texts;
  int64_t data_bytes = 0;
};

int64_t bytes_of(const SynthTensor& t) {
  return num_elems(t.dims) * static_cast<int64_t>(dtype_bytes(t.dtype));
}

Result<SynthSizes> choose_sizes(const SynthPreset& preset, const SynthOptions& options) {
  const SynthSizes& real = preset.sizes;
  const SynthSizes s = {
      options.layers.value_or(real.layers), options.experts.value_or(real.experts),
      options.hidden.value_or(real.hidden), options.intermediate.value_or(real.intermediate)};
  const struct {
    const char* name;
    int64_t value, least, most, multiple;
  } rules[] = {{"layers", s.layers, 1, 128, 1},
               {"experts", s.experts, preset.top_k, 1024, 1},
               {"hidden", s.hidden, kMxBlock, kMaxWidth, kMxBlock},
               {"intermediate", s.intermediate, preset.block, kMaxWidth, preset.block}};
  for (const auto& [name, value, least, most, multiple] : rules) {
    if (value < least || value > most) {
      return invalid_argument(
          fmt::format("{} {} is not in {} ... {} for {}", name, value, least, most, preset.name));
    }
    if (value % multiple != 0)
      return invalid_argument(fmt::format("{} {} is not a multiple of {}", name, value, multiple));
  }
  return s;
}

// Tensors in order, a new file where the next one would pass `shard_bytes`; a larger tensor has a file to itself.
std::vector<ShardFile> split(std::vector<SynthTensor> tensors, int64_t shard_bytes) {
  std::vector<ShardFile> shards(1);
  int64_t filled = 0;
  for (SynthTensor& t : tensors) {
    if (filled > 0 && filled + bytes_of(t) > shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes_of(t);
    shards.back().tensors.push_back(std::move(t));
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].file = shards.size() == 1
                         ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  return shards;
}

SynthText index_of(const Plan& plan) {
  nlohmann::json index;
  index["metadata"]["total_size"] = plan.data_bytes;
  nlohmann::json& map = index["weight_map"];
  for (const ShardFile& shard : plan.shards) {
    for (const SynthTensor& t : shard.tensors) map[t.name] = shard.file;
  }
  return {kIndexName, index.dump(2) + "\n"};
}

Result<Plan> make_plan(const SynthOptions& options) {
  OCTET_ASSIGN_OR_RETURN(const SynthPreset* preset, find_synth_preset(options.preset));
  OCTET_ASSIGN_OR_RETURN(const SynthSizes sizes, choose_sizes(*preset, options));
  if (options.shard_bytes < 1)
    return invalid_argument(fmt::format("shard_bytes {} is below 1", options.shard_bytes));
  Plan plan;
  plan.texts = preset->texts(*preset, sizes);
  OCTET_ASSIGN_OR_RETURN(std::vector<SynthTensor> tensors,
                         synth_tensors(*preset, sizes, plan.texts));
  for (const SynthTensor& t : tensors) plan.data_bytes += bytes_of(t);
  plan.shards = split(std::move(tensors), options.shard_bytes);
  if (plan.shards.size() > 1) plan.texts.push_back(index_of(plan));
  return plan;
}

// ---- The folder

Status system_error_at(const fs::path& path, const char* what, const std::error_code& error) {
  return io_error(fmt::format("{}: cannot {}: {}", path.string(), what, error.message()));
}

// A file that synth() may have written: by its name and, for weights, by its mark.
bool is_ours(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name == "config.json" || name == "hf_quant_config.json" || name == kIndexName) return true;
  if (!name.starts_with("model") || path.extension() != ".safetensors") return false;
  const Result<SafetensorsFile> file = SafetensorsFile::open(path);
  return file.ok() && file->header().metadata.count(kMark) > 0;
}

// Removes what is put on its list, unless kept: a refused or failed synth() leaves nothing behind.
class Folder {
 public:
  explicit Folder(fs::path path) : path_(std::move(path)) {}
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    for (const fs::path& file : made_) fs::remove(file, ignored);
    if (is_new_) fs::remove(path_, ignored);
  }

  Status open(int64_t bytes) {
    std::error_code error;
    is_new_ = fs::create_directories(path_, error);
    if (error) return system_error_at(path_, "make the folder", error);
    OCTET_RETURN_IF_ERROR(clear());
    const fs::space_info space = fs::space(path_, error);
    if (!error && space.available < static_cast<uintmax_t>(bytes)) {
      return io_error(fmt::format("{}: {} bytes are free, {} are needed", path_.string(),
                                  space.available, bytes));
    }
    return {};
  }
  fs::path add(const std::string& file) { return made_.emplace_back(path_ / file); }
  void keep() {
    made_.clear();
    is_new_ = false;
  }
  // Removes an older made-up checkpoint, all or nothing.
  Status clear() {
    std::error_code error;
    std::vector<fs::path> old;
    bool has_weights = false;
    for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
      if (!is_ours(it->path())) {
        return invalid_argument(
            fmt::format("{}: holds {}, want an empty folder or one that synth made", path_.string(),
                        it->path().filename().string()));
      }
      has_weights = has_weights || it->path().extension() == ".safetensors";
      old.push_back(it->path());
    }
    if (error) return system_error_at(path_, "list the folder", error);
    if (!old.empty() && !has_weights) {
      return invalid_argument(
          fmt::format("{}: holds {} and no weights, want an empty folder or one that synth made",
                      path_.string(), old.front().filename().string()));
    }
    for (const fs::path& file : old) {
      if (!fs::remove(file, error) || error) return system_error_at(file, "remove it", error);
    }
    return {};
  }

 private:
  fs::path path_;
  std::vector<fs::path> made_;
  bool is_new_ = false;
};

// ---- Writing

Status write_text(const fs::path& path, const std::string& text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out.fail())
    return io_error(fmt::format("{}: cannot write: {}", path.string(), std::strerror(errno)));
  return {};
}

struct Meter {
  const Progress& progress;
  int64_t total, done = 0;
  void add(int64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  }
};

Status write_shard(const ShardFile& shard, const fs::path& path, const SynthOptions& options,
                   Meter& meter) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const SynthTensor& t : shard.tensors) entries.push_back({t.name, t.dtype, t.dims});
  const std::string mark = fmt::format("{} seed {}", options.preset, options.seed);
  OCTET_ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::create(path, entries, {{"format", "pt"}, {kMark, mark}}));
  std::vector<std::byte> chunk(kChunkBytes);
  for (const SynthTensor& t : shard.tensors) {
    const uint64_t key = synth_key(options.seed, t.key.empty() ? t.name : t.key);
    const int64_t size = bytes_of(t);
    for (int64_t at = 0; at < size; at += kChunkBytes) {
      const std::span part(chunk.data(), static_cast<size_t>(std::min(kChunkBytes, size - at)));
      fill_bytes(t, key, at, part);
      OCTET_RETURN_IF_ERROR(writer.write(part));
      meter.add(static_cast<int64_t>(part.size()));
    }
  }
  return writer.finish();
}

Status make(const SynthOptions& options, const Progress& progress) {
  OCTET_ASSIGN_OR_RETURN(const Plan plan, make_plan(options));
  Folder folder(options.output);
  OCTET_RETURN_IF_ERROR(folder.open(plan.data_bytes));
  Meter meter{progress, plan.data_bytes};
  for (const ShardFile& shard : plan.shards)
    OCTET_RETURN_IF_ERROR(write_shard(shard, folder.add(shard.file), options, meter));
  for (const SynthText& text : plan.texts)
    OCTET_RETURN_IF_ERROR(write_text(folder.add(text.file), text.text));
  folder.keep();
  return {};
}

}  // namespace

Status synth(const SynthOptions& options, const Progress& progress) {
  Status made = make(options, progress);
  // Nothing from before may be taken for the result of a call that failed; what is not ours stays.
  if (!made.ok() && made.code != Code::kMisuse) {
    [[maybe_unused]] const Status cleared = Folder(options.output).clear();
  }
  return made;
}

}  // namespace octet::checkpoint
