#!/bin/sh
# lockstep plan: what a rank does, as text and as JSON, and layouts that are refused.
. "$(dirname "$0")/../expect.sh"
file=experiments/demo.yaml
glyphs='data={type: glyphs, shape: [28, 28, 1], count: 60000, test_count: 10000, batch: 128, shards: 8}'

status 0 "$lockstep" plan $file "$glyphs"
out 'layout 1: rank 0 of 1 has shards 0-7 of 8, samples 0-127 of 128'
out 'nothing is sent'
out 'a step: 0 calls, 0 bytes'
no_err
cp "$work/out" "$work/one"
status 0 "$lockstep" plan $file
cmp -s "$work/out" "$work/one" || fail 'the set that is generated for the preset is planned otherwise'
[ "$(cat "$work/err")" = 'warning: mnist: no path is given and the set is not installed: generated glyphs take its place' ] ||
    fail 'not one line about the set'

status 0 "$lockstep" plan $file --ranks 3 --rank 2
out 'layout data3: rank 2 of 3 has shards 5-7 of 8, samples 80-127 of 128'
grep -Eq '^conv2 +window +samples +80-127 +\[0-7,0-7,0-31\] +51328 ' "$work/out" || fail 'conv2'
grep -Eq '^before the update +votes and loss +joined +3 +1 +64$' "$work/out" || fail 'votes'
grep -Eq '^before the update +gradients +joined +3 +1 +73536$' "$work/out" || fail 'gradients'
out 'a step: 2 calls, 73600 bytes'
cp "$work/out" "$work/three"
status 0 "$lockstep" plan $file --layout data3 --rank 2
cmp -s "$work/out" "$work/three" || fail 'a layout is planned otherwise than its ranks'
status 0 "$lockstep" plan $file parallel.data=3 --rank 2
cmp -s "$work/out" "$work/three" || fail "the experiment's layout is planned otherwise"

# a set below a batch: its samples are shared as in a step
small='data={type: glyphs, shape: [28, 28, 1], count: 40, test_count: 0, batch: 128, shards: 8}'
status 0 "$lockstep" plan $file "$small" --ranks 2 --rank 1
out 'layout data2: rank 1 of 2 has shards 1-2 of 3, samples 16-39 of 40'
status 0 "$lockstep" plan $file "$small" --layout data2.stages2 --rank 1
out 'layout data2.stages2: rank 1 of 4 has shards 2 of 3, samples 32-39 of 40'
out '1 micro-batch of up to 16 samples'
status 0 "$lockstep" plan $file "$small" --ranks 8 --rank 0
out 'layout data8: rank 0 of 8 has shards none of 3, samples none of 40'

status 0 "$lockstep" plan $file --ranks 2 --json
"$json" <"$work/out" || fail 'no JSON'
out '"layout":"data2","rank":0,"ranks":2,"shards":8,"batch":128,"shards_held":[0,4],"samples":[0,64]'
out '{"layer":"relu1","type":"relu","reach":"element","domain":"samples","samples":[0,64],"box":[[0,24],[0,24],[0,16]],'
out '{"when":"before the update","what":"gradients","how":"joined","ranks":2,"calls":1,"bytes":73536}'

# saving copies what it writes, where there is a folder for it, and has two bands on their way
out '"saving":0,"sum":'
status 0 "$lockstep" train --quiet $file train.steps=1 "train.output=$work/run"
bytes=$(($(cat "$work"/run/checkpoints/step-*/part-*.safetensors | wc -c) + 2 * 1048576))
status 0 "$lockstep" plan $file --json "train.output=$work/none"
out ",\"saving\":$bytes,\"sum\":"
status 0 "$lockstep" plan $file "train.checkpoint.folder=$work/none"
out ", saving $bytes"
[ ! -e "$work/none" ] || fail 'planning has made a folder'

# ranks that meet in a pass
status 0 "$lockstep" plan $file --ranks 2 'model.1={type: batch_norm, statistics: batch}'
grep -Eq '^in forward +batch_norm1 +joined +2 +2 +128$' "$work/out" || fail 'sums in forward'
grep -Eq '^in backward +batch_norm1 +joined +2 +1 +128$' "$work/out" || fail 'sums in backward'

