// SPDX-License-Identifier: Apache-2.0
// A packed file, with the right checksum put into its header so that a changed header is read too: opened, its checksums
// compared, every layer mapped, the first and last byte of every expert read.
#include <span>
#include <string>

#include "checkpoint/model.h"
#include "checkpoint/packed.h"
#include "checkpoint/packed_file.h"
#include "checkpoint/safetensors.h"
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

std::string sealed(std::string file) {
  const auto parsed = octet::checkpoint::parse_safetensors(std::as_bytes(std::span(file)), "input");
  if (!parsed.ok()) return file;
  const std::string header(parsed->text);
  const size_t at = octet::checkpoint::header_checksum_place(header);
  if (at == std::string::npos) return file;
  return file.replace(at, octet::checkpoint::kChecksumDigits,
                      octet::checkpoint::header_checksum(header));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const octet::fuzz::Scratch scratch;
  const auto path =
      scratch.write("input.safetensors", sealed({reinterpret_cast<const char*>(data), size}));
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
