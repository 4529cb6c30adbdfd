// SPDX-License-Identifier: Apache-2.0
// tcgen05.alloc, dealloc, relinquish_alloc_permit: PTX ISA 9.7.16.7. cta_group::1 alone.
#include <cstring>

#include "ptxsim/insn/families.h"
#include "ptxsim/insn/tensor_unit.h"

namespace octet::ptxsim::insn {
namespace {

Status take_cta_group(Binder& b) {
  if (b.take("cta_group::2")) return b.unmodelled("pairs of blocks are not modelled");
  return b.expect("cta_group::1");
}

Status take_sync_aligned(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_RETURN_IF_ERROR(b.expect("aligned"));
  b.insn().is_aligned = true;
  return {};
}

// args: where the address is stored, columns; mods[0]: the address is one of shared memory. Waits while so many are not free.
Outcome run_alloc(Exec& x, const Insn& insn) {
  const auto to = common_value(x, insn.args[0], true),
             columns = common_value(x, insn.args[1], false);
  if (!to || !columns) return x.fail(insn, "lanes give different operands");
  TensorUnit& unit = tensor_unit(x);
  const auto address = unit.memory.allocate(static_cast<uint32_t>(*columns), x.machine.random());
  if (!address.ok()) return x.fail(insn, address.status().why);
  if (!address->has_value()) return Outcome::kBlocked;
  const Space space = insn.mods[0] != 0 ? Space::kShared : Space::kGeneric;
  uint8_t* bytes = write_lane(x, insn, space, *to, 4, machine::first_lane(x.lanes));
  if (bytes == nullptr) return Outcome::kFailed;
  const uint32_t value = **address;
  std::memcpy(bytes, &value, sizeof value);
  return Outcome::kNext;
}

Outcome run_dealloc(Exec& x, const Insn& insn) {
  const auto address = common_value(x, insn.args[0], false),
             columns = common_value(x, insn.args[1], false);
  if (!address || !columns) return x.fail(insn, "lanes give different operands");
  const Status status = tensor_unit(x).memory.deallocate(static_cast<uint32_t>(*address),
                                                         static_cast<uint32_t>(*columns));
  return status.ok() ? Outcome::kNext : x.fail(insn, status.why);
}

Outcome run_relinquish(Exec& x, const Insn& insn) {
  const Status status = tensor_unit(x).memory.relinquish();
  return status.ok() ? Outcome::kNext : x.fail(insn, status.why);
}

}  // namespace

Status bind_tcgen05_alloc(Binder& b) {
  OCTET_RETURN_IF_ERROR(take_cta_group(b));
  OCTET_RETURN_IF_ERROR(take_sync_aligned(b));
  b.insn().mods[0] = b.take("shared::cta");
  OCTET_RETURN_IF_ERROR(b.expect("b32"));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.address(0));
  OCTET_RETURN_IF_ERROR(b.source(1, Type::kU32));
  b.insn().run = run_alloc;
  return {};
}

Status bind_tcgen05_dealloc(Binder& b) {
  OCTET_RETURN_IF_ERROR(take_cta_group(b));
  OCTET_RETURN_IF_ERROR(take_sync_aligned(b));
  OCTET_RETURN_IF_ERROR(b.expect("b32"));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.source(0, Type::kU32));
  OCTET_RETURN_IF_ERROR(b.source(1, Type::kU32));
  b.insn().run = run_dealloc;
  return {};
}

Status bind_tcgen05_relinquish(Binder& b) {
  OCTET_RETURN_IF_ERROR(take_cta_group(b));
  OCTET_RETURN_IF_ERROR(take_sync_aligned(b));
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = run_relinquish;
  return {};
}

}  // namespace octet::ptxsim::insn
