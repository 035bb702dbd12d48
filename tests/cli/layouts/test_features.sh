#!/bin/sh
# Wide layers cut over ranks: one state on any number of them, beside data, tiles and stages, as threads and as
# processes of an MPI; a run that is stopped on one layout goes on, on another; what the plan says, and what is
# refused.  With TEST_LONG in the environment more layouts, on all MPIs.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
. "$(dirname "$0")/one_state.sh"
export LK_THREADS=1 LK_DEADLINE=60 TMPDIR="$work"

# ---- one state ----

# Statistics and draws of the rank's channels, groups of them, a block whose lists agree, layers that need all
# features, blocks that are short or empty, a norm over all parameters, a last batch that is smaller, and tiles.
cat >"$work/net.yaml" <<'END'
seed: 3
data: {type: glyphs, count: 47, test_count: 24, shape: [12, 12, 1], batch: 20, shards: 7}
model:
  - {type: conv, filters: 32, kernel: 3, padding: 1}
  - batch_norm
  - relu
  - {type: dropout, rate: 0.2}
  - {type: residual, layers: [{type: conv, filters: 32, kernel: 3, padding: 1, groups: 4}, relu]}
  - {type: maxpool, size: 2}
  - {type: conv, filters: 18, kernel: 3}
  - flatten
  - layer_norm
  - {type: linear, units: 40}
  - gelu
  - {type: linear, units: 24, cut: in}
  - tanh
  - {type: linear, units: 10}
pieces: {tiles: 2x2, blocks: 4, least_tile: 1, least_block: 4}
loss: softmax_cross_entropy
metrics: [accuracy, misclassification, {type: top_k, k: 3}]
optimizer: {type: adam, rate: 0.01, clip_norm: 0.5}
train: {epochs: 3, evaluate: 1 epoch, checkpoint: {every: 1 steps}}
END
one_state "$work/net.yaml" --steps 4 --layouts \
    "1,features2,features3,features4,data2.features2,features2.stages2,2x1.features2$(more \
        data3.features3,2x2.features4,features4.stages3,data2.features2.stages2,data2.2x2.features2,1x2.features3.stages2)"
all=$state
if [ -n "$first" ]; then
    one_state "$work/net.yaml" --steps 4 --transport mpi --mpi "$on" --layouts \
        "data2.features2$(more features3,2x1.features2,features2.stages2,2x1.features2.stages2)"
    [ "$state" = "$all" ] || fail 'MPI: another state'
fi
if [ -n "${TEST_LONG-}" ]; then
    for options in parallel.schedule=gpipe 'parallel.schedule=zb1p parallel.lag=full' 'parallel.recompute=true' \
        'train.recompute=3'; do
        # shellcheck disable=SC2086 # several words
        one_state "$work/net.yaml" --steps 4 --layouts features2.stages2,2x1.features2.stages2 $options
        [ "$state" = "$all" ] || fail "$options: another state"
    done
fi

# A product of all cuts, where both convolutions are cut by tiles and by channels; logits that a loss gathers.
one_state experiments/mnist-lenet.yaml --steps 2 \
    --layouts "1,data2.2x1.features2.stages2$(more features3,features4,2x2.features4,data2.2x2.features2.stages2)" \
    'data={type: glyphs, count: 14, test_count: 4, shape: [28, 28, 1], one_hot: true, batch: 8, shards: 4}' \
    'pieces={tiles: 2x2, blocks: 4, least_tile: 1, least_block: 4}'

cat >"$work/mlp.yaml" <<'END'
data: {type: glyphs, count: 33, test_count: 3, shape: [12, 12, 1], batch: 9, shards: 4}
model: [flatten, {type: linear, units: 48}, relu, {type: linear, units: 20, cut: in}, relu, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.05}
pieces: {tiles: 2x2, blocks: 4, least_tile: 1, least_block: 4}
END
one_state "$work/mlp.yaml" --steps 4 --layouts "1,features3,data2.2x1.features2.stages2$(more data3.features4,2x2.features3)"
one_state "$work/mlp.yaml" --steps 3 --layouts "1,features3,data2.features2$(more features4.stages2,2x1.features2)" optimizer=lbfgs

# A cut value that three read, of which some need all of it: gradients are added in one order.
cat >"$work/uses.yaml" <<'END'
data: {type: glyphs, count: 33, test_count: 3, shape: [8, 8, 1], batch: 12, shards: 5}
model:
  - flatten
  - {type: linear, units: 40}
  - softplus
  - {type: residual, layers: [{type: penalty, of: squares, weight: 0.01}, {type: linear, units: 40}]}
  - {type: residual, layers: [{type: residual, join: concat, layers: [{type: linear, units: 33}], shortcut: [leaky_relu]}, {type: linear, units: 40}]}
  - {type: reshape, shape: [5, 8]}
  - {type: lstm, units: 13, output: all}
  - {type: gru, units: 9, reverse: true}
  - {type: linear, units: 10}
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.1}
pieces: {blocks: 4, least_block: 1}
END
one_state "$work/uses.yaml" --steps 4 --layouts "1,features2,features3$(more features4,data2.features2,features3.stages2)"

