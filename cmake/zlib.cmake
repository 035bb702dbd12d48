# zlib, for gzip files and the members of .npz files.  Without it such files are refused with a
# message; builds for another processor go without it.
option(LK_USE_ZLIB "use zlib where it is installed" ON)
if(LK_USE_ZLIB AND NOT CMAKE_CROSSCOMPILING)
  find_package(ZLIB QUIET)
endif()
if(ZLIB_FOUND)
  set_property(SOURCE src/data/packed/inflate.c src/data/packed/deflate.c
    APPEND PROPERTY COMPILE_DEFINITIONS LK_HAVE_ZLIB)
  set(LK_ZLIB ZLIB::ZLIB)
  set(LK_PC_ZLIB -lz)
else()
  message(STATUS "There is no zlib: compressed data cannot be read")
endif()
