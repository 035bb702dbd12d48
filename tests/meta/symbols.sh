#!/bin/sh
# The libraries export what the public headers declare, and tools/check-symbols sees when not.
#
#   tests/meta/symbols.sh BUILD-FOLDER
set -eu
check=$PWD/tools/check-symbols
command -v nm >/dev/null || { echo 'SKIPPED: there is no nm'; exit 77; }
"$check" "$1"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir headers

# library DECLARATIONS DEFINITIONS: libraries with hidden names unless declared with LK_API.
library() {
    echo "$1" >headers/a.h
    printf '#define LK_API __attribute__((visibility("default")))\n%s\n%s\n' "$1" "$2" >a.c
    "${CC:-cc}" -fPIC -fvisibility=hidden -c a.c
    rm -f liblockstep.a
    ar rc liblockstep.a a.o
    "${CC:-cc}" -shared -o liblockstep.so a.o
}

rejects() { # the message
    if said=$("$check" . headers 2>&1); then
        echo "not found: $1"
        exit 1
    fi
    [ "$said" = "tools/check-symbols: $1" ] || { echo "expected: $1, got: $said"; exit 1; }
}

library '/* LK_API int x(void); */ LK_API int lk_a(int i); LK_API extern const int lk_b[2];' \
    'int lk_a(int i) { return i; } const int lk_b[2] = {1, 2}; int lk__c(void); int lk__c(void) { return 3; }'
"$check" . headers
library 'LK_API int lk_a(void); LK_API int lk_b(void);' 'int lk_a(void) { return 1; }'
rejects 'declared in a public header, but not defined: lk_b'
library 'LK_API int lk_a(void);' 'int lk_a(void) { return 1; } LK_API int lk_b(void) { return 1; }'
rejects 'exported, but not declared in a public header: lk_b'
library 'LK_API int lk_a(void);' 'int lk_a(void) { return 1; } int helper(void) { return 1; }'
rejects 'a global name without the prefix lk_: helper'
library 'LK_API int lk_a(void); LK_API int a(void);' 'int lk_a(void) { return 1; }'
rejects 'declared in a public header, but not defined: a
tools/check-symbols: a public name without the prefix lk_: a'

# A name that docs/symbols.txt does not know, and one that only it knows: in a tree of its own.
mkdir -p tree/tools tree/docs tree/include/lockstep
cp "$check" tree/tools/
library 'LK_API int lk_a(void);' 'int lk_a(void) { return 1; }'
cp headers/a.h tree/include/lockstep/
echo lk_b >tree/docs/symbols.txt
if said=$(tree/tools/check-symbols . 2>&1); then
    echo 'not found: another interface than docs/symbols.txt has'
    exit 1
fi
expected='tools/check-symbols: not in docs/symbols.txt (tools/check-symbols --write BUILD-FOLDER adds it): lk_a
tools/check-symbols: no longer exported, but in docs/symbols.txt: lk_b'
[ "$said" = "$expected" ] || { echo "expected: $expected, got: $said"; exit 1; }
tree/tools/check-symbols --write .
tree/tools/check-symbols .
