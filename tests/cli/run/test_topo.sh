#!/bin/sh
# lockstep topo: the tree, its JSON, rank files, and what is refused.
. "$(dirname "$0")/../expect.sh"

# one rank
status 0 "$lockstep" topo
out '1 rank on 1 host, tiers b:1 as found'
out '└─ rank 0'
no_err
status 0 "$lockstep" topo --json
"$json" <"$work/out" || fail 'no JSON'
out '{"tier": 0, "name": "host", "size": 1}'
grep -Eq '^\{"rank": 0, "at": "0", "host": ".+", "node": 0,.* "cores": "[0-9].*"\}$' "$work/out" ||
    fail 'no rank in the JSON'

# a job to come
status 0 "$lockstep" topo --mode c:2x2 --hosts a,b --sockets 2 --cores 4
cat >"$work/want" <<'END'
4 ranks on 2 hosts, tiers c:2x2 as declared

Y
├─ X 0: a
│  ├─ rank 0  package 0  cores 0-3
│  └─ rank 1  package 1  cores 0-3
└─ X 1: b
   ├─ rank 2  package 0  cores 0-3
   └─ rank 3  package 1  cores 0-3
END
cmp -s "$work/out" "$work/want" || fail 'another tree'
status 0 "$lockstep" topo --mode 4x3 --hosts a,b,c --sockets 2 --cores 8 --json
"$json" <"$work/out" || fail 'no JSON'
out '{"tier": 1, "name": "Y", "size": 3}'
out '{"rank": 11, "at": "3,2", "host": "c", "node": 2, "package": 1, "cores": "4-7"}'

# rank files: X ranks a host, spread over the sockets, equal shares of the cores
rankfile()
{
    status 0 "$lockstep" topo --rankfile "$@"
    no_err
}
rankfile --mode 4x3 --hosts a,b,c --sockets 2 --cores 8
[ "$(wc -l <"$work/out")" -eq 12 ] || fail 'not 12 lines'
for line in 'rank 0=a slot=0:0-3' 'rank 1=a slot=0:4-7' 'rank 2=a slot=1:0-3' \
    'rank 4=b slot=0:0-3' 'rank 11=c slot=1:4-7'; do
    grep -qx "$line" "$work/out" || fail "no line $line"
done
rankfile --mode n:3x1x2 --hosts r1h1,r2h1 --sockets 2 --cores 3
printf 'rank %s\n' 0=r1h1\ slot=0:0 1=r1h1\ slot=0:1-2 2=r1h1\ slot=1:0-2 \
    3=r2h1\ slot=0:0 4=r2h1\ slot=0:1-2 5=r2h1\ slot=1:0-2 >"$work/want"
cmp -s "$work/out" "$work/want" || fail 'another rank file for 3x1x2'
rankfile --mode 1x2 --hosts a,b --sockets 2 --cores 2
printf 'rank 0=a slot=0:0-1\nrank 1=b slot=0:0-1\n' >"$work/want"
cmp -s "$work/out" "$work/want" || fail 'another rank file for 1x2'

# where hosts have slots for them, ranks share cores
rankfile --mode 4x1 --hosts a:4 --sockets 1 --cores 2
printf 'rank %s\n' 0=a\ slot=0:0 1=a\ slot=0:0 2=a\ slot=0:1 3=a\ slot=0:1 >"$work/want"
cmp -s "$work/out" "$work/want" || fail 'another rank file for 4 ranks on 2 cores'

# hosts of a file
printf '# two\n\nb slots=1\na:1 # the last\n' >"$work/hosts"
rankfile --mode 1x2 --hostfile "$work/hosts" --sockets 1 --cores 2
printf 'rank 0=b slot=0:0-1\nrank 1=a slot=0:0-1\n' >"$work/want"
cmp -s "$work/out" "$work/want" || fail 'another rank file for a file of hosts'

# what is refused
printf 'a\nb slots=two\n' >"$work/hosts"
status 2 "$lockstep" topo --mode 1x2 --hostfile "$work/hosts"
err "lockstep topo: $work/hosts:2: \"slots=two\" is not known here"
status 2 "$lockstep" topo --mode 1x2 --hostfile "$work/hosts" --hosts a
err 'options --hosts and --hostfile: give one of them'
status 2 "$lockstep" topo --mode 4x3
err 'mode b:4x3: the dimensions 4x3 hold 12 ranks, but there are 1'
status 2 "$lockstep" topo --mode q:4
err 'no algorithm "q"; the letters are b n r m c p'
status 2 "$lockstep" topo --mode 4x3 --hosts a,b --rankfile
err 'mode b:4x3 is for 3 hosts, but 2 are named'
status 2 "$lockstep" topo --mode 4x2 --hosts a,b --rankfile --sockets 1 --cores 2
err 'mode b:4x2 puts 4 ranks on a host, but host a has 2 cores (1 socket of 2) in 4 sets'
err 'ranks may share cores where a host has slots: a:4'
status 2 "$lockstep" topo --mode 4x2 --hosts a:4,b:3 --rankfile --sockets 1 --cores 2
err 'mode b:4x2 puts 4 ranks on host b, which has 3 slots'
status 2 "$lockstep" topo --mode 2x2 --hosts a:4,b:x --rankfile
err 'option --hosts: host 2 has no number from 1 to 1000000 behind its colon'
status 2 "$lockstep" topo --mode 2x2 --hosts a,a --rankfile
err '"a" is in the list twice'
status 2 "$lockstep" topo --mode 2x2 --hosts 'a,b slot' --rankfile
err 'host 2 has a character that no host'
status 2 "$lockstep" topo --mode 2x2 --hosts 'a,' --rankfile
err 'host 2 has no name'
status 2 "$lockstep" topo --mode p --hosts a --rankfile
err '--hosts needs a --mode with dimensions'
status 2 "$lockstep" topo --rankfile --mode 2
err '--rankfile needs --hosts'
status 2 "$lockstep" topo --hosts a
err '--hosts needs --mode'
status 2 "$lockstep" topo --mode 1 --hosts a --rankfile --json
err 'a rank file is no JSON'

