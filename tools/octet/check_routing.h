// SPDX-License-Identifier: Apache-2.0
// octet check's first half: the gate and the router of a call against the float64 gate and the reference's router.
#pragma once

#include <string>

#include "command.h"
#include "layer_session.h"
#include "octet/status.hpp"
#include "reference/routing.h"

namespace octet::tools {

// `output` has the logits, ids and weights that the layer made of `input`; they are only read. Given ids are not judged:
// num_slots 0.
reference::RoutingVerdict check_routing(const checkpoint::LayerTensors& layer,
                                        const LayerInput& input, LayerOutput& output);

// What became of the logits; of ids and weights.
std::string logits_text(const reference::RoutingVerdict& verdict);
std::string routing_text(const reference::RoutingVerdict& verdict);
// Fields of the report.
void add_routing(const reference::RoutingVerdict& verdict, Json& report);
// The first failure, or success.
Status routing_status(const std::string& model, const reference::RoutingVerdict& verdict);

}  // namespace octet::tools
