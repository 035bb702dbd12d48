#!/bin/sh
# The CIFAR-10 network with the options of keras_experiments: the program of examples/21_cifar10_cnn.c, on one
# device and on several, and `lockstep train` with the settings that docs/guide/porting.md names for each option come
# to one state.
#
#   tests/examples/cifar10_options.sh LOCKSTEP JSON PROGRAM
. "$(dirname "$0")/../cli/expect.sh"
. "$(dirname "$0")/../cli/data/cifar.sh"
program=$3
unset LK_DEVICES

cifar_make "$work/cifar"

# example OPTION...: the state that the program comes to
example()
{
    status 0 "$program" "$@"
    sed -n '$s/.* state //p' "$work/out"
}

# the second device, or the first once more where there is one
status 0 "$lockstep" topo --devices --json
second=$(($(grep -c '"name"' "$work/out") > 1))

# settings OPTION: what docs/guide/porting.md has for it on the right
settings()
{
    # shellcheck disable=SC2016 # no expressions
    sed -n '/^| `cifar10_cnn_mgpu/,/^$/ s;^| [^|]* | `'"$1"'` | `\([^`]*\)`.* |$;\1;p' docs/guide/porting.md |
        sed "s|FOLDER|$work/cifar|g; s|\[0,1\]|[0,$second]|"
}

# trained SETTING...: the state that the experiment comes to
trained()
{
    status 0 "$lockstep" train --quiet experiments/cifar10-cnn.yaml "$@"
    sed -n 's/^state //p' "$work/out"
}
same()
{
    [ -n "$2" ] || fail "$1: there is no state"
    [ "$2" = "$3" ] || fail "$1: the state is $3, not $2"
}

status 0 "$program" --help
for option in --devices --scale --epochs --checkpoint --augment --data --experiment; do out "  $option"; done
status 2 "$program" --gpu
err "unrecognized option '--gpu'"
status 1 "$program" --epochs some
err '--epochs is a number from 1 to 1000000, not some'
status 1 "$program" --data "$work/none"
err "$work/none: there is no such file or folder"

status 2 "$program" --checkpoint "$work/saved" --epochs 1
err "there is nothing to do with \"$work/saved\"; if it is for --checkpoint, it is --checkpoint=$work/saved"
status 1 "$program" --experiment "$work/none.yaml"
err "$work/none.yaml: "
mkdir "$work/elsewhere"
absolute=$(readlink -f "$program")
(cd "$work/elsewhere" && status 1 "$absolute" && err 'experiments/cifar10-cnn.yaml: ') || exit 1
preset=$(readlink -f experiments/cifar10-cnn.yaml)
(cd "$work/elsewhere" && status 0 "$absolute" --experiment "$preset" --epochs 1) || exit 1

# the other programs take no words either
build=$(dirname "$program")
for other in cifar10_slurm ddl_mnist mnist_chain mnist_messages dual_parallel; do
    status 2 "$build/example_$other" --data "$work/cifar" left
    err 'there is nothing to do with "left"'
done
status 0 "$build/example_cifar10_slurm" --help
for option in --distribute --epochs --data --experiment; do out "  $option"; done

# devices, augmentation and data; two devices have a batch and a rate of their own
devices=$(settings '--devices 2')
augment=$(settings --augment)
data=$(settings '--data FOLDER')
case $devices,$augment,$data in ,* | *,,* | *,) fail 'docs/guide/porting.md lacks an option' ;; esac
[ "$(settings "--epochs 200")" = train.epochs=200 ] || fail 'docs/guide/porting.md has other epochs'
grep -q '^train: {epochs: 200}' experiments/cifar10-cnn.yaml || fail 'the experiment has other epochs'
one=$(example --devices 1 --scale 2 --epochs 2 --data "$work/cifar") || exit 1
[ "$(wc -l <"$work/out")" -eq 2 ] || fail 'not a line for each epoch'
same 'two devices' "$one" "$(example --devices 2 --epochs 2 --data "$work/cifar")"
# shellcheck disable=SC2086 # settings
same 'two devices of an experiment' "$one" "$(trained $devices $data train.epochs=2)"
augmented=$(example --devices 2 --epochs 2 --data "$work/cifar" --augment) || exit 1
[ "$augmented" != "$one" ] || fail '--augment changes nothing'
# shellcheck disable=SC2086 # settings
same 'an experiment with augmentation' "$augmented" "$(trained $devices $data $augment train.epochs=2)"

# records of the same images, by folder and by a pattern
mkdir "$work/cifar/records"
set -- data convert --type cifar10 "path=$work/cifar"
status 0 "$lockstep" "$@" "$work/cifar/records/train.tfrecord" --files 3
status 0 "$lockstep" "$@" --set test "$work/cifar/records/test.tfrecord"
same 'records' "$one" "$(example --devices 2 --epochs 2 --data "$work/cifar/records")"
same 'a pattern' "$one" "$(example --devices 2 --epochs 2 --data "$work/cifar/records/train-*.tfrecord")"
out '  train loss '
# shellcheck disable=SC2046,SC2086 # settings
same 'records of an experiment' "$one" "$(trained $devices $(settings '--data FOLDER/records') train.epochs=2)"

# a training that goes on, on other devices
first=$(example --devices 3 --scale 2 --epochs 1 --data "$work/cifar" --augment "--checkpoint=$work/saved") || exit 1
[ "$first" != "$augmented" ] || fail 'one epoch is as good as two'
status 0 "$program" --devices 2 --epochs 2 --data "$work/cifar" --augment "--checkpoint=$work/saved"
[ "$(wc -l <"$work/out")" -eq 1 ] || fail 'the epoch before was done again'
same 'gone on with' "$augmented" "$(sed -n 's/.* state //p' "$work/out")"
status 1 "$program" --devices 2 --epochs 3 --data "$work/cifar" "--checkpoint=$work/saved"
err 'is of another run'
for epochs in 1 2; do
    # shellcheck disable=SC2046,SC2086 # settings
    last=$(trained $devices $data $augment $(settings --checkpoint=FOLDER | sed 's|/cifar|/run|') train.epochs=$epochs) || exit 1
done
err 'resumed from the checkpoint of step 2'
same 'an experiment that was gone on with' "$augmented" "$last"
[ -f "$work/run/best.safetensors" ] || fail 'there are no best weights'
