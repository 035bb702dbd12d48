# The transport `mpi`: src/comm/mpi/module.c, compiled once against each MPI that is found, into the
# loadable modules build/mpi/lockstep-mpi-NAME.so.  The library opens the one that fits the launcher
# at run time, so it is built and installed without a dependency on any of them.
#
# An MPI is found by its compiler: mpicc.openmpi and mpicc.mpich (Debian has both at once), otherwise
# mpicc.  -DLK_MPI=OFF builds none.  LK_MPIS lists the names of those that were found.
option(LK_MPI "build the modules for the MPIs that are installed" ON)
include(GNUInstallDirs)
file(RELATIVE_PATH LK_MPI_FROM_BIN /prefix/${CMAKE_INSTALL_BINDIR}
  /prefix/${CMAKE_INSTALL_LIBDIR}/lockstep/mpi)
target_compile_definitions(lk_objects PRIVATE
  LK_MPI_FOLDER="${CMAKE_INSTALL_FULL_LIBDIR}/lockstep/mpi")
set_property(SOURCE src/comm/mpi_find.c APPEND PROPERTY COMPILE_DEFINITIONS
  LK_MPI_FROM_BIN="${LK_MPI_FROM_BIN}")

# lk__mpi(wrapper): a module for the MPI of this compiler, unless there is one of the same name.
function(lk__mpi wrapper)
  find_program(LK_${wrapper} ${wrapper})
  mark_as_advanced(LK_${wrapper})
  if(NOT LK_${wrapper})
    return()
  endif()
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/mpi_name.c
    "#include <mpi.h>\n#ifdef OPEN_MPI\nlk_name=openmpi\n#else\nlk_name=mpich\n#endif\n")
  execute_process(COMMAND ${LK_${wrapper}} -E -P ${CMAKE_CURRENT_BINARY_DIR}/mpi_name.c
    OUTPUT_VARIABLE text ERROR_QUIET)
  execute_process(COMMAND ${LK_${wrapper}} -show
    OUTPUT_VARIABLE flags ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT text MATCHES "lk_name=([a-z]+)")
    return()
  endif()
  set(name ${CMAKE_MATCH_1})
  if(TARGET mpi_${name})
    return()
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  list(POP_FRONT flags) # the compiler
  set(links ${flags})
  list(FILTER links INCLUDE REGEX "^-[Ll]|^-Wl,|^/")
  list(FILTER flags INCLUDE REGEX "^-[ID]")
  list(TRANSFORM flags REPLACE "^-I" "-isystem")
  set(LK_MPI_FLAGS_${name} ${flags} PARENT_SCOPE) # for host programs
  set(LK_MPI_LINKS_${name} ${links} PARENT_SCOPE)
  add_library(mpi_${name} MODULE src/comm/mpi/module.c src/comm/mpi/native.c)
  target_include_directories(mpi_${name} PRIVATE src include)
  target_compile_options(mpi_${name} PRIVATE ${flags})
  target_compile_definitions(mpi_${name} PRIVATE LK_MPI_NAME="${name}")
  target_link_libraries(mpi_${name} PRIVATE ${links})
  set_target_properties(mpi_${name} PROPERTIES PREFIX "" OUTPUT_NAME lockstep-mpi-${name}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/mpi)
  add_dependencies(product mpi_${name})
  # What a host program that is built with this MPI needs.
  add_library(host_${name} INTERFACE)
  target_compile_options(host_${name} INTERFACE ${flags})
  target_link_libraries(host_${name} INTERFACE ${links})
  install(TARGETS mpi_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lockstep/mpi)
  set(LK_MPIS ${LK_MPIS} ${name} PARENT_SCOPE)
endfunction()

set(LK_MPIS)
if(LK_MPI AND NOT CMAKE_CROSSCOMPILING)
  lk__mpi(mpicc.openmpi)
  lk__mpi(mpicc.mpich)
  lk__mpi(mpicc)
endif()
if(NOT LK_MPIS)
  message(STATUS "No MPI: the transports are self and local")
endif()
