#!/bin/sh
# Status 0 says that a run is done and on disk, 75 that it was stopped and its checkpoint is on disk;
# otherwise it is said what is missing.  A run that stops or fails leaves a report, and one that goes
# on mends what is missing.
if [ -w /dev/shm ]; then TMPDIR=/dev/shm; fi
export TMPDIR="${TMPDIR:-/tmp}"
. "$(dirname "$0")/../expect.sh"

export LK_THREADS=1
run=$work/run
cat >"$work/net.yaml" <<'END_YAML'
data: {type: glyphs, count: 64, test_count: 16, batch: 16, shards: 4}
model: [flatten, {type: linear, units: 8}, relu, {type: linear, units: 10}]
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: sgd, rate: 0.05, momentum: 0.9}
train: {epochs: 2, checkpoint: {every: 1 epochs, keep: 0}}
END_YAML
status 0 "$lockstep" train --quiet "$work/net.yaml" "train.output=$work/whole" train.epochs=4
state=$(cat "$work/out")

# Checkpoints alone, on a disk that is full from the first on.
for ranks in 1 2; do
    status 1 env LK_STORAGE_FAULT=write:2+:ENOSPC "$lockstep" train --quiet "$work/net.yaml" \
        "train.checkpoint.folder=$work/only" "parallel.data=$ranks"
    out 'state '
    err 'not all is on disk: the checkpoint of step 8 is missing ('
    err 'No space left on device); mend that and resume'
    status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.checkpoint.folder=$work/only"
    [ -d "$work/only/step-000000000008" ] || fail 'no checkpoint'
    rm -r "$work/only"
done

# Stopped: 75 with a checkpoint, else 1; and a report.
mkdir "$run"
: >"$run/STOP"
status 75 env LK_STORAGE_FAULT=rename:1:ENOSPC "$lockstep" train --quiet "$work/net.yaml" "train.output=$run"
err 'warning: no report.html, or not all of it: '
rm -rf "$run"
mkdir "$run"
: >"$run/STOP"
status 1 env LK_STORAGE_FAULT=mkdir:3:ENOSPC "$lockstep" train --quiet "$work/net.yaml" "train.output=$run"
err 'not all is on disk: the checkpoint of step 0 is missing ('
: >"$run/STOP"
status 75 "$lockstep" train --quiet "$work/net.yaml" "train.output=$run"
grep -q 'stopped on request after step 0' "$run/report.html" || fail 'the report does not say so'
[ ! -e "$run/weights.safetensors" ] || fail 'weights of a run that was stopped'
status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$run"
if grep -q 'stopped on request' "$run/report.html"; then fail 'the report is still that of the stop'; fi

# Failed: the report has what there is, and says why.
rm -rf "$run"
status 1 "$lockstep" train --quiet "$work/net.yaml" "train.output=$run" optimizer.rate=1e30 train.epochs=50
grep -q 'failed after step [0-9]*: .*not finite' "$run/report.html" || fail 'the report does not say why'
if grep -q '0000000000000000' "$run/report.html"; then fail 'the report has a state of no step'; fi
# The reason stays the reason when the checkpoint that was under way is saved with a warning.
rm -rf "$run"
status 1 env LK_STORAGE_FAULT=remove:1+:EIO "$lockstep" train --quiet "$work/net.yaml" "train.output=$run" \
    optimizer.rate=1e30 train.epochs=50 'train.checkpoint.every=1 steps' train.checkpoint.keep=1
err 'not finite'

