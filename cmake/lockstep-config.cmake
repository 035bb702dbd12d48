# find_package(lockstep) gives lockstep::lockstep (shared) and lockstep::lockstep_static.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
if(NOT "@LK_ZLIB@" STREQUAL "")
  find_dependency(ZLIB)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/lockstep-targets.cmake)
