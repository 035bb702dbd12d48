#!/bin/sh
# The project keeps to its names, and tools/check-names finds each kind of violation.
set -eu
check=$PWD/tools/check-names
"$check"

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/include/lockstep" "$tree/src/a" "$tree/src/b" "$tree/cli" "$tree/tools" "$tree/docs"
echo 'lk_gang lk_mesh' >"$tree/tools/names-given-up"
cat >"$tree/include/lockstep/a.h" <<'END'
typedef struct lk_thing {
    int n;
} lk_thing;
LK_API int lk_thing_count(const lk_thing *thing);
END
cat >"$tree/src/a/thing.c" <<'END'
typedef struct place {
    int x;
} place;
static int helper(void)
{
    return 1;
}
int lk_thing_count(const lk_thing *thing)
{
    return thing->n + helper();
}
END
cp "$tree/src/a/thing.c" "$tree/src/b/other.c"
sed -i 's/lk_thing_count/lk__other_count/' "$tree/src/b/other.c"
"$check" "$tree" # static functions and types of one file may share a name

# rejects FILE TEXT MESSAGE: the text alone makes the check fail, with this message.
rejects() {
    printf '%b\n' "$2" >"$tree/$1"
    if found=$("$check" "$tree" 2>&1); then
        echo "not found: $2 in $1"
        exit 1
    fi
    case $found in
    *"$1:"*"$3"*) ;;
    *)
        echo "expected \"$1: ... $3\", got \"$found\""
        exit 1
        ;;
    esac
    rm "$tree/$1"
}

rejects src/b/x.h 'typedef struct lk_thing {\n    int m;\n} lk_thing;' 'is defined in include/lockstep/a.h:1 too'
rejects src/b/x.c 'int lk__other_count(void)\n{\n    return 1;\n}' 'lk__other_count() is defined in'
rejects src/b/x.c 'int lk_more(void)\n{\n    return 1;\n}' 'lk_more is not in include/: call it lk__more'
rejects src/b/x.c 'const lk_thing lk_first = {1};' 'lk_first is not in include/'
rejects src/b/x.h 'typedef int lk_number;' 'lk_number is not in include/'
rejects include/lockstep/x.h 'typedef struct lk_more lk_more;\nLK_API int lk_more_new(lk_more **out);' \
    'lk_more: say who makes it'
rejects include/lockstep/x.h '/** Not collective. */\ntypedef struct lk_more lk_more;\nLK_API int lk_more_new(lk_more **out);' \
    'lk_more: say who makes it'
rejects docs/x.md 'A `lk_gang` of ranks.' 'lk_gang was given up: say lk_mesh'
