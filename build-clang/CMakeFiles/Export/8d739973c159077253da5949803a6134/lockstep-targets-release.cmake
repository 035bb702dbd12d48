#----------------------------------------------------------------
# Generated CMake target import file for configuration "Release".
#----------------------------------------------------------------

# Commands may need to know the format version.
set(CMAKE_IMPORT_FILE_VERSION 1)

# Import target "lockstep::lockstep" for configuration "Release"
set_property(TARGET lockstep::lockstep APPEND PROPERTY IMPORTED_CONFIGURATIONS RELEASE)
set_target_properties(lockstep::lockstep PROPERTIES
  IMPORTED_LOCATION_RELEASE "${_IMPORT_PREFIX}/lib/liblockstep.so.0.1.0"
  IMPORTED_SONAME_RELEASE "liblockstep.so.0"
  )

list(APPEND _cmake_import_check_targets lockstep::lockstep )
list(APPEND _cmake_import_check_files_for_lockstep::lockstep "${_IMPORT_PREFIX}/lib/liblockstep.so.0.1.0" )

# Import target "lockstep::lockstep_static" for configuration "Release"
set_property(TARGET lockstep::lockstep_static APPEND PROPERTY IMPORTED_CONFIGURATIONS RELEASE)
set_target_properties(lockstep::lockstep_static PROPERTIES
  IMPORTED_LINK_INTERFACE_LANGUAGES_RELEASE "C"
  IMPORTED_LOCATION_RELEASE "${_IMPORT_PREFIX}/lib/liblockstep.a"
  )

list(APPEND _cmake_import_check_targets lockstep::lockstep_static )
list(APPEND _cmake_import_check_files_for_lockstep::lockstep_static "${_IMPORT_PREFIX}/lib/liblockstep.a" )

# Commands beyond this point should not need to know the version.
set(CMAKE_IMPORT_FILE_VERSION)
