#!/bin/sh
# lockstep plan --draw: a picture that is XML and alone, with a rectangle for each tile and each box that is
# fetched, in the sizes that --json says, or for each block of features, with what travels; and what cannot be drawn.
. "$(dirname "$0")/../expect.sh"

# well_formed FILE: each element ends in the order they began, attributes are quoted, & begins an entity.
well_formed()
{
    awk '
        { text = text $0 "\n" }
        END {
            while (match(text, /<[^>]*>/)) {
                between = substr(text, 1, RSTART - 1); tag = substr(text, RSTART, RLENGTH)
                text = substr(text, RSTART + RLENGTH)
                gsub(/&(amp|lt|gt|quot);/, "", between)
                if (between ~ /[&>]/) bad = 1
                if (tag ~ /^<\//) { if (open[depth--] != substr(tag, 3, length(tag) - 3)) bad = 1; continue }
                name = tag; sub(/^</, "", name); sub(/[ \/>].*/, "", name)
                rest = tag; gsub(/ [a-zA-Z][a-zA-Z0-9]*="[^"<&]*"/, "", rest)
                if (rest != "<" name ">" && rest != "<" name "/>") bad = 1
                if (tag !~ /\/>$/) open[++depth] = name
            }
            exit bad || depth != 0 || text ~ /[<>&]/
        }' "$1" || fail "$1 is not well-formed"
    if command -v xmllint >/dev/null; then
        xmllint --nonet --noout "$1" 2>"$work/err" || fail "xmllint about $1"
    fi
    ! grep -Eq '<script|href|url\(|@import|<image' "$1" || fail "$1 is not alone"
}

# boxes_of FILE: what was fetched according to --json, as "when rank box bytes", sorted.
boxes_of()
{
    grep -o "\"layer\":\"$2\",.*" "$1" | sed 's/},{"layer".*//' | tr '{' '\n' |
        sed -n 's/^"when":"in \([a-z]*\)","what":"[xdy]*","rank":\([0-9]*\),"box":\[\(.*\)\],"bytes":\([0-9]*\)}.*/\1 \2 \3 \4/p' | sort
}

# drawn_of FILE: the same from the rectangles of a picture, whose sizes must be the share of the sample's that
# their positions are.  Positions are in titles; a volume has planes that show rows and columns.
drawn_of()
{
    awk '
        function range(text, name,    a) {
            if (!match(text, name " [0-9]+(-[0-9]+)?")) return 0
            split(substr(text, RSTART + length(name) + 1, RLENGTH - length(name) - 1), a, "-")
            first = a[1]; n = (a[2] == "" ? a[1] : a[2]) - a[1] + 1
            return 1
        }
        function value(line, name,    a) { split(line, a, " " name "=\""); return a[2] + 0 }
        function off(a, b) { return a - b > 0.021 || b - a > 0.021 }
        function check(line, name, place, size,    f) {
            if (!range(line, name)) return
            f = sample[size] / whole[name]
            if (off(value(line, size), n * f) || off(value(line, place) - sample[place], first * f)) {
                print "not to scale: " line; exit
            }
        }
        /class="sub".*>forward/ { when = "forward" }
        /class="sub".*>backward/ { when = "backward" }
        /^<rect class="sample"/ {
            for (i = 1; i <= 3; i++) {
                name = i == 1 ? "rows" : i == 2 ? "columns" : "positions"
                if (range($0, name)) whole[name] = n
            }
            split("x y width height", key, " ")
            for (i in key) sample[key[i]] = value($0, key[i])
        }
        /^<rect class="(tile|from)/ {
            check($0, "rows", "y", "height"); check($0, "columns", "x", "width"); check($0, "positions", "x", "width")
        }
        /^<rect class="from/ {
            box = ""
            for (i = 1; i <= 4; i++) {
                name = i == 1 ? "planes" : i == 2 ? "rows" : i == 3 ? "columns" : "positions"
                if (range($0, name)) box = box (box == "" ? "" : ",") "[" first "," n "]"
            }
            match($0, /from rank [0-9]+/); rank = substr($0, RSTART + 10, RLENGTH - 10)
            match($0, /[0-9]+ bytes/)
            print when, rank, box, substr($0, RSTART, RLENGTH - 6)
        }' "$1" | sort
}

