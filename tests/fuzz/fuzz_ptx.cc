// SPDX-License-Identifier: Apache-2.0
// A PTX text. What is read is printed, and what is printed is read as the same tree; each of its kernels is decoded, or refused.
#include <cstdlib>
#include <variant>

#include "fuzz_target.h"
#include "ptxsim/insn/decode.h"
#include "ptxsim/text/parse.h"
#include "ptxsim/text/print.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto module = octet::ptxsim::text::parse({reinterpret_cast<const char*>(data), size});
  if (!module.ok()) return 0;
  const auto again = octet::ptxsim::text::parse(octet::ptxsim::text::print(*module));
  if (!again.ok() || !(*again == *module)) std::abort();
  for (const auto& item : module->items) {
    const auto* function = std::get_if<octet::ptxsim::text::Function>(&item);
    if (function != nullptr && function->is_entry)
      (void)octet::ptxsim::insn::decode(*module, function->name);
  }
  return 0;
}
