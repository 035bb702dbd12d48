#!/bin/sh
# lockstep slurm --script: what the batch script says, that it is a good shell script whatever the names, that
# it runs, when it puts its job back into the queue, and what is refused.  tests/hosts/sbatch.sh gives one to SLURM.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
lockstep=$(readlink -f "$lockstep")
cd "$work" || exit 1

cat >net.yaml <<'END'
data: {type: glyphs, count: 32, test_count: 32, batch: 32, shards: 4}
model: [flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.1}
train: {epochs: 1}
END

# refused TEXT ARGUMENT...: one line on stderr, nothing on stdout, and no folder was made.
refused()
{
    text=$1
    shift
    status 2 "$lockstep" slurm "$@"
    err "$text"
    no_out
    [ "$(wc -l <"$work/err")" = 1 ] || fail 'not one line'
    [ ! -e run ] || fail 'there is a folder'
}

# is_good: what was printed last is a shell script that nobody finds fault with.
is_good()
{
    bash -n out >"$work/found" 2>&1 || fail "bash: $(cat "$work/found")"
    ! command -v shellcheck >/dev/null || shellcheck out >"$work/found" || fail "shellcheck: $(cat "$work/found")"
}

# one rank, which needs no MPI
status 0 "$lockstep" slurm --script net.yaml train.output=run --time 10 --signal 60
no_err
cp out script
cat >want <<END
#!/bin/bash
#SBATCH --job-name=net
#SBATCH --ntasks=1
#SBATCH --time=10
#SBATCH --signal=B:USR1@60
#SBATCH --requeue
#SBATCH --open-mode=append

# Before its time ends this script gets USR1 and passes it on: the ranks save, and end with
# status 75.  The job then goes back into the queue, and its next run goes on from there,
# unless no step was made since the last start.
#
# To stop it for good, with a checkpoint: scancel -s USR1 JOB, which is for the ranks alone,
# or a file STOP in the output folder.
cd $work || exit 1
newest() { cat run/checkpoints/LATEST 2>/dev/null || echo step-000000000000; }
before=\$(newest)
srun --kill-on-bad-exit --mpi=none \\
    $lockstep train net.yaml train.output=run --resume &
ranks=\$!
ends=''
trap 'trap "" USR1; ends=yes; kill -USR1 "\$ranks"' USR1
wait "\$ranks"
status=\$?
if [ \$status -gt 128 ] && [ -n "\$ends" ]; then # it was the signal that came
    wait "\$ranks"
    status=\$?
fi
if [ \$status -ne 75 ] || [ -z "\$ends" ]; then
    exit \$status
fi
if rm run/STOP 2>/dev/null; then
    echo 'there is a file STOP: the job does not go on' >&2
elif [ "\$(newest)" = "\$before" ]; then
    echo 'no step was made in this time: the job does not go on' >&2
else
    scontrol requeue "\$SLURM_JOB_ID"
fi
exit \$status
END
diff want script >&2 || fail 'another script'
is_good

# The script with an srun that starts one process, and an scontrol that says what it was told.
mkdir bin
# shellcheck disable=SC2016 # for the script to expand
printf '#!/bin/sh\necho $$ >pid\nshift 2\nexec "$@"\n' >bin/srun
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "scontrol $*"\n' >bin/scontrol
chmod +x bin/srun bin/scontrol
export PATH="$work/bin:$PATH" SLURM_JOB_ID=7

# stays: the job that ended is not put back into the queue.
stays()
{
    ! grep -q scontrol out || fail 'the job is put back into the queue'
}

status 0 bash script
out 'state '
stays
rm -r run
mkdir run && : >run/STOP
status 75 bash script
err 'stopped on request after step 0'
stays

# until_behind NAME: wait for a checkpoint behind that one.
until_behind()
{
    tries=0
    while [ "$(cat run/checkpoints/LATEST)" = "$1" ]; do
        [ $tries -lt 400 ] || fail 'no checkpoint'
        sleep 0.05
        tries=$((tries + 1))
    done
}

# ended STATUS: what was started last in the background.
ended()
{
    wait $!
    got=$?
    [ $got -eq "$1" ] || fail "status $got instead of $1"
}

# While it trains, the time is up: it is saved, and goes back into the queue, and on from there.
status 0 "$lockstep" slurm --script net.yaml train.output=run train.epochs=1000000
cp out long
bash long >out 2>err &
until_behind step-000000000000
kill -USR1 $!
ended 75
err 'stopped on request after step'
out 'scontrol requeue 7'
before=$(cat run/checkpoints/LATEST)
# The ranks alone get the signal, as by scancel -s USR1.
bash long >out 2>err &
until_behind "$before"
kill -USR1 "$(cat pid)"
ended 75
err 'resumed from the checkpoint of step'
err 'stopped on request after step'
stays

