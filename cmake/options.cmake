# What can be chosen when configuring, and the flags that every file is compiled with.
option(LK_WERROR "treat warnings as errors" OFF)
set(LK_SANITIZE "" CACHE STRING "build with these sanitizers: \"address,undefined\" or \"thread\"")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# The arithmetic is the specification: no contraction beyond the fma calls that are written.
add_compile_options(-ffp-contract=off)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wdouble-promotion
  -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla -Wformat=2)
# Messages and traces name files from the top of the project, wherever it was built, and where ccache
# turns paths into relative ones.
file(RELATIVE_PATH up ${CMAKE_CURRENT_BINARY_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/x)
string(REGEX REPLACE "x$" "" up ${up})
add_compile_options(-fmacro-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}/= -fmacro-prefix-map=${up}=)
add_compile_definitions(_GNU_SOURCE)
if(LK_WERROR)
  add_compile_options(-Werror)
endif()
if(LK_SANITIZE)
  add_compile_options(-fsanitize=${LK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LK_SANITIZE})
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    add_compile_options(-Wno-pass-failed) # loops with checks in them are not vectorised
  endif()
  find_program(LK_LLD ld.lld)
  if(LK_LLD)
    add_link_options(-fuse-ld=lld) # many programs, each with all of the library
  endif()
endif()
