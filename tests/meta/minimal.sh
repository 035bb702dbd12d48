#!/bin/sh
# The command of a build that has neither MPI nor libyaml, zlib, hwloc or vectors: what it can do it does,
# and what it cannot it says, with what is missing.
. "$(dirname "$0")/../cli/expect.sh"

status 0 "$lockstep" info
out 'no module for openmpi in this build'
grep -q "scalar *in use" "$work/out" || fail "another instruction set than scalar is in use"

# The kernels, and calls between ranks that are threads.
status 0 "$lockstep" selfcheck --threads 1 gemm conv_forward
status 0 "$lockstep" run -n 2 -- gradcheck allreduce
err 'transport local: there is no MPI'
out 'all pass'

# Experiments and packed files.
status 2 "$lockstep" train "$tests/../experiments/demo.yaml"
err 'demo.yaml: this build cannot read YAML: it was made without libyaml'
printf 'not read' | gzip >"$work/train-images-idx3-ubyte.gz"
status 2 "$lockstep" data inspect "$work/train-images-idx3-ubyte.gz"
err 'this build cannot read compressed data: build with zlib'
