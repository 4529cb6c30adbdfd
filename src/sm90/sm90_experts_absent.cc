// SPDX-License-Identifier: Apache-2.0
// sm90_experts.h of a library without Hopper's kernels.
#include "sm90/sm90_experts.h"

namespace octet::sm90 {

std::string sm90_refusal() {
  // Of a library without CUDA the same reason as the other kernels'.
  const std::string why = cuda::device_refusal(9, 0, true);
  return !why.empty()
             ? why
             : "Hopper's kernels are not built in this library (-DOCTET_SM90=ON builds them)";
}
const cuda::DeviceExperts* sm90_experts() { return nullptr; }

}  // namespace octet::sm90
