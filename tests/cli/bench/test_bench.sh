#!/bin/sh
# The bench: peers that are there, peers that are not, filters.
. "$(dirname "$0")/../expect.sh"

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
out '"of_copies": '
out '"cases": '
figures
status 0 "$lockstep" bench kernels --scaling --seconds 0 --filter '1000-10 b1 forward'
grep -Eq '^case .* 1 thread GF/s +N threads GF/s +speedup +N copies +of copies$' "$work/out" || fail 'other columns'
grep -Eq '^linear 1000-10 b1 forward +2 ' "$work/out" || fail 'no small case'
status 2 "$lockstep" bench kernels --scaling --threads 1 --seconds 0 --filter '1000-10 b1 forward'
err 'lockstep bench kernels: option --threads: --scaling compares several threads with one, so give 2 or more'
no_out

# with those that this build has: results are compared before they are timed
for peer in openblas onednn; do
    [ -e "$(dirname "$lockstep")/peers/lockstep-peer-$peer.so" ] || continue
    status 0 "$lockstep" bench kernels --json --against $peer --seconds 0 --filter '1000-10 b16'
    "$json" <"$work/out" || fail 'JSON'
    figures
    out "\"case\": \"linear 1000-10 b16 backward-weights\", \"peer\": \"$peer\", \"ratio\": "
    out '"peer_path": "'
done
# a library that is told to run code of an older processor is warned of, and not part of the summary
older()
{
    [ -e "$(dirname "$lockstep")/peers/lockstep-peer-$1.so" ] || return 0
    grep -qw avx2 /proc/cpuinfo || return 0
    status 0 env "$3" "$lockstep" bench kernels --json --against "$1" --seconds 0 --filter '1000-10 b16 forward'
    err "warning: $1 fell back to its code path $2, which is less than the avx"
    out "\"peer_path\": \"$2\", \"peer_warning\": \"$1 fell back to its code path $2, which is"
    grep -q '"summary"' "$work/out" && fail 'a summary of ratios that are none'
    status 0 env "$3" "$lockstep" bench kernels --against "$1" --seconds 0 --filter '1000-10 b16 forward'
    grep -q "^$1: .*, code path $2\$" "$work/out" || fail "the head does not name the code path $2"
}
older openblas Prescott OPENBLAS_CORETYPE=Prescott
older onednn sse41 ONEDNN_MAX_CPU_ISA=SSE41
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

# bench devices: on the cores of this machine, of which there must be two
if [ "$(nproc)" -ge 2 ]; then
    status 0 "$lockstep" bench devices --seconds 0 --batch 8 --shards 2 --filter mlp
    out 'f32, a batch of 8 in 2 shards over 2 devices'
    out 'mlp 784-500-10'
    status 0 "$lockstep" bench devices --json --seconds 0 --batch 8 --shards 2 --filter mlp
    "$json" <"$work/out" || fail 'JSON'
    figures
    out '"case": "mlp 784-500-10", "devices": "'
fi
status 2 "$lockstep" bench devices --filter vgg
err 'no case contains "vgg"'
status 2 "$lockstep" bench devices --devices gpu:0,gpu:1
err 'lockstep bench devices: '

# bench data: a folder for the files, which is gone afterwards
mkdir "$work/data"
status 0 "$lockstep" bench data --json --against none --seconds 0 --samples 640 --folder "$work/data" --filter plain
"$json" <"$work/out" || fail 'JSON'
figures
for case in 'plain shuffled' 'plain in order' 'plain stream'; do
    out "\"case\": \"$case\", \"readers\": 1, \"peer\": \"memcpy\", \"gbytes_per_s\": "
    out "\"case\": \"$case\", \"readers\": 2, \"peer\": \"copies\", \"gbytes_per_s\": "
done
[ -z "$(ls "$work/data")" ] || fail 'files are left'
status 0 "$lockstep" bench data --python /nowhere/python3 --readers 3 --seconds 0 --samples 640 --filter 'gzip'
out '640 images of 32x32x3 bytes in records, batches of 128 as f32'
out 'torch: there is no Python at /nowhere/python3 (see --python)'
status 1 "$lockstep" bench data --against tensorflow --python /nowhere/python3 --seconds 0 --samples 640
err 'lockstep bench data: tensorflow: there is no Python'
status 2 "$lockstep" bench data --against dali
err 'tensorflow, torch or none'
status 2 "$lockstep" bench data --filter zstd
err 'no case contains "zstd"'
status 1 "$lockstep" bench data --folder "$work/none" --seconds 0
err "$work/none: no folder can be made there"

