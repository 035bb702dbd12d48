#!/bin/sh
# The two-rank perceptron of examples/, with messages and as a chain list: both print the same and have the
# weights of one process, bit for bit; MNIST's files and generated images; what they refuse.
. "$(dirname "$0")/../expect.sh"
build=$(dirname "$lockstep")
messages=$build/example_mnist_messages
chain=$build/example_mnist_chain
for program in "$messages" "$chain"; do
    [ -x "$program" ] || { echo "SKIPPED: there is no $program"; exit 77; }
done

# Both, on files of the images that are generated without any; a folder may have blanks in its name.
for set in train test; do
    status 0 "$lockstep" data convert --type glyphs count=4000 test_count=500 noise=0 --set $set \
        --to idx "$work/the files"
done
for program in messages chain; do
    status 0 "$build/example_mnist_$program" --unit 64 --epoch 3 --data "$work/the files" \
        --communicator two_dimensional --out "$work/$program"
    no_err
    cmp "$work/out" "$tests"/../examples/output/*_mnist_"$program".txt || fail "$program: another output"
    status 0 "$lockstep" ckpt import "$work/$program/MLP0.safetensors" \
        "$work/$program/MLP1.safetensors" "$work/$program.safetensors"
done
cmp "$work/messages.safetensors" "$work/chain.safetensors" || fail 'messages and chain differ in bits'

# One process: the same weights, losses and accuracies.
cat >"$work/one.yaml" <<END
data: {type: idx, path: "$work/the files", batch: 100, shards: 1, shuffle: false}
model:
  - flatten
  - {type: linear, name: l1, units: 64}
  - relu
  - {type: linear, name: l2, units: 64}
  - relu
  - {type: linear, name: l3, units: 10}
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: adam
train: {epochs: 3, output: $work/one}
END
status 0 "$lockstep" train --json "$work/one.yaml"
sed -n 's/.*"test":{"loss":\([0-9.]*\),"accuracy":\([0-9.]*\)}.*/\1 \2/p' "$work/out" >"$work/wanted"
[ "$(wc -l <"$work/wanted")" -eq 3 ] || fail 'not three epochs of one process'
awk '{ printf "%.6g %.6g\n", $7, $9 }' "$tests/../examples/output/11_mnist_chain.txt" |
    diff - "$work/wanted" || fail 'one process has other scores'
status 0 "$lockstep" ckpt hash "$work/one/weights.safetensors" "$work/chain.safetensors"
[ "$(awk 'NR > 1 { print $1 }' "$work/out" | uniq | wc -l)" -eq 1 ] || fail 'one process has other weights'
[ "$(wc -l <"$work/out")" -eq 3 ] || fail 'not two hashes'

# What is refused, before anything is trained.
status 2 "$chain" --unti 4
err "unrecognized option '--unti'"
status 1 "$messages" --communicator pure_mpi
err 'no allreduce algorithm named "pure_mpi"; the names are'
no_out
status 1 "$chain" --epoch none
err -- '--epoch none is no number of epochs'
status 1 "$chain" --batchsize 0
err 'batch: "0" is out of range'
status 1 "$messages" --unit 0
err 'units: "0" is out of range'
status 1 "$messages" --data "$work/none"
err "$work/none: there is no such file or folder"
for mpi in openmpi mpich; do
    [ -e "$build/mpi/lockstep-mpi-$mpi.so" ] || continue
    for n in 1 3; do
        status 1 "$tests/dist/run.sh" "$mpi" $n "$messages" --unit 8
        err "the network is in two parts: it needs 2 ranks (mpirun -n 2), not $n"
    done
done
