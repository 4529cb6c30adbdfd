// SPDX-License-Identifier: Apache-2.0
// A case on a CUDA device, through the driver's interface, which is opened when it is first needed.
#pragma once

#include <memory>

#include "case.h"
#include "outcome.h"

namespace octet::cross {

class Device {
 public:
  // kUnsupported: built without CUDA's headers, no driver, or no device of compute capability 9.0; a sentence says which.
  static Result<std::unique_ptr<Device>> open();
  virtual ~Device() = default;

  // Name, driver and clocks, as a JSON object.
  virtual std::string description() const = 0;
  // The case's bytes. is_lost: an error that nothing after it on this device survives; begin a new process.
  virtual Outcome run(const Case& what, bool* is_lost) = 0;
};

}  // namespace octet::cross
