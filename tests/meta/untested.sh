#!/bin/sh
# `make test` ends with what it could not test here, and with the status of the tests.
#
#   tests/meta/untested.sh BUILD-FOLDER
set -eu
file=$1/untested.txt
named=$(grep -c '^untested here: AVX-512' "$file" || true)
runs=1
for flag in avx2 fma f16c avx512f avx512vl avx512dq avx512bw; do
    grep -m 1 '^flags' /proc/cpuinfo | grep -qw "$flag" || runs=0
done
[ $((named + runs)) = 1 ] || { echo "AVX-512 runs here: $runs; lines that call it untested: $named"; exit 1; }

# What `make test` does behind its build, with tests that fail.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/build" "$work/tools"
echo 'untested here: a thing' >"$work/build/untested.txt"
cp Makefile "$work"
for command in "$work/tools/setup" "$work/cmake" "$work/ctest"; do
    printf '#!/bin/sh\n' >"$command"
    chmod +x "$command"
done
echo 'echo tests failed; exit 8' >>"$work/ctest"
if said=$(env -u MAKEFLAGS -u MAKELEVEL PATH="$work:$PATH" make -s -C "$work" test 2>"$work/errors"); then
    echo 'make test has status 0 where tests fail'
    exit 1
fi
[ "$said" = "tests failed
untested here: a thing" ] || { echo "make test says: $said"; cat "$work/errors"; exit 1; }
