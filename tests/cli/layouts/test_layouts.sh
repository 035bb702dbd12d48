#!/bin/sh
# lockstep verify --layouts: words as layouts, the pieces that they need, and a difference that is planted in
# the data of one layout, named by step, layer and tensor.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
listed=$(echo "${mpis# }" | tr ' ' ,)

export TMPDIR="$work"

cat >"$work/net.yaml" <<'END'
data: {type: glyphs, count: 45, test_count: 24, shape: [12, 12, 1], batch: 20, shards: 7}
model: [{type: conv, filters: 4, kernel: 3}, batch_norm, relu, flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.05, momentum: 0.9}
train: {epochs: 3}
END

# Layout, state and whether it is the same, of each line of the last JSON output.
states()
{
    sed -n 's/.*"layout": "\([^"]*\)".*"state": "\([^"]*\)", "same": \([a-z]*\),.*/\1 \2 \3/p' "$work/out"
}

# Layouts give the state of as many ranks, and the experiment's own layout does not count.
status 0 "$lockstep" verify "$work/net.yaml" --ranks 1 --steps 4 --json
state=$(states | cut -d' ' -f2)
[ "$(states)" = "1 $state true" ] || fail 'the layout of one rank'
status 0 "$lockstep" verify "$work/net.yaml" --layouts 1,data2,data5 --threads 1,2 --steps 4 --json \
    parallel.data=3 parallel.spatial=2x2 parallel.features=2 parallel.stages=2
"$json" <"$work/out" || fail 'JSON'
no_err
[ "$(states | sort -u)" = "$(printf '%s\n' "1 $state true" "data2 $state true" "data5 $state true")" ] || fail 'layouts'
[ "$(wc -l <"$work/out")" -eq 6 ] || fail 'not all configurations'
for key in '"ranks": 5' '"threads": 2' '"layout": "data5"'; do
    out "$key"
done
if [ -n "$mpis" ]; then
    status 0 "$lockstep" verify "$work/net.yaml" --layouts data3 --transport local,mpi --mpi "$listed" --algorithms auto,tree --steps 4 --json
    [ "$(states | sort -u)" = "data3 $state true" ] || fail 'processes, or algorithms'
fi
status 0 "$lockstep" run -n 2 --transport local -- verify --trace --layouts data2 --steps 4 "$work/net.yaml"
out "step 4 state $state loss "

# Long words widen their column, so that all others stay below their titles.
status 0 "$lockstep" verify "$work/net.yaml" --layouts 1,stages2,data2.2x1.features2.stages2 --steps 1
awk '$5 == "layout" { at = index($0, "state") } at && $5 != "layout" && NF == 10 { n++; bad = bad || substr($0, at - 2, 2) != "  " || substr($0, at, 16) !~ /^[0-9a-f]+$/ }
    END { exit bad || n != 3 }' "$work/out" || fail 'columns are not below their titles'

# Pieces that the experiment lacks: the coarsest that allow all layouts, for all of them.  What training on
# them comes to is not looked at here.
pieces()
{
    "$lockstep" verify "$work/net.yaml" --steps 1 --layouts "$@" >"$work/out" 2>"$work/err" </dev/null
}
pieces 1,3x1,1x2
out 'pieces: {tiles: 3x2} for all layouts (the file says nothing)'
pieces spatial2,3x1x2,data2.features2
out 'pieces: {tiles: 3x1x2, blocks: 2} for all layouts (the file says nothing)'
pieces data2.features3,features2 --json
err 'pieces: {blocks: 3} for all layouts (the file says nothing)'
pieces 1,2x1,features2 pieces.tiles=4x2
out 'pieces: {blocks: 2} for all layouts (the file says nothing)'
pieces 1,2x1 pieces.tiles=2x2
! grep -q 'pieces: {' "$work/out" "$work/err" || fail 'the pieces of the file do not stay'

