#!/bin/sh
# docs/guide/training.md: its files and commands, one after the other in one folder, and what it shows.
. "$(dirname "$0")/../expect.sh"
guide=$PWD/docs/guide/training.md
bin=$(cd "$(dirname "$lockstep")" && pwd)
mkdir "$work/guide"
ln -s "$PWD/experiments" "$work/guide/experiments"
cd "$work/guide" || exit 1

# Blocks of YAML and CSV are the file that was named last; lines of commands go to commands.
awk -v folder="$work" '
    /^```(yaml|csv)$/ { on = 1; to = name; next }
    /^```sh$/ { on = 1; to = folder "/commands"; next }
    /^```text$/ { on = 1; to = folder "/shown" ++shown; next }
    /^```$/ { on = 0; next }
    on { print >to; next }
    { while (match($0, /`[a-z]+\.(yaml|csv)`/)) {
          name = substr($0, RSTART + 1, RLENGTH - 2); $0 = substr($0, RSTART + RLENGTH) } }' "$guide"
[ "$(wc -l <"$work/commands")" -gt 15 ] || fail 'the commands of the guide were not found'

# All but the rate, which is the last column of rows.
without_rate() { sed 's| \{1,\}[0-9]*$||' "$1"; }

# The last command printed what block $1 of the guide shows.
shown() {
    without_rate "$work/shown$1" >"$work/a"
    without_rate "$work/out" >"$work/b"
    diff "$work/a" "$work/b" >&2 || fail 'the guide shows another run'
}

n=0
while IFS= read -r command; do
    n=$((n + 1))
    status 0 env PATH="$bin:$PATH" sh -c "$command"
    case $command in
    'lockstep train strokes.yaml') shown 1 ;;
    'lockstep train codes.yaml') shown 2 ;;
    'lockstep train unet.yaml')
        right=$(sed -n 's/.* right about \([0-9.]*\) of the voxels.*/\1/p' "$guide")
        out " ${right:?not in the guide} "
        ;;
    'lockstep data convert rings.csv rings.npz') hash=$(sed -n 's/^rings.npz .* //p' "$work/out") ;;
    'lockstep data inspect rings.npz') out "${hash:?no hash}" ;;
    esac
done <"$work/commands"

# What the table of files says.
sed -n '/^writes to the folder/,/^##/s/^| `\([a-z.]*\)` | .*/\1/p' "$guide" | sort >"$work/a"
find run -mindepth 1 -maxdepth 1 | sed 's/.*\///' | sort >"$work/b"
diff "$work/a" "$work/b" >&2 || fail 'a run leaves other files behind'

# The presets are those that are there, with their data.
sed -n 's/^| `\([a-z0-9-]*\.yaml\)` | .*/\1/p' "$guide" | sort >"$work/a"
find experiments/ -name '*.yaml' | sed 's/.*\///' | sort >"$work/b"
diff "$work/a" "$work/b" >&2 || fail 'the guide has other presets'
