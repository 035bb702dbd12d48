#!/bin/sh
# Every row of docs/guide/porting.md about the records of keras_experiments: commands run, and what they write,
# read as the rows say, trains to the state of the set that it was made from, read as an archive.
. "$(dirname "$0")/../expect.sh"
lockstep=$(readlink -f "$lockstep")
document=$(readlink -f "$tests/../docs/guide/porting.md")
experiments=$(readlink -f "$tests/../experiments")
cd "$work" || exit 1
ln -s "$experiments" experiments
PATH=$(dirname "$lockstep"):$PATH
status 0 lockstep data convert --type glyphs count=2003 set.npz
cat >net.yaml <<'END'
data: {type: npz, path: set.npz, batch: 50}
model: [{type: conv, filters: 2, kernel: 5, stride: 2}, relu, flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
optimizer: {type: sgd, rate: 0.1}
train: {epochs: 1}
END

# state ARGUMENTS: what training says at its end
state()
{
    status 0 lockstep train --quiet net.yaml "$@"
    cat out
}

# shellcheck disable=SC2016 # these are no commands
sed -n '/^## keras_experiments: records/,/^What behaves/ s/^| .* | `\([^`]*\)`[^|]*|$/\1/p' "$document" >rows
[ "$(wc -l <rows)" -eq 18 ] || fail 'cannot read the table'
while read -r row; do
    case $row in
    'lockstep data convert '*) status 0 sh -c "$row" ;;
    'lockstep train '*)
        status 0 lockstep topo --devices --json
        [ "$(grep -c '"name"' out)" -gt 1 ] || row=$(echo "$row" | sed 's/\[0,1\]/[0,0]/')
        status 0 sh -c "$row --quiet train.steps=1"
        two=$(cat out)
        one=$(echo "$row" | sed "s/ parallel.devices=.*//; s/data.path=.*/'data={type: npz, path: set.npz, batch: 100, shards: 10, shift: -0.5}'/")
        status 0 sh -c "$one --quiet train.steps=1"
        [ "$(cat out)" = "$two" ] || fail "another state: $row"
        ;;
    data:*)
        archive=$(echo "$row" | sed 's/type: tfrecord, path: [^,}]*/type: npz, path: set.npz/
            s/, \(image\|label\|dtype\|stream\): [a-z0-9_]*//g; s/, shape: \[[^]]*\]//')
        case $archive in *tfrecord* | *stream*) fail "no archive: $archive" ;; esac
        ours=$(state "data=${row#data: }") || exit 1
        same=$(state "data=${archive#data: }") || exit 1
        [ "$ours" = "$same" ] || fail "another state: $row"
        ;;
    train:*)
        case $row in *epochs*) epochs=${row##*epochs: } epochs=${epochs%%[!0-9]*} ;; *) epochs=1 ;; esac
        status 0 lockstep train net.yaml data.validation=100 "train=${row#train: }"
        [ "$(grep -c '^ *[1-9]' out)" -eq "$epochs" ] || fail "not $epochs epochs: $row"
        case $row in *checkpoint*) [ -f run/best.safetensors ] || fail 'no best weights' ;; esac
        ;;
    'lk_dataset_new()') ;; # a_set_can_be_made_of_another
    *) fail "no such row: $row" ;;
    esac
done <rows

# bytes / 255 - 0.5 is another input, and rows of ones are another way to say a label
plain=$(state) || exit 1
shifted=$(state data.normalise=unit data.shift=-0.5) || exit 1
[ "$shifted" != "$plain" ] || fail 'nothing is shifted'
(state loss=mean_squared_error data.one_hot=true) >hot || exit 1