# A difference that is planted in sample 9 of one layout: with batches of four, in step 3.  The first linear
# layer is dead, so that only what is in front of it and the last bias can see it.
cat >"$work/planted.yaml" <<END
data: {type: csv, path: "$work/{size}.csv", batch: 4, shards: 4, shuffle: false}
model: [batch_norm, {type: linear, units: 3, init: {type: constant, value: 0}}, relu, {type: linear, units: 2}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.1}
train: {epochs: 2}
END
awk 'BEGIN { for (i = 0; i < 16; i++) print i % 5 "," i % 3 "," i % 2 }' >"$work/1.csv"
cp "$work/1.csv" "$work/4.csv"
sed '10s/,1$/,0/' "$work/1.csv" >"$work/2.csv"        # another label
sed '10s/^4,0,1$/4,1,0/' "$work/1.csv" >"$work/3.csv" # and another value
for place in local ${mpis:+mpi}; do
    status 1 "$lockstep" verify "$work/planted.yaml" --layouts 1,data4,data2,data3 --steps 7 --transport "$place"
    [ "$(grep -c ' same ' "$work/out")" -eq 2 ] && [ "$(grep -c ' DIFFER ' "$work/out")" -eq 2 ] || fail 'which layouts differ'
    grep -Eq '^error: after step 3 the bits differ between \(layout 1, 1 rank, .*\) and \(layout data2, 2 ranks, ' "$work/err" || fail 'no step'
    grep -Eq '^  first in layer linear2, parameter bias, element 0 of 2: 0 \(0x0p\+0\) and 0\.025.* \(0x1\.9.*p-6\)$' "$work/err" || fail 'no parameter'
    grep -Eq '^error: after step 3 the bits differ between .* and \(layout data3, 3 ranks, ' "$work/err" || fail 'no step'
    grep -Eq '^  first in layer batch_norm1, state mean, element 1 of 2: .*; 1 other tensor differs$' "$work/err" || fail 'no state'
    err '2 of 4 configurations have other bits than the first'
done
status 1 "$lockstep" verify "$work/planted.yaml" --layouts 1,data2 --steps 4 'optimizer={type: sgd, rate: 0, momentum: 0.5}'
err 'error: after step 3 '
grep -Eq "^  first in layer linear2, the optimizer's momentum of bias, element 0 of 2: " "$work/err" || fail 'no momentum'
[ -z "$(find "$work" -name 'lockstep-verify*')" ] || fail 'snapshots are left'

# What cannot be asked for: one line, and nothing has run.
refused()
{
    text=$1
    shift
    status 2 "$lockstep" verify "$work/net.yaml" "$@"
    err "error: lockstep verify: $text"
    no_out
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail 'not one line'
}
refused 'option --layouts: layout "data2.banana": "banana" is none of 1, dataN' --layouts 1,data2.banana
refused 'option --layouts: layout "": ' --layouts 1,
refused 'option --layouts: layout "2": "2" does not say of what: spatial2 cuts each sample, data2 the batch' --layouts 1,2
refused 'option --layouts: layout "data2.3": "3" does not say of what: ' --layouts data2.3
refused 'option --layouts: data2 is in the list twice' --layouts 1,data2,data2.features1
refused 'option --layouts: data5000 has more than 4096 ranks' --layouts 1,data5000
refused 'option --layouts: data100000.1000000x1000000 has more than 4096 ranks' --layouts data100000.1000000x1000000
refused 'option --layouts: "data111111111111111111111111111111111111..." is too long' --layouts "data$(printf '%0120d' 0 | tr 0 1)"
refused 'option --layouts: data8: 8 parts of the data for a batch of 7 shards: give at most data7' --layouts 1,data8
refused "layout 3x1: parallel.spatial=3x1: spatial of parallel: 3x1 is more than the tiles of pieces, 2x2; the line \`pieces: {tiles: 3x2}\` allows it" \
    --layouts 1,2x2,3x1 pieces.tiles=2x2
refused "layout features4: parallel.features=4: features of parallel: 4 is more than the blocks of pieces, 2; the line \`pieces: {blocks: 4}\` allows it" \
    --layouts 1,features4 pieces.blocks=2
refused 'option --layouts: it and --ranks exclude each other' --layouts 1 --ranks 1
refused '--trace is for one configuration: give no lists' --trace --layouts 1,data2
refused "--trace: 2x2 needs \`pieces: {tiles: 2x2}\`" --trace --layouts 2x2
refused 'option --ranks: data 1 x spatial 1 x features 2 x stages 1 need 2 ranks, but there are 3' --ranks 2,3 parallel.features=2 pieces.blocks=2
status 2 "$lockstep" verify "$work/none.yaml" --layouts 1
err 'none.yaml'

