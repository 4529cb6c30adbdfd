// SPDX-License-Identifier: Apache-2.0
// The floating-point environment that every number here is computed in: round to nearest even, subnormals as they are.
//
// A caller's thread may have another (torch.set_flush_denormal sets FTZ and DAZ, fesetround a direction), and the threads of
// its pool yet another: then bytes would depend on which thread took a unit of work. So each task of parallel_for and each
// entry (run_operation, Layer::run) has a guard. Two writes of a control register: some 10 ns a task, of at least
// microseconds.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#else
#include <cfenv>
#endif

namespace octet {

// Sets the calling thread's environment and puts the old one back, exception flags too.
class FloatEnvironment {
 public:
  FloatEnvironment() : before_(get()) { set(kPlain); }
  ~FloatEnvironment() { set(before_); }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  using Word = unsigned;
  static constexpr Word kPlain =
      0x1F80;  // MXCSR: exceptions masked, to nearest, neither FTZ nor DAZ
  static Word get() { return _mm_getcsr(); }
  static void set(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)
  using Word = uint64_t;
  static constexpr Word kPlain = 0;  // FPCR: no traps, to nearest, no flushing
  static Word get() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word) : : "memory");
    return word;
  }
  static void set(Word word) { asm volatile("msr fpcr, %0" : : "r"(word) : "memory"); }
#else  // the direction alone: there is no portable word for flushing
  using Word = int;
  static constexpr Word kPlain = FE_TONEAREST;
  static Word get() { return std::fegetround(); }
  static void set(Word word) { std::fesetround(word); }
#endif
  Word before_;
};

}  // namespace octet
