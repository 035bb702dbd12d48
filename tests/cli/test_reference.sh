#!/bin/sh
# What experiments choose from: lists, help by name, and the reference page, which is current.
. "$(dirname "$0")/expect.sh"

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
err 'unknown layer "covn"; did you mean "conv"?'
no_out
status 2 "$lockstep" help lair conv
err 'unknown verb "lair"'

# the page
status 0 "$lockstep" list --markdown
diff -u "$here/../../docs/reference.md" "$work/out" >&2 ||
    fail 'docs/reference.md is old: build/lockstep list --markdown >docs/reference.md'
