# find_package(lockstep) gives lockstep::lockstep (shared) and lockstep::lockstep_static.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/lockstep-targets.cmake)