# a cache of each rank's tile: made once, of as many files as there are tiles, and refused if damaged
cat >"$work/tiles.yaml" <<'END'
data: {type: shapes, count: 24, test_count: 8, shape: [12, 10, 1], batch: 8, shards: 4}
model: [{type: conv, filters: 2, kernel: 3, padding: 1}, relu, flatten, {type: linear, units: 2}]
pieces: {tiles: 2x2, least_tile: 1}
loss: softmax_cross_entropy
optimizer: sgd
train: {epochs: 1}
END
cached() {
    "$lockstep" verify "$work/tiles.yaml" --steps 2 --layouts 1,2x1,data2.2x2 \
        "data.cache=\"$work/cache-{rank}-of-{size}\"" >"$work/out" 2>"$work/err"
}
cached || fail 'no cache'
out 'the same bits in 3 configurations'
set -- "$work"/cache-[0-9]-of-*
[ $# -eq 14 ] || fail 'not a file for each tile and split'
state=$(grep ' 2x1 ' "$work/out" | awk '{print $8}')
cached || fail 'the cache is not read'
[ "$state" = "$(grep ' 2x1 ' "$work/out" | awk '{print $8}')" ] || fail 'other bits from the cache'
printf x | dd of="$work/cache-1-of-2x1" bs=1 seek=600 conv=notrunc 2>/dev/null
cached && fail 'a damaged cache is read'
err 'cache-1-of-2x1'

# tiles that fit nothing are told, in one line, by all who use them
told='warning: .*pieces.tiles 2x2 fit nothing in this model: no layer runs by tiles, .* pieces.least_tile 64; leave them out'
cat >"$work/flat.yaml" <<'END'
data: {type: shapes, count: 24, test_count: 8, shape: [12, 10, 1], batch: 8, shards: 4}
model: [flatten, {type: linear, units: 2}]
pieces: {tiles: 2x2}
loss: softmax_cross_entropy
optimizer: sgd
train: {epochs: 1}
END
told_once()
{
    verb=$1
    shift
    status 0 "$lockstep" "$verb" "$work/flat.yaml" "$@"
    [ "$(grep -c "$told" "$work/err")" -eq 1 ] || fail "$verb $*: not told once"
}
told_once plan
told_once train --quiet
told_once train --quiet parallel.spatial=1x2
told_once verify --steps 1 --layouts 1,data2,2x1
status 0 "$lockstep" plan "$work/flat.yaml" 'model=[relu, flatten, {type: linear, units: 2}]'
no_err
status 0 "$lockstep" plan "$work/tiles.yaml"
no_err
status 0 "$lockstep" plan "$work/tiles.yaml" pieces.least_tile=64
err 'pieces.tiles 2x2 fit nothing'

# the lines that a refusal advises work: on images whose axes the file tells, or the data alone
{
    printf '\000\000\010\003\000\000\000\010\000\000\000\014\000\000\000\014'
    awk 'BEGIN { for (i = 0; i < 8 * 144; i++) printf "%c", 65 + i % 26 }'
} >"$work/images"
{
    printf '\000\000\010\001\000\000\000\010'
    printf '\000\001\000\001\000\001\000\001'
} >"$work/labels"
advised=0
for data in "data.count=24" "data={type: idx, images: $work/images, labels: $work/labels, batch: 8, shards: 4}"; do
    for grid in 2x2x2 2x1x2 1x1x2 1x3 3 2x2; do
        for tiles in 1 2x2 2x2x2; do
            set -- "$work/tiles.yaml" "$data" "parallel.spatial=$grid" "pieces={tiles: $tiles, least_tile: 1}"
            "$lockstep" plan "$@" >"$work/out" 2>"$work/err" && continue
            spatial=$(sed -n 's/.*`parallel: {spatial: \([0-9x]*\)}`.*/\1/p' "$work/err")
            pieces=$(sed -n 's/.*`pieces: {tiles: \([0-9x]*\)}`.*/\1/p' "$work/err")
            [ -n "$pieces" ] || fail "$grid of $tiles: no line is advised"
            status 0 "$lockstep" plan "$work/tiles.yaml" "$data" "parallel.spatial=${spatial:-$grid}" "pieces={tiles: $pieces, least_tile: 1}"
            advised=$((advised + 1))
        done
    done
done
[ "$advised" -eq 34 ] || fail "$advised grids were refused"
