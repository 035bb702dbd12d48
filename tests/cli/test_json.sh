#!/bin/sh
# --json: every line of stdout is one object, with the keys that scripts rely on.
. "$(dirname "$0")/expect.sh"

objects()
{
    status 0 "$@"
    [ -s "$work/out" ] || fail "nothing printed: $*"
    "$json" <"$work/out" || fail "not one JSON object a line: $*"
}

objects "$lockstep" info --json
out '"topic": "lockstep", "name": "epoch", "value": 1'
objects "$lockstep" list --json
out '"kind": "verb", "name": "info"'
out '"kind": "dtype", "name": "bf16"'
out '"kind": "isa", "name": "avx512"'
out '"kind": "peer", "name": "onednn"'
objects "$lockstep" selfcheck --json --threads 1,2 half checksum
out '"kernel": "half"'
out '"pass": true'
out '"hash": "'
