#!/bin/sh
# A rank of the command that crashes says which it was, the signal, and where; then the process ends as it
# would have without that.
. "$(dirname "$0")/../expect.sh"

# shellcheck disable=SC3045 # dash and bash have it
ulimit -c 0
export LK_THREADS=1
cat >"$work/net.yaml" <<'END_YAML'
data: {type: glyphs, count: 64, test_count: 16, batch: 16, shards: 4}
model: [flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: sgd
train: {epochs: 1000000, evaluate: never}
END_YAML

# crashed SETTING...: training gets SIGSEGV once it is under way.
crashed()
{
    rm -rf "$work/run"
    "$lockstep" train "$work/net.yaml" "train.output=$work/run" "$@" >"$work/out" 2>"$work/err" </dev/null &
    job=$!
    tries=0
    while [ ! -s "$work/run/metrics.jsonl" ] && [ $tries -lt 200 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    kill -s SEGV $job
    status=0
    wait $job || status=$?
    [ $status -eq 139 ] || fail "status $status, not that of SIGSEGV"
}

crashed
err 'lockstep: rank 0 of 1 on host "'
err "\", process $job, ended by SIGSEGV sent by process $$"
err ', with all ranks of its job'
err '  #0 '
err 'lockstep+0x'

# Of ranks that are threads the main one is none.
crashed parallel.data=2
err 'lockstep: '
err "ended by SIGSEGV sent by process $$"

export LK_ABORT_HOOK=0
crashed
if grep -q 'ended by' "$work/err"; then fail 'it reports all the same'; fi
