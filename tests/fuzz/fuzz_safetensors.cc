// SPDX-License-Identifier: Apache-2.0
// A whole safetensors file in memory. Every view that the parser hands out must lie inside the file.
#include "checkpoint/safetensors.h"
#include "fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  const auto header = octet::checkpoint::parse_safetensors(file, "input");
  if (!header.ok()) return 0;
  for (const auto& [name, view] : header->tensors) {
    const size_t bytes = view.num_bytes();
    if (bytes == 0) continue;
    if (view.data < file.data() || view.data + bytes > file.data() + size) std::abort();
    octet::fuzz::use(static_cast<uint8_t>(view.data[0]));
    octet::fuzz::use(static_cast<uint8_t>(view.data[bytes - 1]));
  }
  return 0;
}
