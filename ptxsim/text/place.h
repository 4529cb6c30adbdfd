// SPDX-License-Identifier: Apache-2.0
// Where something stands in a PTX text, and the sentence of what is wrong there.
#pragma once

#include <string>
#include <string_view>

#include "octet/status.hpp"

namespace octet::ptxsim::text {

// Line and column from 1; a column is a byte, a tab is one.
struct Place {
  int line = 0;
  int column = 0;
  // Where a node stands is no part of what it says: trees are compared without it.
  friend bool operator==(const Place&, const Place&) { return true; }
};

// "line 12, column 5: WHAT". kInvalidArgument, as every error of this folder.
Status error_at(Place place, std::string_view what);

// "line 12, column 5: found FOUND, want WANT".
Status found_want(Place place, std::string_view found, std::string_view want);

}  // namespace octet::ptxsim::text
