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
# What users get is hardened: a return address that was overwritten, a copy past the end of an object
# that the compiler knows, and tables of addresses that could be written end the process or cannot be.
# Unoptimised code has no such checks, sanitizers have their own.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT LK_SANITIZE)
  set(fortify 2)
  if((CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 12) OR
     (CMAKE_C_COMPILER_ID MATCHES "Clang" AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 9))
    set(fortify 3) # it knows the sizes of objects that are allocated, too
  endif()
  add_compile_options(-fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${fortify})
  add_link_options(-Wl,-z,relro,-z,now)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES C)
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
