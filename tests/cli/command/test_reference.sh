#!/bin/sh
# What experiments choose from: lists, help by name, and the reference page, which is current.
. "$(dirname "$0")/../expect.sh"

status 0 "$lockstep" list layers
out 'conv '
status 0 "$lockstep" list optimizers --json
out '"kind": "optimizer", "name": "adam"'
status 0 "$lockstep" help layer
out 'lockstep help layer NAME explains one'

# every entry of every kind explains itself, and every option of it has a line
for kind in section format layer init loss metric optimizer schedule; do
    plural=$("$lockstep" list --json | sed -n "s/.*\"kind\": \"\(${kind}[a-z]*\)\".*/\1/p")
    "$lockstep" list "$plural" --json | sed 's/.*"name": "\([^"]*\)".*/\1/' >"$work/names"
    [ -s "$work/names" ] || fail "there are no $plural"
    while IFS= read -r name; do
        status 0 "$lockstep" help "$kind" "$name"
        out "$kind $name: "
        [ $kind = section ] || out "{type: $name"
    done <"$work/names"
done
status 0 "$lockstep" help layer conv
out 'filters N'
out '(required)'
out 'stride N,...'
out 'pad NAME'
out 'one of none, same'
out 'of the inits'
out 'name TEXT'
status 2 "$lockstep" help layer covn
err 'unknown layer "covn"; did you mean "lockstep help layer conv"?'
no_out
status 2 "$lockstep" help lair conv
err 'unknown kind or verb "lair"; did you mean "lockstep help layer conv"?'
no_out

# a name is enough, and where several things have it, all are shown
status 0 "$lockstep" help conv
out 'op conv: '
out 'layer conv: '
out 'filters N'
for name in relu adam mean_squared_error accuracy idx lenet glorot step transpose f64 avx2; do
    status 0 "$lockstep" help "$name"
    grep -q "^[a-z]* \(map1 \)\{0,1\}$name: " "$work/out" || fail "nothing is named $name"
done
status 0 "$lockstep" help train
out 'usage: lockstep train'
out 'section train: '
status 0 "$lockstep" help allreduce
out 'node allreduce: '
out 'collective allreduce ring: '
out 'bench allreduce: '
status 0 "$lockstep" help allreduce ring
out 'collective allreduce ring: '
[ "$(grep -c '^collective ' "$work/out")" = 1 ] || fail 'one collective was asked for'
status 0 "$lockstep" help ring
out 'collective allgather ring: '
status 0 "$lockstep" help op conv
out 'op conv: '
if grep -q 'layer conv' "$work/out"; then fail 'an op was asked for'; fi
status 0 "$lockstep" help ops
out 'lockstep help op NAME explains one'
status 0 "$lockstep" help inspect
out 'ckpt inspect: '
out 'data inspect: '
for name in covn acuracy adm allredcue; do
    status 2 "$lockstep" help $name
    err "unknown name \"$name\"; did you mean \""
    no_out
done
status 2 "$lockstep" help covn
err 'did you mean "lockstep help conv"?'
status 2 "$lockstep" help op cnov
err 'unknown op "cnov"; did you mean "lockstep help op conv"?'
err 'run "lockstep list ops"'
status 2 "$lockstep" help qqqqqq
err 'unknown name "qqqqqq"'
if grep -q 'did you mean' "$work/err"; then fail 'a far-fetched suggestion'; fi
# whatever is listed, is explained
"$lockstep" list all --json | grep -v '"kind": "\(case\|peer\)"' |
    sed 's/.*"name": "\([^"]*\)".*/\1/' | sort -u >"$work/names"
[ "$(wc -l <"$work/names")" -gt 200 ] || fail 'there are few names'
while IFS= read -r name; do
    # shellcheck disable=SC2086 # two words are two operands
    status 0 "$lockstep" help $name
done <"$work/names"

# the page
status 0 "$lockstep" list --markdown
out 'in training, 0 with probability `rate`, otherwise'
! grep -q '\\`' "$work/out" || fail 'a backtick that is escaped: names are code'
diff -u "$tests/../docs/reference/options.md" "$work/out" >&2 ||
    fail 'docs/reference/options.md is old: build/lockstep list --markdown >docs/reference/options.md'
