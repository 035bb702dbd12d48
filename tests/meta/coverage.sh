#!/bin/sh
# tools/coverage: a row for each room, and one for all, of the lines that gcov prints, those of several objects once,
# and a file of the lines that were not reached; where none is printed, a failure.  A command in place of gcov prints.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/build"
touch "$work/build/x.gcda"
printf '#!/bin/sh\ncat "${0%%/*}/printed"\n' >"$work/gcov"
chmod +x "$work/gcov"

# source_of FILE: what gcov prints of it follows.
source_of() { echo "        -:    0:Source:$1" >>"$work/printed"; }
# lines COUNT FIRST LAST
lines() {
    for line in $(seq "$2" "$3"); do printf '%9s:%5d:  a = b ? "x: 1" : c;\n' "$1" "$line"; done >>"$work/printed"
}
# covers STATUS: run tools/coverage; what it prints is in $work/out.
covers() {
    got=0
    PATH="$work:$PATH" tools/coverage "$work/build" >"$work/out" 2>&1 || got=$?
    [ "$got" = "$1" ] || { echo "status $got, not $1:"; cat "$work/out"; exit 1; }
}

source_of "$PWD/src/base/z.c"
lines 12 1 1000
source_of "$PWD/src/nn/x.c"
lines '3*' 1 10
lines '#####' 11 30
lines - 31 40
source_of "$PWD/src/nn/x.c" # of another object
lines '#####' 1 15
lines 1 16 20
source_of "$PWD/src/nn/layers/y.c"
lines 0 1 10
source_of "$PWD/cli/main.c"
lines 7 2 20
lines '=====' 21 21
source_of "$PWD/tests/unit/test_w.c"
lines 1 1 50
source_of /usr/include/src/stdio.h
lines 1 1 50
covers 0
diff - "$work/out" <<'END'
Lines that the quick tests alone reach:
base          1000 lines 100.0 % reached
cli             20 lines  95.0 % reached
nn              40 lines  37.5 % reached
all           1060 lines  97.5 % reached
END
{ echo cli/main.c:21; seq -f 'src/nn/layers/y.c:%g' 10; seq -f 'src/nn/x.c:%g' 11 15; seq -f 'src/nn/x.c:%g' 21 30; } |
    diff - "$work/build/unreached.txt"

: >"$work/printed"
covers 1
grep -q 'no line was counted' "$work/out" || { cat "$work/out"; exit 1; }
