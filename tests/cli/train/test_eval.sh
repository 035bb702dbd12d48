#!/bin/sh
# lockstep eval: on ranks, with weights of several formats, and of models that have none.
. "$(dirname "$0")/../expect.sh"

cat >"$work/few.yaml" <<'END'
data: {type: glyphs, count: 300, test_count: 170, noise: 0, batch: 32, shards: 4}
model: [flatten, {type: linear, units: 16}, batch_norm, relu, {type: linear, units: 10}]
loss: softmax_cross_entropy
metrics: [accuracy, {type: top_k, k: 3}, auc, confusion]
optimizer: {type: adam, rate: 0.01}
train: {epochs: 2}
END
status 0 "$lockstep" train --quiet "$work/few.yaml" "train.output=$work/run"

# On as many ranks as the experiment says, or are started: all numbers are those of one.
status 0 "$lockstep" eval "$work/few.yaml" "train.output=$work/run"
cp "$work/out" "$work/alone"
for ranks in 1 2 3 4; do
    status 0 "$lockstep" eval "$work/few.yaml" "train.output=$work/run" parallel.data=$ranks
    cmp -s "$work/alone" "$work/out" || fail "other numbers on $ranks ranks"
done
status 0 "$lockstep" run -n 3 --transport local -- eval "$work/few.yaml" "train.output=$work/run" \
    parallel.data=3
cmp -s "$work/alone" "$work/out" || fail 'other numbers on started ranks'
status 2 "$lockstep" run -n 2 --transport local -- eval "$work/few.yaml" "train.output=$work/run" \
    parallel.data=3
err 'parallel.data is 3, but there are 2 ranks: start 3 (lockstep run -n 3 -- ...)'
status 2 "$lockstep" eval "$work/few.yaml" "train.output=$work/run" parallel.data=9
err '9 ranks for a batch of 4 shards'
status 1 "$lockstep" eval "$work/few.yaml" --weights "$work/none.safetensors" parallel.data=2
[ "$(wc -l <"$work/err")" = 1 ] || fail 'more than a line'
echo '1,2,3,4,5' >"$work/w.csv"
status 2 "$lockstep" eval "$work/few.yaml" --weights "$work/w.csv" parallel.data=2
err 'w.csv: this is neither a .safetensors, .npz or .npy file nor a checkpoint, which are what is read'
[ "$(wc -l <"$work/err")" = 1 ] || fail 'more than a line'

# Of a folder of checkpoints the newest that verifies is taken; those that do not are named, once.
status 0 "$lockstep" train --quiet "$work/few.yaml" "train.output=$work/kept" \
    'train.checkpoint={every: 1 epoch, keep: 3}'
newest=$(find "$work/kept/checkpoints" -name 'step-*' | sort | tail -n 1)
status 0 "$lockstep" eval "$work/few.yaml" --weights "$work/kept/checkpoints"
cmp -s "$work/alone" "$work/out" || fail 'other numbers from a checkpoint'
no_err
truncate -s 1000 "$newest/part-00000.safetensors"
status 0 "$lockstep" eval "$work/few.yaml" --weights "$work/kept/checkpoints" parallel.data=2
err "warning: left out: $newest/part-00000.safetensors: offset 1000: ends here"
err "weights of $work/kept/checkpoints/step-"
[ "$(wc -l <"$work/err")" = 2 ] || fail 'not two lines'
! cmp -s "$work/alone" "$work/out" || fail 'the numbers of a checkpoint that does not verify'

# Weights of NumPy's formats, as exported; those of another model are refused by name.
status 0 "$lockstep" ckpt export "$work/run/weights.safetensors" "$work/weights.npz"
status 0 "$lockstep" eval "$work/few.yaml" --weights "$work/weights.npz"
cmp -s "$work/alone" "$work/out" || fail 'other numbers from .npz'
status 2 "$lockstep" eval "$work/few.yaml" --weights "$work/weights.npz" 'model.1.units=15'
err 'weights.npz: "linear1.weight" is f32[784,16], the model'
status 2 "$lockstep" eval "$work/few.yaml" --weights "$work/weights.npz" \
    'model=[flatten, {type: linear, units: 10, name: linear9}]'
err 'weights.npz has no tensor "linear9.weight"; it has "linear'
status 2 "$lockstep" eval "$work/few.yaml" --weights "$work/weights.npz" \
    'model=[flatten, {type: linear, units: 16}, {type: linear, units: 10}]'
err 'weights.npz has a tensor "batch_norm1.'
err ', which the model does not know'

# A model without parameters has nothing to train, which is said at once; it can be evaluated.
awk 'BEGIN { for (i = 0; i < 40; i++) print i % 3 "," i % 5 "," i % 7 "," i % 3 }' >"$work/bare.csv"
cat >"$work/bare.yaml" <<END
data: {type: csv, path: $work/bare.csv, test: $work/bare.csv, batch: 8, shards: 4}
model: [tanh]
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: adagrad
train: {epochs: 1}
END
status 0 "$lockstep" info "$work/bare.yaml"
status 2 "$lockstep" train "$work/bare.yaml" "train.output=$work/bare"
[ "$(cat "$work/err")" = "error: $work/bare.yaml: the model has no \
parameters, so there is nothing to train; it can be evaluated" ] || fail 'another message'
[ ! -e "$work/bare" ] || fail 'a folder of nothing'
status 2 "$lockstep" verify "$work/bare.yaml" --ranks 1,2 --steps 2
err 'the model has no parameters, so there is nothing to train'
status 0 "$lockstep" eval "$work/bare.yaml"
grep -Eq '^samples +40$' "$work/out" || fail 'no score'
cp "$work/out" "$work/alone"
status 0 "$lockstep" eval "$work/bare.yaml" parallel.data=3
cmp -s "$work/alone" "$work/out" || fail 'other numbers on ranks'
