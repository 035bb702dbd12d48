#!/bin/sh
# Each public header compiles alone and twice, as C11 and as C++17, without a warning, with nothing
# but the standard's names switched on; and lockstep.h includes them all.
set -eu
compile() { # language, compiler, standard; the source is the input
    "$2" "-std=$3" -x "$1" -fsyntax-only -Iinclude \
        -Wall -Wextra -Wpedantic -Wshadow -Wundef -Werror -
}

reached=$("${CC:-cc}" -MM -Iinclude include/lockstep/lockstep.h)
for header in include/lockstep/*.h; do
    name=lockstep/$(basename "$header")
    source="#include <$name>
#include <$name>
extern int unused;"
    echo "$source" | compile c "${CC:-cc}" c11
    if command -v c++ >/dev/null; then
        echo "$source" | compile c++ c++ c++17
    fi
    if ! echo "$reached" | grep -q "include/$name\>"; then
        echo "include/lockstep/lockstep.h does not include <$name>"
        exit 1
    fi
done
command -v c++ >/dev/null || echo 'there is no C++ compiler (c++): checked as C only'
