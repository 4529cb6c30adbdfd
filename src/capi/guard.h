// SPDX-License-Identifier: Apache-2.0
// The border of the C interface: nothing but a code crosses it. The sentence stays behind for octet_last_error().
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <string_view>

#include "octet/octet.h"
#include "octet/status.hpp"

namespace octet::capi {

// Keeps the sentence for this thread, if there is one, and gives the code.
octet_status record(const Status& status) noexcept;
octet_status record_out_of_memory() noexcept;
// This thread's last sentence.
const char* last_error() noexcept;

// Runs a call's body, which returns a Status; an exception becomes one.
template <class Fn>
octet_status guarded(const Fn& body) noexcept {
  try {
    return record(body());
  } catch (const std::bad_alloc&) {
    return record_out_of_memory();
  } catch (const std::exception& e) {
    return record(internal_error(e.what()));
  } catch (...) {
    return record(internal_error("an exception of unknown type"));
  }
}

// What every call does with a pointer that must not be null: OCTET_REQUIRE(model).
#define OCTET_REQUIRE(pointer)                                              \
  do {                                                                      \
    if ((pointer) == nullptr) return invalid_argument(#pointer " is NULL"); \
  } while (false)

// A caller's struct as this library knows it. Callers compiled against an older header have a shorter one (not below
// `first_bytes`, its size in the first version that had it): the rest is 0. Callers with a newer one may have fields
// beyond, as long as they are 0.
template <class T>
Result<T> read_struct(const T* given, size_t first_bytes, std::string_view name) {
  if (given == nullptr) return invalid_argument(fmt::format("{} is NULL", name));
  const size_t size = given->struct_size;
  if (size < first_bytes) {
    return invalid_argument(
        fmt::format("{}.struct_size {}, want at least {}", name, size, first_bytes));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] == 0) continue;
    return invalid_argument(fmt::format("{}: byte {} is {}, but this library knows {} bytes of it",
                                        name, i, bytes[i], sizeof(T)));
  }
  T known{};
  std::memcpy(&known, given, size < sizeof(T) ? size : sizeof(T));
  return known;
}

}  // namespace octet::capi
