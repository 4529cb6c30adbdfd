// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/scale_layout.h"

#include <fmt/format.h>

namespace octet::ptxsim::matrix {

Result<int> scale_byte(int per_row, int id) {
  if (per_row != 1 && per_row != 2 && per_row != 4)
    return invalid_argument(fmt::format("scale_vec::{}X, want 1X, 2X or 4X", per_row));
  if (id < 0 || id > 3 || id % per_row != 0)
    return invalid_argument(fmt::format("scale id {} with scale_vec::{}X, want {}", id, per_row,
                                        per_row == 1   ? "0 ... 3"
                                        : per_row == 2 ? "0 or 2"
                                                       : "0"));
  return id;
}

}  // namespace octet::ptxsim::matrix
