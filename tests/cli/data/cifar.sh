# shellcheck shell=sh disable=SC2154 # $lockstep is of expect.sh
# A folder as CIFAR-10's: for tests that source this behind expect.sh.

# cifar_batch FILE FIRST N: N images in CIFAR's binary form, of bytes that vary
cifar_batch()
{
    for i in $(seq "$2" $(($2 + $3 - 1))); do
        printf '%b' "\\0$(printf '%o' $((i % 10)))"
        tail -c +$((1 + 5000 * i)) "$lockstep" | head -c 3072
    done >"$1"
}

# cifar_make FOLDER: 100 images to train on, 30 to test on
cifar_make()
{
    mkdir "$1"
    for n in 1 2 3 4 5; do cifar_batch "$1/data_batch_$n.bin" $((20 * n)) 20; done
    cifar_batch "$1/test_batch.bin" 0 30
}
