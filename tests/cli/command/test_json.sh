#!/bin/sh
# --json: every line of stdout is one object, with the keys that scripts rely on.
. "$(dirname "$0")/../expect.sh"

objects()
{
    status 0 "$@"
    [ -s "$work/out" ] || fail "nothing printed: $*"
    "$json" <"$work/out" || fail "not one JSON object a line: $*"
}

objects "$lockstep" info --json
out '"topic": "lockstep", "name": "epoch", "value": 2'
objects "$lockstep" list --json
out '"kind": "kernels", "entries": '
objects "$lockstep" list all --json
out '"kind": "verb", "name": "info"'
out '"kind": "dtype", "name": "bf16"'
out '"kind": "isa", "name": "avx512"'
out '"kind": "kernel", "name": "map1 exp"'
out '"kind": "peer", "name": "onednn"'
out '"kind": "case", "name": "conv 32x32x3-32 b32 forward"'
objects "$lockstep" selfcheck --json --threads 1,2 tree checksum
out '"kernel": "tree.f32"'
out '"pass": true'
out '"hash": "'
objects "$lockstep" bench kernels --json --against none --seconds 0 --filter '1000-10 b1 '
out '"case": "linear 1000-10 b1 forward"'
out '"gflops": '
objects "$lockstep" bench kernels --json --scaling --seconds 0 --filter 'conv 16x16x64-64 b32 forward'
out '"speedup": '
objects "$lockstep" bench tape --json --against none --seconds 0 --ops 20
out '"case": "mixed", "microseconds": '
