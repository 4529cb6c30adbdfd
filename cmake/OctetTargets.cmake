# SPDX-License-Identifier: Apache-2.0
# One helper per kind of target; flags stand here and nowhere else.
#
#   octet_library(NAME FOLDER_DEPS... )   one static library per folder of src/, namespace octet::NAME
#   octet_unit_tests(NAME)                the *_test.cc files beside the sources, one program per folder
#   octet_isa_sources(TARGET ISA files)   sources compiled for one instruction set
include(GNUInstallDirs)
include(CheckCXXCompilerFlag)
find_package(fmt REQUIRED)

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

set(OCTET_AVX2_FLAGS -O3 -mavx2 -mfma -mf16c)
set(OCTET_AVX512_FLAGS ${OCTET_AVX2_FLAGS} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
set(OCTET_AVX512VNNI_FLAGS ${OCTET_AVX512_FLAGS} -mavx512vnni)
set(OCTET_NEON_DOTPROD_FLAGS -O3 -march=armv8.2-a+dotprod)
set(OCTET_NEON_I8MM_FLAGS -O3 -march=armv8.2-a+dotprod+i8mm)

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

function(octet_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  if(NOT arg_SOURCES)
    file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/empty.cc" "")
    set(arg_SOURCES "${CMAKE_CURRENT_BINARY_DIR}/empty.cc")
  endif()
  add_library(octet_${name} STATIC ${arg_SOURCES})
  add_library(octet::${name} ALIAS octet_${name})
  target_include_directories(octet_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(octet_${name} PUBLIC ${arg_DEPENDS} PRIVATE octet_flags ${arg_PRIVATE})
  # Each header is compiled alone by the target all_verify_interface_header_sets.
  target_sources(octet_${name} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/src" FILES ${headers})
  set_target_properties(octet_${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  octet_unit_tests(${name})
endfunction()

function(octet_unit_tests name)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  if(NOT OCTET_TESTS OR NOT tests)
    return()
  endif()
  octet_gtest(octet_${name}_test SOURCES ${tests} DEPENDS octet_${name})
endfunction()

function(octet_gtest target)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_DEPENDS} octet_flags GTest::gtest_main)
  # Tests are compiled for their compile time: what they test keeps its own flags.
  target_compile_options(${target} PRIVATE -O0)
  target_precompile_headers(${target} PRIVATE <gtest/gtest.h>)
  set(properties TIMEOUT 300)
  if(arg_LABELS)  # an empty value would take the next name for a label
    list(APPEND properties LABELS "${arg_LABELS}")
  endif()
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 60 PROPERTIES ${properties})
endfunction()

function(octet_isa_sources target isa)
  target_sources(${target} PRIVATE ${ARGN})
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${OCTET_${isa}_FLAGS}")
endfunction()
