#!/bin/sh
# One hash for each preset, with any threads and instruction set, and one for those with pieces when they
# are taken away; of those with phases behind a step of each.  With TEST_BRIEF in the environment, for
# builds with sanitizers, the small presets, and vectors alone.
. "$(dirname "$0")/../expect.sh"

sed '/^#/d' "$tests/golden/presets.txt" >"$work/golden"
[ "$(wc -l <"$work/golden")" -eq "$(find experiments -name '*.yaml' | wc -l)" ] || fail 'presets without a hash'
least=12
if [ -n "${TEST_BRIEF-}" ]; then
    sed -i '/^cifar10-/d' "$work/golden"
    least=4
fi
# phases NUMBER...: settings by which each has one epoch.
phases()
{
    printf 'phases.%s.epochs=1 ' "$@"
}
runs=0
while read -r preset hash whole; do
    [ -z "$whole" ] || grep -q '^pieces: ' "experiments/$preset.yaml" || fail "$preset has no pieces"
    [ -n "$whole" ] || ! grep -q '^pieces: ' "experiments/$preset.yaml" || fail "$preset: no hash without pieces"
    case $preset in
    cifar10-gb) data='glyphs, shape: [32, 32, 3], one_hot: true' ;;
    cifar*) data='glyphs, shape: [32, 32, 3]' ;;
    *lenet | mnist-gb) data='glyphs, shape: [28, 28, 1], one_hot: true' ;;
    unet) data='fractal, shape: [32, 32, 1]' ;;
    unet3d) data='fractal, shape: [8, 8, 8, 1]' ;;
    *) data='glyphs, shape: [28, 28, 1]' ;;
    esac
    case $preset in
    *-gb) count=4 steps=$(phases 0 1 2 3 4) ;;
    *) count=8 steps=train.steps=2 ;;
    esac
    for how in '1 scalar' '2 avx2' '4 avx512'; do
        isa=${how#* }
        case $preset:$isa in cifar10-vgg:scalar | cifar10-parallel-convolution:scalar) continue ;; esac # takes long
        [ -z "${TEST_BRIEF-}" ] || [ "$isa" != scalar ] || continue
        LK_ISA=$isa "$lockstep" gradcheck add >"$work/out" 2>&1 || continue # this processor lacks it
        for wanted in "$hash" ${whole:+"$whole pieces={}"}; do
            # shellcheck disable=SC2086 # two words, or one
            set -- $wanted
            # shellcheck disable=SC2086 # settings
            status 0 env LK_THREADS="${how% *}" LK_ISA="$isa" "$lockstep" train --quiet "experiments/$preset.yaml" \
                "data={type: $data, count: $count, test_count: 0, batch: 4, shards: 2}" $steps ${2:+"$2"}
            [ "$(cat "$work/out")" = "state $1" ] || fail "$preset, $how ${2-}: $(cat "$work/out"), not $1"
            runs=$((runs + 1))
        done
    done
done <"$work/golden"
[ $runs -gt $least ] || fail "only $runs runs"
