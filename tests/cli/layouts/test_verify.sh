#!/bin/sh
# lockstep verify: one hash on every layout; and where bits differ, the step and the tensor.  With
# TEST_LONG in the environment, on more layouts.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
listed=$(echo "${mpis# }" | tr ' ' ,)

export TMPDIR="$work"

# Batch norm, dropout, momentum, a partial last batch, uneven shards: all that a layout could disturb.
cat >"$work/net.yaml" <<'END'
data: {type: glyphs, count: 45, test_count: 24, shape: [12, 12, 1], batch: 20, shards: 7}
model:
  - {type: conv, filters: 6, kernel: 3}
  - batch_norm
  - relu
  - {type: maxpool, size: 2}
  - {type: dropout, rate: 0.25}
  - flatten
  - {type: linear, units: 10}
loss: softmax_cross_entropy
metrics: [accuracy, confusion]
optimizer: {type: sgd, rate: 0.05, momentum: 0.9}
train: {epochs: 3}
END

# column NAME: its values in the last JSON output, each once.
column()
{
    sed -n "s/.*\"$1\": \"\{0,1\}\([^\",}]*\).*/\1/p" "$work/out" | sort -u
}

more()
{
    [ -z "${TEST_LONG-}" ] || printf %s "$1"
}
status 0 "$lockstep" verify "$work/net.yaml" --ranks "1,2,5$(more ,3,4,7)" --threads 1,2 --isa scalar --json --steps 8
"$json" <"$work/out" || fail 'JSON'
no_err
[ "$(wc -l <"$work/out")" -eq $((6${TEST_LONG:+ + 6})) ] || fail 'not all configurations'
[ "$(column same)" = true ] && [ "$(column state | wc -l)" -eq 1 ] || fail 'more than one state'
state=$(column state)
for key in '"ranks": 5' '"threads": 2' '"transport": "local"' '"layout": "data5"' '"isa": "scalar"'; do
    out "$key"
done

# The other instruction sets, algorithms, ways to update and to overlap.
isas=$("$lockstep" info --json | sed -n 's/.*"topic": "instruction set", "name": "\([a-z0-9]*\)", "value": "\(in use\|available\)".*/\1/p' | paste -sd,)
status 0 "$lockstep" verify "$work/net.yaml" --ranks "3,4$(more ,1)" --isa "$isas" --algorithms auto,tree,ring,direct,halving --json --steps 8
[ "$(column state)" = "$state" ] || fail "other bits: $(column state)"
for how in update=each update=shared overlap=yes; do
    status 0 "$lockstep" verify "$work/net.yaml" --ranks "1,7$(more ,3)" "parallel.$how" --json --steps 8
    [ "$(column state)" = "$state" ] || fail "$how: other bits: $(column state)"
done

# Statistics over the whole batch, for which ranks meet during a pass: another run, with one hash, too.
set -- 'model.1={type: batch_norm, statistics: batch}' --json --steps 8
status 0 "$lockstep" verify "$work/net.yaml" --ranks "1,5$(more ,2,3,7)" --threads 1,2 --algorithms "auto,tree$(more ,ring)" "$@"
[ "$(column same)" = true ] && [ "$(column state | wc -l)" -eq 1 ] || fail 'more than one state'
batch=$(column state)
[ "$batch" != "$state" ] || fail 'statistics of the batch are those of shards'
if [ -n "$mpis" ]; then
    status 0 "$lockstep" verify "$work/net.yaml" --transport mpi --mpi "$listed" --ranks 3 "$@"
    [ "$(column state)" = "$batch" ] || fail "other bits: $(column state)"
fi

status 0 "$lockstep" verify "$work/net.yaml" --ranks 1,3 --algorithms halving
out '1 left out: the algorithm cannot be used there'
out 'the same bits in 1 configuration: 20 steps and an evaluation'
status 2 "$lockstep" verify "$work/net.yaml" --ranks 3 --algorithms halving
err 'none of them can be used on these ranks'

