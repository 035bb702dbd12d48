#!/bin/sh
# tools/bench-pairs divides the right figures, takes medians, and says when a limit is missed.
set -eu
tool=$PWD/tools/bench-pairs
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A command whose n-th run prints the n-th of the given lines; it notes how it was called.
command_of()
{
    file=$1
    shift
    printf '%s\n' "$@" >"$file.lines"
    cat >"$file" <<'END'
#!/bin/sh
echo "${0##*/} $*" >>"$0.calls"
echo "${0##*/}" >>"${0%/*}/order"
sed -n "$(wc -l <"$0.calls")p" "$0.lines"
END
    chmod +x "$file"
    : >"$file.calls"
    : >"$work/order"
}
must_say()
{
    grep -q -- "$1" "$work/out" || { echo "no \"$1\" in:"; cat "$work/out"; exit 1; }
}
# expect STATUS ARGUMENT...
expect()
{
    want=$1 got=0
    shift
    "$tool" "$work/old" "$work/new" "$@" >"$work/out" 2>&1 || got=$?
    [ "$got" = "$want" ] || { echo "status $got, not $want: $*"; cat "$work/out"; exit 1; }
}

# Times: old / new; one pair in three is disturbed, and the median does not show it.
command_of "$work/old" '{"case": "a", "microseconds": 10}' '{"case": "a", "microseconds": 10}' \
    '{"case": "a", "microseconds": 90}'
command_of "$work/new" '{"case": "a", "microseconds": 8}' '{"case": "a", "microseconds": 8}' \
    '{"case": "a", "microseconds": 9}'
expect 0 --pairs 3 tape --seconds 0.1
must_say '^  1.250    1.250   5.625      3  a$'
must_say '^  1.250  geometric mean of 1 cases$'
[ "$(tail -n 1 "$work/new.calls")" = 'new bench tape --seconds 0.1 --json' ]
[ "$(tr '\n' ' ' <"$work/order")" = 'old new new old old new ' ]

# Rates: new / old.  A limit that is missed is said, and the status is 1.
command_of "$work/old" '{"case": "b", "mode": "fast", "gflops": 100, "milliseconds": 7}'
command_of "$work/new" '{"case": "b", "mode": "fast", "gflops": 90, "milliseconds": 7}'
expect 1 --pairs 1 kernels
must_say '^  0.900 .* b fast  below 0.95$'
must_say '^  0.900  geometric mean of 1 cases  below 0.99$'
command_of "$work/old" '{"case": "b", "gflops": 100}'
command_of "$work/new" '{"case": "b", "gflops": 90}'
expect 0 --pairs 1 --mean 0.89 --least 0.85 --ranks 2 step
[ "$(cat "$work/new.calls")" = 'new run -n 2 --transport local -- bench step --json' ]

# Rows of older commands, and figures that noise has left unknown.
command_of "$work/old" '{"bytes": 8, "algorithm": "slots", "us": 3.0, "rounds": 3}'
command_of "$work/new" '{"case": "allreduce 8 B", "bytes": 8, "whole_microseconds": 4, "microseconds": 2}'
expect 0 --pairs 1 allreduce
must_say '^  1.500 .* allreduce 8 B$'
command_of "$work/old" '{"case": "c", "microseconds": 3}'
command_of "$work/new" '{"case": "c", "microseconds": null}'
expect 1 --pairs 1 tape
must_say '^      - .* 0  c$'

# A command that fails, and arguments that say nothing.
printf '#!/bin/sh\necho "no such kind" >&2\nexit 2\n' >"$work/new"
expect 2 --pairs 1 nonsense
must_say 'no such kind'
expect 2 --pairs 1
expect 2 --pairs x tape
