// SPDX-License-Identifier: Apache-2.0
// A packed file: opened, its checksums compared, every layer mapped, the first and last byte of every expert read.
#include "checkpoint/model.h"
#include "checkpoint/packed.h"
#include "checkpoint/validate.h"
#include "fuzz_target.h"

namespace {

void touch(const octet::checkpoint::PackedPanels& packed, int64_t experts) {
  const int64_t bytes = packed.sizes.expert_bytes();
  for (int64_t e = 0; e < experts && bytes > 0; ++e) {
    octet::fuzz::use(packed.base[e * packed.expert_stride]);
    octet::fuzz::use(packed.base[e * packed.expert_stride + bytes - 1]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const octet::fuzz::Scratch scratch;
  const auto path = scratch.write("input.safetensors", {reinterpret_cast<const char*>(data), size});
  octet::fuzz::use(octet::checkpoint::verify_packed(path).ok() ? 1 : 0);
  const auto model = octet::checkpoint::Model::open(path);
  if (model.ok()) {
    for (const int64_t n : model->layers()) {
      const auto layer = model->layer(n, {});
      if (layer.ok() && layer->packed) touch(*layer->packed, layer->spec.local_experts);
    }
  }
  octet::fuzz::use(octet::checkpoint::validate(path).ok() ? 1 : 0);
  return 0;
}
