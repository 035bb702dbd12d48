#!/bin/sh
# Configure a preset of CMakePresets.json and build targets of it, with warnings as errors.
#
#   tests/meta/variant.sh PRESET [-DNAME=VALUE...] TARGET...        settings for cmake come first
set -eu
preset=$1
shift
settings=
while [ "${1#-D}" != "$1" ]; do
    settings="$settings $1"
    shift
done
# shellcheck disable=SC2086 # a list of words
cmake --preset "$preset" -DLK_WERROR="${LK_WERROR:-ON}" $settings
cmake --build --preset "$preset" --target "$@"
