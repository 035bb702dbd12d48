# `make install`: the command, both libraries, headers, pkg-config file, CMake package, documents, presets.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS lockstep_shared lockstep_static EXPORT lockstep)
install(TARGETS lockstep)
install(DIRECTORY include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# As folders, so that links between them hold.
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING
  PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg" PATTERN "*.txt")
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING
  PATTERN "*.c" PATTERN "*.h" PATTERN "*.txt" PATTERN "*.yaml")

# Documents name the presets as experiments/NAME.yaml.
install(DIRECTORY experiments DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep FILES_MATCHING PATTERN "*.yaml")

# Both files find their prefix from where they lie, so the installed tree can be moved.
file(RELATIVE_PATH LK_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" LK_PC_TO_PREFIX ${LK_PC_TO_PREFIX})
configure_file(cmake/lockstep.pc.in lockstep.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstep-targets.cmake DESTINATION ${package})
# The build folder is a package as well: find_package() looks there, too, if it is in PATH.
export(EXPORT lockstep NAMESPACE lockstep:: FILE ${CMAKE_CURRENT_BINARY_DIR}/lockstep-targets.cmake)
write_basic_package_version_file(lockstep-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/lockstep-config.cmake lockstep-config.cmake @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lockstep-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/lockstep-config-version.cmake
  DESTINATION ${package})
