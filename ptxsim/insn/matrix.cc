// SPDX-License-Identifier: Apache-2.0
// ldmatrix, stmatrix, movmatrix of 8 x 8 elements of 16 bits: PTX ISA 9.7.14.5.15 to 9.7.14.5.17.
//
// Matrix m has its eight rows of 16 bytes at the addresses of lanes 8m to 8m+7. Lane t holds the elements 2(t%4) and 2(t%4)+1 of row t/4
// of each, in one register; with .trans those of column t/4. Of the forms of 8 bits .m8n16 is ldmatrix_unpacked.cc's, .m16n16 is not
// modelled.
#include <algorithm>
#include <cstring>

#include "ptxsim/insn/access.h"
#include "ptxsim/insn/families.h"
#include "ptxsim/insn/memory_forms.h"

namespace octet::ptxsim::insn {

Status bind_ldmatrix_unpacked(Binder& b);  // ldmatrix_unpacked.cc

namespace {

constexpr int kRows = 8;
constexpr uint32_t kRowBytes = 16;

using Matrix = uint16_t[kRows][kRows];

uint32_t fragment_of(const Matrix& matrix, int lane, bool trans) {
  const int i = lane / 4, j = 2 * (lane % 4);
  return trans ? uint32_t(matrix[j][i]) | uint32_t(matrix[j + 1][i]) << 16
               : uint32_t(matrix[i][j]) | uint32_t(matrix[i][j + 1]) << 16;
}

void set_fragment(Matrix& matrix, int lane, bool trans, uint32_t value) {
  const int i = lane / 4, j = 2 * (lane % 4);
  for (int k = 0; k < 2; ++k)
    (trans ? matrix[j + k][i] : matrix[i][j + k]) = uint16_t(value >> (16 * k));
}

enum Mod { kSpace, kTrans, kCount };

Outcome run_ldmatrix(Exec& x, const Insn& insn) {
  for (int m = 0; m < insn.mods[kCount]; ++m) {
    Matrix matrix;
    for (int row = 0; row < kRows; ++row) {
      const int lane = m * kRows + row;
      const uint8_t* from = read_lane(x, insn, Space(insn.mods[kSpace]),
                                      x.address(insn.args[1], lane), kRowBytes, lane);
      if (from == nullptr) return Outcome::kFailed;
      std::memcpy(matrix[row], from, kRowBytes);
    }
    const machine::Slot slot = x.element(insn.args[0], m);
    for (int lane = 0; lane < machine::kLanes; ++lane)
      x.set(slot, 32, lane, fragment_of(matrix, lane, insn.mods[kTrans] != 0));
  }
  return Outcome::kNext;
}

Outcome run_stmatrix(Exec& x, const Insn& insn) {
  for (int m = 0; m < insn.mods[kCount]; ++m) {
    Matrix matrix;
    const uint32_t* values = x.words(x.element(insn.args[1], m));
    for (int lane = 0; lane < machine::kLanes; ++lane)
      set_fragment(matrix, lane, insn.mods[kTrans] != 0, values[lane]);
    for (int row = 0; row < kRows; ++row) {
      const int lane = m * kRows + row;
      uint8_t* to = write_lane(x, insn, Space(insn.mods[kSpace]), x.address(insn.args[0], lane),
                               kRowBytes, lane);
      if (to == nullptr) return Outcome::kFailed;
      std::memcpy(to, matrix[row], kRowBytes);
    }
  }
  return Outcome::kNext;
}

// .m8n8 .x1 .x2 .x4 .trans .shared .b16: nvcc and hand-written code have the first two in both orders.
Status bind_moving(Binder& b, bool is_load) {
  Insn& insn = b.insn();
  OCTET_RETURN_IF_ERROR(b.expect("sync"));
  OCTET_RETURN_IF_ERROR(b.expect("aligned"));
  bool has_shape = b.take("m8n8");
  const int count = b.take_one_of({"x1", "x2", "x4"});
  if (count < 0) return b.unmodelled("want .x1, .x2 or .x4");
  bool trans = b.take("trans");
  has_shape |= b.take("m8n8");
  if (!has_shape) return b.unmodelled("want .m8n8");
  const Space space = take_space(b);
  OCTET_RETURN_IF_ERROR(b.expect("b16"));
  trans |= b.take("trans");
  OCTET_RETURN_IF_ERROR(b.done(2));
  if (space != Space::kShared && space != Space::kGeneric)
    return b.refuse("the matrices are in shared memory");
  insn.mods = {int(space), trans, 1 << count};
  insn.is_aligned = true;
  if (is_load) {
    OCTET_RETURN_IF_ERROR(b.result_vector(0, Type::kB32, size_t(1) << count));
    OCTET_RETURN_IF_ERROR(b.address(1));
    insn.run = run_ldmatrix;
  } else {
    OCTET_RETURN_IF_ERROR(b.address(0));
    OCTET_RETURN_IF_ERROR(b.source_vector(1, Type::kB32, size_t(1) << count));
    insn.run = run_stmatrix;
  }
  return {};
}

}  // namespace

Status bind_ldmatrix(Binder& b) {
  const auto& modifiers = b.node().modifiers;
  const bool is_unpacked =
      std::find(modifiers.begin(), modifiers.end(), "m8n16") != modifiers.end();
  return is_unpacked ? bind_ldmatrix_unpacked(b) : bind_moving(b, true);
}
Status bind_stmatrix(Binder& b) { return bind_moving(b, false); }

Status bind_movmatrix(Binder& b) {
  for (const char* modifier : {"sync", "aligned", "m8n8", "trans", "b16"})
    OCTET_RETURN_IF_ERROR(b.expect(modifier));
  OCTET_RETURN_IF_ERROR(b.done(2));
  OCTET_RETURN_IF_ERROR(b.result(0, Type::kB32));
  OCTET_RETURN_IF_ERROR(b.source(1, Type::kB32));
  b.insn().is_aligned = true;
  b.insn().run = +[](Exec& x, const Insn& insn) {
    Matrix matrix;
    const uint32_t* a = x.words(insn.args[1]);
    for (int lane = 0; lane < machine::kLanes; ++lane) set_fragment(matrix, lane, false, a[lane]);
    for (int lane = 0; lane < machine::kLanes; ++lane)
      x.set(insn.args[0].slot, 32, lane, fragment_of(matrix, lane, true));
    return Outcome::kNext;
  };
  return {};
}

}  // namespace octet::ptxsim::insn
