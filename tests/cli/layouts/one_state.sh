# shellcheck shell=sh disable=SC2034,SC2154 # the variables are for the tests, or of expect.sh and places.sh
# Layouts that must give one state, for tests that source this behind expect.sh and places.sh.
#
#   $first   the first MPI; empty: there is none
#   $on      the MPIs that processes run on, with commas: the first, with TEST_LONG in the environment all
first=${mpis# }
first=${first%% *}
on=${TEST_LONG:+$(echo "${mpis# }" | tr ' ' ,)}
on=${on:-$first}

# more LAYOUTS: those of the long test, behind a comma.
more()
{
    echo "${TEST_LONG:+,$1}"
}

# one_state FILE ARGUMENTS...: all configurations of it have the state of the first, which $state gets.
one_state()
{
    file=$1
    shift
    status 0 "$lockstep" verify "$file" --json "$@"
    "$json" <"$work/out" || fail 'JSON'
    [ "$(grep -c '"same": true' "$work/out")" -eq "$(wc -l <"$work/out")" ] || fail "$file: layouts differ"
    sed -n 's/.*"state": "\([^"]*\)".*/\1/p' "$work/out" | sort -u >"$work/states"
    [ "$(wc -l <"$work/states")" -eq 1 ] || fail "$file: no state"
    state=$(cat "$work/states")
    echo "$file $state: $(wc -l <"$work/out") configurations"
}
