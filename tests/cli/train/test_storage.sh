#!/bin/sh
# lockstep train on a disk that fails: every call of a save in turn, folders that vanish, files that
# are damaged.  Training goes on with a warning, or stops if it is to; what was there stays; and the
# bits are those of a disk that never failed.  Every call with TEST_LONG in the environment; otherwise of
# those that are made often every third, and some of what is alike.
if [ -w /dev/shm ]; then TMPDIR=/dev/shm; fi # where syncing takes no time
export TMPDIR="${TMPDIR:-/tmp}"
. "$(dirname "$0")/../expect.sh"

export LK_THREADS=1
if [ -n "${TEST_LONG-}" ]; then many='1 2'; else many=2; fi # ranks
run=$work/run saved=$work/run/checkpoints
cat >"$work/net.yaml" <<'END'
data: {type: glyphs, count: 64, test_count: 16, batch: 16, shards: 4}
model: [flatten, {type: linear, units: 8}, batch_norm, relu, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.05, momentum: 0.9}
train: {epochs: 2, checkpoint: {every: 3 steps, keep: 2}}
END
status 0 "$lockstep" train --quiet "$work/net.yaml" "train.output=$work/whole" train.checkpoint.keep=0
whole=$(cat "$work/out")
rm -r "$work/whole/checkpoints/step-000000000008"
echo step-000000000006 >"$work/whole/checkpoints/LATEST"

# train STATUS WORD...: train into $run, with the fault $fault.
train()
{
    want=$1
    shift
    LK_STORAGE_FAULT=$fault "$lockstep" train --quiet "$work/net.yaml" "train.output=$run" "$@" \
        >"$work/out" 2>"$work/err" </dev/null
    got=$?
    [ "$want" = any ] || [ $got -eq "$want" ] || fail "$fault $*: status $got instead of $want"
    [ $got -ne 0 ] || [ "$(cat "$work/out")" = "$whole" ] || fail "$fault $*: another state than $whole"
}

# All checkpoints that have their name verify, and LATEST is one of them.
checkpoints_check()
{
    for folder in "$saved"/step-????????????; do
        [ ! -d "$folder" ] || "$lockstep" ckpt inspect "$folder" >"$work/out" 2>"$work/err" ||
            fail "$fault: ${folder##*/} does not verify"
    done
    [ ! -e "$saved/LATEST" ] || [ -d "$saved/$(cat "$saved/LATEST")" ] ||
        fail "$fault: LATEST is $(cat "$saved/LATEST"), there is: $(ls "$saved")"
}

# A run that ends with status 0 is on disk, whatever was said.
files_check()
{
    for file in weights best; do
        cmp -s "$run/$file.safetensors" "$work/whole/$file.safetensors" || fail "$fault: another $file.safetensors"
    done
    grep -q '</html>' "$run/report.html" || fail "$fault: no report"
    [ "$(grep -c '"epoch":' "$run/metrics.jsonl")" -eq 2 ] || fail "$fault: not all metrics"
    [ "$(wc -c <"$run/events.out.tfevents.lockstep")" -eq "$(wc -c <"$work/whole/events.out.tfevents.lockstep")" ] ||
        fail "$fault: not all events"
    [ -d "$saved/step-000000000008" ] || fail "$fault: no last checkpoint"
    [ -z "$(find "$run" -name '*.part')" ] || fail "$fault: a part is left"
}

# How a failure must be told: with file and reason.
reason_of()
{
    case $1 in write) error=ENOSPC reason='No space left on device' ;; *) error=EIO reason='Input/output error' ;; esac
}

# stride_of CALL: the next that is to fail, behind one that did.
stride_of()
{
    stride=1
    [ -n "${TEST_LONG-}" ] || case $1 in open | write | sync | close | read) stride=3 ;; esac
}

# sweep CALL WORD...: the n-th call fails, for one n after the other; sets $fired to how many did.
sweep()
{
    call=$1
    shift
    reason_of "$call"
    stride_of "$call"
    n=$((1 - stride + total % stride)) silent=0 fired=0
    while [ $silent -lt 3 ]; do
        n=$((n + stride))
        fault=$call:$n:$error
        rm -rf "$run"
        train any "$@"
        if [ ! -s "$work/err" ]; then
            silent=$((silent + 1))
            continue
        fi
        silent=0 fired=$((fired + 1))
        err "$run"
        err "$reason"
        if [ $got -eq 0 ]; then
            grep -q 'warning: no \|: the checkpoint is saved, but ' "$work/err" || fail "$fault $*: no warning"
            checkpoints_check
            files_check
        elif [ $got -eq 1 ] && grep -q 'error: .*Input/output error\|error: .*No space left' "$work/err"; then
            # Before it began, because it is to stop, or because something is missing; and then it goes on.
            case " $* " in *on_error=stop*) ;; *) [ ! -e "$saved/LATEST" ] || err 'not all is on disk: ' ;; esac
            checkpoints_check
            fault=
            train 0 --resume parallel.data=3
            files_check
        else
            fail "$fault $*: status $got"
        fi
    done
    total=$((total + fired))
}

total=0
for call in open write sync close rename mkdir; do
    sweep $call
    least=$fired
    case $call in write | rename | mkdir) sweep "$call" parallel.data=2 ;; esac
    case $call in sync) sweep "$call" train.checkpoint.on_error=stop train.checkpoint.wait=true ;; esac
    [ $least -ge 3 ] || fail "$call: only $least failures"
done
sweep remove parallel.data=2
sweep list parallel.data=2
sweep space parallel.data=2
echo "$total failures"