# same LAYER TILES VIEWS: the picture drawn last shows what the plan says of the layer.
same()
{
    well_formed "$work/x.svg"
    boxes_of "$work/out" "$1" >"$work/said"
    drawn_of "$work/x.svg" >"$work/drawn"
    [ -s "$work/said" ] || fail "$1 fetches nothing"
    diff "$work/said" "$work/drawn" >&2 || fail "$1 is drawn otherwise than it is planned"
    tiles=$(grep -c '^<rect class="tile' "$work/x.svg")
    [ "$tiles" -eq $(($2 * $3)) ] || fail "$1 has $tiles tiles instead of $(($2 * $3))"
}

# images: on a grid of tiles, in the middle of one, and with margins over several ranks
lenet=experiments/mnist-lenet.yaml
images='data={type: glyphs, count: 32, test_count: 0, batch: 32, shape: [28, 28, 1], shards: 8, one_hot: true}'
set -- "$lockstep" plan $lenet "$images" pieces.tiles=4x4 pieces.least_tile=1 --json --draw "$work/x.svg"
status 0 "$@" --layout 2x2 --rank 3
grep -q '>Layer conv2 on layout 2x2: what rank 3 of 4 reads<' "$work/x.svg" || fail 'not the first that fetches'
same conv2 16 2
cp "$work/x.svg" "$work/first.svg"
status 0 "$@" --layout 2x2 --rank 3 --layer conv2
cmp -s "$work/x.svg" "$work/first.svg" || fail 'the same picture has other bytes'
status 0 "$@" --layout 4x4 --rank 5 --layer conv2
same conv2 16 2
[ "$(grep -c '^<rect class="rank"' "$work/x.svg")" -eq 32 ] || fail 'not a frame for each rank'
status 0 "$@" --layout data2.2x1 --rank 3
same conv2 16 2
grep -q 'from rank 2: ' "$work/x.svg" || fail 'ranks are not those of all'
status 0 "$@" --layout 2x2 --layer conv1
grep -q 'nothing is fetched' "$work/x.svg" || fail 'a layer that fetches nothing'

# a row
head -c 512 /dev/zero >"$work/x.raw"
printf '\001\000' >"$work/y.raw"
cat >"$work/row.yaml" <<END
data: {type: raw, path: "$work/x.raw", labels: "$work/y.raw", classes: 2, shape: [64, 1], batch: 2, shards: 1}
model: [{type: conv, filters: 3, kernel: 9, padding: 4}, {type: conv, name: 'a<&">', filters: 2, kernel: 9, padding: 4}, flatten, {type: linear, units: 2}]
pieces: {tiles: 8, least_tile: 1}
loss: softmax_cross_entropy
optimizer: sgd
END
status 0 "$lockstep" plan "$work/row.yaml" model.1.name=b --layout spatial4 --rank 1 --json --draw "$work/x.svg" --layer b
same b 8 2
status 0 "$lockstep" plan "$work/row.yaml" --layout spatial4 --rank 1 --json --draw "$work/x.svg" --layer 'a<&">'
well_formed "$work/x.svg"
grep -q '<title>Layer a&lt;&amp;&quot;&gt; on layout spatial4: ' "$work/x.svg" || fail 'a name is not escaped'

# a volume: planes of tiles, beside a solid; an axis that is not cut
cat >"$work/volume.yaml" <<'END'
data: {type: fractal, count: 4, test_count: 0, shape: [16, 12, 20, 1], batch: 2, shards: 1}
model: [{type: conv, filters: 3, kernel: 3, padding: 1}, {type: conv, filters: 2, kernel: 5, padding: 2}]
pieces: {tiles: 2x2x2}
loss: softmax_cross_entropy
optimizer: sgd
END
for rank in 0 5; do
    status 0 "$lockstep" plan "$work/volume.yaml" --layout 2x2x2 --rank $rank --json --draw "$work/x.svg"
    same conv2 8 2
    [ "$(wc -l <"$work/said")" -eq 14 ] || fail 'not seven neighbours, twice'
