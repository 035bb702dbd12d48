#!/bin/sh
# The project keeps to its layers, and tools/check-layers finds each kind of violation.
set -eu
check=$PWD/tools/check-layers
"$check" --tight

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/include/lockstep" "$tree/cli"

# rejects FILE INCLUDE MESSAGE: the include alone makes the check fail, with this message.
rejects() {
    mkdir -p "$(dirname "$tree/$1")"
    printf '/* A comment. */\n#include %s\n' "$2" >"$tree/$1"
    if found=$("$check" "$tree" 2>&1); then
        echo "not found: $2 in $1"
        exit 1
    fi
    case $found in
    "$1:"*"$3"*) ;;
    *)
        echo "expected \"$1: ... $3\", got \"$found\""
        exit 1
        ;;
    esac
    rm "$tree/$1"
}

accepts() {
    mkdir -p "$(dirname "$tree/$1")"
    printf '#include %s\n' "$2" >"$tree/$1"
    "$check" "$tree"
}

rejects src/ops/relu.c '<lockstep/comm.h>' 'ops must not include comm'
rejects src/ops/relu.c '"comm/ring.h"' 'ops must not include comm'
rejects src/coll/ring.c '<lockstep/autograd.h>' 'coll must not include autograd'
rejects src/coll/ring.c '"tensor/view.h"' 'coll must not include tensor'
rejects src/kernel/gemm/gemm.c '<lockstep/tensor.h>' 'kernel must not include tensor'
rejects src/base/log.c '"kernel/runtime/isa.h"' 'base must not include kernel'
rejects src/nn/linear.c '"train/loop.h"' 'nn must not include train'
rejects src/io/manifest.c '"config/yaml.h"' 'io must not include config'
rejects src/io/manifest.c '<lockstep/parallel.h>' 'io must not include parallel'
rejects src/dist/halo.c '<mpi.h>' 'only comm may include <mpi.h>'
rejects src/base/log.c '<lockstep/lockstep.h>' 'base must not include public'
rejects src/base/log.c '"log.h"' 'base must not include log.h'
rejects src/attic/old.c '<stdio.h>' 'no room "attic"'
rejects include/lockstep/attic.h '<stdio.h>' 'belongs to no room'
rejects include/lockstep/ops.h '<lockstep/comm.h>' 'ops must not include comm'
rejects include/lockstep/extra/attic.h '<stdio.h>' 'belongs to no room'
rejects include/lockstep/extra/pool.h '<lockstep/comm.h>' 'kernel must not include comm'
rejects include/lockstep/ops.h '<lockstep/extra/conv.h>' 'must not include one that may change'
rejects src/base/log.c '<lockstep/extra/conv.h>' 'base must not include kernel'
rejects cli/main.c '"base/log.h"' 'cli must not include that file'
rejects cli/main.c '"../src/base/log.h"' 'cli must not include that file'
rejects cli/main.c '<mpi.h>' 'only comm may include <mpi.h>'
rejects cli/verbs/bench.c '"kernel/reference/reference.h"' 'cli must not include reference'
rejects cli/selfcheck/check.c '"kernel/gemm/gemm.h"' 'selfcheck must not include that file'
rejects src/kernel/gemm/gemm.c '"kernel/reference/reference.h"' 'kernel must not include reference'
rejects src/train/loop.c '"kernel/reference/reference.h"' 'train must not include reference'
rejects src/kernel/reference/gemm.c '"kernel/gemm/gemm.h"' 'reference must not include that file'
rejects src/kernel/reference/gemm.c '<lockstep/tensor.h>' 'reference must not include tensor'

accepts src/comm/mpi.c '<mpi.h>'
accepts src/dist/halo.c '"coll/ring.h"'
accepts src/train/loop.c '"config/yaml.h"'
accepts src/io/manifest.c '"coll/agree.h"'
accepts include/lockstep/lockstep.h '<lockstep/comm.h>'
accepts include/lockstep/extra/pool.h '<lockstep/extra/conv.h>'
accepts cli/bench/run.h '<lockstep/extra/conv.h>'
accepts cli/verb.h '<lockstep/comm.h>'
accepts cli/verbs/info.c '"verb.h"'
accepts cli/selfcheck/check.c '"verb.h"'
accepts cli/selfcheck/check.c '"kernel/reference/reference.h"'
accepts cli/selfcheck/check.c '<lockstep/tensor.h>'
accepts src/kernel/reference/gemm.c '"kernel/reference/reference.h"'
accepts src/kernel/reference/gemm.c '<lockstep/extra/gemm.h>'

# A room that is allowed and not used.
generous=$tree/check-layers
sed 's/^models   : base nn /models   : base ops nn /' "$check" >"$generous"
chmod +x "$generous"
"$generous" "$PWD"
if found=$("$generous" --tight "$PWD" 2>&1); then
    echo 'not found: a room that is allowed and not used'
    exit 1
fi
case $found in
*'models may use ops, but does not'*) ;;
*)
    echo "expected \"models may use ops\", got \"$found\""
    exit 1
    ;;
esac
