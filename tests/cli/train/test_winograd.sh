#!/bin/sh
# Convolutions by Winograd's algorithm: a training has the same bits on any ranks, threads and
# instruction set, which are not those of the direct one; and a run goes on only with its own.
. "$(dirname "$0")/../expect.sh"

cat >"$work/net.yaml" <<'END_OF_NET'
data: {type: glyphs, count: 72, test_count: 16, shape: [14, 13, 1], batch: 24, shards: 6}
model:
  - {type: conv, filters: 9, kernel: 3, padding: 1}
  - relu
  - {type: conv, filters: 17, kernel: 3, algorithm: winograd}
  - relu
  - {type: maxpool, size: 2}
  - {type: conv_transpose, filters: 5, kernel: 3, padding: 1, algorithm: winograd}
  - flatten
  - {type: linear, units: 10}
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: sgd, rate: 0.05}
train: {epochs: 2}
END_OF_NET

set -- "$work/net.yaml" "train.output=$work/run"
status 0 "$lockstep" train --quiet "$@"
state=$(cat "$work/out")
for ranks in 1 2 3; do
    status 0 "$lockstep" run -n $ranks --transport local -- train --quiet "$work/net.yaml"
    [ "$(cat "$work/out")" = "$state" ] || fail "$ranks ranks: $(cat "$work/out"), not $state"
done
for how in '1 scalar' '2 scalar' '3 avx2' '4 avx512'; do
    isa=${how#* }
    LK_ISA=$isa "$lockstep" gradcheck add >"$work/out" 2>&1 || continue # this processor lacks it
    status 0 env LK_THREADS="${how% *}" LK_ISA="$isa" "$lockstep" train --quiet "$work/net.yaml"
    [ "$(cat "$work/out")" = "$state" ] || fail "$how: $(cat "$work/out"), not $state"
done

# Another algorithm is another run.
status 0 "$lockstep" train --quiet "$work/net.yaml" model.2.algorithm=direct
[ "$(cat "$work/out")" != "$state" ] || fail 'direct has the bits of winograd'
status 2 "$lockstep" train --quiet --resume "$@" model.2.algorithm=direct
err 'is of another run'
status 0 "$lockstep" train --quiet --resume "$@"
[ "$(cat "$work/out")" = "$state" ] || fail 'a run that is finished changes'
