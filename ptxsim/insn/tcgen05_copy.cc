// SPDX-License-Identifier: Apache-2.0
// tcgen05.cp: PTX ISA 9.7.16.9. The shape 32x128b.warpx4 alone, which scales are copied with: row i of 32, 16 bytes in shared memory, to
// lanes i, i + 32, i + 64 and i + 96, 4 columns. Rows as a K-major matrix of its descriptor (matrix/shared_layout.h).
#include <cstring>
#include <fmt/format.h>

#include "ptxsim/insn/families.h"
#include "ptxsim/insn/tensor_unit.h"
#include "ptxsim/matrix/shared_layout.h"

namespace octet::ptxsim::insn {
namespace {

using machine::TensorRect;

constexpr int kRows = 32, kColumns = 4;

Status perform_cp(TensorUnit& unit, const AsyncAccess& by, const matrix::SharedLayout& layout,
                  int column) {
  for (int row = 0; row < kRows; ++row) {
    uint32_t words[kColumns];
    uint8_t bytes[sizeof words];
    OCTET_RETURN_IF_ERROR(async_read(by, Space::kShared,
                                     matrix::chunk_address(layout, matrix::Major::kK, row, 0) |
                                         by.cta->rank << machine::kRankShift,
                                     sizeof bytes, bytes));
    std::memcpy(words, bytes, sizeof bytes);
    for (int lane = row; lane < machine::kTensorLanes; lane += kRows) {
      for (int i = 0; i < kColumns; ++i) unit.memory.write(lane, column + i, words[i]);
    }
  }
  return {};
}

// args: address in tensor memory, descriptor.
Outcome run_cp_lane(Exec& x, const Insn& insn, int lane) {
  const auto address = static_cast<uint32_t>(x.address(insn.args[0], lane));
  const auto layout = matrix::decode_tcgen05_descriptor(x.value(insn.args[1], lane));
  if (!layout.ok()) return x.fail(insn, layout.status().why, lane);
  if (machine::tensor_lane(address) != 0)
    return x.fail(
        insn, fmt::format("lane {} of tensor memory, want 0", machine::tensor_lane(address)), lane);
  const int column = machine::tensor_column(address);
  TensorUnit& unit = tensor_unit(x);
  const auto ticket = unit.memory.begin({{0, machine::kTensorLanes, column, kColumns},
                                         machine::TensorUser::kCopy,
                                         true,
                                         insn.place.line});
  if (!ticket.ok()) return x.fail(insn, ticket.status().why, lane);
  const AsyncAccess by = tcgen05_access(x, insn);
  const auto perform = [&unit, by, at = *ticket, layout = *layout, column]() -> Status {
    unit.memory.end(at);
    return perform_cp(unit, by, layout, column);
  };
  return x.post(insn, kTcgen05Channel, perform, {}, &unit.newest);
}

Outcome run_cp(Exec& x, const Insn& insn) {
  if (const std::string wrong = touch_tensor_memory(x); !wrong.empty()) return x.fail(insn, wrong);
  Outcome outcome = Outcome::kNext;
  machine::for_each_lane(x.lanes, [&](int lane) {
    if (outcome == Outcome::kNext) outcome = run_cp_lane(x, insn, lane);
  });
  return outcome;
}

}  // namespace

Status bind_tcgen05_cp(Binder& b) {
  if (b.take("cta_group::2")) return b.unmodelled("pairs of blocks are not modelled");
  OCTET_RETURN_IF_ERROR(b.expect("cta_group::1"));
  if (b.take_one_of({"128x256b", "4x256b", "128x128b", "64x128b"}) >= 0)
    return b.unmodelled("the shape 32x128b alone is modelled");
  OCTET_RETURN_IF_ERROR(b.expect("32x128b"));
  OCTET_RETURN_IF_ERROR(b.expect("warpx4"));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.address(0));
  OCTET_RETURN_IF_ERROR(b.source(1, Type::kB64));
  b.insn().run = run_cp;
  return {};
}

}  // namespace octet::ptxsim::insn
