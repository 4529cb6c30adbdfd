// SPDX-License-Identifier: Apache-2.0
// tcgen05.fence and tcgen05.commit: PTX ISA 9.7.16.11, 9.7.16.12. A commit arrives behind all mma and cp that the block has issued, those of
// other threads as well, and in any order with other commits; no multicast.
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
  TensorWarp& state = tensor_unit(x).warps[x.warp.index];
  state.unsignalled &= ~x.lanes;
  std::vector<uint32_t> tokens;
  tokens.swap(state.uncommitted);
  Outcome outcome = Outcome::kNext;
  machine::for_each_lane(x.lanes, [&](int lane) {
    if (outcome != Outcome::kNext) return;
    uint64_t address = x.address(insn.args[0], lane);
    if (insn.mods[0] == 0) address -= machine::kSharedWindow;
    const AsyncAccess by = async_access(x, insn, Proxy::kGeneric, false);
    // The products come behind what this thread knows, so who sees the arrival knows it, too.
    if (machine::Order* order = order_of(x.cta); order != nullptr)
      order->token(by.token).gives.join(order->release(order_warp(x)));
    const uint64_t newest = tensor_unit(x).newest;
    outcome = x.post(
        insn, machine::kUnordered,
        [by, address, tokens] { return async_arrive(by, address, 1, tokens); },
        newest == 0 ? std::vector<uint64_t>{} : std::vector<uint64_t>{newest});
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
