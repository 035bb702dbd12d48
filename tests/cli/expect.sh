# shellcheck shell=sh disable=SC2034 # the variables are for the tests
# Helpers for the tests of the command; a test sources this file with its own arguments.
#
#   $lockstep   the command
#   $json       a program that succeeds if its input is one JSON object on each line
#   $tests      the folder of the tests
#   $work       an empty folder that is removed at the end
#
# No data sets are installed for a test, whatever the machine has: presets say that they generate theirs.
set -u
lockstep=$1
json=$2
tests=$(cd "$(dirname "$0")" && while [ ! -d golden ]; do cd ..; done && pwd)
golden=$tests/golden/selfcheck.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LK_ISA LK_THREADS NO_COLOR
export LK_DATASETS="$work/installed"

fail()
{
    echo "FAIL: $*" >&2
    echo "--- stdout" >&2
    cat "$work/out" >&2
    echo "--- stderr" >&2
    cat "$work/err" >&2
    exit 1
}

# status N COMMAND...: run the command, keep what it prints, and require its exit status.
status()
{
    want=$1
    shift
    "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    [ $got -eq "$want" ] || fail "status $got instead of $want: $*"
}

# out TEXT, err TEXT: require a line with this text in what was printed last.
out()
{
    grep -qF -- "$1" "$work/out" || fail "stdout has no line with: $1"
}

err()
{
    grep -qF -- "$1" "$work/err" || fail "stderr has no line with: $1"
}

# In the JSON printed last there are figures with their noise, and each is above it or null.
figures()
{
    awk -F ', "' '
        { for (i = 1; i < NF; i++) {
            split($i, figure, "\"?: "); split($(i + 1), noise, "\": ")
            sub(/^[{]?"?/, "", figure[1]); sub(/}$/, "", noise[2])
            if (noise[1] != figure[1] "_noise") continue
            found++
            if (figure[2] != "null" && !(figure[2] + 0 > noise[2] + 0 && noise[2] != "null")) bad = 1
        } }
        END { exit bad || !found }' "$work/out" || fail "no figures, or one that is below its noise"
}

# Require that nothing was printed there.
no_out()
{
    [ ! -s "$work/out" ] || fail "stdout is not empty"
}

no_err()
{
    [ ! -s "$work/err" ] || fail "stderr is not empty"
}
