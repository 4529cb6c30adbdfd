// SPDX-License-Identifier: Apache-2.0
#include "cpu/panel_dot.h"

#include <algorithm>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace octet::cpu {

const Streaming& streaming() {
#if defined(__x86_64__)
  // A core of Intel's has few first-level miss buffers, which requests for the second level hold as well, and a prefetcher that
  // follows several streams of demands within a page: two panels, asked for shortly before.
  static const Streaming intel{2, 2048, true};
  static const bool is_intel = __builtin_cpu_is("intel") != 0;
  if (is_intel) return intel;
#endif
  static const Streaming others{1, 6144, false};
  return others;
}

#if defined(__x86_64__)

bool has_avx2() {
  static const bool has = [] {
    // F16C is asked of the processor itself: clang 14 has no name for it in __builtin_cpu_supports, which besides looks
    // at the operating system for AVX2.
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
    return f16c && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  }();
  return has;
}

bool has_avx512() {
  static const bool has = has_avx2() && __builtin_cpu_supports("avx512f") != 0 &&
                          __builtin_cpu_supports("avx512bw") != 0 &&
                          __builtin_cpu_supports("avx512dq") != 0 &&
                          __builtin_cpu_supports("avx512vl") != 0;
  return has;
}

bool has_avx512_vnni() {
  static const bool has = has_avx512() && __builtin_cpu_supports("avx512vnni") != 0;
  return has;
}

bool has_avx512_vbmi() {
  static const bool has = has_avx512_vnni() && __builtin_cpu_supports("avx512vbmi") != 0;
  return has;
}

bool has_avx_vnni() {
  static const bool has = [] {
    constexpr unsigned kAvxVnni = 1U << 4;  // clang 14 has no name for it, as for F16C
    unsigned a = 0, b = 0, c = 0, d = 0;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
  }();
  return has;
}

const PanelDot kPanelDotAvx512Vbmi{&kFloatDotsAvx2, &kDigitDotsAvx512Vbmi, nullptr};
const PanelDot kPanelDotAvx512Vnni{&kFloatDotsAvx2, &kDigitDotsAvx512Vnni, nullptr};
const PanelDot kPanelDotAvx512{&kFloatDotsAvx2, &kDigitDotsAvx512, nullptr};
const PanelDot kPanelDotAvxVnni{&kFloatDotsAvx2, &kDigitDotsAvxVnni, &kWordDotsAvx2};
const PanelDot kPanelDotAvx2{&kFloatDotsAvx2, &kDigitDotsAvx2, &kWordDotsAvx2};

#else

bool has_avx2() { return false; }
bool has_avx512() { return false; }
bool has_avx512_vnni() { return false; }
bool has_avx512_vbmi() { return false; }
bool has_avx_vnni() { return false; }
const PanelDot kPanelDotAvx512Vbmi{}, kPanelDotAvx512Vnni{}, kPanelDotAvx512{}, kPanelDotAvxVnni{},
    kPanelDotAvx2{};

#endif

#if defined(__aarch64__)

bool has_neon_dotprod() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
bool has_neon_i8mm() { return has_neon_dotprod() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }

const PanelDot kPanelDotNeonI8mm{&kFloatDotsPortable, &kDigitDotsNeonI8mm, nullptr};
const PanelDot kPanelDotNeonDotprod{&kFloatDotsPortable, &kDigitDotsNeonDotprod, nullptr};

#else

bool has_neon_dotprod() { return false; }
bool has_neon_i8mm() { return false; }
const PanelDot kPanelDotNeonI8mm{}, kPanelDotNeonDotprod{};

#endif

const PanelDot kPanelDotPortable{&kFloatDotsPortable, nullptr, nullptr};

std::span<const IsaInfo> isas() {
  static constexpr IsaInfo kIsas[] = {
#define OCTET_ISA(name, runs_on, which_has, here) \
  {runs_on, which_has, [] { return here; }, &kPanelDot##name},
#include "cpu/isa.inc"
#undef OCTET_ISA
  };
  return kIsas;
}

const PanelDot& best_panel_dot() {
  return *std::ranges::find_if(isas(), [](const IsaInfo& isa) { return isa.is_here(); })->dot;
}

}  // namespace octet::cpu
