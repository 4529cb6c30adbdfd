// SPDX-License-Identifier: Apache-2.0
// The layer that mutants of its kernels are tried on (tests/mutation/ptx): small, and yet one CTA's rings come round several times, with
// a shorter last stage of gemm1, each accumulator is used again and again, and a sum of gemm2 has two chunks of K.
#include <gtest/gtest.h>

#include "prepared_backend.h"
#include "prepared_layer_run.h"

namespace octet::sim {
namespace {

constexpr PreparedShape kShape = {4, 384, 224, 2};
constexpr int kCtas = 1;

TEST(PreparedMutants, HaveNoRoom) {
  const PreparedBackend& backend = prepared_backend();
  const cuda::GemmPlan one = backend.gemms.gemm1_plan(kShape.hidden, kShape.intermediate),
                       two = backend.gemms.gemm2_plan(kShape.hidden, kShape.padded());
  const auto stages_of_item = static_cast<int>(
      ceil_div(int64_t{one.chunks}, static_cast<int64_t>(backend.gemm1_stage_chunks)));
  const int tiles = 4;
  ASSERT_GT(tiles * one.blocks * stages_of_item, 2 * one.stages);
  ASSERT_GE(tiles * two.blocks * two.chunks, 2 * two.stages);
  const PreparedLayer layer(kShape, Values::kAny, 11);
  for (const ptxsim::machine::Settings& settings : all_times(1)) {
    SCOPED_TRACE(shown(settings));
    LayerCall call(kShape, 6, 12);
    call.route_to_all();
    LayerOnDevice device(layer, settings);
    device.launch(call, kCtas);
    if (device.run()) judge_layer(layer, call, device.found());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace octet::sim
