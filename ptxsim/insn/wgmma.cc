// SPDX-License-Identifier: Apache-2.0
// wgmma: PTX ISA 9.7.15. d [64, n] f32 in registers = a [64, k] * b [n, k] (+ d), by four warps together:
//
//   k 16   f16 or bf16, both in either major        a in registers (matrix/fragments.h) or shared memory
//   k 32   e4m3 and e5m2, K-major                   b in shared memory
//
// Registers: a is read, and d written, when the product is performed; d holds the poison until then. Products of one warpgroup are
// performed in the order of their issue.
// Errors beside the operands': a register of a or d that has another value than at the last wgmma.fence (or no fence at all); one of
// d that another product under way works on with another shape.
// Bytes of shared memory that nobody has written, or whose writer is not known and fenced, are NaN, no error: a kernel may leave columns of
// its product unused.
// Not modelled: d in f16, integers, tf32, sparse matrices. A register written with the value that it had, without a fence behind it, is
// not seen.
#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <optional>

#include "ptxsim/insn/families.h"
#include "ptxsim/insn/tensor_product.h"
#include "ptxsim/insn/tensor_unit.h"
#include "ptxsim/matrix/fragments.h"

namespace octet::ptxsim::insn {
namespace {

using matrix::Format;
using matrix::Major;

constexpr uint32_t kRegisterPoison = 0xFFFFFFFF;
constexpr int kRowsOfAWarp = 16;

// mods: n, a's format, b's, kARegisters ... kBTransposed.
enum Flag { kARegisters = 1, kANegated = 2, kBNegated = 4, kATransposed = 8, kBTransposed = 16 };

// One product, as its issue left it.
struct Product {
  int n = 0, k = 0;
  Format a_format = Format::kBf16, b_format = Format::kBf16;
  int flags = 0;
  std::optional<matrix::SharedLayout> a;  // nothing: in registers
  std::vector<machine::Slot> a_slots;
  matrix::SharedLayout b;
  bool accumulates = false;
  std::shared_ptr<WgmmaAccumulator> d;
  std::array<machine::Warp*, 4> warps{};
  std::array<uint64_t, 4> groups{};
};

std::vector<machine::Slot> slots_of(const Exec& x, const machine::Arg& arg) {
  std::vector<machine::Slot> slots;
  for (int i = 0; i < arg.count; ++i) slots.push_back(x.element(arg, i));
  return slots;
}

// The registers are as wgmma.fence left them.
std::string check_fenced(const TensorWarp& state, const machine::Warp& warp,
                         const std::vector<machine::Slot>& slots) {
  if (state.fenced_registers.empty()) return "no wgmma.fence before it";
  for (const machine::Slot slot : slots) {
    if (slot == machine::kNoSlot) continue;
    const uint32_t* now = warp.registers.data() + slot;
    if (!std::equal(now, now + machine::kLanes, state.fenced_registers.data() + slot))
      return fmt::format("a register of it has changed in warp {} since the last wgmma.fence",
                         warp.index);
  }
  return "";
}

// Registers that a product itself writes need no fence to the next product of its chain.
void write_register(TensorWarp& state, machine::Warp& warp, machine::Slot slot,
                    const uint32_t* from) {
  if (slot == machine::kNoSlot) return;
  std::copy_n(from, machine::kLanes, warp.registers.data() + slot);
  std::copy_n(from, machine::kLanes, state.fenced_registers.data() + slot);
}

// The chain of these registers, which begins where none is under way.
std::string find_accumulator(TensorUnit& unit, Product& product, int group,
                             const std::vector<machine::Slot>& slots) {
  for (const auto& chain : unit.accumulators[static_cast<size_t>(group)]) {
    if (chain->slots == slots && chain->rows_of_b == product.n) {
      product.d = chain;
      return "";
    }
    for (const machine::Slot slot : slots) {
      if (slot != machine::kNoSlot &&
          std::find(chain->slots.begin(), chain->slots.end(), slot) != chain->slots.end())
        return "registers of d belong to a product of another shape that is under way";
    }
  }
  product.d = std::make_shared<WgmmaAccumulator>();
  product.d->slots = slots;
  product.d->rows_of_b = product.n;
  const std::vector<uint32_t> poison(machine::kLanes, kRegisterPoison);
  for (size_t w = 0; w < 4; ++w) {
    machine::Warp& warp = *product.warps[w];
    TensorWarp& state = unit.warps[static_cast<size_t>(warp.index)];
    if (std::string wrong = check_fenced(state, warp, slots); !wrong.empty()) return wrong;
    for (const machine::Slot slot : slots) {
      const uint32_t* from =  // of the sink: anything
          slot == machine::kNoSlot ? poison.data() : warp.registers.data() + slot;
      product.d->values[w].insert(product.d->values[w].end(), from, from + machine::kLanes);
      write_register(state, warp, slot, poison.data());
    }
  }
  unit.accumulators[static_cast<size_t>(group)].push_back(product.d);
  return "";
}

// a [64, k] from the four warps' registers.
matrix::Factors a_of_registers(const Product& product) {
  const int bits = matrix::format_bits(product.a_format);
  std::vector<uint32_t> codes(static_cast<size_t>(64 * product.k));
  for (int w = 0; w < 4; ++w) {
    for (size_t reg = 0; reg < product.a_slots.size(); ++reg) {
      const uint32_t* words =
          product.warps[static_cast<size_t>(w)]->registers.data() + product.a_slots[reg];
      for (int lane = 0; lane < machine::kLanes; ++lane) {
        const auto place = matrix::a_place(lane, static_cast<int>(reg), bits);
        const int row = kRowsOfAWarp * w + place.row;
        for (int i = 0; i < 32 / bits; ++i)
          codes[static_cast<size_t>(row * product.k + place.column + i)] =
              words[lane] >> (bits * i) & (~0U >> (32 - bits));
      }
    }
  }
  return matrix::Factors(product.a_format, codes, 64, product.k, (product.flags & kANegated) != 0);
}

Status multiply(const AsyncAccess& by, const Product& product) {
  const auto major = [&](Flag flag) { return product.flags & flag ? Major::kMn : Major::kK; };
  std::optional<matrix::Factors> a;
  if (product.a) {
    OCTET_ASSIGN_OR_RETURN(
        a, read_factors(by, *product.a, {product.a_format, major(kATransposed), 64, product.k},
                        (product.flags & kANegated) != 0, Unset::kPoison));
  } else {
    a = a_of_registers(product);
  }
  OCTET_ASSIGN_OR_RETURN(
      const matrix::Factors b,
      read_factors(by, product.b, {product.b_format, major(kBTransposed), product.n, product.k},
                   (product.flags & kBNegated) != 0, Unset::kPoison));
  const matrix::Arithmetic arithmetic = arithmetic_of(*by.machine, product.k == 32);
  for (int w = 0; w < 4; ++w) {
    std::vector<uint32_t>& values = product.d->values[static_cast<size_t>(w)];
    for (size_t i = 0; i < values.size(); ++i) {
      const auto place = matrix::accumulator_place(static_cast<int>(i) % machine::kLanes,
                                                   static_cast<int>(i) / machine::kLanes);
      matrix::Term term = {kRowsOfAWarp * w + place.row, place.column, 0, false, -0.0F};
      if (product.accumulates) term.c = std::bit_cast<float>(values[i]);
      values[i] = std::bit_cast<uint32_t>(matrix::dot(*a, b, term, arithmetic));
    }
  }
  return {};
}

// Behind the last product of a chain its values are the registers'.
void finish(TensorUnit& unit, int group, const Product& product) {
  for (size_t w = 0; w < 4; ++w)
    unit.warps[static_cast<size_t>(product.warps[w]->index)].wgmma_groups.done(product.groups[w]);
  if (--product.d->left != 0) return;
  for (size_t w = 0; w < 4; ++w) {
    machine::Warp& warp = *product.warps[w];
    for (size_t i = 0; i < product.d->slots.size(); ++i)
      write_register(unit.warps[static_cast<size_t>(warp.index)], warp, product.d->slots[i],
                     product.d->values[w].data() + i * machine::kLanes);
  }
  std::erase(unit.accumulators[static_cast<size_t>(group)], product.d);
}

// One 64-bit value of all lanes of the four warps.
std::optional<uint64_t> common_descriptor(const Product& product, const machine::Arg& arg) {
  std::optional<uint64_t> common;
  for (machine::Warp* warp : product.warps) {
    const auto* values = reinterpret_cast<const uint64_t*>(warp->registers.data() + arg.slot);
    for (int lane = 0; lane < machine::kLanes; ++lane) {
      if (common && *common != values[lane]) return std::nullopt;
      common = values[lane];
    }
  }
  return common;
}

Status take_layout(const Product& product, const machine::Arg& arg,
                   std::optional<matrix::SharedLayout>* to) {
  const auto descriptor = common_descriptor(product, arg);
  if (!descriptor) return invalid_argument("lanes of the warpgroup give different descriptors");
  OCTET_ASSIGN_OR_RETURN(*to, matrix::decode_wgmma_descriptor(*descriptor));
  return {};
}

// args: d, a (registers or descriptor), b, whether d is added.
Status issue(Exec& x, const Insn& insn) {
  TensorUnit& unit = tensor_unit(x);
  const int group = x.warp.index / 4;
  Product product;
  product.n = insn.mods[0];
  product.a_format = Format(insn.mods[1]);
  product.b_format = Format(insn.mods[2]);
  product.flags = insn.mods[3];
  product.k = matrix::format_bits(product.a_format) == 16 ? 16 : 32;
  for (int w = 0; w < 4; ++w) product.warps[static_cast<size_t>(w)] = &warpgroup_warp(x, w);
  const auto fail = [&](std::string_view why) {
    x.fail(insn, why);
    return x.error;
  };
  std::optional<matrix::SharedLayout> b;
  Status status = take_layout(product, insn.args[2], &b);
  if (status.ok() && !(product.flags & kARegisters))
    status = take_layout(product, insn.args[1], &product.a);
  if (!status.ok()) return fail(status.why);
  product.b = *b;
  product.accumulates = (x.predicate(insn.args[3]) & 1) != 0;
  if (product.flags & kARegisters) {
    product.a_slots = slots_of(x, insn.args[1]);
    for (machine::Warp* warp : product.warps) {
      const std::string wrong =
          check_fenced(unit.warps[static_cast<size_t>(warp->index)], *warp, product.a_slots);
      if (!wrong.empty()) return fail(wrong);
    }
  }
  const std::string wrong = find_accumulator(unit, product, group, slots_of(x, insn.args[0]));
  if (!wrong.empty()) return fail(wrong);
  ++product.d->left;
  ++x.machine.counts().products;
  for (size_t w = 0; w < 4; ++w)
    product.groups[w] =
        unit.warps[static_cast<size_t>(product.warps[w]->index)].wgmma_groups.join();
  const AsyncAccess by = async_access(x, insn, Proxy::kAsync, true);
  if (machine::Order* order = order_of(x.cta); order != nullptr)
    order->join_group(by.token, order_warp(x), machine::GroupKind::kWgmma, true);
  x.post(insn, kWgmmaChannel + group, [&unit, by, group, product]() -> Status {
    OCTET_RETURN_IF_ERROR(multiply(by, product));
    finish(unit, group, product);
    return {};
  });
  return x.error;
}

Outcome run_mma_async(Exec& x, const Insn& insn) { return gather_warpgroup(x, insn, issue); }

// What the registers of all products hold now: the others are of no fence's concern, and are most of them.
Outcome run_fence(Exec& x, const Insn&) {
  auto& kept = tensor_unit(x).warps[static_cast<size_t>(x.warp.index)].fenced_registers;
  kept.resize(x.warp.registers.size());
  for (const machine::Slot slot : x.program().fenced)
    std::copy_n(x.warp.registers.data() + slot, machine::kLanes, kept.data() + slot);
  return Outcome::kNext;
}
Outcome run_commit(Exec& x, const Insn&) {
  tensor_unit(x).warps[static_cast<size_t>(x.warp.index)].wgmma_groups.commit();
  if (machine::Order* order = order_of(x.cta); order != nullptr)
    order->commit_group(order_warp(x), machine::GroupKind::kWgmma);
  return Outcome::kNext;
}
Outcome run_wait(Exec& x, const Insn& insn) {
  auto& groups = tensor_unit(x).warps[static_cast<size_t>(x.warp.index)].wgmma_groups;
  x.seen = tensor_unit(x).accumulators[static_cast<size_t>(x.warp.index / 4)].size();
  const auto most = static_cast<uint64_t>(insn.mods[0]);
  if (!groups.at_most(most)) return Outcome::kBlocked;
  if (machine::Order* order = order_of(x.cta); order != nullptr)
    order->wait_group(order_warp(x), machine::GroupKind::kWgmma, most);
  return Outcome::kNext;
}

Status take_sync_aligned(Binder& b) {
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_RETURN_IF_ERROR(b.expect("aligned"));
  b.insn().is_aligned = true;
  return {};
}

// "m64n8k32": n and k, or nothing. The modifier is taken by trying every n, since a Binder gives none that it does not know.
Result<std::pair<int, int>> take_shape(Binder& b) {
  for (int n = 8; n <= 256; n += 8) {
    for (const int k : {16, 32}) {
      if (b.take(fmt::format("m64n{}k{}", n, k))) return std::pair{n, k};
    }
  }
  return b.unmodelled("shapes m64nNk16 and m64nNk32 with N a multiple of 8 are modelled");
}

Result<Format> take_format(Binder& b, int k) {
  if (k == 16) {
    OCTET_ASSIGN_OR_RETURN(const int i, b.expect_one_of({"f16", "bf16"}));
    return i == 0 ? Format::kF16 : Format::kBf16;
  }
  OCTET_ASSIGN_OR_RETURN(const int i, b.expect_one_of({"e4m3", "e5m2"}));
  return i == 0 ? Format::kE4m3 : Format::kE5m2;
}

// The immediates behind scale-d: signs of a and b, and, of 16-bit elements, whether a and b are transposed.
Status take_immediates(Binder& b, size_t first, int k, int* flags) {
  const bool a_is_registers = (*flags & kARegisters) != 0;
  for (size_t i = 0; i < 2; ++i) {
    OCTET_ASSIGN_OR_RETURN(const int64_t sign, b.number(first + i));
    if (sign != 1 && sign != -1) return b.refuse(b.operand(first + i), "want 1 or -1");
    if (sign == -1) *flags |= i == 0 ? kANegated : kBNegated;
  }
  if (k != 16) return {};
  for (size_t i = a_is_registers ? 1 : 0; i < 2; ++i) {
    const size_t at = first + 2 + i - (a_is_registers ? 1 : 0);
    OCTET_ASSIGN_OR_RETURN(const int64_t is_transposed, b.number(at));
    if (is_transposed != 0 && is_transposed != 1) return b.refuse(b.operand(at), "want 0 or 1");
    if (is_transposed == 1) *flags |= i == 0 ? kATransposed : kBTransposed;
  }
  return {};
}

// d and, where it is one, a of registers.
void fence_about(machine::Program& program, const Insn& insn) {
  for (int i = 0; i < insn.num_args; ++i) {
    const Arg& arg = insn.args[static_cast<size_t>(i)];
    for (uint32_t k = 0; k < arg.count; ++k) {
      const machine::Slot slot = program.lists[arg.list + k];
      const auto found = std::find(program.fenced.begin(), program.fenced.end(), slot);
      if (slot != machine::kNoSlot && found == program.fenced.end()) program.fenced.push_back(slot);
    }
  }
}

}  // namespace

Status bind_wgmma_mma_async(Binder& b) {
  OCTET_RETURN_IF_ERROR(take_sync_aligned(b));
  OCTET_ASSIGN_OR_RETURN(const auto shape, take_shape(b));
  const auto [n, k] = shape;
  if (b.take("f16")) return b.unmodelled("d in f16 is not modelled");
  OCTET_RETURN_IF_ERROR(b.expect("f32"));
  OCTET_ASSIGN_OR_RETURN(const Format a_format, take_format(b, k));
  OCTET_ASSIGN_OR_RETURN(const Format b_format, take_format(b, k));
  if (k == 16 && a_format != b_format) return b.refuse("a and b of different formats");
  int flags = 0;
  if (b.num_operands() > 1 && b.operand(1).kind == text::Operand::Kind::kVector)
    flags |= kARegisters;
  OCTET_RETURN_IF_ERROR(b.done(size_t{6} + (k == 16 ? (flags & kARegisters ? 1 : 2) : 0)));
  OCTET_RETURN_IF_ERROR(b.result_vector(0, Type::kF32, static_cast<size_t>(n / 2)));
  OCTET_RETURN_IF_ERROR(flags & kARegisters ? b.source_vector(1, Type::kB32, 4)
                                            : b.source(1, Type::kB64));
  fence_about(b.program(), b.insn());
  OCTET_RETURN_IF_ERROR(b.source(2, Type::kB64));
  OCTET_RETURN_IF_ERROR(b.predicate_source(3));
  OCTET_RETURN_IF_ERROR(take_immediates(b, 4, k, &flags));
  b.insn().mods = {n, static_cast<int32_t>(a_format), static_cast<int32_t>(b_format), flags};
  b.insn().run = run_mma_async;
  return {};
}

Status bind_wgmma_fence(Binder& b) {
  OCTET_RETURN_IF_ERROR(take_sync_aligned(b));
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = run_fence;
  return {};
}
Status bind_wgmma_commit(Binder& b) {
  OCTET_RETURN_IF_ERROR(take_sync_aligned(b));
  OCTET_RETURN_IF_ERROR(b.done(0));
  b.insn().run = run_commit;
  return {};
}
Status bind_wgmma_wait(Binder& b) {
  OCTET_RETURN_IF_ERROR(take_sync_aligned(b));
  OCTET_RETURN_IF_ERROR(b.done(1));
  OCTET_ASSIGN_OR_RETURN(const int64_t most, b.number(0));
  if (most < 0 || most > 1 << 20) return b.refuse(b.operand(0), "want a number of groups");
  b.insn().mods[0] = static_cast<int32_t>(most);
  b.insn().run = run_wait;
  return {};
}

}  // namespace octet::ptxsim::insn
