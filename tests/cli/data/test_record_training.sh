#!/bin/sh
# Training on records, plain, packed and as streams: the state of the set that they were made from, on any
# number of ranks and readers, and resumed in the middle of a file on another number of ranks, also by a run
# that was killed, and of a set of which damaged records are left out.
. "$(dirname "$0")/../expect.sh"
zlib=yes
"$lockstep" data convert --type glyphs count=1 "$work/try.tfrecord.gz" >"$work/out" 2>&1 || zlib=no

# state ARGUMENTS: what training says at its end; "" after a failure
state()
{
    "$lockstep" train --quiet "$@" 2>"$work/err" </dev/null
}

# same WANT WHAT ARGUMENTS
same()
{
    want=$1
    what=$2
    shift 2
    got=$(state "$@")
    [ "$got" = "$want" ] || fail "$what: $got instead of $want"
}

# through NAME SHAPE: all ways to read a set of images of this shape
through()
{
    name=$1
    shape=$2
    file=$work/$name.yaml
    glyphs="{type: glyphs, count: 61, test_count: 20, shape: $shape, batch: 12, shards: 6}"
    cat >"$file" <<END
data: $glyphs
model: [{type: conv, filters: 3, kernel: 5, stride: 2}, relu, flatten, {type: linear, units: 10}]
loss: softmax_cross_entropy
metrics: [accuracy]
optimizer: {type: sgd, rate: 0.1, momentum: 0.9}
train: {epochs: 2}
END
    for set in train test; do
        set -- --type glyphs count=61 test_count=20 "shape=$(echo "$shape" | tr -d '[] ')" --set $set
        status 0 "$lockstep" data convert "$@" "$work/$name-$set.npz"
        status 0 "$lockstep" data convert "$@" "$work/$name-$set.tfrecord" --files 3
        [ $zlib = no ] || status 0 "$lockstep" data convert "$@" "$work/$name-$set.tfrecord" --files 3 --gzip
    done
    options='batch: 12, shards: 6'
    plain="type: tfrecord, path: \"$work/$name-train-*.tfrecord\", test: \"$work/$name-test-*.tfrecord\""
    packed="type: tfrecord, path: \"$work/$name-train-*.gz\", test: \"$work/$name-test-*.gz\""
    [ $zlib = yes ] || packed=$plain

    # sets that can be indexed have the samples of the set in the order of its permutation
    all=$(state "$file")
    [ -n "$all" ] || fail 'no state'
    for n in 1 2 3; do
        same "$all" "$n ranks and readers" "$file" "data={$plain, $options, readers: $n}" parallel.data=$n
        same "$all" "packed, $n ranks" "$file" "data={$packed, $options, readers: $((4 - n))}" parallel.data=$n
    done

    # so do streams: in the order of a buffer, which any set can be read in
    options="$options, shuffle_buffer: 17"
    stream=$(state "$file" "data={$plain, $options, stream: true}")
    case $stream in '' | "$all") fail "a stream in another order: $stream" ;; esac
    for n in 1 2 3; do
        same "$stream" "stream, $n ranks" "$file" "data={$packed, $options, stream: true, readers: $((4 - n))}" \
            parallel.data=$n
        same "$stream" "indexed, $n ranks" "$file" "data={$plain, $options, readers: $n}" parallel.data=$n
    done
    status 0 "$lockstep" data convert "$work/$name-train.npz" "$work/one.tfrecord"
    one=$(state "$file" "data={type: npz, path: $work/$name-train.npz, $options}")
    same "$one" 'one file' "$file" "data={type: tfrecord, path: $work/one.tfrecord, stream: true, $options}"

    # a run that stops in the middle of a file goes on on other ranks, whatever the files
    for data in "$plain, batch: 12, shards: 6=$all" "$packed, $options, stream: true=$stream"; do
        end=${data##*=}
        data=${data%=*}
        rm -rf "$work/run"
        status 0 "$lockstep" train --quiet "$file" "data={$data, readers: 2}" "train.output=$work/run" train.steps=3
        status 0 "$lockstep" train --quiet --resume "$file" "data={$data}" "train.output=$work/run" \
            train.steps=8 parallel.data=3
        err 'resumed from the checkpoint of step 3'
        same "$end" 'resumed' --resume "$file" "data={$data, readers: 3}" "train.output=$work/run" parallel.data=2
    done
    # a buffer belongs to the run
    status 2 "$lockstep" train --quiet --resume "$file" "data={$packed, $options, stream: true}" \
        data.shuffle_buffer=18 "train.output=$work/run" train.epochs=3
    err 'is of another run'
    status 2 "$lockstep" train --quiet --resume "$file" "data={$plain, batch: 12, shards: 6}" \
        "train.output=$work/run" train.epochs=3
    err 'is of another run'
}
through digits '[28, 28, 1]'
through images '[32, 32, 3]'

# killed in the middle of an epoch of 6 steps, and resumed on other ranks by other readers
file=$work/images.yaml
wait_for()
{
    tries=0
    until ls -d "$work"/run/checkpoints/step-???????????? >"$work/found" 2>&1; do
        [ $((tries += 1)) -lt 600 ] || fail 'no checkpoint'
        sleep 0.05
    done
}
for data in "$plain" "$packed, shuffle_buffer: 17, stream: true"; do
    data="data={$data, batch: 12, shards: 6, readers"
    end=$(state "$file" "$data: 1}" train.epochs=60)
    rm -rf "$work/run"
    "$lockstep" train --quiet "$file" "$data: 2}" train.epochs=60 "train.output=$work/run" \
        'train.checkpoint={every: 7 steps}' parallel.data=2 >"$work/out" 2>"$work/err" &
    wait_for
    kill -9 $!
    wait $! && fail 'it was not killed'
    same "$end" 'killed and resumed' --resume "$file" "$data: 3}" train.epochs=60 "train.output=$work/run" \
        'train.checkpoint={every: 7 steps}' parallel.data=3
    err 'resumed from the checkpoint of step '
    [ "$(sed -n 's/.*checkpoint of step \([0-9]*\).*/\1/p' "$work/err")" -lt 360 ] || fail 'it had ended'
done

# records that are left out are so on all ranks, indexed or in a stream, and make another set and state
damaged=$work/images-train-00001-of-00003.tfrecord
cp "$damaged" "$work/sound"
size=$(($(wc -c <"$damaged") / 20))
printf '\377\377\377' | dd of="$damaged" bs=1 seek=$((3 * size + 100)) conv=notrunc 2>"$work/dd"
printf '\377\377\377' | dd of="$damaged" bs=1 seek=$((11 * size + 1)) conv=notrunc 2>"$work/dd"
data="$plain, shuffle_buffer: 17, damaged: skip, batch: 12, shards: 6"
left=$(state "$file" "data={$data}")
case $left in '' | "$stream") fail "state without two records: $left" ;; esac
err 'damaged records that are left out: 1; places where no record can be found: 1'
for n in 2 3; do
    same "$left" "left out, $n ranks" "$file" "data={$data, readers: $n}" parallel.data=$n
    same "$left" "left out of a stream, $n ranks" "$file" "data={$data, stream: true}" parallel.data=$n
done
rm -rf "$work/run"
status 0 "$lockstep" train --quiet "$file" "data={$data}" "train.output=$work/run" train.steps=3
cp "$work/sound" "$damaged"
status 2 "$lockstep" train --quiet --resume "$file" "data={$data}" "train.output=$work/run"
err 'is of another run'
