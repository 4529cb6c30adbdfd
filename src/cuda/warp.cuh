// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace octet::cuda {

constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xFFFFFFFFU;

}  // namespace octet::cuda
