// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/insn/memory_forms.h"

namespace octet::ptxsim::insn {

int take_order(Binder& b) {
  if (b.take("mmio")) {
    b.take("relaxed");
    return kMmio;
  }
  const int order =
      b.take_one_of({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc"});
  return order < 0 ? int(kWeak) : order;
}

int take_scope(Binder& b) { return b.take_one_of({"cta", "cluster", "gpu", "sys"}); }

Space take_space(Binder& b) {
  switch (b.take_one_of({"global", "const", "shared", "shared::cta", "shared::cluster", "param",
                         "param::entry", "local"})) {
    case 0:
      return Space::kGlobal;
    case 1:
      return Space::kConst;
    case 2:
    case 3:
      return Space::kShared;
    case 4:
      return Space::kSharedCluster;
    case 5:
    case 6:
      return Space::kParam;
    case 7:
      return Space::kLocal;
    default:
      return Space::kGeneric;
  }
}

}  // namespace octet::ptxsim::insn
