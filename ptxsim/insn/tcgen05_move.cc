// SPDX-License-Identifier: Apache-2.0
// tcgen05.ld, st and the waits for them: PTX ISA 9.7.16.8; which cells a register is, matrix/fragments.h says. Shapes 32x32b, 16x64b,
// 16x128b and 16x256b; .pack::16b, .unpack::16b, 16x32bx2 and .red are not modelled.
//
// A load's registers hold the poison from its issue until it is performed: the ISA lets a following instruction that reads such a
// register wait for it, a kernel that relies on that is refused here.
#include <fmt/format.h>

#include "ptxsim/insn/families.h"
#include "ptxsim/insn/tensor_unit.h"
#include "ptxsim/matrix/fragments.h"

namespace octet::ptxsim::insn {
namespace {

using machine::TensorRect;
using machine::TensorUse;
using machine::TensorUser;
using matrix::TensorShape;

constexpr uint32_t kRegisterPoison = 0xFFFFFFFF;

// mods[0] shape, mods[1] registers a lane.
Status take_shape(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_RETURN_IF_ERROR(b.expect("aligned"));
  b.insn().is_aligned = true;
  if (b.take("16x32bx2")) return b.unmodelled("the shape 16x32bx2 is not modelled");
  OCTET_ASSIGN_OR_RETURN(const int shape,
                         b.expect_one_of({"32x32b", "16x64b", "16x128b", "16x256b"}));
  OCTET_ASSIGN_OR_RETURN(const int log,
                         b.expect_one_of({"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"}));
  const int registers = matrix::tensor_shape_registers(TensorShape(shape)) << log;
  if (registers > 128) return b.refuse("more than 128 registers a lane");
  OCTET_RETURN_IF_ERROR(b.expect("b32"));
  b.insn().mods[0] = shape;
  b.insn().mods[1] = registers;
  return {};
}

// The cells, of the quarter of the lanes that the warp may touch.
std::string find_rect(const Exec& x, const Insn& insn, const machine::Arg& address,
                      TensorRect* rect) {
  const auto common = common_value(x, address, true);
  if (!common) return "lanes give different addresses";
  const auto at = static_cast<uint32_t>(*common);
  const auto shape = TensorShape(insn.mods[0]);
  const int repetitions = insn.mods[1] / matrix::tensor_shape_registers(shape);
  *rect = {machine::tensor_lane(at), matrix::tensor_shape_rows(shape), machine::tensor_column(at),
           repetitions * matrix::tensor_shape_columns(shape)};
  const int first = 32 * (x.warp.index % 4);
  if (rect->lane == first || (rect->num_lanes == 16 && rect->lane == first + 16)) return "";
  return fmt::format("lane {} of tensor memory, warp {} has lanes {}-{}", rect->lane, x.warp.index,
                     first, first + 31);
}

// Checks and announces; empty: done.
std::string begin_use(Exec& x, const TensorUse& use, machine::TensorMemory::Ticket* ticket) {
  std::string wrong = touch_tensor_memory(x);
  if (!wrong.empty()) return wrong;
  auto begun = tensor_unit(x).memory.begin(use);
  if (!begun.ok()) return begun.status().why;
  *ticket = *begun;
  return "";
}

std::vector<machine::Slot> slots_of(const Exec& x, const Insn& insn, const machine::Arg& arg) {
  std::vector<machine::Slot> slots(static_cast<size_t>(insn.mods[1]));
  for (int i = 0; i < insn.mods[1]; ++i) slots[static_cast<size_t>(i)] = x.element(arg, i);
  return slots;
}

// args: registers, address.
Outcome run_ld(Exec& x, const Insn& insn) {
  TensorRect rect;
  std::string wrong = find_rect(x, insn, insn.args[1], &rect);
  machine::TensorMemory::Ticket ticket;
  if (wrong.empty())
    wrong = begin_use(x, {rect, TensorUser::kLoad, false, insn.place.line}, &ticket);
  if (!wrong.empty()) return x.fail(insn, wrong);
  std::vector<machine::Slot> slots = slots_of(x, insn, insn.args[0]);
  for (const machine::Slot slot : slots) {
    if (slot == machine::kNoSlot) continue;
    machine::for_each_lane(x.lanes, [&](int lane) { x.words(slot)[lane] = kRegisterPoison; });
  }
  TensorUnit& unit = tensor_unit(x);
  TensorWarp& state = unit.warps[x.warp.index];
  ++state.loads;
  return x.post(
      insn, machine::kUnordered,
      [&unit, &state, &insn, &cta = x.cta, &warp = x.warp, rect, ticket, slots = std::move(slots),
       lanes = x.lanes, refuses = x.machine.settings().refuses_unset_reads]() -> Status {
        unit.memory.end(ticket);
        --state.loads;
        if (refuses) {
          if (const auto unset = unit.memory.find_unset(rect))
            return async_error(cta, insn, *unset);
        }
        for (size_t i = 0; i < slots.size(); ++i) {
          if (slots[i] == machine::kNoSlot) continue;
          uint32_t* to = warp.registers.data() + slots[i];
          machine::for_each_lane(lanes, [&](int lane) {
            const auto place =
                matrix::tensor_place(TensorShape(insn.mods[0]), lane, static_cast<int>(i));
            to[lane] = unit.memory.read(rect.lane + place.row, rect.column + place.column);
          });
        }
        return {};
      });
}

// args: address, registers, which are read at once.
Outcome run_st(Exec& x, const Insn& insn) {
  TensorRect rect;
  std::string wrong = find_rect(x, insn, insn.args[0], &rect);
  machine::TensorMemory::Ticket ticket;
  if (wrong.empty())
    wrong = begin_use(x, {rect, TensorUser::kStore, true, insn.place.line}, &ticket);
  if (!wrong.empty()) return x.fail(insn, wrong);
  const std::vector<machine::Slot> slots = slots_of(x, insn, insn.args[1]);
  std::vector<std::array<uint32_t, machine::kLanes>> values(slots.size());
  for (size_t i = 0; i < slots.size(); ++i)
    std::copy_n(x.words(slots[i]), machine::kLanes, values[i].begin());
  TensorUnit& unit = tensor_unit(x);
  TensorWarp& state = unit.warps[x.warp.index];
  ++state.stores;
  return x.post(insn, machine::kUnordered,
                [&unit, &state, &insn, rect, ticket, values = std::move(values),
                 lanes = x.lanes]() -> Status {
                  unit.memory.end(ticket);
                  --state.stores;
                  for (size_t i = 0; i < values.size(); ++i) {
                    machine::for_each_lane(lanes, [&](int lane) {
                      const auto place = matrix::tensor_place(TensorShape(insn.mods[0]), lane,
                                                              static_cast<int>(i));
                      unit.memory.write(rect.lane + place.row, rect.column + place.column,
                                        values[i][static_cast<size_t>(lane)]);
                    });
                  }
                  return {};
                });
}

Outcome run_wait_ld(Exec& x, const Insn&) {
  const int left = tensor_unit(x).warps[x.warp.index].loads;
  x.seen = static_cast<uint64_t>(left);
  return left == 0 ? Outcome::kNext : Outcome::kBlocked;
}
Outcome run_wait_st(Exec& x, const Insn&) {
  const int left = tensor_unit(x).warps[x.warp.index].stores;
  x.seen = static_cast<uint64_t>(left);
  return left == 0 ? Outcome::kNext : Outcome::kBlocked;
}

Status bind_wait(Binder& b, machine::Run run) {
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_RETURN_IF_ERROR(b.expect("aligned"));
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().is_aligned = true;
  b.insn().run = run;
  return {};
}

}  // namespace

Status bind_tcgen05_ld(Binder& b) {
  OCTET_RETURN_IF_ERROR(take_shape(b));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.result_vector(0, Type::kB32, static_cast<size_t>(b.insn().mods[1])));
  OCTET_RETURN_IF_ERROR(b.address(1));
  b.insn().run = run_ld;
  return {};
}

Status bind_tcgen05_st(Binder& b) {
  OCTET_RETURN_IF_ERROR(take_shape(b));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.address(0));
  OCTET_RETURN_IF_ERROR(b.source_vector(1, Type::kB32, static_cast<size_t>(b.insn().mods[1])));
  b.insn().run = run_st;
  return {};
}

Status bind_tcgen05_wait_ld(Binder& b) { return bind_wait(b, run_wait_ld); }
Status bind_tcgen05_wait_st(Binder& b) { return bind_wait(b, run_wait_st); }

}  // namespace octet::ptxsim::insn