# A Python that says it is PyTorch, and how long the n-th sample took: 100 s and next to nothing in turn,
# or 1 s; next to it, what it computed.
cat >"$work/python" <<'END'
#!/bin/sh
printf 'PyTorch 0.0\t%s\n' "$PEER_PATH"
n=0
while read -r what rest; do
    n=$((n + 1))
    seconds=1
    if [ "$PEER_TIME" = wild ] && [ $((n % 2)) -eq 1 ]; then seconds=1000; fi
    case $what in mul | mixed) value=0.99 ;; add) value=1 ;; tanh) value=0.786448 ;; *) value=89610 ;; esac
    echo $seconds $value
done
END
chmod +x "$work/python"
export PEER_PATH PEER_TIME
PEER_PATH='capability AVX512, OpenBLAS SkylakeX' PEER_TIME=steady
status 0 "$lockstep" bench tape --json --python "$work/python" --seconds 0 --ops 1 --elements 3
no_err
"$json" <"$work/out" || fail 'JSON'
figures
grep -Eq '"peer": "torch", .*"peer_microseconds": [0-9.e+]+, "peer_microseconds_noise": [0-9]' "$work/out" ||
    fail 'no figure of a peer that always takes the same time'
out '"peer_path": "capability AVX512, OpenBLAS SkylakeX", "rounds": '
# what is below its noise is not printed: neither a time nor a ratio
PEER_TIME=wild
status 0 "$lockstep" bench tape --json --python "$work/python" --seconds 0 --ops 1 --elements 3
[ "$(grep -c '"peer_microseconds": null, .*"ratio": null, ' "$work/out")" -eq 4 ] ||
    fail 'figures of a peer that takes any time'
figures
status 0 "$lockstep" bench tape --python "$work/python" --seconds 0 --ops 1 --elements 3
[ "$(grep -Ec '^(mul|add|tanh|mixed) +.* +- +-$' "$work/out")" -eq 4 ] ||
    fail 'no dashes for what is not known'
status 0 "$lockstep" bench step --json --against torch --python "$work/python" --seconds 0 --filter 'mlp-100 b100 sgd'
figures
grep -q '"peer_samples_per_s": null, .*"ratio": null, ' "$work/out" || fail 'a ratio below its noise'
# what PyTorch computes with is named, and warned of where it is older than the processor
if grep -qw avx2 /proc/cpuinfo; then
    PEER_PATH='capability AVX512, OpenBLAS Prescott'
    status 0 "$lockstep" bench tape --python "$work/python" --seconds 0 --ops 1
    err "warning: PyTorch fell back to its code path $PEER_PATH, which is less than"
    out "torch: PyTorch 0.0, code path $PEER_PATH"
    status 0 "$lockstep" bench step --python "$work/python" --seconds 0 --filter 'mlp-100 b100 sgd'
    err "warning: PyTorch fell back to its code path $PEER_PATH, which is less than"
    out "torch: PyTorch 0.0, code path $PEER_PATH"
fi
unset PEER_PATH PEER_TIME

# Every column of bench step is explained, there and in the documents.
status 0 "$lockstep" bench step --help
tr '\n' ' ' <"$work/out" >"$work/help"
for column in samples/s "peer's" ms ratio effic. threads limit price data forward backward wait exchange update rest; do
    sed 's/^.*Columns: //; s/JSON: .*$//' "$work/help" | grep -qF -- "$column" || fail "--help does not explain $column"
    grep '^| `' "$tests/../docs/guide/running.md" | grep -qF -- "\`$column\`" || fail "docs/guide/running.md does not explain $column"
done

