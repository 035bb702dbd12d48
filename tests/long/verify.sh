#!/bin/sh
# One hash for each preset, on every layout: ranks x threads x instruction sets x transports x
# algorithms, on generated images; and a small network on 100 and 1000 ranks.
#
#   tests/long/verify.sh LOCKSTEP
set -eu
lockstep=$1
modules=$(cd "$(dirname "$lockstep")" && pwd)/mpi
export LK_MPI_MODULES="$modules" LK_DEADLINE=300
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mpis=
for mpi in openmpi mpich; do
    [ ! -e "$modules/lockstep-mpi-$mpi.so" ] || mpis="$mpis${mpis:+,}$mpi"
done
isas=$("$lockstep" info --json | sed -n 's/.*"topic": "instruction set", "name": "\([a-z0-9]*\)", "value": "\(in use\|available\)".*/\1/p')
fast=$(echo "$isas" | grep -v scalar | paste -sd,)
total=0

# verify PRESET OPTION...: adds up the configurations, and requires one state for all of a preset.
verify()
{
    preset=$1
    shift
    "$lockstep" verify --json "$@" >"$work/out" || {
        cat "$work/out"
        echo "FAIL: $preset: $*"
        exit 1
    }
    grep -o '"state": "[0-9a-f]*"' "$work/out" >>"$work/$preset" || true
    n=$(grep -c '"state"' "$work/out")
    total=$((total + n))
    [ "$(sort -u "$work/$preset" | wc -l)" -eq 1 ] || {
        cat "$work/out"
        echo "FAIL: $preset: another state than before: $*"
        exit 1
    }
    echo "$preset: $n configurations with $(tail -n 1 "$work/$preset"): $*"
}

for file in experiments/*.yaml; do
    preset=$(basename "$file" .yaml)
    case $preset in cifar*) shape='[32, 32, 3]' ;; *lenet) shape='[28, 28, 1], one_hot: true' ;; *) shape='[28, 28, 1]' ;; esac
    data="data={type: glyphs, count: 48, test_count: 20, shape: $shape, batch: 32, shards: 16}"
    case $preset in
    unet) data='data={type: fractal, count: 24, test_count: 4, shape: [32, 32, 1], batch: 16, shards: 16}' ;;
    unet3d) data='data={type: fractal, count: 24, test_count: 4, shape: [16, 16, 16, 1], batch: 16, shards: 16}' ;;
    esac
    verify "$preset" "$file" "$data" --steps 2 --ranks 1,2,3,4,5,7,8,16 --threads 1,2 ${fast:+--isa "$fast"}
    verify "$preset" "$file" "$data" --steps 2 --ranks 3,8 --algorithms tree,ring,direct,halving,tiers
    [ -z "$mpis" ] || verify "$preset" "$file" "$data" --steps 2 --ranks 2,3,5,8 --transport mpi --mpi "$mpis"
    # The scalar code takes a minute for a step of the largest.
    [ "$preset" = cifar10-vgg ] || verify "$preset" "$file" "$data" --steps 2 --ranks 1,3 --isa scalar
done
many='data={type: glyphs, count: 1000, test_count: 0, batch: 1000, shards: 1000}'
verify many experiments/mnist-mlp.yaml "$many" model.1.units=8 model.3.units=8 --steps 2 --ranks 1,100,1000
echo "$total configurations, one state for each preset"
[ "$total" -ge 200 ] || {
    echo 'FAIL: fewer than 200'
    exit 1
}