done
grep -q '<polygon class="solid own"' "$work/x.svg" || fail 'no solid'
status 0 "$lockstep" plan "$work/volume.yaml" pieces.tiles=4x2 --layout 4x2 --rank 3 --json --draw "$work/x.svg"
same conv2 8 2

# features: on each rank the blocks that its own plan says it has, and each call of the plan above its layer
awk '/`wide.yaml`/ { want = 1 } /^```$/ { on = 0 } on { print } want && /^```yaml$/ { on = 1; want = 0 }' docs/guide/features.md >"$work/wide.yaml"
features() { status 0 "$lockstep" plan "$work/wide.yaml" --json --draw "$work/x.svg" "$@"; }
# said: the calls along features of the plan, as "when how bytes", sorted; drawn: those of the picture.
said()
{
    tr '{' '\n' <"$work/out" |
        sed -n 's/^"when":"in \([a-z]*\)",.*"how":"\(gathered\|joined\)",.*"bytes":\([0-9]*\)}.*/\1 \2 \3/p' | sort
}
drawn()
{
    sed -n 's/^<text class="\(ahead\|back\)".*>\([a-z]*\): \([a-z]*\), \([0-9]*\) bytes<.*/\2 \3 \4/p' "$work/x.svg" | sort
}
for ranks in 2 3 4; do
    for rank in 0 1; do
        features --layout features$ranks --rank $rank
        well_formed "$work/x.svg"
        said >"$work/said"
        drawn >"$work/drawn"
        [ "$(wc -l <"$work/said")" -eq 5 ] || fail 'not five calls'
        diff "$work/said" "$work/drawn" >&2 || fail 'other calls are drawn than are planned'
        for layer in conv1 conv2 linear1 linear3; do
            held=$(tr '{' '\n' <"$work/out" | sed -n "s/^\"layer\":\"$layer\",.*\[\([0-9]*\),\([0-9]*\)\]\],\"par.*/\1 \2/p")
            shown=$(sed -n "s/.*>${layer}[,:].* features \([0-9]*\)-\([0-9]*\), rank $rank has them<.*/\1 \2/p" "$work/x.svg" |
                awk 'NR == 1 { first = $1 } { n += $2 - $1 + 1 } END { print first, n }')
            [ "$held" = "$shown" ] || fail "$layer on rank $rank of $ranks: drawn $shown, planned $held"
        done
    done
done
features --layout features2
cmp "$work/x.svg" docs/guide/features.svg || fail 'docs/guide/features.svg is another picture: put in what the command draws'
[ "$(grep -c 'class="flow-ahead"' "$work/x.svg")" -eq $((3 * 4 + 1)) ] || fail 'not three fans in forward, and a key'
[ "$(grep -c 'class="flow-back"' "$work/x.svg")" -eq $((2 * 4 + 1)) ] || fail 'not two fans in backward, and a key'
[ "$(grep -c 'class="flow"' "$work/x.svg")" -eq $((4 * 2)) ] || fail 'not four times each to its own'
# layers within a layer: what goes into it is gathered above the first of them
block='{type: residual, layers: [layer_norm, {type: linear, units: 64}, relu, {type: linear, units: 64, cut: in}]}'
features --layout data2.features2.stages2 --rank 7 \
    "model=[flatten, {type: linear, units: 32}, relu, {type: linear, units: 64, stage: true}, $block, {type: linear, units: 10}]"
well_formed "$work/x.svg"
said >"$work/said"
drawn >"$work/drawn"
diff "$work/said" "$work/drawn" >&2 || fail 'other calls of a stage are drawn than are planned'
grep -q '>rank 7<' "$work/x.svg" || fail 'ranks are not those of all'
awk -F '[">]' '/class="ahead"/ && /gathered/ { y = $6 } /class="legend"/ && /layer_norm1/ { exit !(y > 0 && y < $6) }' "$work/x.svg" ||
    fail 'what goes into the block is not gathered above it'