# What is missing is written by the run that goes on: the best weights from their checkpoint, or from
# where it begins; weights and report of one that was complete.
mended()
{
    rm -rf "$run"
    status 0 "$lockstep" train --quiet "$work/net.yaml" "train.output=$run"
    rm "$run/best.safetensors" "$run/weights.safetensors" "$run/report.html"
    status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$run" "$@"
    for file in best.safetensors weights.safetensors report.html; do
        [ -s "$run/$file" ] || fail "$file is not written again"
    done
}
mended
mended train.epochs=4
out "$state"
cmp "$run/best.safetensors" "$work/whole/best.safetensors" || fail 'other weights are the best'
best=$(head -c 200 "$run/best.safetensors" | tr -d '\0' | sed -n 's/.*"step":"\([0-9]*\)".*/\1/p')
[ -n "$best" ] || fail 'the best weights do not say of which step they are'
rm "$run/best.safetensors"
status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$run" train.epochs=4
cmp "$run/best.safetensors" "$work/whole/best.safetensors" || fail 'the best were not written again'
# Those that cannot be had any more are not passed over.
if [ "$best" -ne 16 ]; then
    rm -r "$run/best.safetensors" "$run/checkpoints/$(printf 'step-%012d' "$best")"
    status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$run" train.epochs=4
    err "warning: best.safetensors is not that of step $best, the best so far, and the checkpoint "
fi

# Weights of an earlier end beside newer checkpoints: a run that cannot write new ones, or is stopped, says so.
for features in 1 2; do
    rm -rf "$run"
    set -- "$work/net.yaml" "train.output=$run" 'pieces={blocks: 2, least_block: 4}' parallel.features=$features
    status 0 "$lockstep" train --quiet "$@"
    cp "$run/weights.safetensors" "$work/before"
    mkdir "$run/weights.safetensors.part" # which cannot be written to
    status 1 "$lockstep" train --quiet --resume "$@" train.epochs=4
    grep -q 'warning: no weights.safetensors, or not all of it: .*; the one that is there is older$' "$work/err" ||
        fail 'the warning does not say that the weights are older'
    err 'not all is on disk: weights.safetensors (an older one is there) is missing ('
    rmdir "$run/weights.safetensors.part"
    cmp -s "$run/weights.safetensors" "$work/before" || fail 'the older weights are gone'
    status 0 "$lockstep" train --quiet --resume "$@" train.epochs=4
    ! grep -q 'older' "$work/err" || fail 'weights that were written are told to be older'
    cp "$run/weights.safetensors" "$work/before"
    "$lockstep" train --quiet --resume "$@" train.epochs=100000 train.checkpoint.keep=2 >"$work/out" 2>"$work/err" &
    while kill -0 $! 2>/dev/null && ! grep -q '"step": 40,' "$run/metrics.jsonl"; do sleep 0.05; done
    : >"$run/STOP"
    wait $! && fail 'it was not stopped'
    err 'warning: weights.safetensors is that of an earlier end of the run: one that is stopped writes none'
    cmp -s "$run/weights.safetensors" "$work/before" || fail 'a run that was stopped writes weights'
done

# Checkpoints that do not say yet of which step the best are, nor what is missing, are gone on with.
rm -rf "$run"
status 0 "$lockstep" train --quiet "$work/net.yaml" "train.output=$run"
for manifest in "$run"/checkpoints/step-*/MANIFEST; do
    sed -i '/"run.best_step"/d; /"run.missing"/d' "$manifest"
    "$(dirname "$json")/checkpoint_make" --check "$manifest" || fail 'no check'
done
status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$run" train.epochs=4 parallel.data=2
err 'resumed from the checkpoint of step 8'
out "$state"

# Who writes is no part of the run: saved by the lowest ranks of replica sets, gone on with by all.
rm -rf "$run"
status 0 "$lockstep" train --quiet "$work/net.yaml" "train.output=$run" parallel.data=3 \
    'train.checkpoint.replica_sets="0,1"'
status 2 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$run" parallel.data=3 \
    'train.checkpoint.replica_sets="0-1;1-2"'
err 'replica_sets "0-1;1-2": rank 1 is named twice'
status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$run" train.epochs=4 parallel.data=2
err 'resumed from the checkpoint of step 8'
out "$state"
