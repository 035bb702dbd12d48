#!/bin/sh
# Configure a preset of CMakePresets.json and build targets of it, with warnings as errors.
#
#   tests/meta/variant.sh PRESET SETTINGS TARGET...        SETTINGS: for cmake, as "-DNAME=VALUE", or ""
set -eu
preset=$1 settings=$2
shift 2
# shellcheck disable=SC2086 # a list of words
cmake --preset "$preset" -DLK_WERROR="${LK_WERROR:-ON}" $settings
cmake --build --preset "$preset" --target "$@"