# Ranks that save nothing new, or something, and perhaps find a file STOP too late, when the signal comes.
cat >bin/srun <<'END'
#!/bin/bash
trap 'eval "$ON_SIGNAL"; exit 75' USR1
sleep 0.3 # until the script waits
echo started
while :; do sleep 0.05; done
END
# signalled COMMAND: with that at the end of the ranks.
signalled()
{
    : >out
    ON_SIGNAL=$1 bash long >out 2>err &
    until grep -q started out; do sleep 0.05; done
    kill -USR1 $!
    ended 75
}
signalled :
err 'no step was made in this time'
stays
signalled 'echo step-999999999998 >run/checkpoints/LATEST; touch run/STOP'
err 'there is a file STOP'
stays
[ ! -e run/STOP ] || fail 'the file STOP is left'
signalled 'echo step-999999999999 >run/checkpoints/LATEST'
out 'scontrol requeue 7'
rm -r run
status 0 "$lockstep" slurm --script net.yaml train.output=run train.checkpoint.folder=elsewhere
out 'newest() { cat elsewhere/LATEST '

# names that a shell would take apart
mkdir "a \$b'c"
cp net.yaml "a \$b'c/\$x; y.yaml"
cd "a \$b'c" || exit 1
status 0 "$lockstep" slurm --script "\$x; y.yaml" "train.output=it's \"here\" & \`there\`"
cd "$work" || exit 1
out '#SBATCH --job-name=_x__y'
out "cd '$work/a \$b'\\''c' || exit 1"
out "train '\$x; y.yaml' 'train.output=it'\\''s \"here\" & \`there\`' --resume"
is_good

# times as SLURM reads them
for time in 3 90 3:00 1:30:00 1-0 1-12:30 0-1:0:0 365-0; do
    status 0 "$lockstep" slurm --script net.yaml train.output=run --time "$time" --signal 30
    out "#SBATCH --time=$time"
done
for time in '' x 1: :1 1-2-3 1:2-3 1:2:3:4 1-2:3:4:5 -1 ' 3' '3 ' 3m 1.5 9999999; do
    refused "lockstep slurm: option --time: \"$time\" is no time limit" --script net.yaml train.output=run --time "$time"
done
refused '120 seconds before the end of 120 there is no time left to train' --script net.yaml train.output=run --time 2
refused '60 seconds before the end of 59 there is' --script net.yaml train.output=run --time 0:59 --signal 60

for option in ranks nodes tasks-per-node cpus-per-task signal; do
    status 2 "$lockstep" slurm --script net.yaml train.output=run --$option 0
    err "option --$option: \"0\" is out of range, it must be from 1"
done

refused 'net.yaml: train.output is not set' --script net.yaml
refused 'is missing.yaml' --script 'is missing.yaml' train.output=run
refused 'unknown key "trian"' --script net.yaml trian.output=run
refused 'net.yaml: 5 ranks for a batch of 4 shards' --script net.yaml train.output=run --ranks 5
refused 'need 2 ranks, but there are 3' --script net.yaml train.output=run parallel.data=2 --ranks 3
refused 'option --nodes: 2 nodes for 1 rank' --script net.yaml train.output=run --nodes 2
refused 'option --mpi: "lam" is none' --script net.yaml train.output=run --mpi lam
refused '--script needs FILE.yaml' --script
refused 'an experiment is for --script' net.yaml
refused 'a batch script is no JSON' --script net.yaml train.output=run --json
refused 'give one of them' --script net.yaml train.output=run --test
refused '--signal and --mpi are for --script' --time 5
refused 'are for the list of tasks' --script net.yaml train.output=run --network ib

[ -n "$mpis" ] || exit 0
# the ranks of the layout, or those that are asked for
status 0 "$lockstep" slurm --script net.yaml train.output=run parallel.data=4 --nodes 2 --tasks-per-node 2 --cpus-per-task 3
out '#SBATCH --nodes=2'
out '#SBATCH --ntasks=4'
out '#SBATCH --ntasks-per-node=2'
out '#SBATCH --cpus-per-task=3'
grep -q '^srun --kill-on-bad-exit --mpi=pm[a-z0-9]* --cpus-per-task=3 ' out || fail 'srun has other processors'
is_good
status 0 "$lockstep" slurm --script net.yaml train.output=run --ranks 3
out '#SBATCH --ntasks=3'
status 0 "$lockstep" slurm --script net.yaml train.output=run --ranks 5000 data.count=5000 data.batch=5000 data.shards=5000
out '#SBATCH --ntasks=5000'
refused 'option --tasks-per-node: 1 on each of 2 nodes are fewer than 4 ranks' \
    --script net.yaml train.output=run --ranks 4 --nodes 2 --tasks-per-node 1
for mpi in $mpis; do
    status 0 "$lockstep" slurm --script net.yaml train.output=run --ranks 2 --mpi "$mpi"
    out "export LK_MPI=$mpi"
    case $mpi in
    openmpi) out 'srun --kill-on-bad-exit --mpi=pmix ' ;;
    mpich) out 'srun --kill-on-bad-exit --mpi=pmi2 ' ;;
    esac
done
status 2 env LK_MPI_MODULES="$work" "$lockstep" slurm --script net.yaml train.output=run --ranks 2
err '2 ranks need an MPI, and this build has a module for none'
