#!/bin/sh
# tools/coverage: a row for each room and one for all of the lines that gcovr counts; where it counts none, a
# failure.  A command in place of gcovr has counted.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/gcovr" <<'END'
#!/bin/sh
while [ "$1" != --csv ]; do shift; done
cp "${0%/*}/counted" "$2"
END
chmod +x "$work/gcovr"

# counts STATUS LINE...: run tools/coverage where gcovr has counted so; what it prints is in $work/out.
counts() {
    wanted=$1 got=0
    shift
    printf '%s\n' filename,line_total,line_covered "$@" >"$work/counted"
    PATH="$work:$PATH" tools/coverage "$work/build" >"$work/out" 2>&1 || got=$?
    [ "$got" = "$wanted" ] || { echo "status $got, not $wanted:"; cat "$work/out"; exit 1; }
}

counts 0 src/nn/x.c,30,15 src/nn/layers/y.c,10,5 cli/main.c,20,19 src/base/z.c,1000,1000
diff - "$work/out" <<'END'
Lines that the quick tests alone reach:
base          1000 lines 100.0 % reached
cli             20 lines  95.0 % reached
nn              40 lines  50.0 % reached
all           1060 lines  98.0 % reached
END
counts 1
grep -q 'no line was counted' "$work/out" || { cat "$work/out"; exit 1; }
counts 1 src/nn/x.c,0,0
