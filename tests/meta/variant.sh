#!/bin/sh
# Configure a preset of CMakePresets.json and build targets of it, with warnings as errors.
#
#   tests/meta/variant.sh PRESET TARGET...
set -eu
preset=$1
shift
cmake --preset "$preset" -DLK_WERROR="${LK_WERROR:-ON}"
cmake --build --preset "$preset" --target "$@"
