#!/bin/sh
# lockstep gradcheck --layout: random layouts leave the bytes of one rank, with nodes of every kind; planted
# faults are found, with the layer and the tensor.  With TEST_LONG in the environment, many more layouts.
. "$(dirname "$0")/../expect.sh"
planted=$(dirname "$json")/lockstep_planted
export TMPDIR="$work"

# ---- models of its own ----

status 0 "$lockstep" gradcheck --layout --json
no_err
"$json" <"$work/out" || fail 'not one JSON object a line'
[ "$(grep -c '"layout": .*"pass": true}' "$work/out")" -eq 84 ] || fail 'not 12 layouts of 7 models'
for model in images positions volumes statistics codes words tied; do
    [ "$(grep -c "\"model\": \"$model\"" "$work/out")" -eq 12 ] || fail "not 12 layouts of $model"
done
# uneven parts of each axis, and products of all
for part in data3 3x1 features3 stages5 'data2\.2x1\.features2\.stages2'; do
    grep -Eq "\"layout\": \"([^\"]*\.)?${part}[\".]" "$work/out" || fail "no layout with $part"
done
for schedule in '1f1b", "micro_batch": [0-9]*, "recompute": \(true\|false\)' gpipe 'zb1p", "lag": "full'; do
    grep -q "\"schedule\": \"$schedule" "$work/out" || fail "no layout with $schedule"
done
for kind in gather gather_sum join copy fetch to_samples send gradients; do
    grep -q "{\"kind\": \"$kind\", \"nodes\": [1-9]" "$work/out" || fail "no $kind"
done
! grep -q '"nodes": 0' "$work/out" || fail 'a kind without nodes'

# The seed decides which; twice the same.
cat >"$work/net.yaml" <<'END'
data: {type: glyphs, count: 12, test_count: 0, shape: [8, 8, 1], batch: 8, shards: 4}
model: [{type: conv, filters: 4, kernel: 3}, relu, flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: adam, rate: 0.01}
parallel: {mode: fast}
END
for seed in 1 1 2; do
    status 0 "$lockstep" gradcheck --layout "$work/net.yaml" --seed $seed --count 5
    no_err
    grep ' ok$' "$work/out" >>"$work/seeds"
done
[ "$(head -n 5 "$work/seeds")" = "$(sed -n 6,10p "$work/seeds")" ] || fail 'not the same layouts again'
[ "$(head -n 5 "$work/seeds")" != "$(tail -n 5 "$work/seeds")" ] || fail 'another seed has the same layouts'

# ---- a file ----

# Kinds that a file's layouts do not have are told, and no failure.
out 'pieces.tiles is 1: no layout cuts samples'
out 'pieces.blocks is 1: no layout cuts features'
grep -Eq '^gather +0 ' "$work/out" || fail 'no row of a kind without nodes'
out '5 layouts, 3 steps each: the bytes of one rank'
[ "$(grep -c '^net.yaml ' "$work/out")" -eq 5 ] || fail 'the name of the file'
status 0 "$lockstep" gradcheck --layout "$work/net.yaml" --count 4 --steps 1 dtype=f64 \
    'pieces={tiles: 2x2, least_tile: 1, blocks: 2, least_block: 2}'
! grep -q '^pieces' "$work/out" || fail 'pieces that are there'
out '4 layouts, 1 step each: the bytes of one rank'

# All ranks read one set: it is not opened, or generated, by each rank of each layout.
status 0 sh -c 'ulimit -d 400000 && exec "$@"' sh "$lockstep" gradcheck --layout "$work/net.yaml" --count 4 --steps 1 \
    data.count=60000 'data.shape=[28, 28, 1]'
out '4 layouts, 1 step each: the bytes of one rank'

# Its own models with something assigned: kinds that nobody meets are a failure.
status 1 "$lockstep" gradcheck --layout --count 1 --steps 1 pieces.blocks=1
err 'error: no layout had a node of the kind gather_sum'
! grep -q ' FAIL' "$work/out" || fail 'other bits'

