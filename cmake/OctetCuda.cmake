# SPDX-License-Identifier: Apache-2.0
# CUDA targets: every file for every architecture of OCTET_CUDA_ARCHITECTURES, all warnings are errors.
#
#   octet_cuda_library(NAME SOURCES ... DEPENDS ...)   one static library per folder, host code with octet_flags; part of octet_cuda_all
#                                                      PTX ARCHITECTURE: octet_NAME_ptx is its kernels as PTX, which ptxsim's tests read
#   octet_gpu_test(NAME SOURCES ... DEPENDS ...)       a test that needs a device: label needs_gpu
# 80 and, with 90a, 90 also as PTX, which the driver compiles for devices that none of the others fits.
list(TRANSFORM OCTET_CUDA_ARCHITECTURES APPEND "-real" OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^80-real$" "80")
if("90a" IN_LIST OCTET_CUDA_ARCHITECTURES)
  list(APPEND CMAKE_CUDA_ARCHITECTURES "90-virtual")
endif()
enable_language(CUDA)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake 3.25 does not know that nvcc 12 and later take it
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_STANDARD 20)

# The static runtime and its headers, where nvcc has them. Not by FindCUDAToolkit: CMake 3.25's stops at a CUDA 13, which has no nvToolsExt.
find_package(Threads REQUIRED)
find_library(OCTET_CUDART_STATIC cudart_static HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} ${CMAKE_CUDA_COMPILER_TOOLKIT_ROOT}
             PATH_SUFFIXES lib64 lib REQUIRED)
add_library(octet_cudart INTERFACE)
target_link_libraries(octet_cudart INTERFACE "${OCTET_CUDART_STATIC}" Threads::Threads ${CMAKE_DL_LIBS} rt)
target_include_directories(octet_cudart SYSTEM INTERFACE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})

add_custom_target(octet_cuda_all)
set(OCTET_CUDA_FLAGS -Werror all-warnings -lineinfo --expt-relaxed-constexpr --fmad=false -Xcompiler=-Wall,-Wextra)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
  list(APPEND OCTET_CUDA_FLAGS --compress-mode=size)  # an eighth of the bytes; drivers that run this nvcc's code unpack it
endif()

function(octet_cuda_library name)
  cmake_parse_arguments(arg "" "PTX" "SOURCES;DEPENDS" ${ARGN})
  add_library(octet_${name} STATIC ${arg_SOURCES})
  add_library(octet::${name} ALIAS octet_${name})
  target_compile_options(octet_${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:${OCTET_CUDA_FLAGS};-Xptxas=-v>"
    "$<$<COMPILE_LANGUAGE:CXX>:$<TARGET_PROPERTY:octet_flags,INTERFACE_COMPILE_OPTIONS>>")
  set_target_properties(octet_${name} PROPERTIES RULE_LAUNCH_COMPILE "${PROJECT_SOURCE_DIR}/cmake/keep_ptxas.sh <OBJECT>")
  target_include_directories(octet_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(octet_${name} PUBLIC ${arg_DEPENDS} octet_cudart)
  add_dependencies(octet_cuda_all octet_${name})
  if(arg_PTX AND OCTET_TESTS)
    octet_cuda_ptx(${name} ${arg_PTX} ${arg_SOURCES})
  endif()
endfunction()

# With the lines' numbers, which -lineinfo puts there.
function(octet_cuda_ptx name architecture)
  list(FILTER ARGN INCLUDE REGEX "\\.cu$")
  add_library(octet_${name}_ptx OBJECT ${ARGN})
  set_target_properties(octet_${name}_ptx PROPERTIES CUDA_PTX_COMPILATION ON CUDA_ARCHITECTURES ${architecture}-virtual)
  target_compile_options(octet_${name}_ptx PRIVATE ${OCTET_CUDA_FLAGS})
  target_include_directories(octet_${name}_ptx PRIVATE $<TARGET_PROPERTY:octet_${name},INCLUDE_DIRECTORIES>)
  add_dependencies(octet_cuda_all octet_${name}_ptx)
  set_property(GLOBAL APPEND PROPERTY OCTET_PTX_LIBRARIES ${name})
endfunction()

function(octet_gpu_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  if(NOT OCTET_TESTS)
    return()
  endif()
  find_package(GTest REQUIRED)
  add_executable(${name} ${arg_SOURCES})
  target_compile_options(${name} PRIVATE ${OCTET_CUDA_FLAGS})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gtest_main)
  add_dependencies(octet_cuda_all ${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS needs_gpu)
endfunction()