# A disk that is full at the end: training goes on to its end or not, and the status is 1.
for n in 4 13 ${TEST_LONG:+7 10 16}; do
    for on_error in warn stop; do
        fault=write:$n+:ENOSPC
        rm -rf "$run"
        train 1 train.checkpoint.on_error=$on_error
        err 'No space left on device'
        if [ $on_error = warn ]; then
            [ "$(cat "$work/out")" = "$whole" ] || fail "$fault: another state than $whole"
            err 'error: '
            err 'not all is on disk: '
        fi
        checkpoints_check
        fault=
        train 0 --resume
        files_check
    done
done

# resume: go on from the checkpoints of steps 3 and 6, the newest of which may be damaged.
resume_from()
{
    rm -rf "$run"
    cp -r "$work/whole" "$run"
}
for ranks in $many; do
    for call in read open list; do
        reason_of $call
        stride_of $call
        n=$((1 - stride)) silent=0
        while [ $silent -lt 3 ]; do
            n=$((n + stride))
            fault=$call:$n:$error
            resume_from
            train any --resume "parallel.data=$ranks"
            if ! grep -q "$reason" "$work/err"; then
                [ $got -eq 0 ] || fail "$fault: status $got"
                silent=$((silent + 1))
                continue
            fi
            silent=0
            err "$run"
            if [ $got -ne 0 ]; then
                [ $got -eq 1 ] || fail "$fault: status $got"
                checkpoints_check
                fault=
                train 0 --resume
            fi
        done
    done
done

# damaged TEXT: the newest one is not used, and it is said why.
damaged()
{
    train 0 --resume "parallel.data=$ranks"
    err "$saved/step-000000000006/$1"
    err 'lockstep train: step-000000000003, which is older, is used instead'
    err 'resumed from the checkpoint of step 3'
}
flip()
{
    byte=$(dd if="$1" bs=1 skip="$2" count=1 2>"$work/dd" | od -An -tu1 | tr -d ' ')
    # shellcheck disable=SC2059 # the byte is the format
    printf "\\$(printf %03o $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>"$work/dd" || fail dd
}
fault=
part="step-000000000006/part-00000.safetensors"
bytes=$(wc -c <"$work/whole/checkpoints/$part")
for ranks in $many; do
    for offset in 3 100 $((bytes / 2)) $((bytes - 1)); do
        resume_from
        flip "$saved/$part" $offset
        damaged "part-00000.safetensors: offset "
        if [ $offset -gt $((bytes / 3)) ]; then
            grep -q "^lockstep train: the checkpoint step-000000000006 cannot be used and is left out: .*: tensor \"[a-z0-9._]*\"" "$work/err" || fail 'no tensor is named'
        fi
    done
    for keep in 0 1 512 $((bytes - 1)); do
        resume_from
        truncate -s "$keep" "$saved/$part"
        damaged 'part-00000.safetensors'
    done
    for offset in 0 30 200; do
        resume_from
        flip "$saved/step-000000000006/MANIFEST" $offset
        damaged 'MANIFEST'
        resume_from
        truncate -s $offset "$saved/step-000000000006/MANIFEST"
        damaged 'MANIFEST'
    done
    resume_from
    rm "$saved/$part"
    damaged 'part-00000.safetensors'
done
# When none can be used, nothing begins anew.
resume_from
for step in 3 6; do flip "$saved/step-00000000000$step/MANIFEST" 40; done
train 1 --resume
err 'none of its 2 checkpoints can be used'

# Folders that vanish while it runs.
start()
{
    rm -rf "$run" "$work/away"
    "$lockstep" train --quiet "$work/net.yaml" "train.output=$run" train.epochs=500 "$@" >"$work/out" 2>"$work/err" </dev/null &
    trainer=$!
    while [ ! -e "$saved/LATEST" ]; do
        kill -0 $trainer 2>/dev/null || fail 'it ended before its first checkpoint'
        sleep 0.01
    done
}
finished()
{
    wait $trainer
    got=$?
    [ $got -eq "$1" ] || fail "status $got instead of $1"
}
status 0 "$lockstep" train --quiet "$work/net.yaml" train.epochs=500
long=$(cat "$work/out")
for place in nothing file; do
    for ranks in 3 ${TEST_LONG:+1}; do
        start "parallel.data=$ranks"
        mv "$saved" "$work/away"
        [ $place = nothing ] || : >"$saved"
        finished 1
        out "$long"
        err 'not all is on disk: the checkpoint of step '
        err 'warning: no checkpoint of step '
        err "$saved"
        rm -f "$saved"
        mv "$work/away" "$saved"
        checkpoints_check
        start "parallel.data=$ranks" train.checkpoint.on_error=stop
        mv "$saved" "$work/away"
        [ $place = nothing ] || : >"$saved"
        finished 1
        err "$saved"
        rm -f "$saved"
        mv "$work/away" "$saved"
        status 0 "$lockstep" train --quiet --resume "$work/net.yaml" "train.output=$run" train.epochs=500
        out "$long"
    done
done

# No room for metrics: said, and no reason to stop; but weights that are not written are a failure.
rm -rf "$run"
(
    trap '' XFSZ
    ulimit -f 2
    "$lockstep" train --quiet "$work/net.yaml" "train.output=$run" train.epochs=20 2>&1
    echo "status $?"
) | cat >"$work/err"
err 'status 1'
err 'warning: no metrics.jsonl, or not all of it: '
[ "$(grep -c 'warning: no metrics' "$work/err")" -lt 10 ] || fail 'said again and again'
err "$run/weights.safetensors"
"$json" <"$run/metrics.jsonl" || fail 'metrics.jsonl is not JSON lines'
