#!/bin/sh
# lockstep run on hosts, without starting anything: how each MPI would be called, and what is refused.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
[ -n "$mpis" ] || { echo 'SKIPPED: there is no MPI'; exit 77; }
unset DDL_OPTIONS DDL_HOST_PORT DDL_HOST_LIST DDL_GROUP_SIZE LK_TIERS LK_DEVICES
name=$(hostname)
cores=$("$lockstep" info --host | sed 's/.* cores \([0-9]*\) .*/\1/')
sockets=$("$lockstep" info --host | sed 's/.* sockets \([0-9]*\) .*/\1/')

# dry MPI ARGUMENT...: what would be started.
dry()
{
    of=$1
    shift
    status 0 "$lockstep" run --mpi "$of" --dry-run "$@"
}
no()
{
    ! grep -qF -- "$1" "$work/out" || fail "stdout has a line with: $1"
}

for mpi in $mpis; do
    # Hosts with a mode: DDL's variables, and the order of the ranks.
    dry "$mpi" -H a:4,b:4,c:4 -m n:4x3 --ddlarg '-dump_iter 100' --ddlarg '-dbg_level 1' -- topo
    err 'lockstep run: 12 ranks, transport mpi'
    out "DDL_OPTIONS='-mode n:4x3 -dump_iter 100 -dbg_level 1'"
    out 'DDL_HOST_PORT=2200'
    out "DDL_HOST_LIST='a:0,1,2,3;b:4,5,6,7;c:8,9,10,11'"
    out 'LK_TIERS=4x3'
    out ' -n 12 '
    no 'UCX_NET_DEVICES=lo' # there are other hosts

    # DDL's four dimensions, where the mode has none; p without a mode.
    dry "$mpi" -H a:2,b:2,c:2,d:2 --racks 2 -- topo
    out "DDL_OPTIONS='-mode p:2x2x2x1'"
    out 'LK_TIERS=2x2x2'
    dry "$mpi" -H a:6,b:6 --mode=c -- topo
    out "DDL_OPTIONS='-mode c:6x2x1x1'"
    no 'LK_TIERS' # as it is found
    dry "$mpi" -H a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1 --aisles 2 --racks 2 --nodes 2 -- topo
    out "DDL_OPTIONS='-mode p:1x2x2x2'"
    dry "$mpi" -H a,b -n 2 -- topo
    out "DDL_OPTIONS='-mode p:1x2x1x1'"
    dry "$mpi" -H a,b --accelerators 1 -- topo
    out "DDL_OPTIONS='-mode p:1x2x1x1'"

    # This host alone, and its cores; accelerators are sets of them.
    dry "$mpi" -m p -- topo
    out "DDL_OPTIONS='-mode p:${cores}x1x1x1'"
    out 'UCX_NET_DEVICES=lo'
    dry "$mpi" -H "$name" -m 1 -- topo
    out 'UCX_NET_DEVICES=lo'
    out "DDL_HOST_LIST=$name:0"
    dry "$mpi" --accelerators 1 -m 1 -- topo
    out "DDL_OPTIONS='-mode b:1'"

    # What is set already, or asked for, stays.
    status 0 env DDL_HOST_PORT=7 DDL_OPTIONS=-mode\ r LK_TIERS=9 \
        "$lockstep" run --mpi "$mpi" --dry-run -H a:2,b:2 -m 2x2 --no_ddloptions -- topo
    no 'DDL_HOST_PORT=2200'
    no 'DDL_OPTIONS='
    no 'LK_TIERS='
    dry "$mpi" -H a:2,b:2 -m 2x2 -x DDL_OPTIONS='-mode r' -- topo
    out "DDL_OPTIONS='-mode r'"
    no '-mode b'

    # More ranks than threads could be.
    dry "$mpi" -n 5000 -- topo
    out ' -n 5000 '

    # Variables and words for the launcher, with hosts and without.
    status 0 env BAR=1 "$lockstep" run --mpi "$mpi" --dry-run -n 2 -x FOO='a b=c' -x BAR --mpiarg '-one 1' \
        --mpiarg -two -- topo
    out "FOO='a b=c'"
    out ' -one 1 -two -n 2 '
    no 'BAR='
    no 'DDL_'
    dry "$mpi" -n 2 --tcp -- topo
    case $mpi in
    openmpi)
        out 'OMPI_MCA_pml=ob1'
        out 'OMPI_MCA_btl=self,vader,tcp'
        no '^tcp'
        ;;
    mpich)
        out 'UCX_TLS=self,sm,tcp'
        out 'FI_PROVIDER=tcp'
        ;;
    esac

    # A mode in a job of a batch system, whose launcher knows the hosts.
    status 0 env SLURM_JOB_ID=1 "$lockstep" run --mpi "$mpi" --dry-run -m n:4x3 -- topo
    out "DDL_OPTIONS='-mode n:4x3'"
    out 'LK_TIERS=4x3'
    out ' -n 12 '
    no 'DDL_HOST_LIST'
    status 2 env SLURM_JOB_ID=1 "$lockstep" run --mpi "$mpi" --dry-run --racks 2 -- topo
    err 'option --racks: the batch system has the hosts: name them with --host'
