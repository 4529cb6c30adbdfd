# SPDX-License-Identifier: Apache-2.0
# Flags stand here and nowhere else. Needs no package, so that tests/kernels can be built for another machine.
#
#   octet_flags                            what every target of ours is compiled with
#   octet_isa_sources(TARGET FOLDER)       the folder's sources of instruction sets: their names end in the set's
include_guard()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")  # assertions stay on: they cost nothing outside the inner loops

# What every target of ours is compiled with. No contraction: a product and a sum are one rounding only
# where the source says fma, on every compiler and instruction set (semantics.md section 12, same bytes).
add_library(octet_flags INTERFACE)
target_compile_options(octet_flags INTERFACE -ffp-contract=off
  -Wall -Wextra -Wshadow -Wpedantic -Wconversion -Wno-sign-conversion
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> $<$<BOOL:${OCTET_WERROR}>:-Werror>)
if(OCTET_SANITIZE)
  target_compile_options(octet_flags INTERFACE -fsanitize=${OCTET_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all -O1)
  target_link_options(octet_flags INTERFACE -fsanitize=${OCTET_SANITIZE})
endif()

set(OCTET_X86_SETS AVX2 AVXVNNI AVX512 AVX512VNNI AVX512VBMI)
set(OCTET_ARM_SETS NEON_DOTPROD NEON_I8MM)
set(OCTET_AVX2_FLAGS -O3 -mavx2 -mfma -mf16c)
set(OCTET_AVXVNNI_FLAGS ${OCTET_AVX2_FLAGS} -mavxvnni)
set(OCTET_AVX512_FLAGS ${OCTET_AVX2_FLAGS} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
set(OCTET_AVX512VNNI_FLAGS ${OCTET_AVX512_FLAGS} -mavx512vnni)
set(OCTET_AVX512VBMI_FLAGS ${OCTET_AVX512VNNI_FLAGS} -mavx512vbmi)
set(OCTET_NEON_DOTPROD_FLAGS -O3 -march=armv8.2-a+dotprod)
set(OCTET_NEON_I8MM_FLAGS -O3 -march=armv8.2-a+dotprod+i8mm)

# Of another machine's sets nothing is compiled. Properties of sources are the calling folder's.
function(octet_isa_sources target folder)
  set(sets)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(sets ${OCTET_X86_SETS})
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(sets ${OCTET_ARM_SETS})
  endif()
  foreach(set ${sets})
    string(TOLOWER ${set} suffix)
    file(GLOB files CONFIGURE_DEPENDS ${folder}/*_${suffix}.cc)
    target_sources(${target} PRIVATE ${files})
    set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${OCTET_${set}_FLAGS}")
  endforeach()
endfunction()