# Words, and a weight that a layer has by its rows and another by its units.
awk 'BEGIN { for (i = 0; i < 40; i++) print i % 37 "," (3 * i + 1) % 37 "," (i * i) % 37 "," (5 * i) % 37 }' >"$work/words.csv"
cat >"$work/words.yaml" <<END
data: {type: csv, path: "$work/words.csv", batch: 12, shards: 5}
model:
  - {type: embedding, rows: 37, units: 6, name: words}
  - flatten
  - {type: linear, units: 6}
  - tanh
  - {type: linear, units: 37, transpose: true, tie: words.weight}
loss: softmax_cross_entropy
metrics: [{type: top_k, k: 2}, confusion, iou, auc]
optimizer: {type: sgd, rate: 0.1, momentum: 0.9, clip_norm: 1}
pieces: {blocks: 4, least_block: 4}
train: {epochs: 3}
END
one_state "$work/words.yaml" --steps 4 --layouts "1,features2,features3,features4,features2.stages2$(more \
    data2.features2,data2.features3.stages2,features4.stages5)"

# Four groups of channels, one on each rank: what the convolutions give is gathered behind the last of them, and
# nothing else travels between them.
groups=experiments/cifar10-parallel-convolution.yaml
images='data={type: glyphs, shape: [32, 32, 3], count: 8, test_count: 0, batch: 4, shards: 2}'
one_state $groups --steps 2 --layouts 1,features2,features4,data2.features2 "$images"
for rank in 0 1 2 3; do
    status 0 "$lockstep" plan $groups "$images" --layout features4 --rank $rank --json
    sed 's/.*"transfers":\[//; s/\],"calls".*//' "$work/out" | grep -o '"what":"[^"]*"' | sort -u | tr '\n' ' ' >"$work/what"
    [ "$(cat "$work/what")" = '"what":"flatten1" "what":"linear1" "what":"linear2" "what":"votes and loss" ' ] ||
        fail "something else travels: $(cat "$work/what")"
    last=$((128 * rank)) # of the 512 channels behind the last convolution
    out "{\"layer\":\"conv13\",\"type\":\"conv\",\"reach\":\"window\",\"domain\":\"samples\",\"samples\":[0,4],\"box\":[[0,2],[0,2],[$last,128]]"
done

# Parameters that one layer would cut and another has whole: a beta, biases before and behind, gates; and a weight
# that is cut along two axes.
cat >"$work/mixed.yaml" <<'END'
data: {type: glyphs, count: 33, test_count: 3, shape: [8, 8, 1], batch: 12, shards: 5}
model:
  - {type: conv, filters: 24, kernel: 3, padding: 1}
  - {type: batch_norm, name: norm}
  - {type: layer_norm, tie: norm.beta}
  - flatten
  - {type: linear, units: 24, name: up}
  - {type: linear, units: 24, cut: in, name: down, tie: up.bias}
  - {type: linear, units: 24, tie: down.weight}
  - {type: linear, units: 24, cut: in, name: second}
  - {type: linear, units: 24, tie: second.bias}
  - {type: reshape, shape: [3, 8]}
  - {type: lstm, units: 6, name: cell}
  - {type: linear, units: 24, tie: cell.bias}
  - {type: linear, units: 10}
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.1, clip_norm: 1}
pieces: {blocks: 4, least_block: 4}
END
one_state "$work/mixed.yaml" --steps 4 --layouts "1,features2,features3$(more features4,features2.stages3,data2.features2)"

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
trained '' 1 3 >"$work/state"
mv "$work/run" "$work/one"
trained 'parallel.features=4' 4 3 >"$work/state"
for file in weights best; do
    cmp "$work/run/$file.safetensors" "$work/one/$file.safetensors" || fail "another $file.safetensors than that of one rank"
done
trained 'parallel.features=2' 4 4 --resume >"$work/state"
trained 'parallel.features=2 parallel.spatial=2x1' 4 5 --resume >"$work/state"
trained 'parallel.features=3 parallel.stages=2' 6 7 --resume >"$work/state"
[ "$(trained '' 1 9 --resume)" = "$one" ] || fail 'resumed on other layouts: another state'

# ---- the plan ----

