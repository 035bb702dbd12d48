#!/bin/sh
# Models cut into stages: one state on any number of them, by any schedule, beside other cuts, as threads and as
# processes of an MPI; a run that is stopped on one layout goes on, on another; what the plan says, and what is
# refused.  With TEST_LONG in the environment more layouts, on all MPIs.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
. "$(dirname "$0")/one_state.sh"
export LK_THREADS=1 LK_DEADLINE=60 TMPDIR="$work"

# ---- one state ----

# Draws, statistics of shards, a term of a layer within one stage, a norm over all parameters, a last batch that
# is smaller, and boxes of the image.
cat >"$work/net.yaml" <<'END'
seed: 3
data: {type: glyphs, count: 47, test_count: 24, shape: [12, 12, 1], batch: 20, shards: 7}
model:
  - {type: conv, filters: 4, kernel: 3, padding: 1}
  - batch_norm
  - relu
  - {type: dropout, rate: 0.2}
  - {type: residual, layers: [{type: conv, filters: 4, kernel: 3, padding: 1}, relu]}
  - {type: maxpool, size: 2}
  - {type: penalty, of: abs, weight: 0.125}
  - flatten
  - {type: linear, units: 24}
  - gelu
  - {type: linear, units: 10}
pieces: {tiles: 2x2, least_tile: 1}
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: adam, rate: 0.01, clip_norm: 0.5}
train: {epochs: 3, evaluate: 1 epoch, checkpoint: {every: 1 steps}}
END
# Words, and a weight that the first and the last stage share.
awk 'BEGIN { for (i = 0; i < 40; i++) print i % 11 "," (3 * i + 1) % 11 "," (i * i) % 11 "," (5 * i) % 11 }' >"$work/words.csv"
cat >"$work/words.yaml" <<END
data: {type: csv, path: "$work/words.csv", batch: 12, shards: 5}
model:
  - {type: embedding, rows: 11, units: 6, name: words}
  - {type: lstm, units: 10}
  - flatten
  - {type: linear, units: 6}
  - tanh
  - {type: linear, units: 11, transpose: true, tie: words.weight}
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.1, momentum: 0.9, clip_norm: 1}
train: {epochs: 3}
END

one_state "$work/net.yaml" --steps 4 --layouts 1,stages2,stages4,stages11,data3.stages2,2x1.stages2,data2.1x2.stages3
all=$state
for options in parallel.schedule=gpipe 'parallel.schedule=zb1p parallel.lag=full' \
    'parallel.schedule=zb1p parallel.lag=1 parallel.micro_batch=2' 'parallel.recompute=true parallel.micro_batch=1'; do
    # shellcheck disable=SC2086 # several words
    one_state "$work/net.yaml" --steps 4 --layouts stages3,2x1.stages2 $options
    [ "$state" = "$all" ] || fail "$options: another state"
done
one_state "$work/words.yaml" --steps 4 --layouts 1,stages2,stages3,stages6,data2.stages2
words=$state
one_state "$work/words.yaml" --steps 4 --layouts stages4 parallel.schedule=zb1p
[ "$state" = "$words" ] || fail 'zb1p: another state'
[ -z "$first" ] || one_state "$work/net.yaml" --steps 4 --layouts data2.stages2,2x1.stages2 --transport mpi --mpi "$on"
[ -z "$first" ] || [ "$state" = "$all" ] || fail 'MPI: another state'

# Phases, in some of which layers behind the last loss that counts do not run, and whose losses are on any stage;
# and weights of which each position has its own.
one_state experiments/mnist-gb.yaml --steps 5 --layouts 1,stages2,stages7,2x2.stages2 \
    'data={type: glyphs, count: 14, test_count: 0, batch: 7, shards: 4, shape: [28, 28, 1], one_hot: true}'

