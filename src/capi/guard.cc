// SPDX-License-Identifier: Apache-2.0
#include "capi/guard.h"

#include <string>

#include "core/printable.h"

namespace octet::capi {
namespace {

thread_local std::string sentence;
// What last_error() shows: `sentence`, or a literal when there is no memory to keep one.
thread_local const char* shown = "";

}  // namespace

octet_status record(const Status& status) noexcept {
  if (status.ok()) return OCTET_OK;
  try {
    sentence = printable(status.why);  // names of files and tensors are anybody's
    shown = sentence.c_str();
  } catch (const std::bad_alloc&) {
    return record_out_of_memory();
  }
  return static_cast<octet_status>(status.code);
}

octet_status record_out_of_memory() noexcept {
  shown = "out of memory";
  return OCTET_OUT_OF_MEMORY;
}

const char* last_error() noexcept { return shown; }

}  // namespace octet::capi
