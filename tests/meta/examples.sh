#!/bin/sh
# The examples that show how little a differentiable program with ranks needs stay short: lines that
# are neither blank nor comment, as tools/format leaves them.  What two programs share counts by itself.
#
#   tests/meta/examples.sh [FOLDER]        with these examples; default: those of the project
set -eu
folder=${1:-examples}
bad=0

# at_most LINES NAME
at_most() {
    lines=$(sed 's#/\*.*\*/##' "$folder/$2" |
        awk '/\/\*/ { comment = 1 } !comment && NF { n++ } /\*\// { comment = 0 } END { print n + 0 }')
    [ "$lines" -gt 0 ] || { echo "$folder/$2 has no code"; bad=1; }
    [ "$lines" -le "$1" ] || { echo "$folder/$2 has $lines lines of code, at most $1"; bad=1; }
}

at_most 30 01_own_arrays.c
at_most 30 06_ring.c
at_most 80 07_regression.c
at_most 95 09_mnist_messages.c
at_most 90 11_mnist_chain.c
at_most 150 23_ddl_mnist.c
at_most 150 12_dual_parallel.c
at_most 120 mnist.h
at_most 150 21_cifar10_cnn.c
at_most 150 22_cifar10_slurm.c
at_most 120 cifar10.h
at_most 150 19_own_loop.c
at_most 150 17_own_data.c
exit $bad
