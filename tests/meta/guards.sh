#!/bin/sh
# No public function computes before LK_FP_GUARD(), and tools/check-guards sees when one does.
#
#   tests/meta/guards.sh BUILD-FOLDER
set -eu
check=$PWD/tools/check-guards
command -v objdump >/dev/null || { echo 'SKIPPED: there is no objdump'; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo 'SKIPPED: it knows the instructions of x86-64 alone'; exit 77; }
"$check" "$1"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# library DEFINITIONS: with a guard of that name, and a helper that computes.
library() {
    cat >a.c <<END
__attribute__((noipa)) static void lk__fp_enter(void) { __asm__ volatile(""); }
__attribute__((noinline)) static double helper(double x) { return x * x; }
double lk_a(double x);
$1
END
    "${CC:-cc}" -O1 -fPIC -shared -Wno-attributes -Wno-unused-function a.c -o liblockstep.so
}

library 'double lk_a(double x) { lk__fp_enter(); return helper(x) + 1; }'
"$check" .
for body in 'return x + 1;' 'return helper(x);'; do
    library "double lk_a(double x) { $body }"
    if said=$("$check" .); then
        echo "not found: $body"
        exit 1
    fi
    case $said in
    'tools/check-guards: computes without LK_FP_GUARD(): lk_a'*) ;;
    *) echo "$said"; exit 1 ;;
    esac
done

library 'double lk_a(double x) { lk__fp_enter(); return x; }
void lk__mpi_send(void);
void lk__mpi_send(void) { __asm__ volatile(""); }'
if said=$("$check" .); then
    echo 'not found: a call of MPI'
    exit 1
fi
[ "$said" = 'tools/check-guards: calls MPI without LK_FP_GUARD(): lk__mpi_send' ] || {
    echo "$said"
    exit 1
}
