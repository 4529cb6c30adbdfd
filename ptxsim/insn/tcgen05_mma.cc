// SPDX-License-Identifier: Apache-2.0
// tcgen05.mma: PTX ISA 9.7.16.10. d [128, n] f32 in tensor memory = a * b (+ d), of cta_group::1:
//
//   kind::f16                    a [128, 16] in shared or tensor memory, b [n, 16] in shared memory; f16 or bf16
//   kind::mxf8f6f4.block_scale   a [128, 32], b [n, 32] in shared memory, 4 to 8 bits; a scale of ue8m0 for each row of both, which
//                                stand in tensor memory, the same in all four quarters of the lanes (matrix/scale_layout.h)
//
//   d: lane = row, column = the address's + n. a in tensor memory: lane = row, column + k/2, even k in the low half.
//
// Not modelled: other kinds, a of kind::mxf8f6f4 in tensor memory, m = 64, sparsity, .ws, .ashift, masks of lanes, scale-input-d.
// .collector says what may be kept, not what is computed: it is read over.
#include <bit>
#include <fmt/format.h>
#include <optional>

#include "ptxsim/insn/families.h"
#include "ptxsim/insn/tensor_product.h"
#include "ptxsim/insn/tensor_unit.h"
#include "ptxsim/matrix/instruction_descriptor.h"
#include "ptxsim/matrix/scale_layout.h"

