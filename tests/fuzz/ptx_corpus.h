// SPDX-License-Identifier: Apache-2.0
// The corpus of fuzz_ptx: each construct of PTX in a small module, and wrong ones.
#pragma once

#include <functional>
#include <string>

namespace octet::fuzz {

inline void ptx_corpus(const std::function<void(const char* name, const std::string& text)>& put) {
  const std::string head = ".version 9.0\n.target sm_90a\n.address_size 64\n";
  const std::pair<const char*, const char*> items[] = {
      {"variables",
       ".extern .shared .align 1024 .b8 s[];\n.visible .global .attribute(.managed) .v4 .f32 "
       "m[2][3];\n"
       ".weak .const .f64 d = 0d7E37E43C8800759C;\n.common .global .u32 a, b[2], c = -5;\n"},
      {"initialisers",
       ".global .b32 n[][2] = {{1, 0x2}, {017}, {0b1, 3U}};\n.global .f32 f = 1.5e-3;\n"
       ".global .u64 p[3] = {k, generic(n)+4, n+-8};\n.global .u8 m[2] = {0xFF(n), "
       "0xFF00(generic(n)+2)};\n"},
      {"functions",
       ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
       ".func (.reg .b32 r) f(.reg .f64 a, .param .b8 b[]) .noreturn { ret; }\n"
       ".visible .entry k(.param .align 128 .b8 p[128], .param .u64 .ptr .global .align 16 q)\n"
       ".maxntid 256, 1, 1\n.minnctapersm 1\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n{ ret; "
       "}\n"},
      {"debug",
       ".entry k() {\n.loc 1 26 0\n.loc 2 28 77, function_name $L__info+4, inlined_at 1 49 3\n"
       ".pragma \"used_bytes_mask 15\";\n}\n.file 1 \"a.cu\", 1700000000, 12\n.section "
       ".debug_str\n{\n$L__info:\n"
       ".b8 95,90,0\n.b32 .debug_abbrev\n.b64 $L__info+4\n.b32 a-b\n}\n"},
      {"operands",
       ".entry k() {\n@%p1 ld.param.v4.u32 {%r1, _, 0, %v.x}, [k_param_0+-16];\n"
       "@!%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], "
       "[%rd1, {%r2, -1}], [%r4+8], %rd5;\nshfl.sync.idx.b32 %r2|%p1, %r25, 0, 31, -1;\n"
       "elect.sync _|p, 0xffffffff;\nmov.u32 %r1, %tid.x;\nmov.f32 %f1, 0f3F800000;\n"
       "setp.lt.and.s32 p|q, %r1, 5, !%p3;\nmov.u64 %rd1, symbol+8;\n}\n"},
      {"control",
       ".entry k() {\n.reg .pred p, %q<4>;\na: b: @p bra a;\n{ // callseq\n.reg .b32 t;\n.param "
       ".b32 param0;\n"
       "proto : .callprototype (.param .b32 _) _ (.param .align 8 .b8 _[16]);\n"
       "call (retval0), %rd3, (param0, 1), proto;\n{ }\n} /* callseq */\nts: .branchtargets a, b;\n"
       "brx.idx %r1, ts;\ncs: .calltargets f;\nret;\n}\n"},
      {"directive_unknown", ".entry k() .unknown 1 { }"},
      {"scope_open", ".entry k() { { ret; }"},
      {"comment_open", "/* "},
      {"string_open", ".pragma \"a\\\""},
      {"number_wrong", ".global .f32 a = 0f3F80;"},
      {"array_large", ".global .b32 a[1048576][1048576];"},
      {"register_array", ".func f(.reg .b32 a[2]);"},
  };
  for (const auto& [name, text] : items) put(name, head + text);
  put("empty", "");
  put("head", head);
  put("scopes_deep", head + ".entry k()" + std::string(3000, '{'));
  put("lists_deep", head + ".global .b8 a = " + std::string(3000, '{'));
  put("not_a_text", std::string("\x7f\x45\x4c\x46\0\xff", 6));
}

}  // namespace octet::fuzz
