# SPDX-License-Identifier: Apache-2.0
# The inner kernels and how they are compiled, for src/cpu and for tests/kernels.
#
#   octet_cpu_kernels(TARGET)   adds those of the target's machine
set(octet_cpu_folder "${CMAKE_CURRENT_LIST_DIR}")
list(APPEND CMAKE_MODULE_PATH "${octet_cpu_folder}/../../cmake")
include(OctetFlags)

function(octet_cpu_kernels target)
  set(cpu "${octet_cpu_folder}")
  target_sources(${target} PRIVATE ${cpu}/panel_dot.cc ${cpu}/panel_dot_portable.cc ${cpu}/lanes.cc)
  octet_isa_sources(${target} ${cpu})
  file(GLOB integer_dots CONFIGURE_DEPENDS ${cpu}/digit_dot_*.cc ${cpu}/word_dot_*.cc)
  set_property(SOURCE ${integer_dots} APPEND PROPERTY COMPILE_OPTIONS -O2)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Or g++ moves the loads of an unrolled block together and spills: a third slower with AVX2, half again as many
    # instructions with NEON (whose scheduling before register allocation x86-64 does not have).
    set_property(SOURCE ${integer_dots} APPEND PROPERTY COMPILE_OPTIONS -fno-tree-ter -fno-schedule-insns)
    # Or its selections stay branches, and the loops over lanes scalar.
    set_property(SOURCE ${cpu}/lanes.cc ${cpu}/lanes_avx2.cc APPEND PROPERTY COMPILE_OPTIONS -O3 -fno-trapping-math)
    # g++ 12 warns of its own AVX-512 headers: the operand that a full mask leaves unread.
    file(GLOB avx512 CONFIGURE_DEPENDS ${cpu}/*_avx512*.cc)
    set_property(SOURCE ${avx512} APPEND PROPERTY COMPILE_OPTIONS
                 -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  set_source_files_properties(${cpu}/panel_dot_portable.cc PROPERTIES COMPILE_OPTIONS -O3)
endfunction()
