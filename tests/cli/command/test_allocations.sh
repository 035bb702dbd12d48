#!/bin/sh
# Every allocation of the self-check fails in turn: no crash, no leak, no wrong result.
. "$(dirname "$0")/../expect.sh"

status 0 "$lockstep" selfcheck --fail-alloc --threads 2
no_err
out 'no leak, no wrong result'