# tiles: all before the first layer that needs whole samples runs by them
lenet=experiments/mnist-lenet.yaml
images='data={type: glyphs, count: 32, test_count: 0, batch: 32, shape: [28, 28, 1], shards: 8, one_hot: true}'
status 0 "$lockstep" plan $lenet "$images" pieces.tiles=4x4 pieces.least_tile=1 --layout 2x2 --rank 3
out 'layout 2x2: rank 3 of 4 has shards 0-7 of 8, samples 0-31 of 32'
out 'tiles 4x4 on a grid 2x2, of them 2-3 x 2-3 here; where layers run by samples, samples 24-31'
grep -Eq '^conv1 +tiles +0-31 +\[12-23,12-23,0-19\] +2\+0,2\+0 +0 +- ' "$work/out" || fail 'conv1'
grep -Eq '^conv2 +tiles +0-31 +\[4-7,4-7,0-49\] +2\+0,2\+0 +199680 +0,1,2 ' "$work/out" || fail 'conv2'
grep -Eq '^maxpool2 +tiles +0-31 +\[2-3,2-3,0-49\] +- +0 +- ' "$work/out" || fail 'maxpool2'
grep -Eq '^flatten1 +samples +24-31 +\[0-799\] +- +0 +- ' "$work/out" || fail 'flatten1'
grep -Eq '^in forward +conv2 +fetched +3 +1 +71680$' "$work/out" || fail 'a fetch'
grep -Eq '^in backward +flatten1 +changed +4 +1 +19200$' "$work/out" || fail 'a change'
grep -Eq '^before the update +gradients of tiles +joined +4 +2 +306840$' "$work/out" || fail 'leaves'
! grep -q '^note:' "$work/out" || fail 'a note'

status 0 "$lockstep" plan $lenet "$images" pieces.tiles=4x4 pieces.least_tile=1 --layout 2x2 --json
"$json" <"$work/out" || fail 'no JSON of tiles'
out '"rank":0,"ranks":4,'
out '"grid":[2,2],"tiles":[4,4],"tiles_held":[[0,2],[0,2]],"samples_owned":[0,8],'
out '"tile":[[0,4],[0,4],[0,50]],"margin":[[0,2],[0,2]],"fetched":199680,"fetches":[{"when":"in forward","what":"x","rank":1,"box":[[0,6],[6,2]],"bytes":30720},'
out '{"when":"in forward","what":"flatten1","how":"changed","ranks":4,"calls":1,"bytes":19200}'
out '"notes":[]}'

for grid in 2x2 4x4; do
    status 0 "$lockstep" plan $lenet "$images" pieces.tiles=4x4 pieces.least_tile=1 --layout $grid --json
    for layer in conv1 maxpool1 conv2 maxpool2; do
        grep -Eq "\"layer\":\"$layer\",[^{]*\"domain\":\"tiles\"" "$work/out" ||
            fail "$layer does not run by tiles on $grid"
    done
    [ "$(grep -o '"how":"changed"' "$work/out" | wc -l)" -eq 2 ] || fail "changes on $grid"
done
status 0 "$lockstep" plan $lenet "$images" pieces.tiles=4x4 pieces.least_tile=1 --layout 4x4 --rank 9
out 'note: idle share: rank 9 has no samples where layers run by samples'
status 0 "$lockstep" plan $lenet "$images" pieces.tiles=4x4 --layout data2.2x2 --rank 6
out 'layout data2.2x2: rank 6 of 8 has shards 4-7 of 8, samples 16-31 of 32'
out 'note: conv2: tiles of 4 positions are fewer than pieces.least_tile 64, so it runs by samples'

status 0 "$lockstep" plan $lenet "$images" pieces.tiles=2x2 pieces.least_tile=1 --layout data2.2x1.stages2 --rank 6
out 'layout data2.2x1.stages2: rank 6 of 8 has shards 4-7 of 8, samples 16-31 of 32'

# Each rank of a product of all cuts: its number, and from it stage, shards, tiles and blocks, features nearest.
set -- "$lockstep" plan $lenet "$images" 'pieces={tiles: 2x2, blocks: 4, least_tile: 1, least_block: 4}' \
    --layout data2.2x1.features2.stages2
