// SPDX-License-Identifier: Apache-2.0
// ldmatrix.m8n16 with .b8x16.b4x16_p64 or .b8x16.b6x16_p32: PTX ISA 9.7.14.5.15. Packed elements of 4 or 6 bits in shared memory, 16 a row
// and padding to 16 bytes (matrix/operand.h), become bytes of a register, in the low bits of each.
//
// Matrix m has its eight rows at the addresses of lanes 8m to 8m+7. Lane t holds elements 4(t%4) to 4(t%4)+3 of row t/4 of each. The ISA
// has that order in a figure alone (106); its text says that four lanes hold a row and a lane four consecutive columns. Where in its byte
// an element stands the text does not say: the low bits are what a published library shifts from.
#include <algorithm>

#include "ptxsim/insn/access.h"
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/memory_forms.h"
#include "ptxsim/matrix/operand.h"

namespace octet::ptxsim::insn {

Status bind_ldmatrix_unpacked(Binder& b);

namespace {

constexpr int kRows = 8;

enum Mod { kSpace, kBits, kCount };

// args: registers, address.
Outcome run_ldmatrix_unpacked(Exec& x, const Insn& insn) {
  const int bits = insn.mods[kBits];
  for (int m = 0; m < insn.mods[kCount]; ++m) {
    const machine::Slot slot = x.element(insn.args[0], m);
    for (int row = 0; row < kRows; ++row) {
      const int from_lane = m * kRows + row;
      const uint64_t address = x.address(insn.args[1], from_lane);
      if (address % matrix::kChunkBytes != 0)
        return x.fail(insn, "the address of a row is not a multiple of 16", from_lane);
      uint8_t chunk[matrix::kChunkBytes] = {};
      for (int at = 0; at < matrix::chunk_used_bytes(bits); at += 4) {  // the padding has no value
        const uint8_t* from = read_lane(x, insn, Space(insn.mods[kSpace]),
                                        address + static_cast<uint64_t>(at), 4, from_lane);
        if (from == nullptr) return Outcome::kFailed;
        std::copy_n(from, 4, chunk + at);
      }
      for (int quarter = 0; quarter < 4; ++quarter) {
        uint32_t word = 0;
        for (int i = 0; i < 4; ++i)
          word |= matrix::chunk_element(chunk, bits, 4 * quarter + i) << (8 * i);
        x.set(slot, 32, row * 4 + quarter, word);
      }
    }
  }
  return Outcome::kNext;
}

}  // namespace

Status bind_ldmatrix_unpacked(Binder& b) {
  for (const char* modifier : {"sync", "aligned"}) OCTET_RETURN_IF_ERROR(b.expect(modifier));
  bool has_shape = b.take("m8n16");
  OCTET_ASSIGN_OR_RETURN(const int log, b.expect_one_of({"x1", "x2", "x4"}));
  has_shape |= b.take("m8n16");
  const Space space = take_space(b);
  OCTET_RETURN_IF_ERROR(b.expect("b8x16"));
  OCTET_ASSIGN_OR_RETURN(const int format, b.expect_one_of({"b4x16_p64", "b6x16_p32"}));
  OCTET_RETURN_IF_ERROR(b.done(2));
  if (!has_shape || (space != Space::kShared && space != Space::kGeneric))
    return b.refuse("want .m8n16 of shared memory");
  OCTET_RETURN_IF_ERROR(b.result_vector(0, Type::kB32, size_t{1} << log));
  OCTET_RETURN_IF_ERROR(b.address(1));
  b.insn().mods = {static_cast<int32_t>(space), format == 0 ? 4 : 6, 1 << log};
  b.insn().is_aligned = true;
  b.insn().run = run_ldmatrix_unpacked;
  return {};
}

}  // namespace octet::ptxsim::insn
