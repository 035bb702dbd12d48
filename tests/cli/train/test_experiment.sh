#!/bin/sh
# lockstep info FILE.yaml: what an experiment says, with what the command line assigns.
. "$(dirname "$0")/../expect.sh"

cat >"$work/small.yaml" <<'END'
data: {type: idx, batch: 64}
model: [flatten, {type: linear, units: 10, name: out}]
loss: softmax_cross_entropy
metrics: [accuracy, {type: top_k, k: 3}]
optimizer: sgd
END

# row SECTION NAME VALUE: required in what was printed last.
row()
{
    grep -Eq "^$1 +$2 +$3\$" "$work/out" || fail "no row: $*"
}

status 0 "$lockstep" info "$work/small.yaml" optimizer.rate=0.25 model.1.units=7 metrics.1.k=2
row experiment seed 1
row optimizer type sgd
row optimizer rate 0.25
row metrics.1 k 2
row data batch 64
row model.1 units 7
row model.1 name out
row model.1.init type glorot
row train evaluate '1 epoch'
no_err
status 0 "$lockstep" info --json "$work/small.yaml"
"$json" <"$work/out" || fail 'not one JSON object a line'
out '"section": "model.1", "name": "units", "value": "10"'

# wrong files and assignments: one line, status 2
status 2 "$lockstep" info "$work/none.yaml"
err "$work/none.yaml: cannot be opened: No such file or directory"
status 2 "$lockstep" info "$work/small.yaml" epochs=3
err 'error: epochs=3: unknown key "epochs" of experiment'
[ "$(wc -l <"$work/err")" -eq 1 ] || fail 'more than one line'
no_out