# A norm over parameters of which each position has its own; a layer norm whose rank has no sample of a micro-batch.
cat >"$work/own.yaml" <<'END'
data: {type: glyphs, count: 33, test_count: 3, shape: [12, 12, 1], batch: 9, shards: 4}
model: [{type: local_conv, filters: 3, kernel: 3}, flatten, layer_norm, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.01, clip_norm: 0.5}
pieces: {tiles: 2x2, least_tile: 1}
END
one_state "$work/own.yaml" --steps 3 --layouts 1,stages2,2x2.stages2,2x1.stages4
one_state "$work/own.yaml" --steps 3 --layouts 1,2x2.stages2 optimizer=lbfgs
# Of a smaller batch a replica may have more samples, and more micro-batches, than of a whole one.
sed 's/^model: .*/model: [flatten, {type: linear, units: 10}, relu, {type: linear, units: 10}]/; /^pieces/d' \
    "$work/own.yaml" >"$work/short.yaml"
one_state "$work/short.yaml" --steps 3 --layouts 1,data2.stages2 data.batch=5 data.shards=3 data.count=9
one_state "$work/short.yaml" --steps 3 --layouts 1,data2.stages2 data.batch=100 data.shards=7
for schedule in gpipe 1f1b 'zb1p parallel.lag=full'; do
    # shellcheck disable=SC2086 # several words
    one_state "$work/short.yaml" --steps 3 --layouts 1,data2.stages2,data2.stages4,data3.stages2 data.batch=9 \
        data.shards=9 data.count=16 parallel.schedule=$schedule parallel.micro_batch=1
done

# ---- stopped on one layout, resumed on another ----

trained() # LAYOUT RANKS STEPS ARGUMENTS...
{
    layout=$1 ranks=$2 until=$3
    shift 3
    # shellcheck disable=SC2086 # several words
    status 0 "$lockstep" run -n "$ranks" --transport local -- train "$work/net.yaml" train.output="$work/run" \
        train.steps="$until" $layout "$@"
    tail -n 1 "$work/out" | sed 's/^state //'
}
one=$(trained '' 1 9)
rm -r "$work/run"
trained 'parallel.stages=3' 3 2 >"$work/state"
trained 'parallel.stages=2 parallel.schedule=zb1p' 4 4 --resume >"$work/state"
trained 'parallel.spatial=2x1' 2 5 --resume >"$work/state"
trained 'parallel.stages=2 parallel.spatial=2x1' 4 7 --resume >"$work/state"
[ "$(trained '' 1 9 --resume)" = "$one" ] || fail 'resumed on other layouts: another state'

# ---- the plan ----

status 0 "$lockstep" plan "$work/net.yaml" --layout stages2 --rank 1
out 'stage 1 of 2: layers '
out 'schedule 1f1b, up to 1 under way'
grep -q '^in backward .* sent ' "$work/out" || fail 'no message to the stage before'
status 0 "$lockstep" plan "$work/net.yaml" --layout data2.stages2 --rank 3 --json parallel.schedule=gpipe
"$json" <"$work/out" || fail 'JSON'
out '"rank":3,"ranks":4,'
out '"stage":1,"stages":2,"schedule":"gpipe",'

# layers LAYOUT: how many of the model's own list each stage has.
layers()
{
    for rank in $2; do
        status 0 "$lockstep" plan "$work/marked.yaml" --layout "$1" --rank "$rank"
        sed -n 's/.*: layers \([0-9-]*\) of the model.*/\1/p' "$work/out"
    done | tr '\n' ' '
}
# Marks are where stages begin: all of them, or some, or others besides.
sed -e 's/{type: dropout, /&stage: true, /' -e 's/{type: linear, units: 24/&, stage: true/' "$work/net.yaml" >"$work/marked.yaml"
[ "$(layers stages3 '0 1 2')" = '0-2 3-7 8-10 ' ] || fail 'marks are not followed'
case $(layers stages2 '0 1') in '0-2 3-10 ' | '0-7 8-10 ') ;; *) fail 'a stage begins without a mark' ;; esac
layers stages5 '0 1 2 3 4' >"$work/out"
grep -Eq '(^| )3(-[0-9]+)? .*8(-[0-9]+)? ' "$work/out" || fail 'a mark is left out'
cp "$work/marked.yaml" "$work/net.yaml"
one_state "$work/net.yaml" --steps 4 --layouts 1,stages3
[ "$state" = "$all" ] || fail 'marks change the run'

