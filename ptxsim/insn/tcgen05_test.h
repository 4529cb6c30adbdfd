// SPDX-License-Identifier: Apache-2.0
// What the tests of tcgen05 have in common.
#pragma once

#include "ptxsim/insn/tensor_test.h"

namespace octet::ptxsim::insn {

// Four warps: warp 0 allocates 32 columns, each warp does BODY with %taddr = its quarter's address, warp 0 frees them.
inline std::string with_tensor_memory(const std::string& body) {
  return R"(
  .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .f32 %f<20>;
  .reg .b32 %taddr, %me, %warp, %slot; .reg .pred %first;
  .shared .align 4 .b32 slot; .shared .align 8 .b64 bar;
  mov.u32 %me, %tid.x;
  shr.u32 %warp, %me, 5;
  setp.eq.u32 %first, %warp, 0;
  mov.u32 %slot, slot;
  @!%first bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 32;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ALLOCATED:
  setp.eq.u32 %p1, %me, 0;
  mov.u32 %r1, bar;
  @%p1 mbarrier.init.shared::cta.b64 [%r1], 1;
  @%p1 fence.mbarrier_init.release.cluster;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  ld.shared.u32 %taddr, [%slot];
  shl.b32 %r2, %warp, 21;
  add.u32 %r2, %r2, %taddr;
)" + body +
         R"(
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  @!%first bra FREED;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %taddr, 32;
FREED:
)";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace octet::ptxsim::insn
