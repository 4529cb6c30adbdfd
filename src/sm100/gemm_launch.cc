// SPDX-License-Identifier: Apache-2.0
#include "sm100/gemm_launch.h"

namespace octet::sm100 {
namespace {

Status prepare_both() {
  OCTET_RETURN_IF_ERROR(prepare_gemm1());
  return prepare_gemm2();
}

}  // namespace

const cuda::PreparedGemms& gemms() {
  static constexpr cuda::PreparedGemms kGemms = {.gemm1_plan = gemm1_plan,
                                                 .gemm2_plan = gemm2_plan,
                                                 .encode_weights = cuda::encode_unpacked_weights,
                                                 .prepare = prepare_both,
                                                 .launch_gemm1 = launch_gemm1,
                                                 .launch_gemm2 = launch_gemm2};
  return kGemms;
}

}  // namespace octet::sm100
