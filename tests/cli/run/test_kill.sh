#!/bin/sh
# Kill -9 at random moments: a rank, all ranks, `lockstep run`, or mpirun; then the run goes on, on
# another number of ranks.  It ends with the bits of a run that nobody disturbed, and no checkpoint
# that was there is lost.
#
#   LK_KILLS       how many; unless told, 10, or 100 with TEST_LONG in the environment
#   LK_KILL_SEED   decides about moments, victims and ranks; printed
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"

kills=${LK_KILLS:-${TEST_LONG:+100}}
kills=${kills:-10}
seed=${LK_KILL_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "LK_KILL_SEED=$seed LK_KILLS=$kills"
mkdir "$work/tmp"
: >"$work/out"
: >"$work/err"
export TMPDIR="$work/tmp" LK_THREADS=1
# What an MPI that is killed leaves behind is recorded here.
mkdir -m 700 "$work/mpi"
export XDG_RUNTIME_DIR="$work/mpi"
run=$work/run saved=$work/run/checkpoints

cat >"$work/net.yaml" <<'END'
data: {type: glyphs, count: 640, test_count: 64, batch: 64, shards: 8}
model: [flatten, {type: linear, units: 256}, batch_norm, relu, {type: dropout, rate: 0.1}, {type: linear, units: 10}]
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: adam, rate: 0.002}
train: {epochs: 20, checkpoint: {every: 4 steps, keep: 2}}
END
status 0 "$lockstep" train --quiet "$work/net.yaml" "train.output=$work/whole"
whole=$(cat "$work/out")

# random N: sets $r to one of 0 to N - 1.
random()
{
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    r=$((seed / 65536 % $1))
}

ranks()
{
    victims | grep -vx "$launcher"
}

child_of()
{
    grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status | tr -dc '0-9\n' | head -n 1
}

# The checkpoints under their names, in $steps, without starting a process.
steps_list()
{
    steps=
    for folder in "$saved"/step-????????????; do
        [ ! -d "$folder" ] || steps="$steps ${folder##*/}"
    done
}

# start: goes on, on a random number of ranks.
start()
{
    random 8
    n=$((r + 1))
    random 5
    case $r$places in
    3*openmpi*) place=openmpi ;;
    4*mpich*) place=mpich ;;
    *) place=local ;;
    esac
    case $place in local) how='--transport local' ;; *) how="--mpi $place" ;; esac
    steps_list
    before=$steps newest=${steps##* }
    # Some die by themselves, at an exact place of a save.
    fault=
    random 3
    if [ $r -eq 0 ] && [ $count -lt "$kills" ]; then
        random 9
        # shellcheck disable=SC2046 # words
        set -- $(echo open write sync close rename rename mkdir remove list | cut -d ' ' -f $((r + 1)))
        random 40
        fault=$1:$((r + 1)):KILL
    fi
    # shellcheck disable=SC2086 # two words
    LK_STORAGE_FAULT=$fault "$work/victim" run -n $n $how -- train --quiet --resume "$work/net.yaml" "train.output=$run" \
        >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
}

# pause MILLISECONDS
pause()
{
    sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"
}

# The moment to kill at: any, while a checkpoint is written, or just when it has got its name.
moment()
{
    spins=0
    random 3
    case $r in
    0)
        when=any
        random 800
        [ "$place" = local ] || r=$((300 + 2 * r))
        pause $r
        ;;
    1)
        when=save
        random 300
        pause $r
        while kill -0 $launcher 2>/dev/null && [ $spins -lt 20000 ]; do
            spins=$((spins + 1))
            set -- "$saved"/step-*.tmp-*
            [ ! -d "$1" ] || break
        done
        ;;
    2)
        when=publish
        random 300
        pause $r
        steps_list
        had=$steps
        while kill -0 $launcher 2>/dev/null && [ $spins -lt 20000 ]; do
            spins=$((spins + 1))
            steps_list
            [ "$steps" = "$had" ] || break
        done
        ;;
    esac
}

# Choose whom to kill: before the moment, because looking for them takes time.
choose()
{
    random 4
    case $r in
    0) who=rank ;;
    1) who=ranks ;;
    2) who='lockstep run' ;;
    3) who=mpirun ;;
    esac
    [ "$place" != local ] || [ "$who" = 'lockstep run' ] || who=ranks
    target=
    random 3
    [ $r -ne 0 ] || return 0 # while it starts, too
    tries=0
    while [ $tries -lt 100 ] && kill -0 $launcher 2>/dev/null; do
        [ "$(ranks | wc -l)" -lt 1 ] || break
        sleep 0.02
        tries=$((tries + 1))
    done
}

target_find()
{
    case $who in
    rank) target=$(ranks | head -n $((n / 2 + 1)) | tail -n 1) ;;
    ranks) target=$(ranks) ;;
    'lockstep run') target=$launcher ;;
    mpirun) target=$(child_of $launcher) ;;
    esac
}

