#!/bin/sh
# Real learning of the sparse autoencoder: an output that is trained on features of its first three phases is
# better, on images that were in none of them, than one on features that were not trained.
#
# The images are made here: twelve channels see the same eight dots, whose places are the class, bright or
# dark, each channel with noise of its own.  Filters that are trained to give the images back look along what
# the channels have in common; those that were not see as much of the noise.
#
# It takes channels: of one channel, eight filters of norm 1 in each position are more than there are pixels,
# and give too much of all that they see; training then turns them away from what images have in common.
. "$(dirname "$0")/../expect.sh"

# images SEED COUNT: lines of numbers and a class, the same from any awk.
images()
{
    awk -v seed="$1" -v count="$2" '
        function draw() { state = state * 16807 % 2147483647; return state / 2147483647 }
        function noise() { return 0.52 * (draw() + draw() + draw() + draw() - 2) } # deviation 0.3
        BEGIN {
            state = 7
            for (k = 0; k < 10; k++)
                for (dot = 0; dot < 8; dot++) {
                    row = 16 * draw(); column = 16 * draw()
                    for (i = 0; i < 256; i++)
                        bright[k, i] += exp(-((int(i / 16) - row) ^ 2 + (i % 16 - column) ^ 2) / 2.88)
                }
            state = seed
            while (count-- > 0) {
                k = int(10 * draw()); sign = draw() < 0.5 ? -1 : 1
                for (i = 0; i < 256; i++)
                    for (channel = 0; channel < 12; channel++)
                        printf "%.2f,", sign * bright[k, i] + noise()
                print k
            }
        }'
}
images 1001 300 >"$work/train.csv"
images 2002 300 >"$work/test.csv"

# output_on EPOCHS: trains each level for so many, then the output; sets $accuracy and $loss of the test images.
output_on()
{
    status 0 "$lockstep" train --json experiments/mnist-gb.yaml model.0.decode.0.filters=12 optimizer.rate=0.1 \
        "phases.0.epochs=$1" "phases.1.epochs=$1" "phases.2.epochs=$1" phases.3.epochs=20 phases.4.epochs=0 \
        "data={type: csv, path: '$work/train.csv', test: '$work/test.csv', header: no, classes: 10, shape: [16, 16, 12],
        batch: 20, shards: 4, one_hot: true}"
    grep '"phase":"output"' "$work/out" | tail -n 1 >"$work/row"
    loss=$(sed 's/.*"test":{"loss":\([^,}]*\).*/\1/' "$work/row")
    accuracy=$(sed 's/.*"test":{[^}]*"accuracy":\([^,}]*\).*/\1/' "$work/row")
}
output_on 6
trained=$accuracy trained_loss=$loss
output_on 0
echo "accuracy $trained with features that were trained, $accuracy without; loss $trained_loss, $loss"
awk -v a="$trained" -v b="$accuracy" -v c="$trained_loss" -v d="$loss" 'BEGIN { exit !(a >= b + 0.4 && c <= d - 0.1) }' ||
    fail 'not better by 0.4 of the images and 0.1 of the loss'
