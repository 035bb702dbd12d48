#!/bin/sh
# docs/guide/volumes.md: its file and commands, one after the other in one folder; all runs come to one state, what it
# says that fits is what the plan says, and its picture is the one that is drawn.
. "$(dirname "$0")/../expect.sh"
guide=$PWD/docs/guide/volumes.md
picture=$PWD/docs/guide/margins.svg
bin=$(cd "$(dirname "$lockstep")" && pwd)
mkdir "$work/guide"
cd "$work/guide" || exit 1
awk -v folder="$work" '
    /^```yaml$/ { on = 1; to = "volume.yaml"; next }
    /^```sh$/ { on = 1; to = folder "/commands"; next }
    /^```text$/ { on = 1; to = folder "/shown"; next }
    /^```$/ { on = 0; next }
    on { print >to }' "$guide"
[ "$(wc -l <"$work/commands")" -eq 8 ] || fail 'the commands of the guide were not found'

states=
while IFS= read -r command; do
    status 0 env PATH="$bin:$PATH" sh -c "$command"
    case $command in
    *'train volume.yaml'*) states="$states $(sed -n 's/^state //p' "$work/out")" ;;
    *'--memory 20M') note=$(sed -n 's/^\(note: parallel.spatial=.* fits: \).*/\1/p' "$work/out") ;;
    *'--memory 4G') out 'note: pieces.tiles=' ;;
    esac
done <"$work/commands"
# shellcheck disable=SC2086 # three words
set -- $states
[ $# -eq 3 ] || fail "not three runs: $states"
[ "$1" = "$2" ] || fail 'another state on eight ranks'
[ "$1" = "$3" ] || fail 'another state from a file'
grep -qF "${note:?}" "$work/shown" || fail "the guide does not show: $note"
cmp margins.svg "$picture" || fail 'docs/guide/margins.svg is another picture: put in what the command draws'