done

# The rank file and the words, of each MPI.
case $mpis in *openmpi*)
    cp "$lockstep" "$work/program"
    dry openmpi -H b:2,a:2 -m 2x2 -x FOO=1 -- "$work/program" -n 5
    out '/rankfile <<END'
    grep -q '^rank 0=b slot=0:0' "$work/out" || fail 'rank 0 is not on b'
    grep -q '^rank 3=a slot=' "$work/out" || fail 'rank 3 is not on a'
    out '/rankfile --host b:2,a:2 -x LK_MPI -x DDL_OPTIONS -x DDL_HOST_PORT -x DDL_HOST_LIST -x LK_TIERS -x FOO'
    out " -x PATH"
    out " -n 4 $work/program -n 5"
    no 'LK_NOTE'
    if [ "$sockets" -eq 1 ] && [ "$cores" -eq 2 ]; then
        dry openmpi -H a:4 -m 4 -- topo
        printf 'rank %s\n' 0=a\ slot=0:0 1=a\ slot=0:0 2=a\ slot=0:1 3=a\ slot=0:1 >"$work/want"
        grep '^rank' "$work/out" | cmp -s - "$work/want" || fail 'other sets of cores'
        out 'OMPI_MCA_mpi_yield_when_idle=1'
        dry openmpi -H a -m 1 --accelerators 2 -- topo
        grep -qx 'rank 0=a slot=0:0' "$work/out" || fail 'the set is not half of the cores'
        dry openmpi -H a -m 1 -- topo
        grep -qx 'rank 0=a slot=0:0-1' "$work/out" || fail 'the set is not all cores'
    fi
    ;;
esac
case $mpis in *mpich*)
    dry mpich -H b:2,a:2 -m 2x2 -- topo
    out ' -hosts b:2,a:2 '
    if [ "$sockets" -eq 1 ] && [ "$cores" -eq 2 ]; then out ' -bind-to user:0,1 '; fi
    no 'rankfile'
    ;;
esac

# Host files.
printf '# a comment\n\na slots=2\n  b\tslots=2 max_slots=4 # another\nc:2\r\n' >"$work/hosts"
dry "$mpi" --hostfile "$work/hosts" -- topo
out "DDL_HOST_LIST='a:0,1;b:2,3;c:4,5'"
printf 'a\nb\n' >"$work/hosts"
dry "$mpi" --hostfile "$work/hosts" -m 1x2 -- topo
out "DDL_HOST_LIST='a:0;b:1'"
# wrong_line TEXT MESSAGE: the second line of a host file.
wrong_line()
{
    printf 'a slots=2\n%b\n' "$1" >"$work/hosts"
    status 2 "$lockstep" run --mpi "$mpi" --hostfile "$work/hosts" -- topo
    err "error: lockstep run: $work/hosts:2: $2"
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail 'not one line'
}
wrong_line 'b slots=x' '"slots=x" is not known here: it may be slots=N, with N from 1 to 1000000'
wrong_line 'b slots=0' '"slots=0" is not known here'
wrong_line 'b slots=2x' '"slots=2x" is not known here'
wrong_line 'b slots' '"slots" is not known here'
wrong_line 'b cpus=2' '"cpus=2" is not known here'
wrong_line 'b slots=5 max_slots=4' 'host b has 5 slots, and at most 4'
wrong_line 'b:' 'behind "b:" there is "": it must be a number'
wrong_line 'b:2 slots=2' 'behind "b:" there is "2 slots=2"'
wrong_line '/b' '"/b" is no name of a host'
wrong_line 'b,c' '"b,c" is no name of a host'
wrong_line 'a slots=2' 'host a is in line 1 as well'
wrong_line '\0' 'there is a byte 0 in it: it is no text'
wrong_line '\033[31m' '"\x1b[31m" is no name of a host'
printf '# nobody\n' >"$work/hosts"
status 2 "$lockstep" run --mpi "$mpi" --hostfile "$work/hosts" -- topo
err "error: lockstep run: $work/hosts names no host"
status 2 "$lockstep" run --mpi "$mpi" --hostfile "$work/none" -- topo
err "error: lockstep run: cannot read $work/none: No such file or directory"
status 2 "$lockstep" run --mpi "$mpi" --hostfile "$work" -- topo
err "$work:1: cannot read it: Is a directory"
status 2 timeout 20 "$lockstep" run --mpi "$mpi" --hostfile /dev/zero -- topo
err '/dev/zero:1: there is a byte 0 in it: it is no text'
yes a | tr -d '\n' | head -c 100000 >"$work/hosts"
status 2 "$lockstep" run --mpi "$mpi" --hostfile "$work/hosts" -- topo
err "$work/hosts:1: the line has 4096 bytes or more"
seq -f 'h%.0f' 5000 >"$work/hosts"
status 2 "$lockstep" run --mpi "$mpi" --hostfile "$work/hosts" -- topo
err "$work/hosts:4097: more than 4096 hosts"

