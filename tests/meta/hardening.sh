#!/bin/sh
# What users get is hardened: the library, the command and the modules have their tables of addresses
# bound and sealed when they start, no stack that can be run, and the compiler's checks of stacks and
# copies; and the environment is not asked by those who must not hear it.
#
#   tests/meta/hardening.sh BUILD-FOLDER        77: cannot run here
set -u
build=${1:?usage: tests/meta/hardening.sh BUILD-FOLDER}
command -v readelf >/dev/null || { echo 'SKIPPED: there is no readelf'; exit 77; }
if ! grep -qx 'CMAKE_BUILD_TYPE:STRING=Release' "$build/CMakeCache.txt" ||
    ! grep -qx 'LK_SANITIZE:STRING=' "$build/CMakeCache.txt"; then
    echo 'SKIPPED: not a build that users get'
    exit 77
fi
bad=0

wrong()
{
    echo "$1: $2"
    bad=1
}

# imports FILE PATTERN: whether it calls such a function of another library.
imports()
{
    readelf -sW --dyn-syms "$1" | awk '$7 == "UND" { sub("@.*", "", $8); print $8 }' | grep -q "$2"
}

for file in "$build/lockstep" "$build/liblockstep.so" "$build"/mpi/*.so "$build"/peers/*.so; do
    [ -e "$file" ] || continue
    readelf -lW "$file" | grep -q GNU_RELRO || wrong "$file" 'no RELRO'
    readelf -dW "$file" | grep -q 'BIND_NOW\|Flags:.*NOW' || wrong "$file" 'not bound when it starts'
    readelf -lW "$file" | grep 'GNU_STACK' | grep -q 'RW ' || wrong "$file" 'its stack can be run'
    readelf -hW "$file" | grep -q 'Type:.*DYN' || wrong "$file" 'cannot be placed anywhere'
    ! imports "$file" '^getenv$' || wrong "$file" 'calls getenv(): see src/base/env.h'
    # Some modules are too small to have any.
    case $file in *peers*) continue ;; esac
    imports "$file" '^__stack_chk_fail$' || wrong "$file" 'no checks of stacks'
    case $file in *mpi*) continue ;; esac
    imports "$file" '_chk$' || wrong "$file" 'no checks of copies'
done
exit $bad
