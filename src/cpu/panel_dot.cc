// SPDX-License-Identifier: Apache-2.0
#include "cpu/panel_dot.h"

#include <algorithm>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace octet::cpu {

#if defined(__x86_64__)

const PanelDot kPanelDotAvx2{&kFloatDotsAvx2, &kDigitDotsAvx2, &kWordDotsAvx2};

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

#else

bool has_avx2() { return false; }
const PanelDot kPanelDotAvx2{};

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
