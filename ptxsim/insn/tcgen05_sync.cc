// SPDX-License-Identifier: Apache-2.0
// tcgen05.fence and tcgen05.commit: PTX ISA 9.7.16.11, 9.7.16.12. A commit arrives behind all mma and cp that the block has issued, those of
// other threads as well; no multicast.
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/tensor_unit.h"

namespace octet::ptxsim::insn {
namespace {

Outcome run_fence_after(Exec& x, const Insn&) {
  tensor_unit(x).warps[x.warp.index].unfenced &= ~x.lanes;
  return Outcome::kNext;
}
// Orders what was issued before: what is still to be waited for stays so.
Outcome run_fence_before(Exec& x, const Insn&) {
  TensorWarp& state = tensor_unit(x).warps[x.warp.index];
  if (state.loads == 0 && state.stores == 0) state.unsignalled &= ~x.lanes;
  return Outcome::kNext;
}

// args: the mbarrier; mods[0]: its address is one of shared::cluster, else a generic one.
Outcome run_commit(Exec& x, const Insn& insn) {
  TensorUnit& unit = tensor_unit(x);
  unit.warps[x.warp.index].unsignalled &= ~x.lanes;
  Outcome outcome = Outcome::kNext;
  machine::for_each_lane(x.lanes, [&](int lane) {
    if (outcome != Outcome::kNext) return;
    uint64_t address = x.address(insn.args[0], lane);
    if (insn.mods[0] == 0) address -= machine::kSharedWindow;
    const AsyncAccess by = {&x.machine, &x.cta, &insn, x.warp.index, Proxy::kGeneric};
    outcome = x.post(insn, kTcgen05Channel, [by, address] { return async_arrive(by, address, 1); });
  });
  return outcome;
}

}  // namespace

Status bind_tcgen05_fence_after(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = run_fence_after;
  return {};
}
Status bind_tcgen05_fence_before(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = run_fence_before;
  return {};
}

Status bind_tcgen05_commit(Binder& b) {
  if (b.take("cta_group::2")) return b.unmodelled("pairs of blocks are not modelled");
  OCTET_RETURN_IF_ERROR(b.expect("cta_group::1"));
  OCTET_RETURN_IF_ERROR(b.expect("mbarrier::arrive::one"));
  b.insn().mods[0] = b.take("shared::cluster");
  if (b.take("multicast::cluster")) return b.unmodelled("multicast is not modelled");
  OCTET_RETURN_IF_ERROR(b.expect("b64"));
  OCTET_RETURN_IF_ERROR(b.done(1));
  OCTET_RETURN_IF_ERROR(b.address(0));
  b.insn().run = run_commit;
  return {};
}

}  // namespace octet::ptxsim::insn
