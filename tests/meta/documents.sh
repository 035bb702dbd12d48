#!/bin/sh
# The documents agree with the project: the table of rooms is the one that is executed, links lead
# somewhere, and every `make` target, file, function and switch that they name is there.
# tests/cli/command/test_documents.sh looks at what they say of the command.
set -eu
bad=0
complain() {
    echo "$1"
    bad=1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Rows "room: rooms it may use", from the document and from the script.
sed -n '/^## The rooms/,/^## Inv/ s/^| `\([a-z]*\)` | .* | \(.*\) |$/\1: \2/p' ARCHITECTURE.md |
    sed 's/: libc.*/: /; s/: the public headers/: public/' >"$work/documented"
sed -n "/^rooms='/,/^'/ s/^\([a-z]*\) *: *\([^:]*[^ :]\)* *:.*/\1: \2/p" tools/check-layers |
    sed 's/: \*.*/: all above/; /^\(public\|reference\|selfcheck\):/d' >"$work/executed"
[ "$(wc -l <"$work/executed")" -gt 10 ] || complain 'cannot read the table in tools/check-layers'
diff -u "$work/documented" "$work/executed" ||
    complain 'ARCHITECTURE.md and tools/check-layers have different tables'
# Rooms are folders of src, and the command.
{ ls src && echo cli; } | sort >"$work/folders"
cut -d: -f1 "$work/documented" | sort >"$work/rooms"
diff "$work/rooms" "$work/folders" ||
    complain 'ARCHITECTURE.md has other rooms than src'

# The walk from the command to the inner loop: each function is defined in its file, and the walk is short.
# Names of micro-kernels are made by macros, of the type of their vectors and the size of their tile.
sed -n '/^## From the command/,/^## The life/ s/^| `\(.*\)()` | `\([^`]*\)` |.*/\1 \2/p' ARCHITECTURE.md >"$work/walk"
while read -r name file; do
    defined=$(echo "$name" | sed 's/^f32x8_\(.*\)/V(\1)/; s/^\(.*_\)f32x8_[0-9_]*$/\1##VEC##_##NV##_##MR/')
    grep -q "^[a-zA-Z #].*[ *]$defined(.*[^;]$" "$file" ||
        complain "ARCHITECTURE.md: $file does not define $name()"
done <"$work/walk"
rows=$(wc -l <"$work/walk")
step=$(sed -n '/^lk_trainer_step /,$p' "$work/walk" | wc -l)
[ "$(sed -n '/^## From the command/,/^## The life/p' ARCHITECTURE.md | grep -c '^| `')" -eq "$rows" ] ||
    complain 'ARCHITECTURE.md: a row of the walk names no function and file'
[ "$rows" -ge 20 ] && [ "$rows" -le 24 ] || complain "ARCHITECTURE.md: the walk has $rows functions, not at most 24"
[ "$step" -ge 12 ] && [ "$step" -le 16 ] ||
    complain "ARCHITECTURE.md: from lk_trainer_step() the walk has $step functions, not at most 16"

# The values of the hash of tensors are those that the tests compare with.
sed -n 's/^| [a-z0-9]* | [-0-9.]* | `0*\([0-9a-f]*\)` | `0*\([0-9a-f]*\)` | `0*\([0-9a-f]*\)` |$/0x\1, 0x\2, 0x\3,/p' \
    docs/reference/numerics.md >"$work/values"
[ "$(wc -l <"$work/values")" -eq 7 ] || complain 'docs/reference/numerics.md has not a hash for each dtype'
while read -r values; do
    grep -qF "$values" tests/data/state_hash.h || complain "tests/data/state_hash.h has no $values"
done <"$work/values"

for document in *.md docs/*.md docs/*/*.md; do
    folder=$(dirname "$document")
    for link in $(grep -o '](\([^)#]*\)' "$document" | cut -c3- | grep -v '^https\?:'); do
        [ -e "$folder/$link" ] || complain "$document: there is no $link"
    done
    # A place in a document is a heading: its letters and digits in lower case, and dashes for blanks.
    for link in $(grep -o '](\([^)]*#[^)]*\)' "$document" | cut -c3- | grep -v '^https\?:'); do
        page=$document
        [ -z "${link%%#*}" ] || page=$folder/${link%%#*}
        sed -n '/^```/,/^```/d; s/^##* //p' "$page" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' |
            grep -qxF -- "${link#*#}" || complain "$document: no heading for $link"
    done
    for target in $(grep -o '`make [a-z-]*\|^make [a-z-]*' "$document" | cut -d' ' -f2); do
        grep -q "^\(asan clang .*\)\{0,1\}\<$target\>.*:" Makefile || complain "$document: no target \"$target\""
    done
    for tool in $(grep -o '\<tools/[a-z-]*' "$document"); do
        [ -e "$tool" ] || complain "$document: there is no $tool"
    done
    # Files; x and ROOM stand for names, and a planned room has no header yet.
    for file in $(grep -oE '`(src|cli|include|tests|bench|cmake|docs)/[^` ]*`' "$document" | tr -d '`'); do
        case $file in
        */x.* | *_x.* | */ROOM/*) continue ;;
        esac
        [ -e "$file" ] || complain "$document: there is no $file"
    done
    for name in $(grep -o '`lk_[a-z][a-z0-9_]*' "$document" | cut -c2- | grep -v '^lk_noun'); do
        grep -rqw "$name" include src cmake || complain "$document: there is no $name"
    done
    for option in $(grep -o -- '-DLK_[A-Z0-9_]*' "$document" | cut -c3-); do
        grep -q "\(option\|set\)($option\>" cmake/*.cmake || complain "$document: no option $option"
    done
    awk -v document="$document" '/^```/ { code = !code } !code && !/^\|/ && length() > 100 {
        print document ":" NR ": longer than 100 columns"; bad = 1 } END { exit bad }' "$document" || bad=1
done

# The lines of code that the guides show are those of the examples, and so is the output of the tape's.
for document in docs/guide/tape.md docs/guide/differentiable.md docs/reference/experiments.md \
    docs/guide/model-parallel.md docs/guide/multi-node.md docs/guide/porting.md; do
    awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on && NF' "$document" |
        while IFS= read -r line; do
            cat examples/*.[ch] | grep -qxF -- "$line" ||
                { echo "$document: not in the examples: $line"; exit 1; }
        done || bad=1
done
awk '/^```text$/ { on = 1; next } /^```/ { on = 0 } on' docs/guide/tape.md >"$work/shown"
cat examples/output/04_fit_curve.txt examples/output/05_own_op.txt | diff "$work/shown" - ||
    complain 'docs/guide/tape.md shows another output than its examples print'

# What is looked for to build and to test is in the guide to the installation: the last word of its name.
sed -n "/^needs=\"/,/^\"/p" tools/setup | awk 'NF > 4 { print $NF }' | sort -u >"$work/needs"
[ "$(wc -l <"$work/needs")" -gt 15 ] || complain 'cannot read the table in tools/setup'
while IFS= read -r need; do
    grep -qw -- "$need" docs/guide/install.md || complain "docs/guide/install.md: $need is needed and not named"
done <"$work/needs"

# Switches in the environment, as documented and as read.
sed -n 's/^| `\(LK_[A-Z_]*\)` | .*/\1/p' docs/*/*.md | sort >"$work/documented"
grep -rhoE '(secure_getenv|lk__env)\("LK_[A-Z_]*' src cli | cut -d'"' -f2 | sort -u >"$work/read"
diff "$work/documented" "$work/read" || complain 'the documents have other switches than are read'
exit $bad
