#!/bin/sh
# The bench: peers that are there, peers that are not, filters.
. "$(dirname "$0")/expect.sh"

# without any peer module in reach
cp "$lockstep" "$work/lockstep"
status 0 "$work/lockstep" bench kernels --seconds 0 --filter '1000-10 b16 forward'
err 'note: onednn cannot be measured'
err 'note: openblas cannot be measured'
out 'linear 1000-10 b16 forward'
status 2 "$work/lockstep" bench kernels --against openblas --filter '1000-10 b16 forward'
err 'error: openblas cannot be measured'
err 'libopenblas-dev'
no_out
status 0 "$work/lockstep" list peers
out 'not found'

# f64, and another instruction set
status 0 "$lockstep" bench kernels --against none --seconds 0 --dtype f64 --isa scalar --filter '1000-10 b16'
out 'f64, scalar, 1 thread, medians of processor time'

# several threads next to as many copies
status 0 "$lockstep" bench kernels --json --scaling --threads 3 --seconds 0 --filter 'conv 16x16x64-64 b32 forward'
out '"threads": 3, "gflops_one_thread": '
out '"limit": '

# with those that this build has: results are compared before they are timed
for peer in openblas onednn; do
    [ -e "$(dirname "$lockstep")/peers/lockstep-peer-$peer.so" ] || continue
    status 0 "$lockstep" bench kernels --json --against $peer --seconds 0 --filter '1000-10 b16'
    "$json" <"$work/out" || fail 'JSON'
    out "\"case\": \"linear 1000-10 b16 backward-weights\", \"peer\": \"$peer\", \"ratio\": "
    out '"summary": "linear, 16 rows and more, forward"'
done
if [ -e "$(dirname "$lockstep")/peers/lockstep-peer-onednn.so" ]; then
    status 0 "$lockstep" bench kernels --against onednn --seconds 0 --filter 'conv 28x28x128-256'
    out 'conv 28x28x128-256 3x3/2 b8 backward-weights'
fi

# bench tape: without PyTorch, with a Python that is not there, and with a chain of one op
status 0 "$lockstep" bench tape --against none --seconds 0 --ops 1 --elements 3
out 'f32[3], chains of 1 ops'
out 'mixed'
status 1 "$lockstep" bench tape --against torch --python /nowhere/python3 --seconds 0 --ops 1
err 'there is no Python at /nowhere/python3 (see --python)'
status 0 "$lockstep" bench tape --python /nowhere/python3 --seconds 0 --ops 1 --elements 3
out 'torch: there is no Python at /nowhere/python3 (see --python)'
status 0 "$lockstep" list peers
out 'torch  '
status 2 "$lockstep" bench tape --against tensorflow
err 'torch or none'

# bench step: alone, as JSON, an experiment of one's own, and against PyTorch where it is installed
status 0 "$lockstep" bench step --against none --seconds 0 --filter 'mlp-100 '
out 'torch: not asked for'
grep -Eq '^mlp-100 b100 adam +[0-9]+ +- +- ' "$work/out" || fail 'no samples a second'
status 0 "$lockstep" bench step --json --against none --seconds 0 --filter 'lenet'
"$json" <"$work/out" || fail 'JSON'
out '"case": "lenet b64 momentum", "samples_per_s": '
out '"backward": 0.'
status 0 "$lockstep" bench step --seconds 0 --threads 2 experiments/mnist-mlp.yaml \
    'data={type: glyphs, count: 64, test_count: 0, batch: 16}'
out 'own experiment, 2 threads'
grep -Eq '^experiments/mnist-mlp.yaml +[0-9]+ ' "$work/out" || fail 'no row of the experiment'
status 2 "$lockstep" bench step experiments/none.yaml
status 2 "$lockstep" bench step --against tensorflow
err 'lockstep bench step: option --against: torch or none'
status 1 "$lockstep" bench step --against torch --python /nowhere/python3
err 'lockstep bench step: PyTorch: there is no Python at /nowhere/python3 (see --python)'
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
    status 0 "$lockstep" bench step --json --against torch --seconds 0 --filter 'mlp-100 b100 sgd'
    "$json" <"$work/out" || fail 'JSON'
    out '"case": "mlp-100 b100 sgd", "peer": "torch", "samples_per_s": '
    out '"ratio": '
fi
