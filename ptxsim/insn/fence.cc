// SPDX-License-Identifier: Apache-2.0
// membar, fence and fence.proxy: PTX ISA 9.7.13.4. Memory here is sequentially consistent, so that a fence changes no value; the
// ordering checker is told.
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/memory_forms.h"

namespace octet::ptxsim::insn {
namespace {

Outcome run_nothing(Exec&, const Insn&) { return Outcome::kNext; }

Outcome run_fence(Exec& x, const Insn&) {
  if (machine::Order* order = order_of(x.cta); order != nullptr) order->fence(order_warp(x));
  return Outcome::kNext;
}

// What the warp knows of, the asynchronous proxy may read behind it: of shared memory, of global memory, of both.
enum ProxyMod { kFencesShared, kFencesGlobal };

Outcome run_proxy_fence(Exec& x, const Insn& insn) {
  if (insn.mods[kFencesGlobal] != 0) x.warp.fenced_global_at = x.machine.now();
  machine::Order* order = order_of(x.cta);
  if (order != nullptr && insn.mods[kFencesShared] != 0) order->fence_proxy(order_warp(x));
  return Outcome::kNext;
}

Status bind_proxy_fence(Binder& b) {
  bool is_shared = true, is_global = true;
  OCTET_ASSIGN_OR_RETURN(
      const int kind, b.expect_one_of({"async", "alias", "tensormap::generic", "async::generic"}));
  if (kind == 2) {
    take_order(b);
    take_scope(b);
    OCTET_RETURN_IF_ERROR(b.done(0, 2));
  } else if (kind == 3) {
    take_order(b);
    b.take_one_of({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
    take_scope(b);
    OCTET_RETURN_IF_ERROR(b.done(0));
  } else {
    const Space space = take_space(b);
    is_shared = space != Space::kGlobal;
    is_global = space == Space::kGlobal || space == Space::kGeneric;
    OCTET_RETURN_IF_ERROR(b.done(0));
  }
  b.insn().mods = {is_shared, is_global};
  b.insn().run = kind == 0 || kind == 3 ? run_proxy_fence : run_nothing;
  return {};
}

}  // namespace

Status bind_membar(Binder& b) {
  if (b.take("proxy")) return bind_proxy_fence(b);
  OCTET_RETURN_IF_ERROR(b.expect_one_of({"cta", "gl", "sys"}).status());
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = run_fence;
  return {};
}

Status bind_fence(Binder& b) {
  if (b.take("proxy")) return bind_proxy_fence(b);
  const bool is_of_init = b.take("mbarrier_init");
  if (is_of_init) {
    OCTET_RETURN_IF_ERROR(b.expect("release"));
    OCTET_RETURN_IF_ERROR(b.expect("cluster"));
  } else {
    take_order(b);
    b.take_one_of({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
    take_scope(b);
  }
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = is_of_init ? run_nothing : run_fence;
  return {};
}

}  // namespace octet::ptxsim::insn