rank=0
for stage in 0 1; do
    for shards in 0 4; do
        for row in 0 1; do
            for block in 0 2; do
                status 0 "$@" --rank $rank
                out "layout data2.2x1.features2.stages2: rank $rank of 16 has shards $shards-$((shards + 3)) of 8"
                out "stage $stage of 2: "
                out "tiles 2x2 on a grid 2x1, of them $row x 0-1 here"
                out "blocks 4 on 2 ranks along features, of them $block-$((block + 1)) here"
                status 0 "$@" --rank $rank --json
                out "\"rank\":$rank,\"ranks\":16,\"shards\":8,\"batch\":32,\"shards_held\":[$shards,4]"
                out "\"stage\":$stage,\"stages\":2,"
                out "\"tiles_held\":[[$row,1],[0,2]]"
                out "\"blocks\":4,\"blocks_held\":[$block,2],"
                rank=$((rank + 1))
            done
        done
    done
done
status 2 "$@" --rank 16
err 'there is no rank 16 among 16: they are numbered from 0 to 15'

# phases: in each of them every layer before the first that needs whole samples runs by tiles
# by_tiles PRESET SHAPE LAYOUT PHASE
by_tiles()
{
    status 0 "$lockstep" plan "experiments/$1.yaml" --layout "$3" --phase "$4" --json \
        "data={type: glyphs, count: 8, test_count: 0, batch: 8, shape: [$2], shards: 4, one_hot: true}"
    "$json" <"$work/out" || fail 'no JSON of a phase'
    tr '{' '\n' <"$work/out" | sed -En 's/^"layer":"([^"]*)".*"domain":"([^"]*)".*/\1 \2/p' >"$work/layers"
    awk '$1 == "flatten1" { exit } $2 != "tiles" { print; bad = 1 } { n++ } END { exit bad || n != 18 }' "$work/layers" ||
        fail "$1 on $3 in phase $4: layers that do not run by tiles"
}
for phase in features0 features1 features2 output all; do
    for grid in 2x2 4x4; do
        by_tiles mnist-gb '28, 28, 1' $grid $phase
        by_tiles cifar10-gb '32, 32, 3' $grid $phase
    done
done
gb=experiments/mnist-gb.yaml
images='data={type: glyphs, count: 8, test_count: 0, batch: 8, shape: [28, 28, 1], shards: 4, one_hot: true}'
status 0 "$lockstep" plan $gb "$images" --layout 2x2 --phase features1
out 'phase features1'
grep -Eq '^features1.decode.local_conv_transpose1 +tiles .* 1,2,3 ' "$work/out" || fail 'no decoding in its phase'
grep -Eq '^features0.decode.local_conv_transpose1 +tiles .* 0 +- +0 +0$' "$work/out" || fail 'a code that does not count is decoded'
grep -Eq '^lcn2 +tiles .* 0 +- +0 +0$' "$work/out" || fail 'a layer behind the last that counts has values'
status 0 "$lockstep" plan $gb "$images" --layout 2x2
out 'phase all'
cp "$work/out" "$work/last"
status 0 "$lockstep" plan $gb "$images" --layout 2x2 --phase all
cmp -s "$work/out" "$work/last" || fail 'not the last phase by default'
status 2 "$lockstep" plan $gb "$images" --phase feature1
err 'option --phase: there is no phase "feature1"; did you mean "features1"?'
status 2 "$lockstep" plan $file --phase all
err 'option --phase: the experiment has no phases'

# features that cut nothing, as all layers are too narrow, or none of them can be cut
narrow='model=[flatten, {type: linear, units: 20}, relu, {type: linear, units: 10}]'
set -- "$lockstep" plan $file "$small" "$narrow" pieces.blocks=2 --layout features2
status 0 "$@"
out 'note: features cut nothing: no layer has two blocks of at least pieces.least_block 32 features, the widest has 20, so the 2 ranks along them all do the same; leave out parallel.features, or give pieces.least_block=10, which'
status 0 "$@" --json
"$json" <"$work/out" || fail 'no JSON of a note about features'
out '"notes":["features cut nothing: '
status 0 "$@" pieces.least_block=10
! grep -q '^note:' "$work/out" || fail 'a note about features that cut something'
status 0 "$@" 'model=[{type: local_conv, filters: 64, kernel: 3}, flatten, {type: linear, units: 10}]'
out 'note: features cut nothing: no layer of this model that is wide enough can be cut, so'