# ---- what is refused ----

refused() # TEXT RANKS ARGUMENTS...
{
    text=$1 ranks=$2
    shift 2
    status 2 "$lockstep" run -n "$ranks" --transport local -- train "$work/net.yaml" "$@"
    err "$text"
}
refused 'parallel.stages is 12, but the model has 11 layers in its list' 12 parallel.stages=12
refused 'statistics: shard' 2 parallel.stages=2 model.1='{type: batch_norm, statistics: batch}' pieces.tiles=1
refused 'leave out parallel.mode=fast' 2 parallel.stages=2 parallel.mode=fast
refused 'parallel.stages 3 has 3 parts, but there are 4 ranks: start 3' 4 parallel.stages=3
for key in micro_batch=3 lag=later lag=-2 schedule=2f2b; do
    status 2 "$lockstep" train "$work/net.yaml" "parallel.$key"
    err "${key%%=*} of parallel"
done
sed 's/layers: \[{type: conv,/& stage: true,/' "$work/net.yaml" >"$work/inside.yaml"
status 2 "$lockstep" train "$work/inside.yaml"
err "a stage begins with a layer of the model's own list"

# ---- a stage that is killed ----

# All end, and the run goes on from its last checkpoint on one rank, to the state of a run that nobody disturbed.
sed 's/checkpoint: {every: 1 steps}/log: never, &/' "$work/net.yaml" >"$work/long.yaml"
status 0 "$lockstep" train --quiet "$work/long.yaml" train.epochs=40 train.output="$work/whole"
cp "$work/out" "$work/state"
for place in local $(echo "$on" | tr , ' '); do
    case $place in local) how='--transport local' ;; *) how="--mpi $place" ;; esac
    rm -rf "$work/killed"
    # shellcheck disable=SC2086 # two words
    "$work/victim" run -n 3 $how -- train --quiet "$work/long.yaml" train.epochs=40 parallel.stages=3 \
        train.output="$work/killed" >"$work/out" 2>"$work/err" &
    launcher=$!
    tries=0
    while [ ! -e "$work/killed/checkpoints/LATEST" ]; do
        [ $tries -lt 400 ] || fail "$place: no checkpoint"
        sleep 0.05
        tries=$((tries + 1))
    done
    kill -9 "$(victims | grep -vx $launcher | head -n 1)"
    wait $launcher
    got=$?
    [ $got -eq 1 ] || fail "$place: a stage is killed: status $got instead of 1"
    [ -z "$(victims)" ] || fail "$place: ranks are left"
    cat "$work/out" "$work/err" | grep -Eiq 'signal:? 9' || fail "$place: not told of a stage that is killed"
    status 0 "$lockstep" train --quiet "$work/long.yaml" train.epochs=40 train.output="$work/killed" --resume
    cmp -s "$work/out" "$work/state" || fail "$place: a stage was killed: another state"
done

# A cache is that of a stage, which reads x or labels: made in the first run, read in the second.
cat >"$work/cached.yaml" <<'END'
data: {type: glyphs, count: 32, test_count: 8, shape: [8, 8, 1], batch: 16, shards: 8}
model: [flatten, {type: linear, units: 16}, relu, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: sgd
train: {epochs: 2}
END
status 0 "$lockstep" train --quiet "$work/cached.yaml"
cp "$work/out" "$work/plain"
for run in first second; do
    status 0 "$lockstep" train --quiet "$work/cached.yaml" parallel.stages=2 "data.cache=$work/part-{rank}-of-{size}"
    cmp -s "$work/out" "$work/plain" || fail "other bits from a cache of stages: $run run"
done
[ -e "$work/part-0.1-of-1.2" ] || fail "no cache of the second stage: $(cd "$work" && echo part-*)"
status 2 "$lockstep" train --quiet "$work/cached.yaml" parallel.stages=2 data.cache="$work/one"
err 'has no {rank} in it'
