// SPDX-License-Identifier: Apache-2.0
// The formats are headers of constexpr functions; this file proves their tables when it is compiled.
#include "formats/bf16.h"
#include "formats/e2m1.h"
#include "formats/e4m3.h"
#include "formats/mxfp4.h"
#include "formats/mxfp8.h"
#include "formats/nvfp4.h"
#include "formats/ue8m0.h"

namespace octet::formats {

static_assert(e4m3_to_f32(0x7E) == 448.0F && e4m3_to_f32(0x08) == 0x1p-6F &&
              e4m3_to_f32(0x01) == 0x1p-9F);
static_assert(e4m3_from_f32(464.0F) == 0x7E && e4m3_from_f32(-1e30F) == 0xFE &&
              e4m3_from_f32(0x1p-10F) == 0x00);
static_assert(ue8m0_to_f32(0) == 0x1p-127F && ue8m0_to_f32(254) == 0x1p127F &&
              ue8m0_to_f32(127) == 1.0F);
static_assert(e2m1_to_f32(7) == 6.0F && e2m1_to_f32(9) == -0.5F && e2m1_from_f32(2.5F) == 4 &&
              e2m1_from_f32(-9.0F) == 15);

}  // namespace octet::formats
