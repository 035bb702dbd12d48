#!/bin/sh
# bench halo: every figure is there, explained, and wrong options are refused.
. "$(dirname "$0")/../expect.sh"

# bench halo: on two processors, each column explained; a volume has no ratio to a library for images
if [ "$(nproc)" -ge 2 ]; then
    status 0 "$lockstep" bench halo --seconds 0 --sizes 8x6,6x4x5 --channels 2
    grep -Eq '^8x6x2 +[0-9-]' "$work/out" || fail 'no row of the image'
    grep -Eq '^6x4x5x2 +[0-9-].* -$' "$work/out" || fail 'no row of the volume'
    status 0 "$lockstep" bench halo --json --seconds 0 --sizes 8x6 --channels 2
    "$json" <"$work/out" || fail 'JSON'
    figures
    for key in ranks copies price tiles_2x2 tiles_4x4 canonical_milliseconds; do
        out "\"$key\": "
    done
    [ "$(grep -c '"ratio"' "$work/out")" -eq 0 ] || fail 'a ratio to nobody'
    if [ -e "$(dirname "$lockstep")/peers/lockstep-peer-onednn.so" ]; then
        status 0 "$lockstep" bench halo --json --seconds 0 --sizes 8x8,4x4x4 --channels 8 --against onednn
        grep -Eq '"case": "8x8x8", .*"ratio": .*"peer": "onednn", ' "$work/out" || fail 'no ratio to oneDNN'
        grep '"case": "4x4x4x8", ' "$work/out" | grep -qv '"ratio"' || fail 'a ratio of a volume'
    fi
fi
status 0 "$lockstep" bench halo --help
tr '\n' ' ' <"$work/out" >"$work/help"
for column in '1 rank' '2 ranks' ranks copies price 2x2 4x4 ratio; do
    sed 's/^.*Columns: //; s/JSON: .*$//' "$work/help" | grep -qF -- "$column" || fail "--help does not explain $column"
    grep '^| `' "$tests/../docs/guide/running.md" | grep -qF -- "\`$column" || fail "docs/guide/running.md does not explain $column"
done
for sizes in 8 8x 3x8 4x4x4x4 8y8 8x65537; do
    status 2 "$lockstep" bench halo --sizes $sizes
    err 'option --sizes: a size is such as 512x512 or 64x64x64'
done
status 2 "$lockstep" bench halo --against openblas
err 'option --against: onednn or none'
