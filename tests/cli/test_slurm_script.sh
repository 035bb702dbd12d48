#!/bin/sh
# lockstep slurm --script: what the batch script says, that it is a good shell script whatever the names, that
# it runs, and what is refused.  tests/hosts/sbatch.sh gives one to SLURM.
. "$(dirname "$0")/expect.sh"
. "$(dirname "$0")/places.sh"
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
#SBATCH --signal=USR1@60
#SBATCH --requeue
#SBATCH --open-mode=append

# USR1, before the time ends: the ranks save, and end with status 75.  The job then
# goes back into the queue, and its next run goes on from there.
cd $work || exit 1
srun --kill-on-bad-exit --mpi=none \\
    $lockstep train net.yaml train.output=run --resume
status=\$?
if [ \$status -eq 75 ]; then
    scontrol requeue "\$SLURM_JOB_ID"
fi
exit \$status
END
diff want script >&2 || fail 'another script'
is_good

# The script with an srun that starts one process, and an scontrol that says what it was told.
mkdir bin
# shellcheck disable=SC2016 # for the script to expand
printf '#!/bin/sh\nshift 2\nexec "$@"\n' >bin/srun
printf '#!/bin/sh\necho "scontrol $*"\n' >bin/scontrol
chmod +x bin/srun bin/scontrol
status 0 env PATH="$work/bin:$PATH" SLURM_JOB_ID=7 bash script
out 'state '
! grep -q scontrol out || fail 'a job that is done is put back into the queue'
mkdir stopped && : >stopped/STOP
sed 's/train.output=run/train.output=stopped/' script >again
status 75 env PATH="$work/bin:$PATH" SLURM_JOB_ID=7 bash again
out 'scontrol requeue 7'
rm -r run stopped

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
