#!/bin/sh
# docs/guide/layouts.md: its files and commands, one after the other in one folder; its table has the bytes that plans say,
# and about the memory, which depends a little on the instruction set; its notes are those of the plan.
. "$(dirname "$0")/../expect.sh"
guide=$PWD/docs/guide/layouts.md
bin=$(cd "$(dirname "$lockstep")" && pwd)
export LK_THREADS=1
mkdir "$work/guide"
cd "$work/guide" || exit 1
awk -v folder="$work" '
    /^```yaml$/ { on = 1; to = name == "" ? "/dev/null" : name; name = ""; next }
    /^```sh$/ { on = 1; to = folder "/commands"; next }
    /^```text$/ { on = 1; to = folder "/shown"; next }
    /^```$/ { on = 0; next }
    on { print >to; next }
    match($0, /, `[a-z]+\.yaml`, has/) { name = substr($0, RSTART + 3, RLENGTH - 9) }' "$guide"
[ "$(wc -l <"$work/commands")" -eq 5 ] || fail 'the commands of the guide were not found'
while IFS= read -r command; do
    status 0 env PATH="$bin:$PATH" sh -c "$command"
    no_err
    case $command in
    *'--memory'*) sed -n 's/^\(note: .* fits: \).*/\1/p' "$work/out" >>"$work/notes" ;;
    *--schedule) tail -n 2 "$work/out" >"$work/schedule" ;;
    *verify*) out 'the same bits in ' ;;
    esac
done <"$work/commands"
sed -n 's/^\(note: .* fits: \).*/\1/p' "$work/shown" >"$work/said"
diff "$work/said" "$work/notes" >&2 || fail 'other notes than the guide shows'
grep -v '^note' "$work/shown" | diff - "$work/schedule" >&2 || fail 'another schedule than the guide shows'

# most FILE LAYOUT: the most of all ranks, of bytes sent, memory, model and values.
most()
{
    rank=0
    while "$lockstep" plan "$1" --layout "$2" --rank $rank --json parallel.update=each 2>"$work/err"; do
        rank=$((rank + 1))
    done | sed -n 's/.*"bytes":\([0-9]*\),"memory":{"parameters":\([0-9]*\),"optimizer":\([0-9]*\),"gradients":\([0-9]*\),.*"values":\([0-9]*\),.*"sum":\([0-9]*\)}.*/\1 \2 \3 \4 \5 \6/p' |
        awk 'function larger(a, b) { return a > b ? a : b }
            { sent = larger(sent, $1); model = larger(model, $2 + $3 + $4); values = larger(values, $5); sum = larger(sum, $6) }
            END { print sent + 0, sum, model, values }'
}
# shellcheck disable=SC2016 # backquotes of the document
sed -n 's/^| `\([a-z]*\.yaml\)` | `\([^`]*\)` | \([0-9]*\) | \([0-9.]*\) | \([0-9.]*\) | \([0-9.]*\) |$/\1 \2 \3 \4 \5 \6/p' "$guide" >"$work/table"
[ "$(wc -l <"$work/table")" -eq 11 ] || fail 'the rows of the table were not found'
while read -r file layout sent memory model values; do
    got=$(most "$file" "$layout")
    echo "$sent $memory $model $values $got" | awk '
        function near(shown, bytes) { d = shown - bytes / 1e6; return (d < 0 ? -d : d) <= 0.06 + 0.1 * shown }
        { exit !($1 == $5 && near($2, $6) && near($3, $7) && near($4, $8)) }' ||
        fail "$file $layout: $got, and the guide says $sent $memory $model $values"
done <"$work/table"
