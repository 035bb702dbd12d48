#!/bin/sh
# What an MPI leaves behind when all its processes are killed is removed by the next `lockstep run`: that of
# jobs that its records name, whose processes are gone, and nothing else.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
[ -n "$mpis" ] || { echo 'SKIPPED: there is no MPI'; exit 77; }
mkdir -m 700 "$work/run"
export XDG_RUNTIME_DIR="$work/run"
base=$work/run/lockstep

endless "$work/net.yaml"

# below PID: it and all processes below it.
below()
{
    echo "$1"
    # shellcheck disable=SC2013 # words
    for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
        below "$child"
    done
}

for mpi in $mpis; do
    status 0 "$work/victim" run -n 2 --mpi "$mpi" -- topo
    [ -z "$(ls "$base")" ] || fail "$mpi: left by a job that ended: $(ls "$base")"

    "$work/victim" run -n 2 --mpi "$mpi" -- train --quiet "$work/net.yaml" "train.output=$work/$mpi" \
        >"$work/out" 2>"$work/err" </dev/null &
    command=$!
    tries=0
    while [ "$(cat "$base"/job-*/record 2>/dev/null | grep -c '^process')" -lt 4 ]; do # with its ranks
        [ $tries -lt 300 ] || fail "$mpi: no record of the ranks: $(cat "$base"/*/record)"
        sleep 0.1
        tries=$((tries + 1))
    done
    folder=$(echo "$base"/job-*)
    memory=$(sed -n 's/^memory \([^ ]*\) .*/\1/p' "$folder/record")
    [ -d "$memory" ] || fail "$mpi: no folder for memory: $memory"

    # Not while it runs; only then.
    status 0 "$work/victim" run -n 1 --mpi "$mpi" -- topo
    [ -d "$memory" ] || fail "$mpi: the memory of a running job was removed"
    [ -e "$folder/record" ] || fail "$mpi: the record of a running job was removed"
    all=$(below $command)
    # shellcheck disable=SC2086 # words
    kill -KILL $all
    wait $command 2>/dev/null
    for pid in $all; do
        while grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$pid/status"; do sleep 0.05; done
    done
    [ -d "$memory" ] || fail "$mpi: who removed $memory?"
    [ "$mpi" != openmpi ] || [ -n "$(ls "$memory")" ] || fail 'Open MPI keeps its segments elsewhere'
    status 0 "$work/victim" run -n 1 --mpi "$mpi" -- topo
    [ ! -e "$memory" ] || fail "$mpi: left: $memory: $(ls "$memory")"
    [ -z "$(ls "$base")" ] || fail "$mpi: left: $(ls "$base")"
done

# record NAME FRAME PROCESS MEMORY INODE: of a job that may be gone.
record()
{
    mkdir "$base/$1" "$4"
    : >"$4/segment"
    printf 'frame %s\nprocess %s\nmemory %s %s\n' "$2" "$3" "$4" "$5" >"$base/$1/record"
}
first=${mpis# }
first=${first%% *}
here_and_now="$(cat /proc/sys/kernel/random/boot_id) $(readlink /proc/self/ns/pid)"
own=$(cut -d ' ' -f 22 "/proc/$$/stat")
umask 077
record other 'another-start pid:[1]' '1 1' "$work/one" '0 0'
record alive "$here_and_now" "$$ $own" "$work/two" '0 0'
record changed "$here_and_now" "$$ 1" "$work/three" '0 0'
record gone "$here_and_now" "$$ 1" "$work/four" '0 0'
: >"$work/segment"
: >"$work/another"
{
    echo "frame $here_and_now"
    echo "memory $work/four $(stat -c '%d %i' "$work/four")"
    echo "segment $work/segment $(stat -c '%d %i' "$work/segment")"
    echo "segment $work/another $(stat -c '%d %i' "$work/segment")"
} >"$base/gone/record"
mkdir "$base/killed" # as soon as it had made its record
: >"$base/killed/record"
mkdir "$base/strange"
: >"$base/strange/file"
status 0 "$lockstep" run -n 1 --mpi "$first" -- topo
[ "$(cd "$base" && echo *)" = 'alive other strange' ] || fail "records: $(ls "$base")"
for folder in one two three; do
    [ -e "$work/$folder/segment" ] || fail "$folder was removed"
done
[ ! -e "$work/four" ] || fail 'left: the folder that the record names'
[ ! -e "$work/segment" ] || fail 'left: the segment that the record names'
[ -e "$work/another" ] || fail 'another file of that name was removed'

# A folder that others can write to is not used, and a link is not followed.
rm -rf "$base"
mkdir -m 777 "$work/theirs"
chmod 777 "$work/theirs"
ln -s "$work/theirs" "$base"
status 0 "$lockstep" run -n 1 --mpi "$first" -- topo
err 'is not a folder of this user alone'
rm "$base"
mkdir "$base"
chmod 777 "$base"
status 0 "$lockstep" run -n 1 --mpi "$first" -- topo
err 'is not a folder of this user alone'
[ -z "$(ls "$base")" ] || fail 'it was used'
[ -z "$(ls "$work/theirs")" ] || fail 'the link was followed'