# devices: the cores of the mask, or what LK_DEVICES says
status 0 "$lockstep" topo --devices
no_err
grep -Eq '^device +name +processors$' "$work/out" || fail 'no titles'
grep -Eq '^ +0  core:[0-9]+ +[0-9]' "$work/out" || fail 'no device 0'
status 0 "$lockstep" topo --devices --json
"$json" <"$work/out" || fail 'no JSON'
cp "$work/out" "$work/devices"
sed -n 1p "$work/out" | grep -Eqx '\{"device": 0, "name": "core:[0-9]+", "kind": "cpu", "processors": "[0-9,-]+"\}' ||
    fail 'another line for device 0'
# one processor: one device, which has it and nothing else
first=$(sed -n '1s/.*"processors": "\([0-9]*\).*/\1/p' "$work/devices")
if command -v taskset >/dev/null; then
    status 0 taskset -c "$first" "$lockstep" topo --devices --json
    [ "$(wc -l <"$work/out")" -eq 1 ] || fail 'not one device on one processor'
    out "\"processors\": \"$first\"}"
else
    echo 'not tested: devices under another mask: there is no taskset'
fi
status 0 env LK_DEVICES=0 "$lockstep" topo --devices --json
sed -n 1p "$work/devices" | cmp -s - "$work/out" || fail 'LK_DEVICES=0 is not the first'
if [ "$(wc -l <"$work/devices")" -ge 2 ]; then
    status 0 env LK_DEVICES=1,0 "$lockstep" topo --devices --json
    for i in 0 1; do
        name=$(sed -n "$((2 - i))s/.*\"name\": \"\([^\"]*\)\".*/\1/p" "$work/devices")
        out "{\"device\": $i, \"name\": \"$name\""
    done
else
    echo 'not tested: the order of LK_DEVICES: there is one core'
fi
status 0 env "LK_DEVICES=cpu:$first" "$lockstep" topo --devices
grep -Eqx " +0  cpu:$first +$first" "$work/out" || fail 'LK_DEVICES by name'
for wrong in '0,0:column 3: the device core:' '0,4096:column 3: there is no device 4096; there are ' \
    'all:column 1: no kind of device "all"'; do
    status 2 env LK_DEVICES="${wrong%%:*}" "$lockstep" topo --devices
    err "error: lockstep topo: LK_DEVICES \"${wrong%%:*}\", ${wrong#*:}"
done
status 2 "$lockstep" topo --devices --mode 1
err '--devices is a list of this process: it goes with --json alone'

# The line of facts that hosts are asked for.
status 0 "$lockstep" info --host --program sh
grep -Eqx 'lockstep host -1 version [0-9.]+ epoch 2 hash 2 sockets [0-9]+ cores [0-9]+ isa [a-z0-9]+ modules [a-z+]+ program 1 processors [0-9,+]+' \
    "$work/out" || fail 'another line'
status 0 "$lockstep" info --host --program "$work/none"
out ' program 0 '

# under Open MPI: rank 0 prints, once; the rank file does what it says
if command -v mpirun.openmpi >/dev/null && [ -e "$(dirname "$lockstep")/mpi/lockstep-mpi-openmpi.so" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
    status 0 mpirun.openmpi --oversubscribe --bind-to none -n 4 "$lockstep" topo --mode 2x2
    [ "$(grep -c 'tiers b:2x2 as declared' "$work/out")" -eq 1 ] || fail 'not printed once'
    [ "$(grep -c 'rank [0-3]  ' "$work/out")" -eq 4 ] || fail 'not four ranks'
    status 2 mpirun.openmpi --oversubscribe --bind-to none -n 4 "$lockstep" topo --mode 3x2
    [ "$(grep -c '3x2 hold 6 ranks, but there are 4' "$work/err")" -eq 1 ] || fail 'not said once'
    cores=$("$lockstep" topo --json | sed -n 's/.*"cores": "\(.*\)"}/\1/p')
    if [ "$cores" = 0-1 ]; then
        "$lockstep" topo --mode 2x1 --hosts "$(hostname)" --rankfile --sockets 1 --cores 2 >"$work/rf"
        status 0 mpirun.openmpi -n 2 -rf "$work/rf" "$lockstep" topo
        grep -Eq 'rank 0 .*core 0$' "$work/out" || fail 'rank 0 is not on core 0'
        grep -Eq 'rank 1 .*core 1$' "$work/out" || fail 'rank 1 is not on core 1'
    fi
fi