# Processes: the same bits as threads.
if [ -n "$mpis" ]; then
    status 0 "$lockstep" verify "$work/net.yaml" --ranks 1,3 --transport local,mpi --mpi "$listed" --json --steps 8
    [ "$(column state)" = "$state" ] || fail "mpi: other bits: $(column state)"
    out '"transport": "mpi", "mpi": "'
    status 0 "$lockstep" run -n 2 --transport mpi -- verify --trace --steps 8 "$work/net.yaml"
    out "step 8 state $state loss "
fi
status 0 "$lockstep" run -n 2 --transport local -- verify --trace --steps 8 --snapshot "$work/s.safetensors" "$work/net.yaml"
out "step 8 state $state loss "
out 'score '
status 0 "$lockstep" ckpt inspect "$work/s.safetensors"
for tensor in conv1.weight state/batch_norm1. optimizer/momentum/; do
    grep -q "$tensor" "$work/out" || fail "the snapshot has no $tensor"
done

status 2 "$lockstep" run -n 2 --transport local -- verify --trace --algorithms tree "$work/net.yaml"
err 'LK_ALLREDUCE'
status 2 "$lockstep" verify --trace --threads 1,2 "$work/net.yaml"
err 'give no lists'

# What the environment names is tried as `train` has it, and refused likewise where bits are promised.
status 0 env LK_ALLREDUCE=direct "$lockstep" verify "$work/net.yaml" --ranks 1,2 --steps 2 --json
out '"algorithm": "direct"'
for named in mpi dummy; do
    for verb in 'verify --ranks 1,2 --steps 2' 'run -n 2 --transport local -- train'; do
        # shellcheck disable=SC2086 # a list of words
        status 2 env LK_ALLREDUCE=$named "$lockstep" $verb "$work/net.yaml" parallel.update=each train.steps=2
        grep -q "LK_ALLREDUCE.*$named is there to measure against and may give other bits" "$work/err" || fail 'no reason'
        err 'or give parallel.mode=fast'
        no_out
    done
done
status 2 env LK_ALLREDUCE=rign "$lockstep" verify "$work/net.yaml" --ranks 1,2 --steps 2
err 'LK_ALLREDUCE: there is no allreduce "rign"; see "lockstep list collectives"'
no_out
status 2 "$lockstep" verify "$work/net.yaml" --ranks 1,2 --algorithms dummy
err 'may give other bits: leave it out, or give parallel.mode=fast'
status 0 env LK_ALLREDUCE=direct "$lockstep" run -n 2 --transport local -- train "$work/net.yaml" \
    parallel.update=each train.steps=2 parallel.mode=fast

# Fast mode gives the bits up: the step and the tensor are named, with both values; nothing is left.
for place in local ${mpis:+mpi}; do
    status 1 "$lockstep" verify "$work/net.yaml" --ranks 1,3 --transport $place parallel.mode=fast
    out 'DIFFER'
    err 'error: after step 1 the bits differ between (layout 1, 1 rank, 1 thread, '
    grep -Eq '^  first in layer conv1, parameter weight, element [0-9]+ of [0-9]+: .*\(-?0x1.* and .*\(-?0x1' "$work/err" || fail 'no tensor'
    err '1 of 2 configurations has other bits than the first'
done
status 1 "$lockstep" verify "$work/net.yaml" --ranks 1,3 --json parallel.mode=fast
out '"same": false'
[ -z "$(find "$work" -name 'lockstep*')" ] || fail 'snapshots are left'

