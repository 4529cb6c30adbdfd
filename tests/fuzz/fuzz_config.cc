// SPDX-License-Identifier: Apache-2.0
// config.json, model.safetensors.index.json and hf_quant_config.json of a folder whose weights are right. Input: the three
// texts with a zero byte between them; an empty one is not written. The folder is opened, every layer loaded, validated.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "checkpoint/model.h"
#include "checkpoint/synth.h"
#include "checkpoint/validate.h"
#include "fuzz_target.h"

namespace {

namespace fs = std::filesystem;
using octet::fuzz::Scratch;

constexpr const char* kFiles[] = {"config.json", "model.safetensors.index.json",
                                  "hf_quant_config.json"};

// A checkpoint as small as a preset allows, without its configuration: the input is that.
const Scratch& folder(const char* preset) {
  static const Scratch scratch;
  octet::checkpoint::SynthOptions options;
  options.preset = preset;
  options.output = scratch.path();
  options.experts = 6;
  options.hidden = options.intermediate = 32;
  if (!octet::checkpoint::synth(options).ok()) std::abort();
  return scratch;
}

void write_texts(const Scratch& scratch, std::string_view input) {
  for (const char* name : kFiles) {
    const std::string_view text = input.substr(0, std::min(input.find('\0'), input.size()));
    input.remove_prefix(std::min(text.size() + 1, input.size()));
    std::error_code ignored;
    if (text.empty()) fs::remove(scratch.path() / name, ignored);
    if (!text.empty()) scratch.write(name, text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Scratch& scratch = folder("deepseek-v4.1-flash");
  write_texts(scratch, {reinterpret_cast<const char*>(data), size});
  const auto model = octet::checkpoint::Model::open(scratch.path());
  if (model.ok()) {
    for (const int64_t n : model->layers()) {
      for (const octet::checkpoint::Shard shard : {octet::checkpoint::Shard{}, {1, 2, 0, 1}}) {
        octet::checkpoint::LoadOptions options;
        options.shard = shard;
        octet::fuzz::use(model->layer(n, options).ok() ? 1 : 0);
      }
    }
  }
  octet::fuzz::use(octet::checkpoint::validate(scratch.path()).ok() ? 1 : 0);
  return 0;
}
