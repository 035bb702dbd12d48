# hwloc, for the packages and caches of a machine: only its header is needed, and only if it is
# there.  The library itself is opened at run time (src/comm/topology/hwloc.c).
option(LK_HWLOC "use hwloc where it is installed" ON)
find_path(LK_HWLOC_INCLUDE hwloc.h)
mark_as_advanced(LK_HWLOC_INCLUDE)
if(LK_HWLOC AND LK_HWLOC_INCLUDE AND NOT CMAKE_CROSSCOMPILING)
  set_source_files_properties(src/comm/topology/hwloc.c PROPERTIES
    COMPILE_DEFINITIONS LK_HWLOC COMPILE_OPTIONS -isystem${LK_HWLOC_INCLUDE})
endif()
