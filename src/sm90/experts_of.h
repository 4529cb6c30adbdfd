// SPDX-License-Identifier: Apache-2.0
// The experts' kernels of one pair of formats, on the host. Members are defined by experts_kernel.cuh, in a file for each pair or two, since
// these take ptxas a while.
#pragma once

#include "sm90/experts_mxfp8.h"
#include "sm90/experts_plan.h"

namespace octet::sm90 {

template <class Traits>
struct ExpertsOf {
  // Shared memory of a CTA that is not static, at most, and all of a CTA's.
  static int most_dynamic_bytes();
  static int shared_bytes(const cuda::ExpertGemmArgs& args);
  static Status prepare();
  // check_experts(args) is ok.
  static Status launch(const ExpertsArgs& args, int ctas, cudaStream_t stream);
};

// fn of the traits of a call's formats.
template <class Fn>
auto with_traits(Activations activations, WeightFormat weights, const Fn& fn) {
  if (activations == Activations::kMxfp8) return fn(Mxfp8Mxfp4{});
  return weights == WeightFormat::kMxfp4 ? fn(Bf16Fp4<WeightFormat::kMxfp4>{})
                                         : fn(Bf16Fp4<WeightFormat::kNvfp4>{});
}
template <class Fn>
auto with_traits(const cuda::ExpertGemmArgs& args, const Fn& fn) {
  return with_traits(args.activations, args.weights.sizes.w13.format, fn);
}

}  // namespace octet::sm90
