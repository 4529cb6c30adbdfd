// SPDX-License-Identifier: Apache-2.0
// Whether the simulator knows what stands in a file of PTX that is not ours.
#pragma once

#include <string>

#include "octet/status.hpp"

namespace octet::cross {

// Decodes every kernel and prints how many instructions each has and, of those that are not known, each text once with its reason. An
// instruction that is refused is left out (its line is made empty), so that those behind it are asked, too.
// kUnsupported: some are not known.
Status report_decoding(const std::string& path);

}  // namespace octet::cross
