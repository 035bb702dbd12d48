#!/bin/sh
# Ranks of one host have no port that other machines could reach.  That of their launcher is its own.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
[ -n "$mpis" ] || { echo 'SKIPPED: there is no MPI'; exit 77; }
[ -r /proc/net/tcp ] || { echo 'SKIPPED: there is no /proc/net/tcp'; exit 77; }

endless "$work/net.yaml"

# sockets PID...: the numbers of their sockets.
sockets()
{
    for pid in "$@"; do
        find "/proc/$pid/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null
    done | tr -dc '0-9\n' | sort -u
}

# parent PID
parent()
{
    sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status"
}

for mpi in $mpis; do
    "$work/victim" run -n 3 --mpi "$mpi" -- train --quiet "$work/net.yaml" "train.output=$work/$mpi" \
        >"$work/out" 2>"$work/err" </dev/null &
    command=$!
    tries=0
    while [ ! -e "$work/$mpi/checkpoints/LATEST" ]; do # all ranks have met
        [ $tries -lt 600 ] || fail "$mpi: does not train"
        sleep 0.1
        tries=$((tries + 1))
    done
    ranks=$(victims | grep -vx $command)
    [ "$(echo "$ranks" | wc -l)" -eq 3 ] || fail "$mpi: not 3 ranks: $ranks"
    one=$(echo "$ranks" | head -n 1)
    # MPICH's ranks inherit what the launcher and its helper have.
    sockets "$(parent "$one")" "$(parent "$(parent "$one")")" >"$work/launcher"
    # shellcheck disable=SC2086 # words
    sockets $ranks | grep -vxFf "$work/launcher" >"$work/sockets"
    # Those that listen (0A), by address.
    awk '$4 == "0A" { print $10, $2 }' /proc/net/tcp /proc/net/tcp6 | while read -r socket address; do
        if grep -qx "$socket" "$work/sockets"; then echo "${address%:*}"; fi
    done | sort -u >"$work/listening"
    kill -TERM $command
    wait $command
    grep -v '^0100007F$\|^00000000000000000000000001000000$' "$work/listening" >"$work/open"
    [ ! -s "$work/open" ] || fail "$mpi: a rank listens on $(cat "$work/open")"
    echo "$mpi: ranks listen on: $(tr '\n' ' ' <"$work/listening")"
done

# What is said to the launcher is printed on demand, and stays out where other hosts may take part.
for mpi in $mpis; do
    status 0 "$lockstep" run -n 3 --mpi "$mpi" --dry-run -- topo --mode "x'y"
    out 'UCX_NET_DEVICES=lo'
    out " -n 3 "
    out "topo --mode 'x'\\''y'"
    status 0 env UCX_NET_DEVICES=eth0 "$lockstep" run -n 3 --mpi "$mpi" --dry-run -- topo
    ! grep -q UCX_NET_DEVICES "$work/out" || fail "$mpi: what was set is set again"
    for where in SLURM_JOB_ID=1 HYDRA_HOST_FILE=hosts OMPI_MCA_orte_default_hostfile=hosts; do
        status 0 env "$where" "$lockstep" run -n 3 --mpi "$mpi" --dry-run -- topo
        ! grep -q 'lo$\|tcp' "$work/out" || fail "$mpi: no way to other hosts with $where"
    done
done
status 0 "$lockstep" run -n 3 --transport local --dry-run -- topo
no_out
