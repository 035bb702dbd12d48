#!/bin/sh
# The documents agree with the project: the table of rooms is the one that is executed, links lead
# somewhere, every `make` target and tool is there, and the README shows the known hashes.
set -eu
bad=0
complain() {
    echo "$1"
    bad=1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Rows "room: rooms it may use", from the document and from the script.
sed -n 's/^| `\([a-z]*\)` | .* | \(.*\) | \(yes\|planned\) |$/\1: \2/p' ARCHITECTURE.md |
    sed 's/: libc.*/: /; s/: the public headers/: public/' >"$work/documented"
sed -n "/^rooms='/,/^'/ s/^\([a-z]*\) *: *\([^:]*[^ :]\)* *:.*/\1: \2/p" tools/check-layers |
    sed 's/: \*.*/: all above/; /^public:/d' >"$work/executed"
[ "$(wc -l <"$work/executed")" -gt 10 ] || complain 'cannot read the table in tools/check-layers'
diff -u "$work/documented" "$work/executed" ||
    complain 'ARCHITECTURE.md and tools/check-layers have different tables'
# A room is there exactly when it says so.
sed -n 's/^| `\([a-z]*\)` | .* | \(yes\|planned\) |$/\1 \2/p' ARCHITECTURE.md >"$work/rooms"
while read -r room there; do
    is=planned
    if [ -d "src/$room" ] || [ -d "$room" ]; then is=yes; fi
    [ "$is" = "$there" ] || complain "ARCHITECTURE.md says of $room: $there, but it is: $is"
done <"$work/rooms"

for document in *.md docs/*.md; do
    folder=$(dirname "$document")
    for link in $(grep -o '](\([^)#]*\)' "$document" | cut -c3- | grep -v '^https\?:'); do
        [ -e "$folder/$link" ] || complain "$document: there is no $link"
    done
    for target in $(grep -o '`make [a-z-]*\|^make [a-z-]*' "$document" | cut -d' ' -f2); do
        grep -q "^\(asan clang .*\)\{0,1\}\<$target\>.*:" Makefile || complain "$document: no target \"$target\""
    done
    for tool in $(grep -o '\<tools/[a-z-]*' "$document"); do
        [ -e "$tool" ] || complain "$document: there is no $tool"
    done
done

# The hashes that the README shows are known ones.
sed -n 's/^\([a-z0-9_.]*\) .* \([0-9a-f]\{16\}\) .* ok$/\1 \2/p' README.md >"$work/shown"
[ -s "$work/shown" ] || complain 'README.md shows no hashes'
grep -vxFf tests/golden/selfcheck.txt "$work/shown" &&
    complain 'README.md: these hashes are not in tests/golden/selfcheck.txt'
exit $bad
