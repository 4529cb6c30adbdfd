// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/fragments.h"

namespace octet::ptxsim::matrix {

std::optional<TensorShape> find_tensor_shape(std::string_view name) {
  if (name == "32x32b") return TensorShape::k32x32b;
  if (name == "16x64b") return TensorShape::k16x64b;
  if (name == "16x128b") return TensorShape::k16x128b;
  if (name == "16x256b") return TensorShape::k16x256b;
  return std::nullopt;
}

}  // namespace octet::ptxsim::matrix