# Rank files that are given.
printf 'rank 1=b slot=0:1,2\n# no\nrank 0=a slot=0:0-3 # yes\n rank  2 = a slot = 3\n' >"$work/rf"
dry "$mpi" -rf "$work/rf" -- topo
out "DDL_OPTIONS='-mode p'"
out "DDL_HOST_LIST='b:1;a:0,2'"
out ' -n 3 '
case $mpi in
openmpi) out " -rf $work/rf --host b:1,a:2 " ;;
mpich) out ' -hosts a:1,b:1,a:1 ' ;;
esac
dry "$mpi" --rankfile "$work/rf" -m n:3x1 -n 3 -- topo
out "DDL_OPTIONS='-mode n:3x1'"
wrong_rank()
{
    printf 'rank 0=a slot=0:0\n%b\n' "$1" >"$work/rf"
    status 2 "$lockstep" run --mpi "$mpi" -rf "$work/rf" -- topo
    err "error: lockstep run: $work/rf:2: $2"
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail 'not one line'
}
wrong_rank 'rank=b slot=0' 'it begins with "rank=b slot=0", not with "rank N=HOST", N from 0 to 999999'
wrong_rank 'rank -1=b slot=0' 'it begins with "rank -1=b slot=0"'
wrong_rank 'rank 1 b slot=0' 'it begins with "rank 1 b slot=0"'
wrong_rank 'rank 1000000=b slot=0' 'it begins with "rank 1000000=b slot=0"'
wrong_rank 'slot 1=b' 'it begins with "slot 1=b"'
wrong_rank 'rank 1=+n0 slot=0' 'rank 1 is on "+n0", which is no name of a host'
wrong_rank 'rank 1= slot=0' 'rank 1 is on "slot=0", which is no name of a host'
wrong_rank 'rank 1=b' 'behind the host of rank 1 there is "", not slot=SOCKET:CORES'
wrong_rank 'rank 1=b slot=x' 'behind the host of rank 1 there is "x", not slot=SOCKET:CORES'
wrong_rank 'rank 1=b cores=0' 'behind the host of rank 1 there is "cores=0", not slot=SOCKET:CORES'
wrong_rank 'rank 0=b slot=0:1' 'rank 0 is in line 1 as well'
printf 'rank 0=a slot=0\nrank 2=a slot=1\n' >"$work/rf"
status 2 "$lockstep" run --mpi "$mpi" -rf "$work/rf" -- topo
err "$work/rf has a rank 2, but no rank 1"
: >"$work/rf"
status 2 "$lockstep" run --mpi "$mpi" -rf "$work/rf" -- topo
err "$work/rf has no rank"
printf 'rank 0=a slot=0\nrank 1=a slot=1\n' >"$work/rf"
status 2 "$lockstep" run --mpi "$mpi" -rf "$work/rf" -n 3 -- topo
err "option -n: 3, but $work/rf has 2 ranks"
status 2 "$lockstep" run --mpi "$mpi" -rf "$work/rf" -m 2x2 -- topo
err 'the dimensions 2x2 hold 4 ranks, but there are 2'
for option in '-H a' '--hostfile x' '--accelerators 1' '--nodes 1' '--racks 1' '--aisles 1'; do
    # shellcheck disable=SC2086 # two words
    status 2 "$lockstep" run --mpi "$mpi" -rf "$work/rf" $option -- topo
    err 'option --rankfile: it says which ranks are on which hosts'