# ---- planted faults ----

planted() # FAULT
{
    status 1 env "PLANTED=$1" "$planted" gradcheck --layout --count 3 --steps 1
    out ' FAIL'
    err ' layouts have other bits than one rank'
}
at='after step 1 layer [a-z0-9.]*, \(parameter\|state\) [a-z]*, element [0-9]* of [0-9]*: '
status 0 "$planted" gradcheck --layout --count 3 --steps 1
no_err
planted lost # micro-batches are those of stages
grep -q "^error: [a-z]*, layout [a-z0-9.]*stages[0-9]*: $at" "$work/err" || fail 'no stages, or no tensor'
! grep '^error: .*, layout' "$work/err" | grep -v stages || fail 'a layout without stages'
planted scaled
grep -q "^error: [a-z]*, layout [a-z0-9.]*: $at" "$work/err" || fail 'no tensor'
out 'data4.features2'
planted bit
grep -q "^error: .*: after step 1 layer [a-z0-9]*, the optimizer's momentum of [a-z]*, element 0 of " "$work/err" ||
    fail 'no gradient'
planted apart # statistics of the whole batch are in one model
grep -q "^error: statistics, layout data[a-z0-9.]*: $at" "$work/err" || fail 'no tensor'
! grep '^error: .*, layout' "$work/err" | grep -v statistics || fail 'another model'
# A layout that ends in an error has no bits to compare; a full disk says nothing of layouts.
status 1 env PLANTED=refused "$planted" gradcheck --layout --count 3 --steps 1
err ' layouts could not be trained'
err 'no gradients of '
! grep -q 'other bits' "$work/err" || fail 'bits of no training'
status 1 env PLANTED=full "$planted" gradcheck --layout --count 3 --steps 1
err 'the disk is full'
! grep -q 'layouts' "$work/err" || fail 'layouts of a full disk'
status 1 env PLANTED=apart "$planted" gradcheck --layout --count 1 --steps 1 --json
"$json" <"$work/out" || fail 'JSON'
grep -q '"pass": false, "failure": "after step 1 layer conv1, parameter weight, element 0 of ' "$work/out" || fail 'failure'

# ---- what is refused ----

refused() # TEXT ARGUMENTS...
{
    text=$1
    shift
    status 2 "$lockstep" gradcheck "$@"
    err "$text"
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail 'not one line'
    ! grep -q '^model' "$work/out" || fail 'a table'
}
refused 'none.yaml: cannot be opened' --layout "$work/none.yaml"
refused 'loss' --layout "$work/net.yaml" loss=banana
status 2 "$lockstep" gradcheck --layout --count 1 --steps 1 data.count=12 # the set of the model "words" is freed
err 'data.count=12: unknown key "count" of format empty'
refused 'option --steps: 1 for 5 phases' --layout experiments/mnist-gb.yaml --steps 1
refused 'option --ranks: --layout starts ranks as its layouts need them' --layout --ranks 2
refused 'option --count: it goes with --layout' --count 3
refused 'no op named "mlp.yaml": an experiment is checked with --layout, as in "lockstep gradcheck --layout FILE.yaml"' mlp.yaml
refused 'no node named "some/mlp": an experiment is checked with --layout' --ranks 2 some/mlp
refused 'no op named "train.steps=2": an experiment is checked with --layout' train.steps=2
refused 'option --steps: it goes with --layout' --steps 3 mul
refused 'allow no layout of 2 to 16 ranks' --layout "$work/net.yaml" data.shards=1 \
    'model=[{type: residual, layers: [flatten, {type: linear, units: 10}], shortcut: [flatten, {type: linear, units: 10}]}]'
[ -z "$(find "$work" -name 'lockstep-*')" ] || fail 'files are left'

[ -n "${TEST_LONG-}" ] || exit 0
for seed in 11 12 13 14 15; do
    status 0 "$lockstep" gradcheck --layout --count 1000 --seed $seed
    status 0 "$lockstep" gradcheck --layout --count 1000 --seed $seed dtype=f64
done
