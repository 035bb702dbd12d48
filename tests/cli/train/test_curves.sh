#!/bin/sh
# Losses of three presets over 50 steps, and of a fourth over 20 steps of each of its five phases, against
# those of an independent program (tests/data/curves.py).
#
# Rounding errors grow with the steps, up to 0.1 in the f32 run of the deepest of the networks.  So the
# measure is how far that program's own f32 run has been from its f64 run until the step of the phase: ours
# may be ten times as far in f32, and 1e-8 times as far in f64, whose errors are 2e-9 of those of f32; beyond
# 2e-6 and 2e-11 to begin with, and as much of a loss that is larger than one.  In f64 the presets have
# their tiles; in f32 they are without, because that program's rounding errors, and so the measure, are those
# of whole samples.
. "$(dirname "$0")/../expect.sh"

curves=$tests/data/curves.txt

# compare PRESET DTYPE STEPS: the losses in metrics.jsonl with the stored ones.
compare()
{
    sed -En 's/^\{("phase": "[^"]*", )?"step": [0-9]*, "loss": ([^,]*), .*/\2/p' "$work/run/metrics.jsonl" >"$work/losses"
    paste -d ' ' "$work/stored" "$work/losses" >"$work/both"
    awk -v dtype="$2" -v steps="$3" '
        {
            size = $1 > 1 ? $1 : 1
            away = $3 - $1 < 0 ? $1 - $3 : $3 - $1
            allowed = dtype == "f64" ? 1e-8 * $2 + 2e-11 * size : 10 * $2 + 2e-6 * size
            if (NF != 3 || !(away <= allowed)) {
                print "step " NR ": the loss is " $3 ", not " $1 "; allowed: " allowed
                exit 1
            }
        }
        END { if (NR != steps) exit 1 }' "$work/both" >"$work/out" || fail "$1 in $2: $(cat "$work/out")"
}

sed -n 's/^curve //p' "$curves" >"$work/presets"
[ "$(wc -l <"$work/presets")" -eq 4 ] || fail 'not four curves'
while read -r preset override; do
    awk -v preset="$preset" '$1 == "curve" { on = $2 == preset; next } on' "$curves" >"$work/stored"
    case $preset in
    *-gb) steps=100 long='phases.0.epochs=5 phases.1.epochs=5 phases.2.epochs=5 phases.3.epochs=5 phases.4.epochs=5' ;;
    *) steps=50 long=train.steps=50 ;;
    esac
    for dtype in f64 f32; do
        rm -rf "$work/run" # its checkpoints are of another run
        tiles=
        [ $dtype = f64 ] || tiles=pieces.tiles=1
        # shellcheck disable=SC2086 # settings
        status 0 "$lockstep" train --quiet "experiments/$preset.yaml" "$override" dtype=$dtype $tiles \
            $long 'train.log=1 steps' train.evaluate=never "train.output=$work/run"
        compare "$preset" $dtype $steps
    done
done <"$work/presets"
