# cmake --install BUILD --prefix P: the program, liblockstep.so with its headers and CMake package, documents.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep")
install(TARGETS lockstep RUNTIME)
install(TARGETS lockstep_shared EXPORT LockstepTargets LIBRARY FILE_SET HEADERS INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT LockstepTargets NAMESPACE Lockstep:: DESTINATION "${package_dir}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/LockstepConfig.cmake.in" LockstepConfig.cmake
  INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(LockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_LIST_DIR}/LockstepTorch.cmake" "${PROJECT_BINARY_DIR}/LockstepConfig.cmake"
  "${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake" DESTINATION "${package_dir}")
install(FILES "${PROJECT_BINARY_DIR}/lockstep.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs" FILES_MATCHING PATTERN "*.md")
install(FILES README.md HACKING.md CHANGELOG.md THIRD_PARTY.md LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
