# xxHash, as a header only (XXH_INLINE_ALL): the target lk_xxhash.
#
# For another processor the header is copied into the build tree, because the folder it lies in is
# full of headers of the processor that builds.
find_path(LK_XXHASH_INCLUDE xxhash.h NO_CMAKE_FIND_ROOT_PATH)
if(NOT LK_XXHASH_INCLUDE)
  message(FATAL_ERROR "xxhash.h was not found: install xxHash (Debian: libxxhash-dev), run "
    "tools/setup, or say where it is with -DLK_XXHASH_INCLUDE=FOLDER")
endif()
set(folder ${LK_XXHASH_INCLUDE})
if(CMAKE_CROSSCOMPILING)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/xxhash)
  configure_file(${LK_XXHASH_INCLUDE}/xxhash.h ${folder}/xxhash.h COPYONLY)
endif()
add_library(lk_xxhash INTERFACE)
target_include_directories(lk_xxhash SYSTEM INTERFACE ${folder})
