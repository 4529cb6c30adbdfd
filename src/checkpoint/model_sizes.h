// SPDX-License-Identifier: Apache-2.0
// Sizes of public models' MoE layers: what synth imitates, bench times and explain asks by default. docs/checkpoints.md sections 1-3.
#pragma once

#include <cstdint>

namespace octet::checkpoint {

struct ModelSizes {
  int64_t hidden, intermediate, experts, top_k;
  constexpr ModelSizes slice(int64_t ranks) const {
    return {hidden, intermediate / ranks, experts, top_k};
  }
};

constexpr ModelSizes kV41Flash = {5120, 2304, 384, 6};
constexpr ModelSizes kV4Flash = {4096, 2048, 256, 6};
constexpr ModelSizes kV4Pro = {7168, 3072, 384, 6};
constexpr ModelSizes kGptOss20b = {2880, 2880, 32, 4};
constexpr ModelSizes kGptOss120b = {2880, 2880, 128, 4};
constexpr ModelSizes kFlint = {2048, 512, 256, 6};

// Beyond these no layer is described: the configuration, synth, bench and explain take no more.
constexpr int64_t kMaxWidth = int64_t{1} << 20;    // H, I
constexpr int64_t kMaxExperts = int64_t{1} << 14;  // a plan has a few entries an expert

}  // namespace octet::checkpoint
