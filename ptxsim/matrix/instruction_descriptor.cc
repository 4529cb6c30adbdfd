// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/instruction_descriptor.h"

#include <fmt/format.h>

namespace octet::ptxsim::matrix {
namespace {

uint32_t field(uint32_t descriptor, int first, int bits) {
  return descriptor >> first & ((1U << bits) - 1);
}

template <class... Args>
Status wrong(uint32_t descriptor, fmt::format_string<Args...> what, Args&&... args) {
  return invalid_argument(fmt::format("instruction descriptor 0x{:08x}: {}", descriptor,
                                      fmt::format(what, std::forward<Args>(args)...)));
}

Status expect_zero(uint32_t descriptor, int first, int bits) {
  const uint32_t found = field(descriptor, first, bits);
  if (found == 0) return {};
  return wrong(descriptor, "bits {}-{} are {}, want 0", first, first + bits - 1, found);
}

Result<Format> decode_format(MmaKind kind, uint32_t descriptor, int first) {
  const uint32_t code = field(descriptor, first, 3);
  if (kind == MmaKind::kF16) {
    if (code <= 1) return code == 0 ? Format::kF16 : Format::kBf16;
    return wrong(descriptor, "kind::f16 has no format {}", code);
  }
  switch (code) {
    case 0:
      return Format::kE4m3;
    case 1:
      return Format::kE5m2;
    case 3:
      return Format::kE2m3;
    case 4:
      return Format::kE3m2;
    case 5:
      return Format::kE2m1;
    default:
      return wrong(descriptor, "kind::mxf8f6f4 has no format {}", code);
  }
}

// The fields that one kind alone has.
Status decode_f16(uint32_t descriptor, InstructionDescriptor& out) {
  if (const uint32_t d = field(descriptor, 4, 2); d != 1)
    return d == 0 ? unsupported("kind::f16 with d in f16 is not modelled")
                  : wrong(descriptor, "d has no format {}", d);
  for (const auto& [first, bits] : {std::pair{6, 1}, {23, 1}, {29, 3}})
    OCTET_RETURN_IF_ERROR(expect_zero(descriptor, first, bits));
  out.m = static_cast<int>(field(descriptor, 24, 5)) * 16;
  out.k = 16;
  if (out.m != 64 && out.m != 128)
    return wrong(descriptor, "m is {}, want 64 or 128 for kind::f16, cta_group::1", out.m);
  return {};
}

Status decode_mxf8f6f4(uint32_t descriptor, InstructionDescriptor& out) {
  for (const auto& [first, bits] : {std::pair{6, 1}, {24, 3}, {31, 1}})
    OCTET_RETURN_IF_ERROR(expect_zero(descriptor, first, bits));
  if (field(descriptor, 23, 1) != 1)
    return wrong(descriptor, "bit 23 is 0, want 1: scales of kind::mxf8f6f4 are ue8m0");
  out.m = static_cast<int>(field(descriptor, 27, 2)) * 128;
  out.k = 32;
  out.a_scale_id = static_cast<int>(field(descriptor, 29, 2));
  out.b_scale_id = static_cast<int>(field(descriptor, 4, 2));
  if (out.m != 128)
    return wrong(descriptor, "m is {}, want 128 for kind::mxf8f6f4, cta_group::1", out.m);
  return {};
}

Status check_transposed(uint32_t descriptor, Format format, Major major, char name) {
  if (major == Major::kK || format_bits(format) >= 8) return {};
  return wrong(descriptor, "{} is transposed, which {} cannot be", name, format_name(format));
}

}  // namespace

Result<InstructionDescriptor> decode_instruction_descriptor(MmaKind kind, uint32_t descriptor) {
  if (field(descriptor, 2, 1) != 0) return unsupported("sparse matrices are not modelled");
  OCTET_RETURN_IF_ERROR(expect_zero(descriptor, 0, 4));
  InstructionDescriptor out;
  out.kind = kind;
  OCTET_ASSIGN_OR_RETURN(out.a_format, decode_format(kind, descriptor, 7));
  OCTET_ASSIGN_OR_RETURN(out.b_format, decode_format(kind, descriptor, 10));
  out.a_is_negated = field(descriptor, 13, 1) != 0;
  out.b_is_negated = field(descriptor, 14, 1) != 0;
  out.a_major = field(descriptor, 15, 1) != 0 ? Major::kMn : Major::kK;
  out.b_major = field(descriptor, 16, 1) != 0 ? Major::kMn : Major::kK;
  out.n = static_cast<int>(field(descriptor, 17, 6)) * 8;
  OCTET_RETURN_IF_ERROR(kind == MmaKind::kF16 ? decode_f16(descriptor, out)
                                              : decode_mxf8f6f4(descriptor, out));
  OCTET_RETURN_IF_ERROR(check_transposed(descriptor, out.a_format, out.a_major, 'a'));
  OCTET_RETURN_IF_ERROR(check_transposed(descriptor, out.b_format, out.b_major, 'b'));
  const int step = out.b_major == Major::kMn && format_bits(out.b_format) == 8 ? 16 : 8;
  if (out.n < step || out.n > 256 || out.n % step != 0)
    return wrong(descriptor, "n is {}, want a multiple of {} in {} ... 256", out.n, step, step);
  return out;
}

}  // namespace octet::ptxsim::matrix