# Wait for the end of what is left; Open MPI's launcher, hit while it starts, sometimes waits for
# ever, and is then killed too.
settle()
{
    tries=0
    while [ -n "$(victims)" ]; do
        if [ $tries -eq 100 ] && [ "$place" = openmpi ] && kill -0 $launcher 2>/dev/null; then
            hung=$((hung + 1))
            kill -9 "$(child_of $launcher)" 2>/dev/null
        fi
        [ $tries -lt 300 ] || fail "$place, $who killed: processes are left: $(victims)"
        sleep 0.1
        tries=$((tries + 1))
    done
    [ -n "$fault" ] || {
        wait $launcher 2>/dev/null
        got=$?
    }
}

# What was there at the kill is there, or two newer ones are; all that are there verify.
checkpoints_check()
{
    steps_list
    for step in $steps; do
        "$lockstep" ckpt inspect "$saved/$step" >"$work/inspect" 2>&1 || {
            cat "$work/inspect" >&2
            fail "$place, $who killed ($when): $step does not verify"
        }
    done
    for step in $before; do
        case " $steps " in *" $step "*) continue ;; esac
        newer=0
        for other in $steps; do
            [ "${other#step-}" -le "${step#step-}" ] 2>/dev/null || newer=$((newer + 1))
        done
        [ $newer -ge 2 ] || fail "$place, $who killed ($when): $step is lost; there are:$steps"
    done
    [ ! -e "$saved/LATEST" ] || [ -d "$saved/$(cat "$saved/LATEST")" ] ||
        fail "$place, $who killed ($when): LATEST is $(cat "$saved/LATEST"), there are:$steps"
    # It had begun with the newest one.
    began=$(sed -n 's/^.*resumed from the checkpoint of step \([0-9]*\)$/\1/p' "$work/err")
    [ -z "$began" ] || [ "step-$(printf %012d "$began")" = "$newest" ] ||
        fail "resumed from $began, but there was $newest"
    if [ -n "$newest" ] && grep -q 'starting at step 0' "$work/err"; then fail "began anew, but there was $newest"; fi
}

# A run that is complete.
end_check()
{
    [ $got -eq 0 ] || fail "$place, $n ranks: status $got"
    [ "$(tail -n 1 "$work/out")" = "$whole" ] || fail "$place, $n ranks: another state than $whole"
    "$json" <"$run/metrics.jsonl" || fail 'metrics.jsonl is not JSON lines'
    sed -n 's/^{"epoch": *\([0-9]*\),.*/\1/p' "$run/metrics.jsonl" >"$work/epochs"
    seq 20 | cmp -s - "$work/epochs" || fail "epochs in metrics.jsonl: $(tr '\n' ' ' <"$work/epochs")"
    for file in best.safetensors weights.safetensors; do
        cmp -s "$work/whole/$file" "$run/$file" || fail "$file differs"
    done
    # One more checkpoint may be there: that which was to be removed when the run was killed.
    (cd "$work/whole" && find . ! -path '*/step-????????????*' | sort) >"$work/expected"
    (cd "$run" && find . ! -path '*/step-????????????*' -o -path '*.tmp-*' | sort) | diff "$work/expected" - ||
        fail 'other files than those of a run that nobody disturbed'
    rm -rf "$run"
    ended=$((ended + 1))
}

# Kill one, at one of the moments.
kill_once()
{
    choose
    target_find
    moment
    [ -n "$target" ] || target_find
    steps_list
    before=$steps
    killed= # some of them may have ended
    for pid in $target; do
        if kill -9 "$pid" 2>/dev/null; then killed=$pid; fi
    done
    if [ -n "$killed" ]; then
        count=$((count + 1))
        echo "$place: $who, $when" >>"$work/tally"
    else
        who=nobody
    fi
}

count=0 ended=0 hung=0
: >"$work/tally"
while :; do
    start
    if [ $count -ge "$kills" ]; then
        who=nobody when=never before=
        wait $launcher
        got=$?
        end_check
        break
    fi
    if [ -n "$fault" ]; then
        who=rank when=${fault%%:*}
        wait $launcher
        got=$?
        if [ $got -ne 0 ]; then
            grep -q 'signal 9\|status 9' "$work/err" || fail "$place, $n ranks: status $got, but not killed"
            count=$((count + 1))
            echo "$place: at a call of $when" >>"$work/tally"
        fi
    else
        kill_once
    fi
    settle
    if [ $got -eq 0 ]; then
        end_check
    elif [ "$who" = nobody ] || [ $got -eq 75 ]; then
        fail "$place, $n ranks: status $got, and nobody was killed"
    else
        checkpoints_check
    fi
done
# What killed jobs of an MPI left goes at the next start by one; the last here may have been of threads.
tries=0
while [ -n "$mpis" ] && [ $tries -lt 20 ] && [ -n "$(ls -A "$work/mpi/lockstep" 2>/dev/null)" ]; do
    sleep 0.2
    "$work/victim" run -n 1 --mpi "${mpis##* }" -- topo >"$work/out" 2>"$work/err"
    tries=$((tries + 1))
done
[ -z "$(ls -A "$work/mpi/lockstep" 2>/dev/null)" ] ||
    fail "left of killed jobs: $(cat "$work/mpi/lockstep"/*/record)"
[ -z "$(ls -A "$TMPDIR")" ] || fail "left in TMPDIR: $(ls -A "$TMPDIR")"
sort "$work/tally" | uniq -c
echo "$count kills, $ended runs to the end, all with $whole; Open MPI's launcher hung $hung times"
