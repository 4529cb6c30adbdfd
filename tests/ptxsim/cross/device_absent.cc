// SPDX-License-Identifier: Apache-2.0
// Where CUDA's headers are not.
#include "device.h"

namespace octet::cross {

Result<std::unique_ptr<Device>> Device::open() {
  return unsupported("this program was built without CUDA: configure with -DOCTET_SM90=ON");
}

}  // namespace octet::cross
