// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/machine/presets.h"

#include <algorithm>
#include <array>

namespace octet::ptxsim::machine {
namespace {

// Every lane of a slot.
template <class Value>
void fill_slot(std::vector<uint32_t>& registers, const Preset& preset, Value value) {
  if (preset.bits == 1) {
    registers[preset.slot] = value(0) != 0 ? kAllLanes : 0;
    return;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t bits = value(lane);
    if (preset.bits == 64) {
      reinterpret_cast<uint64_t*>(registers.data() + preset.slot)[lane] = bits;
    } else {
      registers[preset.slot + lane] = uint32_t(bits);
    }
  }
}

constexpr uint64_t kMostWarpsOfSm = 64;  // %nwarpid (PTX ISA 10, sm_90)

// %total_smem_size (PTX ISA 10): without the system's, in units of 128 bytes.
uint64_t user_shared_bytes(const Cta& cta) {
  const uint64_t bytes = cta.shared.size();
  return (std::max<uint64_t>(bytes, kReservedSharedBytes) - kReservedSharedBytes + 127) / 128 * 128;
}

uint32_t part(const Dim3& d, int axis) { return std::array<uint32_t, 3>{d.x, d.y, d.z}[axis]; }

// %tid.x counts fastest.
uint32_t thread_part(const Warp& warp, int axis, int lane) {
  const Dim3& block = warp.cta->grid->block;
  const uint32_t thread = uint32_t(warp.index) * kLanes + uint32_t(lane);
  if (axis == 0) return thread % block.x;
  if (axis == 1) return thread / block.x % block.y;
  return thread / block.x / block.y;
}

uint64_t lane_mask(SpecialRegister which, int lane) {
  const LaneMask eq = LaneMask{1} << lane, lt = eq - 1;
  switch (which) {
    case SpecialRegister::kLanemaskEq:
      return eq;
    case SpecialRegister::kLanemaskLt:
      return lt;
    case SpecialRegister::kLanemaskLe:
      return lt | eq;
    case SpecialRegister::kLanemaskGe:
      return LaneMask(~lt);
    default:
      return LaneMask(~(lt | eq));
  }
}

bool is_one_of(SpecialRegister which, SpecialRegister first, int* axis) {
  *axis = int(which) - int(first);
  return *axis >= 0 && *axis < 3;
}

}  // namespace

std::vector<uint32_t> initial_registers(const Program& program) {
  std::vector<uint32_t> registers(program.num_words, kRegisterPoison);
  for (const Preset& preset : program.presets) {
    if (preset.kind == Preset::Kind::kValue) {
      fill_slot(registers, preset, [&](int) { return preset.value; });
    }
  }
  return registers;
}

void fill_presets(Warp& warp, uint32_t num_sms) {
  for (const Preset& preset : warp.cta->grid->program->presets) {
    if (preset.kind == Preset::Kind::kSharedSymbol) {
      const uint64_t address = preset.value + (uint64_t{warp.cta->rank} << kRankShift);
      fill_slot(warp.registers, preset, [&](int) { return address; });
    } else if (preset.kind == Preset::Kind::kSpecial) {
      fill_slot(warp.registers, preset, [&](int lane) {
        return special_value(warp, SpecialRegister(preset.special), lane, num_sms);
      });
    }
  }
}

uint64_t special_value(const Warp& warp, SpecialRegister which, int lane, uint32_t num_sms) {
  using S = SpecialRegister;
  const Cta& cta = *warp.cta;
  const Grid& grid = *cta.grid;
  int axis = 0;
  if (is_one_of(which, S::kTidX, &axis)) return thread_part(warp, axis, lane);
  if (is_one_of(which, S::kNtidX, &axis)) return part(grid.block, axis);
  if (is_one_of(which, S::kCtaidX, &axis)) return part(cta.index, axis);
  if (is_one_of(which, S::kNctaidX, &axis)) return part(grid.size, axis);
  if (is_one_of(which, S::kClusterCtaidX, &axis))
    return part(cta.index, axis) % part(grid.cluster, axis);
  if (is_one_of(which, S::kClusterNctaidX, &axis)) return part(grid.cluster, axis);
  if (is_one_of(which, S::kClusteridX, &axis))
    return part(cta.index, axis) / part(grid.cluster, axis);
  if (is_one_of(which, S::kNclusteridX, &axis))
    return part(grid.size, axis) / part(grid.cluster, axis);
  switch (which) {
    case S::kLaneid:
      return uint64_t(lane);
    case S::kWarpid:
      return uint64_t(warp.index);
    case S::kNwarpid:
      return kMostWarpsOfSm;
    case S::kSmid:
      return cta.number % num_sms;
    case S::kNsmid:
      return num_sms;
    case S::kClusterCtarank:
      return cta.rank;
    case S::kClusterNctarank:
      return grid.cluster.count();
    case S::kGridid:
      return grid.id;
    case S::kDynamicSmemSize:
      return grid.dynamic_shared_bytes;
    case S::kTotalSmemSize:
      return user_shared_bytes(cta);
    default:
      return lane_mask(which, lane);
  }
}

}  // namespace octet::ptxsim::machine
