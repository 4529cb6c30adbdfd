# SPDX-License-Identifier: Apache-2.0
# The NEON kernels, cross-compiled and run under qemu-user: on processors with i8mm and with dotprod alone.
find_program(OCTET_AARCH64_CXX aarch64-linux-gnu-g++ REQUIRED DOC "cross compiler of the tests of NEON kernels")
find_program(OCTET_QEMU_AARCH64 qemu-aarch64 REQUIRED DOC "qemu-user, for the tests of NEON kernels")
set(aarch64 "${CMAKE_BINARY_DIR}/aarch64")
add_test(NAME aarch64.build
         COMMAND ${CMAKE_CTEST_COMMAND} --build-and-test ${CMAKE_CURRENT_LIST_DIR} ${aarch64} --build-generator Ninja
                 --build-options -DCMAKE_TOOLCHAIN_FILE=${PROJECT_SOURCE_DIR}/cmake/aarch64.cmake
                                 -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER} -DOCTET_WERROR=${OCTET_WERROR})
set_tests_properties(aarch64.build PROPERTIES FIXTURES_SETUP aarch64_kernels TIMEOUT 900)
# Processor, and how many rows of cpu/isa.inc it runs.
foreach(case max:3 neoverse-n1:2)
  string(REPLACE ":" ";" case ${case})
  list(POP_FRONT case cpu rows)
  add_test(NAME aarch64.kernels_${cpu}
           COMMAND ${OCTET_QEMU_AARCH64} -cpu ${cpu} ${aarch64}/bin/octet_kernels_test --want=${rows} --gtest_brief=1)
  set_tests_properties(aarch64.kernels_${cpu} PROPERTIES FIXTURES_REQUIRED aarch64_kernels TIMEOUT 300)
endforeach()
add_test(NAME structure.larger_arm_sets_stay_apart
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/structure/check_isa.py aarch64-linux-gnu-nm ${aarch64}/libkernels.a)
set_tests_properties(structure.larger_arm_sets_stay_apart PROPERTIES FIXTURES_REQUIRED aarch64_kernels)
