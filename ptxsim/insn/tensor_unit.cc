// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/insn/tensor_unit.h"

#include <fmt/format.h>

namespace octet::ptxsim::insn {

std::string TensorUnit::may_signal(int warp, machine::LaneMask lanes) const {
  const TensorWarp& state = warps[warp];
  if ((state.unsignalled & lanes) == 0) return "";
  if (state.loads != 0) return "tcgen05.ld that no tcgen05.wait::ld has waited for";
  if (state.stores != 0) return "tcgen05.st that no tcgen05.wait::st has waited for";
  return "no tcgen05.fence::before_thread_sync (or commit) since the last access of tensor memory";
}

TensorUnit& tensor_unit(machine::Exec& x) {
  if (x.cta.tensor == nullptr)
    x.cta.tensor = std::make_unique<TensorUnit>(x.cta.warps.size(),
                                                x.machine.settings().copies_follow_products);
  return static_cast<TensorUnit&>(*x.cta.tensor);
}

std::string touch_tensor_memory(machine::Exec& x) {
  TensorWarp& state = tensor_unit(x).warps[x.warp.index];
  if ((state.unfenced & x.lanes) != 0)
    return "no tcgen05.fence::after_thread_sync since the last wait";
  state.unsignalled |= x.lanes;
  return "";
}

AsyncAccess tcgen05_access(machine::Exec& x, const machine::Insn& insn) {
  const AsyncAccess by = async_access(x, insn, Proxy::kAsync, true);
  if (by.token != 0) tensor_unit(x).warps[x.warp.index].uncommitted.push_back(by.token);
  return by;
}

std::optional<uint64_t> common_value(const machine::Exec& x, const machine::Arg& arg,
                                     bool is_address) {
  std::optional<uint64_t> common;
  bool differs = false;
  machine::for_each_lane(x.lanes, [&](int lane) {
    const uint64_t value = is_address ? x.address(arg, lane) : x.value(arg, lane);
    differs |= common.has_value() && *common != value;
    common = value;
  });
  return differs ? std::nullopt : common;
}

}  // namespace octet::ptxsim::insn
