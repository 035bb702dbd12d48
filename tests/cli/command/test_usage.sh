#!/bin/sh
# Help, unknown names, bad values: what is said, where, and with which exit status.
# shellcheck disable=SC2086 # some variables are several words
. "$(dirname "$0")/../expect.sh"

# help goes to stdout with status 0, no verb at all is wrong usage
status 0 "$lockstep" --help
out 'usage: lockstep VERB'
no_err
cp "$work/out" "$work/help"
status 0 "$lockstep" help
cmp -s "$work/out" "$work/help" || fail '"lockstep help" differs from --help'
status 2 "$lockstep"
err 'usage: lockstep VERB'
no_out
status 0 "$lockstep" --version
grep -Eq '^lockstep [0-9]+\.[0-9]+\.[0-9]+ \(numerics epoch [0-9]+, hash format 2\)$' "$work/out" || fail 'version'

# every verb and kind explains itself, in both ways
for verb in bench ckpt data info list plan run selfcheck topo verify 'bench kernels' 'ckpt diff' 'data inspect'; do
    status 0 "$lockstep" $verb --help
    out "usage: lockstep $verb"
    out '--help'
    cp "$work/out" "$work/help"
    status 0 "$lockstep" help $verb # and what else has the name, as bench data has
    head -n "$(wc -l <"$work/help")" "$work/out" | cmp -s - "$work/help" || fail "help $verb differs from $verb --help"
done
status 0 "$lockstep" selfcheck --help
out '(default'
out '1,2,3,4)'

# verbs that take layouts name all ways to cut the work
for verb in train eval run verify plan; do
    status 0 "$lockstep" $verb --help
    for word in data features stages; do
        grep -q "$word" "$work/out" || fail "$verb --help does not name $word"
    done
    grep -q 'spatial\|2x2' "$work/out" || fail "$verb --help names no grid"
done
status 0 "$lockstep" train --help
out 'parallel.devices'

# unknown names
status 2 "$lockstep" selfchek
err 'unknown verb "selfchek"; did you mean "selfcheck"?'
no_out
status 2 "$lockstep" zzz
err 'unknown verb "zzz"'
if grep -q 'did you mean' "$work/err"; then fail 'a far-fetched suggestion'; fi
# help offers what to type, and so it does where a name is that of several
status 2 "$lockstep" help inf
err 'did you mean "lockstep help info"?'
status 2 "$lockstep" help linaer
err 'did you mean "lockstep help linear"?'
status 2 "$lockstep" help layer cnv
err 'did you mean "lockstep help layer conv"?'
status 2 "$lockstep" help leyer conv
err 'did you mean "lockstep help layer conv"?'
status 2 "$lockstep" help convrt
err 'did you mean "lockstep help data convert"?'
status 0 "$lockstep" help conv
out 'one alone: lockstep help op conv, lockstep help layer conv'
status 0 "$lockstep" help lenet
! grep -q 'one alone' "$work/out" || fail 'one of one'
status 2 "$lockstep" help info kernels
err 'has no kinds'
status 2 "$lockstep" bench
err 'say which kind'
status 2 "$lockstep" bench kernel
err 'unknown kind "kernel"; did you mean "kernels"?'
# what is missing is named as the usage line names it
while read -r missing verb; do
    status 2 "$lockstep" $verb
    err "error: lockstep ${verb% one}: $missing is missing"
    err "  usage: lockstep ${verb% one} "
done <<END
FILE.yaml train
FILE.yaml eval
FILE.yaml verify
FILE ckpt inspect
FILE ckpt hash
FILE ckpt import
OUT ckpt import one
FILE ckpt export
OUT ckpt export one
FIRST ckpt diff
SECOND ckpt diff one
OUT data convert
VERB|PROGRAM run
END
status 2 "$lockstep" info --jsno
err 'unknown option "--jsno"; did you mean "--json"?'
status 2 "$lockstep" info -x
err 'unknown option "-x"'
status 2 "$lockstep" list ops extra
err 'there is nothing to do with "extra"'
status 2 "$lockstep" list kernel
err 'did you mean "kernels"?'
err 'kinds are verbs, isas, dtypes, kernels, ops, nodes, collectives, checks, benches, cases, peers, sections, formats,'
status 2 "$lockstep" selfcheck gem
err 'no check named "gem"; did you mean "gemm"?'

# bad values: the option, the value and the range are named
status 2 "$lockstep" selfcheck --threads
err 'option --threads needs a value'
status 2 "$lockstep" selfcheck --threads 0
err 'option --threads: "0" is out of range, it must be from 1 to 256'
status 2 "$lockstep" selfcheck --threads=1,x
err 'option --threads: "x" is not a whole number'
status 2 "$lockstep" selfcheck --threads 1,,2
err 'empty item'
status 2 "$lockstep" selfcheck --threads 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
err 'at most 16'
status 2 "$lockstep" selfcheck --threads 1,2,1
err 'option --threads: "1" is in the list twice'
status 2 "$lockstep" selfcheck --isa scalar,scalar
err 'option --isa: "scalar" is in the list twice'
status 2 "$lockstep" selfcheck --seed -1
err 'option --seed: "-1" is out of range, it must be from 0 to 1000000000000000'
status 2 "$lockstep" bench kernels --seconds -0.5
err 'it must be from 0 to 3600'
status 0 "$lockstep" selfcheck --help
out 'from 0 to 1000000000000000 (default 1)'
status 2 "$lockstep" selfcheck --threads 99999999999999999999
err 'too large'
status 2 "$lockstep" selfcheck --json=yes
err 'takes none'
status 2 "$lockstep" selfcheck --isa sse9
err 'no instruction set named "sse9"'
status 2 "$lockstep" bench kernels --seconds fast
err 'option --seconds: "fast" is not a number'
status 2 "$lockstep" bench kernels --seconds nan
err 'is not a number'
status 2 "$lockstep" bench kernels --dtype i32
err 'f32 and f64 only'
status 2 "$lockstep" bench kernels --against mkl
err 'known libraries are'
status 2 "$lockstep" bench kernels --against none --filter nothing
err 'no case has that in its name'

# the environment
status 2 env LK_ISA=sse9 "$lockstep" info
out 'sse9'
status 2 env LK_THREADS=none "$lockstep" info
out 'LK_THREADS'
status 0 env LK_ISA=scalar LK_THREADS=3 "$lockstep" info
out 'because LK_ISA says so'
out 'because LK_THREADS says so'

# ranks that a launcher bound to cores of their own use them; others share
if command -v taskset >/dev/null; then
    core=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
    status 0 env OMPI_COMM_WORLD_LOCAL_SIZE=2 taskset -c "$core" "$lockstep" info
    grep -Eq '^threads +in use +1 ' "$work/out" || fail 'one core, but not one thread'
fi
status 0 env MPI_LOCALNRANKS=1000000 "$lockstep" info
grep -Eq '^threads +in use +1 ' "$work/out" || fail 'a million ranks share the cores'

# options may stand behind operands; -- ends them
status 0 "$lockstep" list verbs --json
status 2 "$lockstep" list -- --json
err 'unknown kind "--json"'
