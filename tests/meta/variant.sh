#!/bin/sh
# Configure and build one preset of CMakePresets.json, with warnings as errors.
set -eu
cmake --preset "$1" -DLK_WERROR="${LK_WERROR:-ON}"
cmake --build --preset "$1"
