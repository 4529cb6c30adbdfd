// SPDX-License-Identifier: Apache-2.0
// Routers: ids and weights from logits. semantics.md sections 4 and 11.
//
//   dsv4         sqrt-softplus + bias (bias_vl for image rows), unbiased weights, renormalised by an eight-lane butterfly
//   hash         ids from a table by token id, dsv4's weights; image rows (with bias_vl) as in dsv4
//   deepseek_v3  sigmoid + bias, the best groups, weights s / (sum + 1e-20)
//   softmax      the largest logits, softmax over the chosen (gpt-oss, Qwen3)
//   flint        logits rounded to BF16, sigmoid, by logit, weights bf16(s / (sum + 1e-20))
//
// dsv4 and hash: binary32; on the CPU exp (as 2^(fp32(x log2 e))), log, sqrt and division are each correctly rounded. The
// others: double, a weight rounded once. Ids never repeat, the lowest index wins among equals, NaN keys rank as -1e30.
#pragma once

#include "core/op_args.h"
#include "octet/status.hpp"

namespace octet::routing {

constexpr int64_t kMaxExpertsDsv4 = 512;
constexpr int64_t kMaxTopKDsv4 = 8;  // hash too: the butterfly's lanes
constexpr int64_t kMaxTopK = 16;     // the other routers
constexpr int64_t kMaxGroups = 256;  // deepseek_v3
constexpr int64_t kNumImageIds = 5;  // image token ids, from image_sentinel_lo on

// Whether row `token` is an image token, which selects by bias_vl instead of bias (or table).
constexpr bool is_image(const TopkArgs& args, int64_t token) {
  const int64_t lo = args.router.image_sentinel_lo;
  if (args.bias_vl == nullptr || lo <= 0) return false;
  const int64_t id = args.input_ids[token];
  return id >= lo && id - lo < kNumImageIds;
}

// Whether a router takes this call: sizes, tensors present, ids inside the table. Names the tensor or setting at fault.
Status check_topk(const TopkArgs& args);

// Rows first_token ... first_token + num_tokens - 1; check_topk(args) is ok. Writes their ids and weights. Allocates
// nothing.
void topk(const TopkArgs& args, int64_t first_token, int64_t num_tokens);

}  // namespace octet::routing
