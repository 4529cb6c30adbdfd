// SPDX-License-Identifier: Apache-2.0
// How long work tells whoever waits: called now and then with what is done of what there is, from one thread.
#pragma once

#include <cstdint>
#include <functional>

namespace octet {

using Progress = std::function<void(int64_t done, int64_t total)>;

}  // namespace octet
