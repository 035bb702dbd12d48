#!/bin/sh
# `make demo`: tools/demo trains on four ranks and on one, here for a few steps on generated images, and compares
# the states; where they differ, or a training fails, it says so.
. "$(dirname "$0")/../expect.sh"

status 0 tools/demo "$lockstep" train.epochs=1 \
    'data={type: glyphs, count: 256, test_count: 64, shape: [28,28,1], batch: 128, shards: 8}'
state=$(sed -n 's/^state \([0-9a-f]*\)$/\1/p' "$work/out" | sort -u)
[ ${#state} = 16 ] || fail 'not one state'
out "The same bits on four ranks and on one: state $state."
[ "$(grep -c '^--- .* ---$' "$work/out")" = 2 ] || fail 'not two trainings'

# Commands in place of Lockstep: one that says other bits on one rank, and one that fails.
cat >"$work/differs" <<'END'
#!/bin/sh
[ "$1" = run ] && echo "state 0123456789abcdef" || echo "state 0123456789abcdee"
END
printf '#!/bin/sh\nexit 1\n' >"$work/fails"
chmod +x "$work/differs" "$work/fails"
status 1 tools/demo "$work/differs"
out 'The bits differ: please report this.'
status 1 tools/demo "$work/fails"