# what an optimizer sends besides, as much as it takes in a step
status 0 "$lockstep" plan $file "$small" --layout stages2 'optimizer={type: lbfgs, history: 4}'
out 'note: the optimizer'"'"'s sums over all parameters are not counted, whose number differs from step to step: each is 1 call of 48 bytes, and a step has up to 15, so 720 bytes'
status 0 "$lockstep" plan $file "$small" --layout data2 'optimizer={type: lbfgs, history: 4}'
! grep -q '^note:' "$work/out" || fail 'a note about sums that each rank takes for itself'

# refused
status 2 "$lockstep" plan $file --layout 2x2
err 'spatial 2x2 is more than the tiles of pieces, 1x1; the line `pieces: {tiles: 2x2}` allows it'
status 2 "$lockstep" plan $file --layout data2.features2
err 'parallel.features 2 is more than pieces.blocks, 1: the line `pieces: {blocks: 2}` allows it'
status 2 "$lockstep" plan $file --layout data2.banana
err 'layout "data2.banana": "banana" is none of 1, dataN, AxB'
status 2 "$lockstep" plan $file --layout data2 --ranks 3
err 'data 2 x spatial 1 x features 1 x stages 1 need 2 ranks, but there are 3'
status 2 "$lockstep" plan $file --ranks 9
err '9 ranks for a batch of 8 shards'
status 2 "$lockstep" plan $file --ranks 2 --rank 2
err "$file: there is no rank 2 among 2: they are numbered from 0 to 1"

# What a training refuses is not planned either, in the same words.
# both LAYOUT KEY=VALUE ASSIGNMENTS: the layout as a word, and as train has it
both()
{
    layout=$1 && assigned=$2 && shift 2
    status 2 "$lockstep" plan $file "$batch" --layout "$layout" "$@"
    cp "$work/err" "$work/planned"
    status 2 "$lockstep" train --quiet $file "$batch" "$assigned" train.steps=1 "$@"
    grep -qxF -- "$(cat "$work/planned")" "$work/err" || fail "planned: $(cat "$work/planned")"
}
batch='data={type: glyphs, shape: [28, 28, 1], count: 128, test_count: 0, batch: 128, shards: 8}'
for more in parallel.mode=fast parallel.update=shared parallel.double_buffering=true 'parallel.devices=[0, 0]'; do
    both stages2 parallel.stages=2 "$more"
    both features2 parallel.features=2 pieces.blocks=2 "$more"
done
both 2x1 parallel.spatial=2x1 pieces.tiles=2x1 parallel.double_buffering=true
both 2x1 parallel.spatial=2x1 pieces.tiles=2x1 parallel.mode=fast parallel.wire=bf16
both data2 parallel.data=2 'parallel.devices=[0, 0]' data.shards=2

# A line that says where in the file something is wrong names the file once.
cat >"$work/tie.yaml" <<'END'
data: {type: glyphs, count: 100, batch: 10}
model: [{type: linear, units: 10, tie: b.weight}]
loss: softmax_cross_entropy
optimizer: sgd
END
status 2 "$lockstep" plan "$work/tie.yaml"
[ "$(cat "$work/err")" = "error: $work/tie.yaml:2:40: layer linear1 ties its weight to \"b.weight\", which no layer before it has" ] ||
    fail 'not one line that begins with the place'