# bench step: alone, as JSON, an experiment of one's own, and against PyTorch where it is installed
status 0 "$lockstep" bench step --against none --seconds 0 --filter 'mlp-100 '
out 'torch: not asked for'
grep -Eq '^mlp-100 b100 adam +canonical +- +([0-9]+ \+- ?[0-9]+%|-) +- +- ' "$work/out" || fail 'no samples a second'
status 0 "$lockstep" bench step --json --against none --seconds 0 --filter 'lenet'
"$json" <"$work/out" || fail 'JSON'
out '"case": "lenet b64 momentum", "mode": "canonical", "ranks": 1, "samples_per_s": '
figures
out '"backward": '
status 0 "$lockstep" bench step --json --against none --seconds 0 --filter resnet-20 data.batch=8
out '"case": "resnet-20 b128 momentum", '
out '"case": "resnet-20 b128 winograd", '
status 0 "$lockstep" bench step --json --against none --seconds 0 --filter 64x128 data.batch=8
out '"case": "lstm 64x128 b32 adam", '
out '"case": "gru 64x128 b32 adam", '
# another layout than parts of the batch: of as many ranks as there are
status 0 "$lockstep" run -n 2 --transport local -- bench step --json --against none --seconds 0 \
    --filter 'mlp-100 b100 sgd' --layout features2
out '"ranks": 2, "samples_per_s": '
status 2 "$lockstep" bench step --against none --seconds 0 --layout features2
err 'option --layout: features2 is of 2 ranks, and there is 1: lockstep run -n 2'
status 2 "$lockstep" bench step --against none --seconds 0 --layout banana
err 'option --layout: layout "banana"'
status 0 "$lockstep" bench step --seconds 0 --threads 2 experiments/mnist-mlp.yaml \
    'data={type: glyphs, count: 64, test_count: 0, batch: 16}'
out 'own experiment, 2 threads'
grep -Eq '^experiments/mnist-mlp.yaml +canonical +- +([0-9]+ \+-|- )' "$work/out" || fail 'no row of the experiment'
status 2 "$lockstep" bench step experiments/none.yaml
status 2 "$lockstep" bench step --against tensorflow
err 'lockstep bench step: option --against: torch, ddp, or none'
status 2 "$lockstep" bench step --mode slow
err 'lockstep bench step: option --mode: canonical, fast, or both'
status 2 "$lockstep" bench step --against none parallel.update=nobody
err 'nobody'
status 1 "$lockstep" bench step --against torch --python /nowhere/python3
err 'lockstep bench step: PyTorch: there is no Python at /nowhere/python3 (see --python)'
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
    status 0 "$lockstep" bench step --json --against torch --seconds 0 --filter 'mlp-100 b100 sgd'
    "$json" <"$work/out" || fail 'JSON'
    out '"case": "mlp-100 b100 sgd", "mode": "canonical", "ranks": 1, "peer": "torch", "samples_per_s": '
    out '"ratio": '
    # the same networks: as many parameters
    for case in resnet-20 lstm gru; do
        status 0 "$lockstep" bench step --json --against torch --seconds 0 --filter "$case"
    done
    status 0 "$lockstep" run -n 2 --transport local -- bench step --json --against ddp --seconds 0 \
        --filter 'mlp-100 b100 sgd'
    out '"case": "mlp-100 b100 sgd", "mode": "canonical", "ranks": 2, "peer": "ddp", "samples_per_s": '
fi

# on ranks: one alone, and all of them in both modes
status 0 "$lockstep" run -n 2 --transport local -- bench step --json --against none --seconds 0 \
    --mode canonical,fast --filter 'mlp-100 b100 sgd' parallel.update=each
"$json" <"$work/out" || fail 'JSON'
figures
grep -Eq '"mode": "canonical", "ranks": 2, .*"efficiency": .*"limit": .*"price": .*"data": ' "$work/out" ||
    fail 'no efficiency, limit and price of canonical'
grep '"mode": "fast", "ranks": 2, .*"efficiency": .*"limit": .*"data": ' "$work/out" | grep -qv '"price"' ||
    fail 'no efficiency of fast, or a price'
[ "$(wc -l <"$work/out")" -eq 2 ] || fail 'not two rows'
# U-Nets are cut: two ranks have tiles of each image, and one rank with two threads a turn
status 0 "$lockstep" run -n 2 --transport local -- bench step --json --against none --seconds 0 --filter 'unet b4' \
    data.shape=32,32,1
"$json" <"$work/out" || fail 'JSON'
[ "$(nproc)" -lt 2 ] || grep -Eq '"case": "unet b4 adam", "mode": "canonical", "ranks": 2, .*"threads": .*"limit": ' "$work/out" ||
    fail 'no one with two threads'
status 2 "$lockstep" run -n 3 --transport local -- bench step --against none --seconds 0 --filter 'unet3d'
err '3 ranks for a batch of 2 shards'
status 2 "$lockstep" run -n 9 --transport local -- bench step --against none --seconds 0 --filter lenet
err '9 ranks for a batch of 8 shards'