status 2 "$lockstep" plan "$work/wide.yaml" --layout features2 --draw "$work/x.svg" --layer linear1
err 'lockstep plan: option --layer: layout features2 has no tiles to draw'
status 2 "$lockstep" plan "$work/wide.yaml" 'pieces={blocks: 32, least_block: 1}' --layout features17 --draw "$work/x.svg"
err 'lockstep plan: option --draw: 17 ranks along features are too many to draw: up to 16 can be'
status 2 "$lockstep" plan "$work/wide.yaml" --layout features2 --draw "$work/none/x.svg"
err "lockstep plan: option --draw: cannot write $work/none/x.svg: No such file or directory"

# what cannot be drawn
status 2 "$@" --layout 2x2 --layer flatten1
err 'lockstep plan: option --layer: flatten1 runs by samples: it has no tiles to draw'
status 2 "$@" --layout 2x2 --layer conv9
err 'lockstep plan: option --layer: there is no layer "conv9"'
status 2 "$@" --layout data2
err "lockstep plan: option --draw: layout data2 has no tiles to draw: \`parallel.spatial\` or --layout"
err 'and layers into features, as features2 does'
err '; --schedule draws stages'
status 2 "$@" --layout data2.stages2
err 'lockstep plan: option --draw: layout data2.stages2 has stages, which --schedule draws, and neither tiles nor features: give --schedule as well'
# of a product with stages a rank has the layers of its own alone
status 0 "$@" --layout 2x1.stages2 --rank 1
grep -q '>Layer conv2 on layout 2x1.stages2: what rank 1 of 4 reads<' "$work/x.svg" || fail 'not a layer of stage 0'
status 2 "$@" --layout 2x1.stages2 --rank 3
err 'option --draw: no layer of stage 1, which rank 3 has, runs by tiles: --rank N draws another, of which stage 0 has those below 2, and --schedule the stages'
status 2 "$@" --layout 2x1.stages2 --rank 3 --layer conv2
err 'option --layer: conv2 is a layer of stage 0, and rank 3 has stage 1: give --rank 0'
status 2 "$lockstep" plan $lenet "$images" pieces.tiles=4x4 pieces.least_tile=1 --layout 2x2 --draw "$work/none/x.svg"
err "lockstep plan: option --draw: cannot write $work/none/x.svg: No such file or directory"
no_out
if [ -c /dev/full ]; then
    status 2 "$lockstep" plan $lenet "$images" pieces.tiles=4x4 pieces.least_tile=1 --layout 2x2 --draw /dev/full
    err 'lockstep plan: option --draw: cannot write /dev/full: '
fi
status 2 "$lockstep" plan $lenet "$images" --layer conv2
err 'lockstep plan: option --layer: it says what --draw draws, which is not given'

# schedules: a line a stage, a table, and a rectangle for each computation as wide as its time
demo=experiments/demo.yaml
status 0 "$lockstep" plan $demo --layout stages4 --schedule --compare --micro-batches 6 parallel.schedule=zb1p parallel.lag=full --draw "$work/x.svg" \
    'data={type: glyphs, shape: [28, 28, 1], count: 60000, test_count: 0, batch: 128, shards: 8}'
no_err
sed -n '/^\$ lockstep plan .*--schedule --compare --micro-batches 6 parallel.schedule=zb1p parallel.lag=full$/,/^```$/p' docs/guide/pipelines.md | sed '1d;$d' >"$work/shown"
diff "$work/shown" "$work/out" >&2 || fail 'docs/guide/pipelines.md shows another schedule: put in what is printed'
well_formed "$work/x.svg"
cmp "$work/x.svg" docs/guide/pipeline.svg || fail 'docs/guide/pipeline.svg is another picture: put in what the command draws'
# units CLASS: how many rectangles there are, and how many units of time they have together
units()
{
    awk -v kind="$1" '
        index($0, "<rect class=\"" kind "\"") == 1 && match($0, /from [0-9]+ to [0-9]+/) {
            split(substr($0, RSTART, RLENGTH), a, " "); split($0, w, " width=\""); n++; time += a[4] - a[2]
            if (w[2] + 1 != 16 * (a[4] - a[2])) bad = 1
        }
        END { print n + 0, bad ? "not to scale" : time + 0 }' "$work/x.svg"
}
[ "$(units c5)" = '72 72' ] || fail 'not 3 x 4 x 6 forwards'
[ "$(units c3)" = '48 96' ] || fail 'not 2 x 4 x 6 whole backwards'
[ "$(units c1)" = '24 24' ] || fail 'not 4 x 6 halves of the input'
[ "$(units c0)" = '24 24' ] || fail 'not 4 x 6 halves of the weights'
grep -q '>stage 3: backward-weights 5, from 20 to 21<' "$work/x.svg" || fail 'the last of zb1p is elsewhere'
# the experiment's own: by default 1f1b, with as many micro-batches as the replica has
status 0 "$lockstep" plan $demo --layout stages4 --schedule
[ "$(grep -c '^  stage' "$work/out")" -eq 4 ] || fail 'not one schedule'
grep -Eq '^1f1b +33 +24 +0.375 +4 3 2 1$' "$work/out" || fail 'not 1f1b of 8 micro-batches'
status 0 "$lockstep" plan $demo parallel.stages=4 --schedule --json parallel.schedule=gpipe parallel.micro_batch=2
[ "$(cat "$work/out")" = '{"schedule": "gpipe", "stages": 4, "microbatches": 4, "time": 21, "busy": 12, "bubble": 0.75, "tapes": "4 4 4 4"}' ] ||
    fail 'not the schedule of the experiment'