sent() # WHEN WHAT HOW RANKS CALLS BYTES
{
    out "{\"when\":\"in $1\",\"what\":\"$2\",\"how\":\"$3\",\"ranks\":$4,\"calls\":$5,\"bytes\":$6}"
}
# held LAYER: the bytes of its parameters.
held()
{
    sed -n "s/.*{\"layer\":\"$1\",[^}]*\"parameters\":\([0-9]*\).*/\1/p" "$work/out"
}
status 0 "$lockstep" plan "$work/net.yaml" --json
conv=$(held conv2)
status 0 "$lockstep" plan "$work/net.yaml" --layout features2 --json
"$json" <"$work/out" || fail 'JSON'
out '"layout":"features2","rank":0,"ranks":2,'
sent forward conv2 gathered 2 1 $((20 * 6 * 6 * 16 * 4))      # what a rank has of 32 channels
sent backward conv2 joined 2 1 $((20 * 6 * 6 * 32 * 4))       # dx, a sum over filters
sent forward flatten1 gathered 2 1 $((20 * 4 * 4 * 16 * 4))   # 16 of 18 filters, for a layer that needs all
sent backward linear1 joined 2 1 $((20 * 288 * 4))
sent forward linear2 joined 2 1 $((20 * 24 * 4))              # y, a sum over inputs
sent forward loss joined 2 3 $((3 * 20 * 4))                  # three numbers of a row
sent forward metrics joined 2 2 $((20 * (4 + 8)))             # that of its label, and how many come before it
! grep -q '"what":"metrics","how":"gathered"' "$work/out" || fail 'logits are gathered for places'
! grep -q '"what":"residual1' "$work/out" || fail 'groups that blocks have whole send something'
half=$(held conv2)
status 0 "$lockstep" plan "$work/net.yaml" --layout features2 --rank 1 --json
out '"layout":"features2","rank":1,"ranks":2,'
[ "$((half + $(held conv2)))" -eq "$conv" ] || fail 'not the filters of one rank'
status 0 "$lockstep" plan "$work/net.yaml" --layout data2.2x1.features2.stages2 --rank 11
out 'layout data2.2x1.features2.stages2: rank 11 of 16 has shards '
out 'stage 1 of 2: layers '
status 0 "$lockstep" plan "$work/net.yaml" --layout 2x1.features2 --rank 1
out 'layout 2x1.features2: rank 1 of 4 has shards 0-6 of 7, samples 0-19 of 20'
grep -Eq '^conv2 +tiles .* 3 +[0-9]+ +[0-9]+$' "$work/out" || fail 'margins are not of the same features'

# ---- what is refused ----

refused() # TEXT RANKS ARGUMENTS...
{
    text=$1 ranks=$2
    shift 2
    status 2 "$lockstep" run -n "$ranks" --transport local -- train "$work/net.yaml" "$@"
    err "$text"
}
refused '8 is more than the blocks of pieces, 4; the line' 8 parallel.features=8
refused 'a model on several devices is not cut into blocks: leave out parallel.devices' 2 parallel.features=2 \
    'parallel.devices=[0,0]' pieces.tiles=1
refused 'leave out parallel.mode=fast' 2 parallel.features=2 parallel.mode=fast
refused 'parallel.double_buffering is for ranks that share the batch alone: leave out parallel.features' 2 \
    parallel.features=2 parallel.double_buffering=true
refused 'leave out parallel.update=shared' 2 parallel.features=2 parallel.update=shared
refused 'parallel.features 2 has 2 parts, but there are 3 ranks: start 2' 3 parallel.features=2
cat >"$work/tiled.yaml" <<'END'
data: {type: fractal, count: 4, test_count: 0, shape: [16, 16, 1], batch: 4, shards: 4}
model: [{type: conv, filters: 8, kernel: 3, padding: 1}, {type: linear, units: 2, cut: in}]
loss: softmax_cross_entropy
optimizer: sgd
pieces: {tiles: 2x2, blocks: 2, least_block: 4}
END
for ranks in 1 2; do
    status 2 "$lockstep" run -n $ranks --transport local -- train "$work/tiled.yaml" parallel.features=$ranks
    err 'layer linear1: what comes in is cut into blocks (cut: in, or a tie) at positions that are cut into tiles as well'
done
status 0 "$lockstep" train --quiet "$work/tiled.yaml" pieces.tiles=1

# Features that cut nothing are warned of, where a run has no plan to look at.
status 0 "$lockstep" run -n 2 --transport local -- train "$work/net.yaml" parallel.features=2 pieces.blocks=2 \
    pieces.least_block=1000 train.steps=1
err 'parallel.features 2 cut nothing in this model'
