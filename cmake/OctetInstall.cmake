# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: library, headers, CMake package, pkg-config file, licence. The command line installs
# itself (tools/octet).
include(CMakePackageConfigHelpers)

set(octet_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/octet")
install(TARGETS octet_shared EXPORT octetTargets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT octetTargets NAMESPACE octet:: DESTINATION "${octet_package_dir}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/octetConfig.cmake.in" octetConfig.cmake
                              INSTALL_DESTINATION "${octet_package_dir}")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/octetConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/octetConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/octetConfigVersion.cmake"
        DESTINATION "${octet_package_dir}")

# The prefix relative to the file itself, so that an installed tree may be moved.
file(RELATIVE_PATH octet_pc_up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" octet_pc_up "${octet_pc_up}")
set(OCTET_PC_PREFIX "\${pcfiledir}/${octet_pc_up}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/octet.pc.in" octet.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/octet.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
