#!/bin/sh
# MNIST and CIFAR-10 from records, as keras_experiments trains them: the commands at the top of the preset and in
# docs/reference/data.md run, and what they train has the state of the sets' own files, on one device, two and three; so
# have packed records, and streams on any.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/cifar.sh"
unset LK_DEVICES
lockstep=$(readlink -f "$lockstep")
document=$(readlink -f "$tests/../docs/reference/data.md")
experiments=$(readlink -f "$tests/../experiments")
cd "$work" || exit 1
ln -s "$experiments" experiments
PATH=$(dirname "$lockstep"):$PATH
preset=experiments/mnist-records.yaml
for set in train test; do
    status 0 lockstep data convert --type glyphs count=230 test_count=40 shape=28,28,1 --set $set --to idx mnist
done
cifar_make cifar

# state ARGUMENT...: what an epoch comes to
state()
{
    status 0 lockstep train --quiet $preset train.epochs=1 "$@"
    sed -n 's/^state //p' out
}

# same WHAT STATE ARGUMENT...
same()
{
    what=$1
    wanted=$2
    shift 2
    got=$(state "$@") || exit 1
    [ "$got" = "${wanted:?}" ] || fail "$what: the state is $got, not $wanted"
}

# the first device, and the second if there is one
status 0 lockstep topo --devices --json
n=$(grep -c '"name"' out)
last=$((n > 1))

# follow COMMAND: run it; of a training, also from the files of the set
follow()
{
    case $1 in
    'lockstep train '*)
        batch=$(echo "$1" | sed -n 's/.*data.batch=\([0-9]*\).*/\1/p')
        batch=${batch:-100}
        case $1 in
        *cifar10*) wanted=$(state_of_cifar) || exit 1 ;;
        *) wanted=$(state "data={type: mnist, path: mnist, shift: -0.5, batch: $batch, shards: $((batch / 10))}" \
            "optimizer.rate=$((batch / 100))e-3") || exit 1 ;;
        esac
        status 0 sh -c "$1 --quiet train.epochs=1"
        [ "$(cat out)" = "state ${wanted:?}" ] || fail "another state than $wanted: $1"
        ;;
    *) status 0 sh -c "$1" ;;
    esac
}
state_of_cifar()
{
    status 0 lockstep train --quiet experiments/cifar10-cnn.yaml data.path=cifar pieces.tiles=1 train.epochs=1
    sed -n 's/^state //p' out
}
status 1 lockstep train --quiet $preset
err 'mnist-records: there is no such file or folder'
# shellcheck disable=SC2016 # no expressions
sed -n '/^MNIST and CIFAR-10 from records/,/^The state/p' "$document" | sed -n '/^```sh/,/^```/p' |
    sed '/^```/d; :a; /\\$/{N; s/\\\n *//; ba}; s|=MNIST|=mnist|; s|=CIFAR|=cifar|' >commands
[ "$(grep -c '^lockstep train' commands)" -eq 2 ] || fail 'cannot read the commands of docs/reference/data.md'
sed -n 's/^#   //p' $preset | sed 's|FOLDER|mnist|; s|^mkdir|mkdir -p|' >>commands
[ "$(grep -c '^lockstep train' commands)" -eq 4 ] || fail 'cannot read the commands of the preset'
sed -i "s|\[0,1\]|[0,$last]|" commands
while read -r command; do follow "$command"; done <commands
[ "$(find mnist-records -name 'train-0000?-of-00004.tfrecord' | wc -l)" -eq 4 ] || fail 'there are not four files'

# with the same batch, on any number of devices
same 'two devices' "$wanted" data.batch=200 data.shards=20 optimizer.rate=2e-3 "parallel.devices=[0,$last]"
same 'three devices, other readers' "$wanted" data.batch=200 data.shards=20 optimizer.rate=2e-3 \
    "parallel.devices=[0,$last,0]" data.readers=3
plain=$(state) || exit 1
[ "$plain" != "$wanted" ] || fail 'batch and rate change nothing'

# packed, where zlib is
mkdir packed
if lockstep data convert --type mnist path=mnist packed/train.tfrecord --files 3 --gzip >out 2>err; then
    for devices in "[0]" "[0,$last]"; do
        same "packed, on $devices" "$plain" data.path=packed "parallel.devices=$devices"
    done
fi
stream=$(state 'data.path=mnist-records/train*' data.stream=true data.shuffle_buffer=50) || exit 1
[ "$stream" != "$plain" ] || fail 'a buffer has the order of the permutation'
same 'a stream on two devices' "$stream" 'data.path=mnist-records/train*' data.stream=true \
    data.shuffle_buffer=50 "parallel.devices=[0,$last]"
