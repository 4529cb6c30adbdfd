// SPDX-License-Identifier: Apache-2.0
// The GEMM pair of prepared tensors, run in the simulator by its own host code.
#pragma once

#include <vector>

#include "prepared_problem.h"
#include "ptxsim/machine/machine.h"

namespace octet::sim {

// `settings` as the backend's device has them.
ptxsim::machine::Settings on_backend(ptxsim::machine::Settings settings);

// Both kernels on `ctas` blocks each, the second with a programmatic edge to the first. A run that fails is a failure of the test, with
// empty buffers. `counts`: of the two.
PreparedResult run_pair(const PreparedLayer& layer, const PreparedRows& in, int ctas,
                        const ptxsim::machine::Settings& settings,
                        std::vector<ptxsim::machine::GridCounts>* counts = nullptr);

}  // namespace octet::sim