done

# Numbers that do not fit.
refused()
{
    message=$1
    shift
    status 2 "$lockstep" run --mpi "$mpi" --dry-run "$@" -- topo
    err "error: lockstep run: $message"
}
refused 'mode n:4x3 is for 3 hosts, but 2 are named' -H a,b -m n:4x3
refused 'mode b:1x2 is for 2 hosts, but 1 is named' -m 1x2
refused 'mode b:4 puts 4 ranks on host a, which has 3 slots' -H a:3 -m 4
refused "mode b:1000x2 puts 1000 ranks on a host, but host a has $cores core" -H a,b -m 1000x2
refused "mode p:1000x1x1x1 puts 1000 ranks on a host, but host a has $cores core" -H a --accelerators 1000
refused 'option -n: 8, but mode b:2x3 is for 6 ranks' -H a:2,b:2,c:2 -m 2x3 -n 8
refused 'option -n: 5 ranks cannot be shared by 2 hosts' -H a,b -n 5
refused 'option --accelerators: 2 on a host, but mode b:4 puts 4 ranks there' -H a:4 -m 4 --accelerators 2
refused 'option --racks: 3 racks in an aisle, but mode b:2x2x2 has 2' -H a:2,b:2,c:2,d:2 -m 2x2x2 --racks 3
refused 'option --nodes: 3 hosts in a rack, but mode b:2x2 has 2' -H a:2,b:2 -m 2x2 --nodes 3
refused 'option --aisles: 2 aisles, but mode b:2x2 has 1' -H a:2,b:2 -m 2x2 --aisles 2
refused '2 hosts in a rack, 2 racks in an aisle and 1 aisles are 4 hosts, but 3 are named' -H a:2,b:2,c:2 --nodes 2 --racks 2
refused '1 hosts in a rack, 2 racks in an aisle and 1 aisles are 2 hosts, but 3 are named' -H a:2,b:2,c:2 --racks 2
refused 'host a has 2 slots and host b 3 (0: not said): say how many' -H a:2,b:3
refused 'mode b:1000000x1000000 is for more than 1000000 ranks' -H a,b -m 1000000x1000000
refused 'option --mode: mode "q:1": no algorithm "q"' -H a -m q:1
refused 'option --host: host 2 has no name' -H a,,b
refused 'option --host: host 1 has a character' -H a/b
refused 'option --host: host 2 has no number from 1 to 1000000 behind its colon' -H a,b:0
refused 'option --host: "a" is in the list twice' -H a,b,a
refused 'options --host and --hostfile: give one of them' -H a --hostfile b
refused 'option -x: "1A=2" is no name of a variable' -x 1A=2
refused 'option -x: "=2" is no name of a variable' -x =2
refused 'option -x: NOT_SET is not set here: give NOT_SET=VALUE' -x NOT_SET
refused 'option --ddlarg: no option "-fast"; the options are -mode' --ddlarg -fast
refused 'option --ddlarg: option -dump_iter is "x"' --ddlarg '-dump_iter x'
refused 'option --ddlarg: option -mode is there twice; the mode is what --mode says' --ddlarg '-mode r'
status 2 "$lockstep" run --mpi "$mpi" -rf
err 'option --rankfile needs a value: --rankfile FILE'

# Threads: a mode and variables, and no hosts.
status 0 "$lockstep" run --transport local -m n:2x2 --ddlarg '-dbg_level 0' -x LK_THREADS=1 -- bench allreduce --tensors 2 --seconds 0 --sizes 8 --json
out '"mode": "n:2x2"'
for option in '-H a' '--hostfile a' '-rf a'; do
    # shellcheck disable=SC2086 # two words
    status 2 "$lockstep" run --transport local $option -- topo
    err 'ranks that are threads are on this host'
done
status 2 "$lockstep" run --transport local --accelerators 2 -- topo
err 'option --accelerators: ranks that are threads are on this host'
