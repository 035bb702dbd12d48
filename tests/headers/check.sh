#!/bin/sh
# Each public header compiles alone and twice, as C11 and as C++17, without a warning, with nothing
# but the standard's names switched on; and lockstep.h includes them all, but for those in extra/.
set -eu
compile() { # language, compiler, standard; the source is the input
    "$2" "-std=$3" -x "$1" -fsyntax-only -Iinclude \
        -Wall -Wextra -Wpedantic -Wshadow -Wundef -Werror -
}

reached=$("${CC:-cc}" -MM -Iinclude include/lockstep/lockstep.h)
for header in include/lockstep/*.h include/lockstep/extra/*.h; do
    name=${header#include/}
    source="#include <$name>
#include <$name>
extern int unused;"
    echo "$source" | compile c "${CC:-cc}" c11
    if command -v c++ >/dev/null; then
        echo "$source" | compile c++ c++ c++17
    fi
    case $name in lockstep/extra/*) continue ;; esac
    if ! echo "$reached" | grep -q "include/$name\>"; then
        echo "include/lockstep/lockstep.h does not include <$name>"
        exit 1
    fi
done

# The macros of values in expressions, in both languages.
macros='#include <lockstep/lockstep.h>
lk_status use(lk_var x, lk_var *y);
lk_status use(lk_var x, lk_var *y)
{
    static const lk_shape table[] = {LK_DIMS(4, 3)};
    LK_TRY(lk_reshape(x, table[0], y));
    LK_TRY(lk_reshape(*y, LK_SHAPE(1, 2, 3, 2), y));
    LK_TRY(lk_sum(*y, LK_AXES(0, 2), y));
    LK_TRY(lk_mean(*y, LK_AXES_KEEP(LK_LAST_AXIS), y));
    LK_TRY(lk_sum_to(*y, LK_SCALAR, y));
    return LK_OK;
}'
echo "$macros" | compile c "${CC:-cc}" c11
if command -v c++ >/dev/null; then
    echo "$macros" | compile c++ c++ c++17
fi
command -v c++ >/dev/null || echo 'there is no C++ compiler (c++): checked as C only'