status 0 "$lockstep" plan $demo --layout stages4 --schedule --json parallel.schedule=zb1p parallel.lag=0
out '"time": 30, "busy": 24, "bubble": 0.25, "tapes": "4 3 2 1"}'
{
    echo 'data: {type: glyphs, count: 64, test_count: 0, shape: [8, 8, 1], batch: 64, shards: 8}'
    echo 'model: [flatten'
    for unit in relu tanh relu tanh relu tanh relu tanh; do echo ", $unit, $unit, $unit, $unit, $unit, $unit, $unit, $unit"; done
    echo ', {type: linear, units: 10}]'
    echo 'loss: softmax_cross_entropy'
    echo 'optimizer: sgd'
} >"$work/deep.yaml"
status 0 "$lockstep" plan "$work/deep.yaml" --layout data2.stages12 --schedule --compare --json parallel.schedule=zb1p parallel.lag=full
"$json" <"$work/out" || fail 'no JSON of schedules'
out '{"schedule": "zb1p", "stages": 12, "microbatches": 4, "time": 31, "busy": 12, "bubble": 1.58333, "tapes": "4 4 4 4 4 4 4 4 4 4 4 4"}'
status 0 "$lockstep" plan "$work/deep.yaml" parallel.stages=64 --schedule --compare --micro-batches 256 parallel.schedule=zb1p parallel.lag=full
grep -Eq '^zb1p +831 +768 +0.082 +64 64 ' "$work/out" || fail 'the largest'
status 2 "$lockstep" plan $demo --layout data2 --schedule
err "lockstep plan: option --schedule: layout data2 has one stage: \`parallel.stages\` or --layout cuts"
status 2 "$lockstep" plan "$work/deep.yaml" --layout stages65 --schedule
err 'lockstep plan: option --schedule: 65 stages with 8 micro-batches are too many to draw: up to 64 and 256'
status 2 "$lockstep" plan "$work/deep.yaml" data.count=512 data.shards=512 data.batch=512 --layout stages4 --schedule parallel.micro_batch=1
err 'lockstep plan: option --schedule: 4 stages with 512 micro-batches are too many to draw'
status 2 "$lockstep" plan $demo --layout stages4 --micro-batches 8
err 'lockstep plan: option --micro-batches: it says what --schedule draws, which is not given'
status 2 "$lockstep" plan $demo --layout stages4 --compare
err 'lockstep plan: option --compare: it says what --schedule draws, which is not given'
status 2 "$lockstep" plan $demo --layout stages9 --schedule
err 'parallel.stages is 9, but the model has 8 layers in its list'
status 2 "$lockstep" plan $demo --layout stages4 --schedule --draw "$work/x.svg" --layer conv1
err 'lockstep plan: option --layer: it says what --draw draws of a plan, and --schedule draws none'
status 2 "$lockstep" plan $demo --layout stages4 --schedule --draw "$work/none/x.svg"
err "lockstep plan: option --draw: cannot write $work/none/x.svg: No such file or directory"
no_out