# a block that makes images smaller: its box is that of what comes out; weights of positions are planned
status 0 "$lockstep" plan experiments/cifar10-resnet.yaml --layout 2x1
grep -Eq '^residual4 +tiles +0-127 +\[0-7,0-15,0-31\] ' "$work/out" || fail 'the box of a smaller block'
cat >"$work/own.yaml" <<'END'
data: {type: shapes, count: 24, test_count: 8, shape: [12, 10, 1], batch: 8, shards: 4}
model: [{type: local_conv, filters: 2, kernel: 3}, relu, flatten, {type: linear, units: 2}]
pieces: {tiles: 2x2, least_tile: 1}
loss: softmax_cross_entropy
optimizer: sgd
END
status 0 "$lockstep" plan "$work/own.yaml" --layout 2x2
grep -Eq '^local_conv1 +tiles ' "$work/out" || fail 'a local convolution by tiles'
! grep -Eq 'weight|filters' "$work/out" || fail 'filters of others for a gradient that nobody asks for'
behind='model=[{type: conv, filters: 2, kernel: 3}, {type: local_conv, filters: 2, kernel: 3}, flatten, {type: linear, units: 2}]'
status 0 "$lockstep" plan "$work/own.yaml" "$behind" --layout 2x2 --rank 3
grep -Eq '^local_conv1 +tiles +0-7 +\[4-7,3-5,0-1\] +1\+0,1\+0 +2304 +0,1,2 ' "$work/out" || fail 'what a local convolution fetches'
grep -Eq '^in backward +local_conv1\.weight +fetched +3 +1 +1152$' "$work/out" || fail 'filters that are fetched'
out ', filters of others 2880'
status 0 "$lockstep" plan "$work/own.yaml" "$behind" --layout 2x2 --rank 3 --json
"$json" <"$work/out" || fail 'no JSON of filters'
out '{"when":"in backward","what":"filters","rank":0,"box":[[3,1],[2,1]],"bytes":144},'
out '"filters":2880,"parameters":1728,'
out ',"filters":2880,"saving":0,"sum":'

# sums over tiles, some of which this process does not have, are the same in both runs of a segment
cat >"$work/norm.yaml" <<'END'
data: {type: fractal, count: 12, test_count: 3, shape: [8, 6, 14, 1], batch: 6, shards: 2}
model: [batch_norm, {type: linear, units: 2}]
pieces: {tiles: 7x1x1, least_tile: 0}
loss: softmax_cross_entropy
optimizer: sgd
train: {recompute: 3}
END
for rank in 0 1 2; do
    status 0 "$lockstep" plan "$work/norm.yaml" --layout 3x1x1 --rank $rank
done

