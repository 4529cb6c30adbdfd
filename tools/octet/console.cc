// SPDX-License-Identifier: Apache-2.0
#include "console.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace octet::tools {
namespace {

int report_error = 0;  // errno of the first write to stdout that failed

}  // namespace

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && report_error == 0) {
    report_error = errno;
  }
}

void write_err(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

Status flush_report() {
  if (std::fflush(stdout) != 0 && report_error == 0) report_error = errno;
  if (report_error == 0) return {};
  return io_error(fmt::format("stdout: {}", std::strerror(report_error)));
}

}  // namespace octet::tools
