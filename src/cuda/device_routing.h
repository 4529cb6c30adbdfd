// SPDX-License-Identifier: Apache-2.0
// A call's tensors as the launches of front.h and finalize_bf16.h take them: what every DeviceExperts shares.
#pragma once

#include <cuda_runtime_api.h>

#include "core/op_args.h"
#include "cuda/device_experts.h"

namespace octet::cuda {

// Of a call; each is used where the caller does not want the result itself.
struct RoutingPieces {
  int32_t* topk_ids;           // [T, k]
  float* topk_weights;         // [T, k]
  int32_t* padded;             // [T, k], route's `permuted`
  int32_t* record;             // [record_words]
  uint8_t *x_quant, *x_scale;  // [T, H], [T, H/32]; mxfp8 activations
};
RoutingPieces routing_pieces(const LayerOnDevice& layer, int64_t tokens, int64_t top_k,
                             DeviceCarver& carver);
// What the caller wants takes the place of a piece.
RoutingPieces with_outputs(RoutingPieces pieces, const DeviceCall& call);

TopkArgs topk_args(const LayerOnDevice& layer, const DeviceCall& call, const RoutingPieces& p);

// Ids and weights where there are logits, quantised x where activations are, the record.
Status enqueue_routing(const LayerOnDevice& layer, const DeviceCall& call, const RoutingPieces& p,
                       cudaStream_t stream);
// y from rows and the slots' rows.
Status enqueue_finalize(const LayerOnDevice& layer, const DeviceCall& call, const RoutingPieces& p,
                        const Bf16* rows, const int32_t* slot_row, cudaStream_t stream);

}  // namespace octet::cuda
