// SPDX-License-Identifier: Apache-2.0
// What the program says. A stream that takes nothing is no exception: of stderr nobody would hear, of stdout flush_report() tells.
#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

#include "octet/status.hpp"

namespace octet::tools {

void write_out(std::string_view text);  // to stdout
void write_err(std::string_view text);  // to stderr, at once

template <class... T>
void print_out(fmt::format_string<T...> format, T&&... values) {
  write_out(fmt::format(format, std::forward<T>(values)...));
}

template <class... T>
void print_err(fmt::format_string<T...> format, T&&... values) {
  write_err(fmt::format(format, std::forward<T>(values)...));
}

// "stdout: No space left on device" if not all of the report could be written, now or before.
Status flush_report();

}  // namespace octet::tools
