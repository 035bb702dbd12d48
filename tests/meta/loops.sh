#!/bin/sh
# The loops that do nearly all the work keep their values in registers, whatever processor this is, and
# tools/check-loops sees when not.  What asks for memory ahead still does when it is compiled.
#
#   tests/meta/loops.sh BUILD-FOLDER        77: cannot run here
set -eu
build=${1:?usage: tests/meta/loops.sh BUILD-FOLDER}
check=$PWD/tools/check-loops
command -v objdump >/dev/null || { echo 'SKIPPED: there is no objdump'; exit 77; }
for setting in 'CMAKE_BUILD_TYPE:STRING=Release' 'LK_SANITIZE:STRING=' 'LK_OPTIMISE_ALL:BOOL=ON'; do
    grep -qx "$setting" "$build/CMakeCache.txt" || { echo 'SKIPPED: not a build that users get'; exit 77; }
done
set --
for isa in avx2 avx512; do
    for kernel in rows cross columns; do
        object=$build/CMakeFiles/lk_simd_$isa.dir/src/kernel/simd/$kernel.c.o
        [ ! -e "$object" ] || set -- "$@" "$object"
    done
done
[ $# -gt 0 ] || { echo 'SKIPPED: no kernels for AVX2 or AVX-512 were compiled'; exit 77; }
readelf -p .comment "$1" | grep -q 'GCC: ' || { echo 'SKIPPED: compiled by another compiler than gcc'; exit 77; }
"$check" "$@"

for source in $(grep -rl --include='*.c' 'lk__ask(' src/kernel); do
    objdump -d "$build/CMakeFiles/lk_objects.dir/$source.o" | grep -q prefetch || {
        echo "$source asks for memory, but the compiler has dropped it: see src/kernel/ahead.h"
        exit 1
    }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# kernel INSTRUCTION: a loop with it, in a function that is looked at.
kernel() {
    cat >a.s <<END
rows_x: push %rbp
    mov %rsp, %rbp
1:  vfmadd231ps (%rdi), %ymm0, %ymm1
    $1
    dec %rsi
    jne 1b
    vmovq %xmm1, %rax
    pop %rbp
    ret
END
    "${CC:-cc}" -c a.s -o a.o
}

rejects() { # the message
    if said=$("$check" a.o 2>&1); then
        echo "not found: $1"
        exit 1
    fi
    [ "$said" = "tools/check-loops: a.o: rows_x: $1" ] || { echo "expected: $1, got: $said"; exit 1; }
}

# An address in a general register is no move.
kernel 'vmovq (%rdx), %xmm2'
"$check" a.o
for spill in 'vmovq %xmm2, %rdx' 'vmovq %r9, %xmm2' 'vmovd %xmm2, %edx'; do
    kernel "$spill"
    rejects '1 moves between general and vector registers in a loop of 1 multiply-adds'
done
for spill in 'mov 8(%rsp), %rdx' 'vmovaps %ymm2, -64(%rbp)' 'decq 24(%rsp)'; do
    kernel "$spill"
    rejects '1 reads or writes of the stack in a loop of 1 multiply-adds'
done
kernel 'je 2f; 2:'
rejects 'no loop of multiply-adds without a branch'
