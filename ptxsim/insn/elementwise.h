// SPDX-License-Identifier: Apache-2.0
// Functions of lanes: unary, binary and ternary make from a function of one lane's values the function of an instruction.
//
//   b.insn().run = binary<uint32_t>([](uint32_t a, uint32_t c) { return a + c; });   // args: result, a, c
//
// All lanes at once where all run, so that the compiler makes vectors of the loop; a lambda here captures nothing.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ptxsim/machine/exec.h"

// Clang says so, as an error, where a loop that it was asked to make vectors of cannot be.
#if defined(__clang__)
#define OCTET_PTX_VECTORS
#else
#define OCTET_PTX_VECTORS _Pragma("GCC ivdep")
#endif

namespace octet::ptxsim::insn {

// Where a value of T stands: 32-bit words or 64-bit ones.
template <class T>
using Lane = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
Lane<T>* lanes_of(const machine::Exec& x, const machine::Arg& arg) {
  return reinterpret_cast<Lane<T>*>(x.registers + arg.slot);
}

template <class F>
inline void over_lanes(machine::LaneMask lanes, F f) {
  if (lanes == machine::kAllLanes) {
    OCTET_PTX_VECTORS
    for (int lane = 0; lane < machine::kLanes; ++lane) f(lane);
  } else {
    machine::for_each_lane(lanes, f);
  }
}

// R and A: the types that the function takes and returns, each standing in a Lane<> as its bits; narrower ones in the low bits.
template <class R, class A = R, class F>
machine::Run unary(F) {
  return +[](machine::Exec& x, const machine::Insn& insn) {
    if (insn.args[0].slot == machine::kNoSlot) return machine::Outcome::kNext;
    Lane<R>* d = lanes_of<R>(x, insn.args[0]);
    const Lane<A>* a = lanes_of<A>(x, insn.args[1]);
    over_lanes(x.lanes, [=](int lane) { d[lane] = Lane<R>(F{}(A(a[lane]))); });
    return machine::Outcome::kNext;
  };
}

template <class R, class A = R, class B = A, class F>
machine::Run binary(F) {
  return +[](machine::Exec& x, const machine::Insn& insn) {
    if (insn.args[0].slot == machine::kNoSlot) return machine::Outcome::kNext;
    Lane<R>* d = lanes_of<R>(x, insn.args[0]);
    const Lane<A>* a = lanes_of<A>(x, insn.args[1]);
    const Lane<B>* b = lanes_of<B>(x, insn.args[2]);
    over_lanes(x.lanes, [=](int lane) { d[lane] = Lane<R>(F{}(A(a[lane]), B(b[lane]))); });
    return machine::Outcome::kNext;
  };
}

template <class R, class A = R, class B = A, class C = A, class F>
machine::Run ternary(F) {
  return +[](machine::Exec& x, const machine::Insn& insn) {
    if (insn.args[0].slot == machine::kNoSlot) return machine::Outcome::kNext;
    Lane<R>* d = lanes_of<R>(x, insn.args[0]);
    const Lane<A>* a = lanes_of<A>(x, insn.args[1]);
    const Lane<B>* b = lanes_of<B>(x, insn.args[2]);
    const Lane<C>* c = lanes_of<C>(x, insn.args[3]);
    over_lanes(x.lanes,
               [=](int lane) { d[lane] = Lane<R>(F{}(A(a[lane]), B(b[lane]), C(c[lane]))); });
    return machine::Outcome::kNext;
  };
}

}  // namespace octet::ptxsim::insn
