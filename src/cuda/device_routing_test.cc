// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_routing.h"

#include <gtest/gtest.h>
#include <vector>

namespace octet::cuda {
namespace {

// A call writes all of the record, whatever its ids are and whoever gave them, and little else for sure; so the word that a launch of sm90 left at
// the beginning of the workspace is not taken for the state of a half that this call wrote to.
TEST(RoutingPieces, TheRecordIsFirst) {
  std::vector<std::byte> workspace(size_t{1} << 20);
  for (const auto activations : {Activations::kBf16, Activations::kMxfp8}) {
    LayerOnDevice layer;
    layer.spec.hidden = 320;
    layer.spec.experts = layer.spec.local_experts = 8;
    layer.spec.activations = activations;
    for (const int64_t tokens : {1, 8, 64}) {
      DeviceCarver carver(workspace.data());
      const RoutingPieces pieces = routing_pieces(layer, tokens, 6, carver);
      EXPECT_EQ(reinterpret_cast<std::byte*>(pieces.record), workspace.data());
    }
  }
}

}  // namespace
}  // namespace octet::cuda
