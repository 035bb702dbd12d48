#!/bin/bash
# A batch script of lockstep slurm --script under a real SLURM, on two hosts with two ranks each: it is stopped
# by its signal before its time ends, puts itself back into the queue, goes on, and is done on the state of a
# run that nobody stopped.  One whose ranks alone get the signal is saved, and does not go on.
#
#   tests/hosts/sbatch.sh openmpi|mpich LOCKSTEP [SHIM]        SHIM: the library of mpich_shim.c; 77: not here
#
# The shortest time that SLURM knows is a minute, and it looks every half minute: the signal comes after 10 to
# 40 seconds.  The run is made as long as 90 seconds take here; each of its parts ends by the signal, but the
# last.
set -eu
here=$(dirname "$(readlink -f "$0")")
if [ "$1" != --inside ]; then
    exec "$here"/slurm 2 "$here"/sbatch.sh --inside "$1" "$(readlink -f "$2")" "${3:+$(readlink -f "$3")}"
fi
mpi=$2 lockstep=$3 shim=$4
export LK_DEADLINE=60 LK_THREADS=1
work=$(mktemp -d)
cd "$work"
fail() {
    echo "FAIL: $mpi: $*"
    tail -v -n 20 -- *.log slurm-*.out 2>/dev/null || :
    scontrol show jobs || :
    exit 1
}

cat >net.yaml <<'END'
data: {type: glyphs, count: 512, test_count: 64, batch: 64, shards: 8}
model: [{type: conv, filters: 8, kernel: 5}, relu, flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.01, momentum: 0.9}
train: {epochs: 10, evaluate: never, checkpoint: {every: never}}
parallel: {data: 4}
END

# write EPOCHS FOLDER [MINUTES]: the script for so many, whose run leaves its files in the folder.
write() {
    "$lockstep" slurm --script net.yaml train.epochs="$1" train.output="$2" --nodes 2 --time "${3-1}" --signal 50 \
        --mpi "$mpi" >job.sh || fail 'no script'
}

# submit: start job.sh, its number being in $job.
submit() {
    job=$(env ${shim:+LD_PRELOAD="$shim"} sbatch --parsable job.sh) || fail 'sbatch'
}

# field NAME: what SLURM says of the job.
field() { scontrol -o show job "$job" | grep -o "\<$1=[^ ]*" | cut -d= -f2; }

# how long fifty epochs take, without the start, and how many take 90 seconds
write 50 first
submit
until [[ $(field JobState) == @(COMPLETED|FAILED|TIMEOUT|CANCELLED) ]]; do sleep 0.2; done
[ "$(field JobState)" = COMPLETED ] || fail "the first job: $(field JobState)"
took=$(sed -n '$ s/.*"seconds": \([0-9.]*\).*/\1/p' first/metrics.jsonl)
epochs=$(awk -v took="$took" 'BEGIN { printf "%d", 50 * 90 / took }')
echo "50 epochs took $took s: $epochs"

# the job, which waits for two minutes when it is requeued, unless it is told not to: but not before SLURM
# knows that its last part has ended, which it would take for the end of the next
write "$epochs" out
submit
parts=1
for ((tries = 0; tries < 9000; tries++)); do
    case $(field JobState) in
    COMPLETED) break ;;
    PENDING)
        if [ "$(field Restarts)" = "$parts" ]; then
            grep -q 'stopped on request after step' "slurm-$job.out" || fail 'it was not stopped'
            while pgrep -x slurmstepd >/dev/null; do sleep 0.2; done
            sleep 5
            scontrol update JobId="$job" StartTime=now || fail 'it cannot be let go on'
            parts=$((parts + 1))
        fi
        ;;
    FAILED | TIMEOUT | CANCELLED | NODE_FAIL) fail "the job ended: $(field JobState)" ;;
    esac
    sleep 0.2
done
[ "$(field JobState)" = COMPLETED ] || fail 'it is not done'
[ $parts -ge 2 ] || fail 'it was done before its signal came'
stopped=$(grep -c 'stopped on request after step' "slurm-$job.out")
[ "$stopped" = $((parts - 1)) ] || fail "$parts parts, of which $stopped were stopped"
[ "$(field ExitCode)" = 0:0 ] || fail "it ended with $(field ExitCode)"

# the same without interruption, on one rank
"$lockstep" train net.yaml parallel.data=1 train.epochs="$epochs" --quiet >whole.log 2>&1 || fail 'the unbroken run'
want=$(grep '^state ' whole.log)
got=$(grep '^state ' "slurm-$job.out" | tail -n 1)
[ "$want" = "$got" ] || fail "$want without interruption, $got in $parts parts"
echo "$mpi: $parts parts of $epochs epochs, $got"

# scancel -s USR1: for the ranks alone
write 1000000 stopped 10
submit
until [ -s stopped/metrics.jsonl ]; do
    [[ $(field JobState) == @(PENDING|CONFIGURING|RUNNING) ]] || fail "the job to be stopped: $(field JobState)"
    sleep 0.2
done
scancel -s USR1 "$job" || fail 'scancel'
while [[ $(field JobState) == @(RUNNING|COMPLETING) ]]; do sleep 0.2; done
sleep 2
[ "$(field JobState) $(field ExitCode) $(field Restarts)" = 'FAILED 75:0 0' ] ||
    fail "stopped for good: $(field JobState), $(field ExitCode), $(field Restarts) restarts"
grep -q 'stopped on request after step' "slurm-$job.out" || fail 'it was not stopped for good'
[ -s stopped/checkpoints/LATEST ] || fail 'it was stopped for good without a checkpoint'