namespace octet::ptxsim::insn {
namespace {

using machine::TensorRect;
using machine::TensorUser;
using matrix::MmaKind;

// One product, as its issue left it.
struct Product {
  matrix::InstructionDescriptor shape;
  std::optional<matrix::SharedLayout> a;  // nothing: in tensor memory, at a_column
  matrix::SharedLayout b;
  int a_column = 0, d_column = 0, a_scale_column = 0, b_scale_column = 0;
  bool accumulates = false;
  std::vector<machine::TensorMemory::Ticket> uses;
};

int scale_columns(int rows) { return (rows + 31) / 32; }

// 2^exponent of each row, or NaN.
struct Scale {
  int exponent = 0;
  bool is_nan = false;
};

Result<std::vector<Scale>> read_scales(const machine::TensorMemory& memory, int rows, int column,
                                       int id, char name) {
  std::vector<Scale> scales(static_cast<size_t>(rows));
  OCTET_ASSIGN_OR_RETURN(const int byte, matrix::scale_byte(1, id));
  for (int row = 0; row < rows; ++row) {
    std::optional<uint32_t> code;
    for (int quarter = 0; quarter < 4; ++quarter) {
      const auto cell = matrix::scale_cell(row, quarter);
      if (!memory.is_set(cell.lane, column + cell.column))
        return invalid_argument(
            fmt::format("scale of row {} of {}: lane {}, column {} has no value", row, name,
                        cell.lane, column + cell.column));
      const uint32_t found = memory.read(cell.lane, column + cell.column) >> (8 * byte) & 0xFF;
      if (code && *code != found)
        return invalid_argument(fmt::format(
            "scale of row {} of {} is 0x{:02x} in lane {} and 0x{:02x} in another quarter", row,
            name, found, cell.lane, *code));
      code = found;
    }
    scales[static_cast<size_t>(row)] = {static_cast<int>(*code) - 127, *code == 0xFF};
  }
  return scales;
}

Result<matrix::Factors> read_a(const AsyncAccess& by, const machine::TensorMemory& memory,
                               const Product& product) {
  const auto& shape = product.shape;
  if (product.a)
    return read_factors(by, *product.a, {shape.a_format, shape.a_major, shape.m, shape.k},
                        shape.a_is_negated, Unset::kRefused);
  if (const auto unset = memory.find_unset({0, shape.m, product.a_column, shape.k / 2}))
    return invalid_argument("a: " + *unset);
  std::vector<uint32_t> codes(static_cast<size_t>(shape.m * shape.k));
  for (int i = 0; i < shape.m * shape.k; ++i) {
    const int row = i / shape.k, k = i % shape.k;
    codes[static_cast<size_t>(i)] =
        memory.read(row, product.a_column + k / 2) >> (16 * (k % 2)) & 0xFFFF;
  }
  return matrix::Factors(shape.a_format, codes, shape.m, shape.k, shape.a_is_negated);
}

Status multiply(const AsyncAccess& by, machine::TensorMemory& memory, const Product& product) {
  const auto& shape = product.shape;
  OCTET_ASSIGN_OR_RETURN(const matrix::Factors a, read_a(by, memory, product));
  OCTET_ASSIGN_OR_RETURN(
      const matrix::Factors b,
      read_factors(by, product.b, {shape.b_format, shape.b_major, shape.n, shape.k},
                   shape.b_is_negated, Unset::kRefused));
  std::vector<Scale> a_scales(static_cast<size_t>(shape.m)), b_scales(static_cast<size_t>(shape.n));
  if (shape.kind == MmaKind::kMxf8f6f4) {
    OCTET_ASSIGN_OR_RETURN(
        a_scales, read_scales(memory, shape.m, product.a_scale_column, shape.a_scale_id, 'a'));
    OCTET_ASSIGN_OR_RETURN(
        b_scales, read_scales(memory, shape.n, product.b_scale_column, shape.b_scale_id, 'b'));
  }
  if (product.accumulates) {
    if (const auto unset = memory.find_unset({0, shape.m, product.d_column, shape.n}))
      return invalid_argument("d: " + *unset);
  }
  const matrix::Arithmetic arithmetic = arithmetic_of(*by.machine, false);
  for (int row = 0; row < shape.m; ++row) {
    for (int column = 0; column < shape.n; ++column) {
      const Scale a_scale = a_scales[static_cast<size_t>(row)];
      const Scale b_scale = b_scales[static_cast<size_t>(column)];
      const int at = product.d_column + column;
      matrix::Term term = {row, column, a_scale.exponent + b_scale.exponent,
                           a_scale.is_nan || b_scale.is_nan, -0.0F};
      if (product.accumulates) term.c = std::bit_cast<float>(memory.read(row, at));
      memory.write(row, at, std::bit_cast<uint32_t>(matrix::dot(a, b, term, arithmetic)));
    }
  }
  return {};
}

// A tensor-memory address, whose lane is 0 in every layout that is modelled.
std::string take_column(uint64_t address, std::string_view name, int* column) {
  const auto at = static_cast<uint32_t>(address);
  *column = machine::tensor_column(at);
  if (machine::tensor_lane(at) == 0) return "";
  return fmt::format("{} is at lane {} of tensor memory, want 0", name, machine::tensor_lane(at));
}

// Announces what the product reads and writes in tensor memory.
Status begin_uses(TensorUnit& unit, const Insn& insn, Product& product) {
  const auto& shape = product.shape;
  const auto begin = [&](int column, int columns, bool is_write) -> Status {
    const TensorRect rect = {0, machine::kTensorLanes, column, columns};
    auto ticket = unit.memory.begin({rect, TensorUser::kMma, is_write, insn.place.line});
    if (!ticket.ok()) return ticket.status();
    product.uses.push_back(*ticket);
    return {};
  };
  OCTET_RETURN_IF_ERROR(begin(product.d_column, shape.n, true));
  if (!product.a) OCTET_RETURN_IF_ERROR(begin(product.a_column, shape.k / 2, false));
  if (shape.kind == MmaKind::kMxf8f6f4) {
    OCTET_RETURN_IF_ERROR(begin(product.a_scale_column, scale_columns(shape.m), false));
    OCTET_RETURN_IF_ERROR(begin(product.b_scale_column, scale_columns(shape.n), false));
  }
  return {};
}

// args: d, a, b, descriptor, [scales of a, scales of b,] whether d is added. mods[0] the kind, mods[1] a is in tensor memory.
std::string take_operands(Exec& x, const Insn& insn, int lane, Product& product) {
  const auto kind = MmaKind(insn.mods[0]);
  const auto shape = matrix::decode_instruction_descriptor(
      kind, static_cast<uint32_t>(x.value(insn.args[3], lane)));
  if (!shape.ok()) return shape.status().why;
  product.shape = *shape;
  if (shape->m != 128) return fmt::format("m = {} is not modelled, 128 is", shape->m);
  std::string wrong = take_column(x.address(insn.args[0], lane), "d", &product.d_column);
  if (insn.mods[1] != 0) {
    if (wrong.empty()) wrong = take_column(x.address(insn.args[1], lane), "a", &product.a_column);
  } else {
    const auto a = matrix::decode_tcgen05_descriptor(x.value(insn.args[1], lane));
    if (!a.ok()) return a.status().why;
    product.a = *a;
  }
  const auto b = matrix::decode_tcgen05_descriptor(x.value(insn.args[2], lane));
  if (!b.ok()) return b.status().why;
  product.b = *b;
  if (kind == MmaKind::kMxf8f6f4) {
    if (wrong.empty())
      wrong = take_column(x.address(insn.args[4], lane), "scale of a", &product.a_scale_column);
    if (wrong.empty())
      wrong = take_column(x.address(insn.args[5], lane), "scale of b", &product.b_scale_column);
  }
  const machine::Arg& accumulates = insn.args[insn.num_args - 1];
  product.accumulates = (x.predicate(accumulates) >> lane & 1) != 0;
  return wrong;
}

Outcome run_mma_lane(Exec& x, const Insn& insn, int lane) {
  Product product;
  if (const std::string wrong = take_operands(x, insn, lane, product); !wrong.empty())
    return x.fail(insn, wrong, lane);
  ++x.machine.counts().products;
  TensorUnit& unit = tensor_unit(x);
  if (const Status status = begin_uses(unit, insn, product); !status.ok())
    return x.fail(insn, status.why, lane);
  const AsyncAccess by = tcgen05_access(x, insn);
  const auto perform = [&unit, by, product = std::move(product)]() -> Status {
    for (const auto& ticket : product.uses) unit.memory.end(ticket);
    const Status status = multiply(by, unit.memory, product);
    // What a read of shared memory refused says its line itself.
    if (status.ok() || status.why.rfind("line ", 0) == 0) return status;
    return async_error(*by.cta, *by.insn, status.why);
  };
  return x.post(insn, kTcgen05Channel, perform, {}, &unit.newest);
}

Outcome run_mma(Exec& x, const Insn& insn) {
  if (const std::string wrong = touch_tensor_memory(x); !wrong.empty()) return x.fail(insn, wrong);
  Outcome outcome = Outcome::kNext;
  machine::for_each_lane(x.lanes, [&](int lane) {
    if (outcome == Outcome::kNext) outcome = run_mma_lane(x, insn, lane);
  });
  return outcome;
}

Result<MmaKind> take_kind(Binder& b) {
  if (b.take("cta_group::2")) return b.unmodelled("pairs of blocks are not modelled");
  OCTET_RETURN_IF_ERROR(b.expect("cta_group::1"));
  if (b.take_one_of({"kind::tf32", "kind::f8f6f4", "kind::i8", "kind::mxf4", "kind::mxf4nvf4"}) >=
      0)
    return b.unmodelled("kind::f16 and kind::mxf8f6f4 are modelled");
  OCTET_ASSIGN_OR_RETURN(const int kind, b.expect_one_of({"kind::f16", "kind::mxf8f6f4"}));
  if (kind == 1) {
    OCTET_RETURN_IF_ERROR(b.expect("block_scale"));
    b.take_one_of({"scale_vec::1X", "block32"});  // the only ones of this kind, and the default
  }
  b.take_one_of({"collector::a::fill", "collector::a::use", "collector::a::lastuse",
                 "collector::a::discard"});
  return kind == 1 ? MmaKind::kMxf8f6f4 : MmaKind::kF16;
}

}  // namespace

Status bind_tcgen05_mma(Binder& b) {
  OCTET_ASSIGN_OR_RETURN(const MmaKind kind, take_kind(b));
  const bool is_scaled = kind == MmaKind::kMxf8f6f4;
  const size_t num_operands = is_scaled ? 7 : 5;
  if (b.num_operands() > num_operands)
    return b.unmodelled("masks of lanes and scale-input-d are not modelled");
  OCTET_RETURN_IF_ERROR(b.done(num_operands));
  const bool a_is_tensor = b.operand(1).kind == text::Operand::Kind::kAddress;
  if (a_is_tensor && is_scaled) return b.unmodelled("a of kind::mxf8f6f4 in tensor memory");
  b.insn().mods[0] = static_cast<int32_t>(kind);
  b.insn().mods[1] = a_is_tensor;
  OCTET_RETURN_IF_ERROR(b.address(0));
  OCTET_RETURN_IF_ERROR(a_is_tensor ? b.address(1) : b.source(1, Type::kB64));
  OCTET_RETURN_IF_ERROR(b.source(2, Type::kB64));
  OCTET_RETURN_IF_ERROR(b.source(3, Type::kB32));
  if (is_scaled) {
    OCTET_RETURN_IF_ERROR(b.address(4));
    OCTET_RETURN_IF_ERROR(b.address(5));
  }
  OCTET_RETURN_IF_ERROR(b.predicate_source(num_operands - 1));
  b.insn().run = run_mma;
  return {};
}

}  // namespace octet::ptxsim::insn
