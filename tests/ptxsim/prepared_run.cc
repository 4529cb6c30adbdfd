// SPDX-License-Identifier: Apache-2.0
#include "prepared_run.h"

#include "prepared_backend.h"
#include "sim_launch.h"
#include "sim_tensor_map.h"

namespace octet::sim {

ptxsim::machine::Settings on_backend(ptxsim::machine::Settings settings) {
  const PreparedBackend& backend = prepared_backend();
  settings.num_sms = static_cast<uint32_t>(backend.num_sms);
  settings.sm_shared_bytes = backend.sm_shared_bytes;
  settings.sm_threads = backend.sm_threads;
  settings.most_instructions = 100'000'000;
  return settings;
}

PreparedResult run_pair(const PreparedLayer& layer, const PreparedRows& in, int ctas,
                        const ptxsim::machine::Settings& settings,
                        std::vector<ptxsim::machine::GridCounts>* counts) {
  const cuda::PreparedGemms& gemms = prepared_backend().gemms;
  const PreparedShape& s = layer.shape;
  Device device(on_backend(settings));
  const int64_t rows = 8 * in.most_tiles;
  // Poison that may be read: rows of a tile that hold no token come with the others.
  const std::vector<uint8_t> no_h(static_cast<size_t>(rows * s.padded()), 0xFF),
      no_scales(static_cast<size_t>(in.most_tiles * s.padded() * 4), 0xFF);
  const std::vector<Bf16> no_rows(static_cast<size_t>(rows * s.hidden), Bf16{0xFFFF});
  Gemm1Args one = gemm1_args(layer, in);
  Gemm2Args two = gemm2_args(layer, in);
  one.x_quant = device.put(in.x_quant, "x_quant");
  one.x_scale = device.put(in.x_scale, "x_scale");
  one.record = two.record = device.put(in.record, "record");
  one.w13 = device.put(layer.w13, "w13");
  one.w13_scale = device.put(layer.w13_scale, "w13_scale");
  one.clamp = device.put(layer.clamp, "clamp");
  two.w2 = device.put(layer.w2, "w2");
  two.w2_scale = device.put(layer.w2_scale, "w2_scale");
  two.h_values = one.h_values = device.put(no_h, "h_values", false);
  two.h_scales = one.h_scales = device.put(no_scales, "h_scales", false);
  two.gemm2_rows = device.put(no_rows, "rows", false);
  LaunchQueue queue(device, prepared_backend().num_sms);
  cuda::GemmLaunch<cuda::Gemm1KernelArgs> first;
  cuda::GemmLaunch<cuda::Gemm2KernelArgs> second;
  for (const Status& status : {cuda::make_gemm1(gemms, one, encode_tiled, first),
                               cuda::make_gemm2(gemms, two, encode_tiled, second), gemms.prepare(),
                               gemms.launch_gemm1(first, ctas, nullptr),
                               gemms.launch_gemm2(second, ctas, nullptr), queue.run_all()}) {
    EXPECT_TRUE(status.ok()) << status.why;
    if (!status.ok()) return {};
  }
  if (counts != nullptr) *counts = device.machine().grid_counts();
  return {device.back(one.h_values, static_cast<int64_t>(no_h.size())),
          device.back(one.h_scales, static_cast<int64_t>(no_scales.size())),
          device.back(two.gemm2_rows, static_cast<int64_t>(no_rows.size()))};
}

}  // namespace octet::sim
