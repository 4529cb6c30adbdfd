# SPDX-License-Identifier: Apache-2.0
# One helper per kind of target.
#
#   octet_library(NAME FOLDER_DEPS... )   one static library per folder of src/, namespace octet::NAME; BASE: below that folder instead
#   octet_unit_tests(NAME)                the *_test.cc files beside the sources, one program per folder; of ptxsim with its label
include(GNUInstallDirs)
include(CheckCXXCompilerFlag)
include(OctetFlags)
find_package(fmt REQUIRED)

function(octet_library name)
  cmake_parse_arguments(arg "" "BASE" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  if(NOT arg_BASE)
    set(arg_BASE "${PROJECT_SOURCE_DIR}/src")
  endif()
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  if(NOT arg_SOURCES)
    file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/empty.cc" "")
    set(arg_SOURCES "${CMAKE_CURRENT_BINARY_DIR}/empty.cc")
  endif()
  add_library(octet_${name} STATIC ${arg_SOURCES})
  add_library(octet::${name} ALIAS octet_${name})
  target_include_directories(octet_${name} PUBLIC "${arg_BASE}" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(octet_${name} PUBLIC ${arg_DEPENDS} PRIVATE octet_flags ${arg_PRIVATE})
  # Each header is compiled alone by the target all_verify_interface_header_sets.
  target_sources(octet_${name} PUBLIC FILE_SET HEADERS BASE_DIRS "${arg_BASE}" FILES ${headers})
  set_target_properties(octet_${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  octet_unit_tests(${name})
endfunction()

function(octet_unit_tests name)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  if(NOT OCTET_TESTS OR NOT tests)
    return()
  endif()
  set(labels)
  if(name MATCHES "^ptxsim_")
    set(labels LABELS ptxsim)
  endif()
  octet_gtest(octet_${name}_test SOURCES ${tests} DEPENDS octet_${name} ${labels})
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