# A small set of files is kept in memory, which is planned; not under a limit, and not if it is not wanted.
samples_of() { sed -n 's/.*"memory":{.*"samples":\([0-9]*\),"exchange".*/\1/p' "$work/out"; }
status 0 "$lockstep" data convert --type glyphs count=200 shape=12,10,3 "$work/set.npz"
cat >"$work/kept.yaml" <<END
data: {type: npz, path: "$work/set.npz", batch: 8, shards: 4, prefetch: 0}
model: [flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: sgd
train: {epochs: 1, evaluate: never}
END
status 0 "$lockstep" plan "$work/kept.yaml" --json data.keep=0
none=$(samples_of)
status 0 sh -c 'ulimit -d 4000000 && exec "$@"' sh "$lockstep" plan "$work/kept.yaml" --json
[ "$(samples_of)" = "$none" ] || fail 'a set is kept under a limit of memory'
if [ "$(sh -c 'ulimit -d; ulimit -v' | sort -u)" = unlimited ]; then
    status 0 "$lockstep" plan "$work/kept.yaml" --json
    [ "$(samples_of)" -eq $((none + 200 * (12 * 10 * 3 + 8))) ] || fail 'a kept set is not planned'
    fits=$(sed -n 's/.*"memory":{.*"sum":\([0-9]*\)}.*/\1/p' "$work/out")
    status 0 "$lockstep" plan "$work/kept.yaml" --memory $((fits - 1))
    grep -q '^note: data.keep=0 fits: ' "$work/out" || fail 'not told how it fits'
fi
status 0 "$lockstep" train --quiet "$work/kept.yaml"
cp "$work/out" "$work/state"
status 0 "$lockstep" train --quiet "$work/kept.yaml" data.keep=0
cmp -s "$work/out" "$work/state" || fail 'another state of a set that is not kept'
status 0 sh -c 'ulimit -v 8000000 && exec "$@"' sh "$lockstep" train --quiet "$work/kept.yaml"
cmp -s "$work/out" "$work/state" || fail 'another state under a limit of memory'

# A plan takes no memory for what it plans, and says the same: passes are rehearsed without computing.
cat >"$work/large.yaml" <<'END'
data: {type: fractal, count: 2, test_count: 0, shape: [256, 256, 256, 1], batch: 1, shards: 1}
model:
  - {type: conv, filters: 8, kernel: 3, padding: 1}
  - relu
  - type: residual
    join: concat
    layers:
      - {type: maxpool, size: 2}
      - {type: conv, filters: 16, kernel: 3, padding: 1}
      - batch_norm
      - relu
      - {type: conv_transpose, filters: 8, kernel: 2, stride: 2}
  - {type: conv, filters: 2, kernel: 1}
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: sgd
pieces: {tiles: 2x2x2}
END
sum_of() { sed -n 's/.*"memory":{.*"sum":\([0-9]*\)}.*/\1/p' "$work/out"; }
limited() { status 0 sh -c 'ulimit -d 60000 && exec "$@"' sh "$lockstep" plan "$work/large.yaml" --memory 100T --json "$@"; }
limited
one=$(sum_of)
limited --layout 2x2x2
[ "$one" -gt 4000000000 ] || fail "of one rank $one"
[ "$(sum_of)" -lt $((one / 5)) ] || fail "of eight ranks $(sum_of)"

# what fits, where a rank may take less: each in turn is planned so
status 0 "$lockstep" plan "$work/large.yaml" --memory 100T
! grep -q '^note:' "$work/out" || fail 'a note about memory that is there'
fits()
{
    status 0 "$lockstep" plan "$work/large.yaml" --json --memory 100T "$@"
    "$json" <"$work/out" || fail 'no JSON'
    [ "$(sum_of)" -eq "$bytes" ] || fail "$* takes $(sum_of), not $bytes"
}
status 0 "$lockstep" plan "$work/large.yaml" data.batch=2 --memory 8G
out 'more than the 8589934592 of --memory'
[ "$(grep -c '^note: .* fits: [0-9]* bytes' "$work/out")" -eq 2 ] || fail 'not a grid and a batch'
cp "$work/out" "$work/notes"
bytes=$(sed -n 's/^note: parallel.spatial=2x1x1 fits: \([0-9]*\) bytes a rank$/\1/p' "$work/notes")
fits data.batch=2 --layout 2x1x1 --rank 1
bytes=$(sed -n 's/^note: data.batch=1 fits: \([0-9]*\) bytes$/\1/p' "$work/notes")
fits data.batch=1
status 0 sh -c 'ulimit -d 200000 && exec "$@"' sh "$lockstep" plan "$work/large.yaml" --json
out 'more than the 204800000 of the limit of data memory (ulimit -d)","pieces.tiles=4x4x2 parallel.spatial=4x4x2 fits: '
out ' bytes a rank; other tiles are another run"]}'
status 0 "$lockstep" plan experiments/cifar10-resnet.yaml --memory 200M \
    'data={type: glyphs, count: 128, test_count: 0, batch: 128, shape: [32, 32, 3], shards: 1}'
grep -Eq '^note: train.recompute=[0-9]+ fits: [0-9]+ bytes$' "$work/out" || fail 'no recompute'
status 0 "$lockstep" plan "$work/large.yaml" --memory 1
out 'note: no finer grid alone fits, no smaller batch and no train.recompute'
for size in 0 -1 12Q 1G1 99999999999T ' 5' ''; do
    status 2 "$lockstep" plan "$work/large.yaml" --memory "$size"
    err "lockstep plan: option --memory: \"$size\" is no size: a number of bytes, or of K, M, G or T, as 512M"
done

# A rank that has all tiles, and a part of something else.
cat >"$work/means.yaml" <<'END'
data: {type: glyphs, count: 16, shape: [8, 8, 1], batch: 8, shards: 4}
model: [global_avgpool, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: sgd
pieces: {tiles: 2x1, least_tile: 1, blocks: 2, least_block: 1}
END
for layout in 1 features2 stages2 data2.features2 2x1.features2; do
    status 0 "$lockstep" plan "$work/means.yaml" --layout $layout
done
