// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/text/place.h"

#include <fmt/format.h>

namespace octet::ptxsim::text {

Status error_at(Place place, std::string_view what) {
  return invalid_argument(fmt::format("line {}, column {}: {}", place.line, place.column, what));
}

Status found_want(Place place, std::string_view found, std::string_view want) {
  return error_at(place, fmt::format("found {}, want {}", found, want));
}

}  // namespace octet::ptxsim::text
