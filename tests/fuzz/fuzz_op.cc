// SPDX-License-Identifier: Apache-2.0
// Any operation on any tensors with settings from a table (op_input.h).
#include <algorithm>

#include "checkpoint/safetensors.h"
#include "core/executor.h"
#include "dispatch/operations.h"
#include "fuzz_target.h"
#include "op_input.h"

namespace {

constexpr size_t kMaxBytes = size_t{1} << 16;

// Offsets of a file need not be aligned; the operations' tensors are.
octet::NamedTensors aligned(const octet::NamedViews& views) {
  octet::NamedTensors tensors;
  for (const auto& [name, view] : views) {
    octet::Tensor copy(view.dtype, view.dims);
    if (view.num_bytes() != 0) std::copy_n(view.data, view.num_bytes(), copy.data());
    tensors.emplace(name, std::move(copy));
  }
  return tensors;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace octet;
  if (size == 0 || size > kMaxBytes) return 0;
  const auto operations = dispatch::operations();
  const auto& operation = operations[(data[0] & 0x7F) % operations.size()];
  const Backend backend = (data[0] & 0x80) != 0 ? Backend::kReference : Backend::kCpu;
  size_t at = 1;
  dispatch::Settings settings;
  for (const std::string_view key : operation.settings) {
    const std::string_view value = fuzz::setting_value(key, at < size ? data[at] : 0);
    ++at;
    if (!value.empty()) settings.emplace(key, value);
  }
  if (at > size) return 0;
  const std::span file(reinterpret_cast<const std::byte*>(data) + at, size - at);
  const auto header = checkpoint::parse_safetensors(file, "input");
  if (!header.ok()) return 0;
  const NamedTensors tensors = aligned(header->tensors);
  NamedViews views;
  for (const auto& [name, tensor] : tensors) views.emplace(name, tensor.view());
  InlineExecutor executor;
  const auto result = dispatch::run_operation(operation.name, views, settings, backend, executor);
  if (!result.ok()) return 0;
  for (const auto& [name, tensor] : *result)
    for (size_t i = 0; i < tensor.num_bytes(); ++i)
      fuzz::use(static_cast<uint8_t>(tensor.data()[i]));
  return 0;
}
