// SPDX-License-Identifier: Apache-2.0
#include "cpu/expert_gemm.h"

namespace octet::cpu {

void down(const ProductArgs& args, int64_t hidden, Bf16* const* y, Executor& executor) {
  constexpr int64_t kUnitPanels = 16;  // 256 outputs: enough to be worth a hand-out
  const layouts::PanelSizes& sizes = args.weights->sizes();
  const Product product{&PanelSource::down_panel, sizes.down_panels, sizes.down_panel_bytes(),
                        sizes.down_blocks, kUnitPanels};
  stream_panels(
      args, product, executor,
      [&](const ExpertRun& run, const ExpertParams& params, const Panels& panels) {
        struct {
          int64_t col, count;
          LaneBiases bias;
          OutputLanes lanes;
        } outputs[kMostPanels];
        for (size_t p = 0; p < panels.streams.size(); ++p) {
          auto& o = outputs[p];
          o.col = panels.number(p) * layouts::kPanelRows;
          o.count = std::min(layouts::kPanelRows, hidden - o.col);
          o.lanes = {.factor = 1, .bias = o.bias.load(params.down_bias, o.col, o.count)};
        }
        multiply_panels(args, run, panels, [&](size_t p, int64_t row, LaneSums sums) {
          auto& o = outputs[p];
          sums.make_room(params.down_alpha);
          o.lanes.factor = params.down_alpha * sums.unhold;
          Bf16* const to = y[row] + o.col;
          if (o.count == layouts::kPanelRows) {
            args.dot.lanes->output(o.lanes, sums.acc, to);
          } else {
            Bf16 all[layouts::kPanelRows];
            args.dot.lanes->output(o.lanes, sums.acc, all);
            std::copy_n(all, o.count, to);
          }
        });
      },
      [](const ExpertRun&, int64_t, int64_t) {});
}

void widen_bf16(const Bf16Rows& from, int64_t padded, float* out, Executor& executor) {
  parallel_for(executor, from.rows, [&](int64_t row, int) {
    const Bf16* x = from.x + row * from.width;
    float* to = out + row * padded;
    for (int64_t c = 0; c < from.width; ++c) to[c] = formats::bf16_to_f32(x[c]);
    std::fill(to + from.width, to + padded, 0.0F);
  });
}

void widen_mxfp8(const Mxfp8Rows& from, float* out, Hold* hold, Executor& executor) {
  parallel_for(executor, from.rows, [&](int64_t row, int) {
    const int64_t at = row * from.width;
    const uint8_t* scales = from.scales + at / kMxBlock;
    dequantize_mxfp8_blocks(from.codes + at, scales, from.width, out + at);
    hold[row] = settle_mxfp8_row(scales, from.width, out + at);
  });
}

}  // namespace octet::cpu
