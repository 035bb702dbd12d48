#!/bin/sh
# lockstep convert neon: recipes of each kind become experiments, with the shapes that they state, which train;
# all that cannot be converted is named.
. "$(dirname "$0")/../expect.sh"
recipes=$tests/convert/neon

status 0 "$lockstep" convert --help
out 'neon'
status 0 "$lockstep" convert neon --help
out '--output FILE'
status 2 "$lockstep" convert
err 'say which kind first'
status 2 "$lockstep" convert neno x.yaml
err 'did you mean "neon"?'
status 1 "$lockstep" convert neon "$work/none.yaml"
err "$work/none.yaml: cannot be opened"

# What is written: to standard output, or to a file.
for file in "$recipes"/*.yaml; do
    status 0 "$lockstep" convert neon "$file"
    no_err
    diff "${file%.yaml}.txt" "$work/out" >&2 || fail "$file: another experiment"
done
status 0 "$lockstep" convert neon "$file" --output "$work/a.yaml"
no_out
status 0 "$lockstep" convert neon -o "$work/b.yaml" "$file"
cmp "${file%.yaml}.txt" "$work/a.yaml" && cmp "$work/a.yaml" "$work/b.yaml" || fail 'another file'
status 1 "$lockstep" convert neon -o "$work/none/a.yaml" "$file"
err 'cannot be written'

# Sets in MNIST's and CIFAR-10's form.
for set in train test; do
    status 0 "$lockstep" data convert --type glyphs count=400 test_count=40 --set $set --to idx "$work/mnist"
done
mkdir "$work/cifar" "$work/cache"
i=0
while [ $i -lt 60 ]; do
    i=$((i + 1))
    printf '%b' "\\0$((i % 8))"
    dd bs=3072 count=1 2>/dev/null
done <"$work/mnist/train-images-idx3-ubyte" >"$work/records"
for n in 1 2 3 4 5; do
    head -c $((n * 36876)) "$work/records" | tail -c 36876 >"$work/cifar/data_batch_$n.bin"
done
head -c 30730 "$work/records" >"$work/cifar/test_batch.bin"

# trained RECIPE SETTING...: convert with paths that are there, changed by $edit, compare shapes, and train.
edit=
trained()
{
    recipe=$1
    shift
    sed "s|@MNIST@|$work/mnist|; s|@CIFAR@|$work/cifar|; s|@CACHE@|$work/cache|; $edit" "$recipes/$recipe.yaml" \
        >"$work/recipe"
    status 0 "$lockstep" convert neon -o "$work/$recipe.yaml" "$work/recipe"
    status 0 "$lockstep" info "$work/$recipe.yaml"
    status 0 "$lockstep" plan "$work/$recipe.yaml"
    sed -n 's/^  # .* to //p' "$work/$recipe.yaml" |
        awk -F x '{ for (i = 1; i <= NF; i++) printf "%s0-%d", (i > 1 ? "," : "["), $i - 1; print "]" }' \
            >"$work/stated"
    awk '$1 ~ /^(conv|local_conv|maxpool|avgpool|l2pool|lcn|linear|features)[0-9]+$/ { print $5 }' "$work/out" >"$work/planned"
    [ -s "$work/stated" ] || fail 'no shapes'
    diff "$work/stated" "$work/planned" >&2 || fail "$recipe: other shapes than planned"
    status 0 "$lockstep" train --quiet "$work/$recipe.yaml" "$@"
    state=$(cat "$work/out")
}

# The comment with neon's layout is a line of the file, and gives the same bits.
laid_out()
{
    sed 's/^# parallel:/parallel:/' "$work/$recipe.yaml" >"$work/parallel.yaml"
    grep -q "^parallel: {$1}" "$work/parallel.yaml" || fail "$recipe: no line with $1"
    shift
    status 0 "$lockstep" train --quiet "$work/parallel.yaml" "$@"
    [ "$(cat "$work/out")" = "$state" ] || fail "$recipe: $(cat "$work/out") instead of $state"
}

trained mnist_cnn train.steps=2
laid_out 'spatial: 2x2' train.steps=2
[ -s "$work/cache/mnist_10pct-1-Numpy_0.cache" ] || fail 'no cache of one rank'
[ -s "$work/cache/mnist_10pct-2x2-Numpy_3.cache" ] || fail 'no cache of the last tile'
trained mnist_vecpar train.steps=2
laid_out 'data: 4' train.steps=2
trained cifar_vecpar train.steps=2
trained mnist_datapar train.steps=2
laid_out 'data: 3' train.steps=2
trained sanity

# Local filters, pretrained in all phases, and not; that of a stride gives x again, of its size.
trained mnist_gb
laid_out 'spatial: 2x2'
trained cifar_gb
trained mnist_local
! grep -q autoencoder "$work/mnist_local.yaml" || fail 'an autoencoder that is not asked for'
edit='s/pretraining: False/pretraining: True/'
trained mnist_local
grep -q 'stride: 2, size: 28, tie: features0.filter.weight' "$work/mnist_local.yaml" || fail 'no size of x'

# All that is wrong is named, with its place; wrong YAML at its first place.
for file in "$recipes"/wrong/*.yaml; do
    wanted=$(sed -n 's/^status //p' "${file%.yaml}.txt")
    status "$wanted" "$lockstep" convert neon -o "$work/wrong.yaml" "$file"
    no_out
    sed "s|$file|FILE|" "$work/err" >"$work/said"
    sed 1d "${file%.yaml}.txt" | diff - "$work/said" >&2 || fail "$file: another message"
done
[ ! -e "$work/wrong.yaml" ] || fail 'something was written'