# What cannot be asked for.
status 2 "$lockstep" verify "$work/net.yaml" --ranks 1,8
err '--ranks: 8 ranks for a batch of 7 shards: give at most 7 ranks'
no_out # not one configuration has run
[ "$(wc -l <"$work/err")" -eq 1 ] || fail 'not one line'
status 2 "$lockstep" verify "$work/net.yaml" --transport tcp
err 'give local or mpi'
status 2 "$lockstep" verify "$work/net.yaml" --isa sse9
err 'no instruction set named "sse9"'
status 2 "$lockstep" verify "$work/net.yaml" --snapshot x
err 'it goes with --trace'
status 2 "$lockstep" run -n 2 --transport local verify "$work/net.yaml"
err 'it starts its ranks itself'
status 2 "$lockstep" verify "$work/none.yaml"
status 2 "$lockstep" verify "$work/net.yaml" --algorithms tre
err 'there is no allreduce "tre"'

# A warning that every rank of every configuration would print is printed once.
cat >"$work/warned.yaml" <<'YAML'
data: {type: mnist, batch: 8, shards: 4}
model: [{type: avgpool, size: 7}, flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.05}
train: {steps: 1}
YAML
once()
{
    status 0 env LK_DATASETS="$work" "$lockstep" "$@"
    [ "$(grep -c 'generated glyphs take its place' "$work/err")" -eq 1 ] || fail "not one warning: $*"
}
once train --quiet "$work/warned.yaml" parallel.data=3
once verify "$work/warned.yaml" --steps 2 --ranks "1,2$(more ,3)" --transport "local$(more "${listed:+,mpi}")"
for mpi in ${mpis##* } $(more "${mpis% *}"); do
    once run -n 2 --mpi "$mpi" -- train --quiet "$work/warned.yaml"
    once verify "$work/warned.yaml" --steps 2 --ranks 2,3 --transport mpi --mpi "$mpi"
done
status 0 env LK_DATASETS="$work" "$lockstep" verify --quiet "$work/warned.yaml" --steps 1 --ranks 1,2
no_err
out 'the same bits in 2 configurations: 1 step and an evaluation'
status 2 "$lockstep" verify "$work/warned.yaml" data.shards=1 --ranks 1,2
err '2 ranks for a batch of 1 shard: give at most 1 rank, or data.batch=8 data.shards=2'

# Shards are rounded: 6 samples in 4 shards are 3 of 2.  What is named works, and ranks that nobody asked
# for fit by themselves.
odd()
{
    env LK_DATASETS="$work" "$lockstep" "$@"
}
set -- "$work/warned.yaml" data.batch=6 train.steps=1 pieces.tiles=2
for mode in parallel.mode=canonical parallel.mode=fast; do
    status 2 odd train --quiet "$@" "$mode" data.shards=4 parallel.data=4
    err '4 ranks for a batch of 3 shards: start at most 3, or give data.batch='
    named=$(sed -n 's/.*or give \(.*\), which.*/\1/p' "$work/err")
    # shellcheck disable=SC2086 # two assignments
    status 0 odd train --quiet "$@" "$mode" $named parallel.data=4
    status 2 odd verify --quiet --steps 1 "$@" "$mode" data.shards=4 --ranks 4
    err "give at most 3 ranks, or $named"
done
[ "$named" = 'data.batch=8 data.shards=4' ] || fail "another batch: $named"
status 2 odd train --quiet "$@" data.shards=4 parallel.data=4 parallel.spatial=2
err '4 replicas for a batch of 3 shards: start at most 3, or give data.batch=6 data.shards=6'
status 2 odd verify --quiet "$@" data.shards=4 parallel.spatial=2 --ranks 8
err '8 ranks for a batch of 3 shards: give at most 6 ranks, or data.batch=6 data.shards=6'
status 0 odd verify --quiet --steps 1 "$@" data.shards=4
out 'the same bits in 3 configurations'
status 0 odd verify --quiet --steps 1 "$@" data.shards=1 parallel.spatial=2
out 'the same bits in 1 configuration:'
status 2 odd verify --quiet "$@" pieces.tiles=5 parallel.spatial=5
err 'the layout of the experiment needs more ranks than the 4 that are taken without --ranks'
