#!/bin/sh
# The command is what the documents say: its verbs and options are there, and docs/reference/numerics.md shows
# what the self-check prints.
. "$(dirname "$0")/../expect.sh"

# Commands in backquotes and in blocks of code; what is planned is not there yet, x is any verb, and
# `lockstep run: ...` is what the command says.
cat README.md ARCHITECTURE.md CONTRIBUTING.md docs/*.md docs/*/*.md | grep -v '^| comes |' |
    grep -oE '(`|^|build/)lockstep [a-z][^`#]*' |
    sed 's/^`//; s/^build.//; s/^lockstep //' | grep -v -e '^x ' -e '^[a-z]*:' | sort -u >"$work/commands"
[ "$(wc -l <"$work/commands")" -gt 3 ] || fail 'cannot find the commands in the documents'
while read -r verb rest; do
    kind=
    # `lockstep run -n 3 -- train --resume`: what follows is the other verb's
    if [ "$verb" = run ]; then rest=${rest%% -- *}; fi
    if [ "$verb" = bench ] || [ "$verb" = data ] || [ "$verb" = convert ]; then kind=$(echo "$rest" | grep -o '^[a-z][a-z]*'); fi
    # `lockstep help layer conv` asks for help itself
    # shellcheck disable=SC2086 # several words, or none
    if [ "$verb" = help ]; then
        case $rest in *[A-Z]*) ;; *) status 0 "$lockstep" help $rest ;; esac
        continue
    fi
    # shellcheck disable=SC2086 # no kind is no word
    status 0 "$lockstep" help "$verb" $kind
    # `lockstep bench --against` is of one of its kinds
    if [ "$verb" = bench ] && [ -z "$kind" ]; then status 0 "$lockstep" help bench kernels; fi
    for option in $(echo "$rest" | grep -o -- '--[a-z][a-z-]*'); do
        grep -Eq "^  (-[A-Za-z]+, )?$option" "$work/out" || fail "no option $option of lockstep $verb $kind"
    done
    case $verb:$rest in list:[a-z]*) status 0 "$lockstep" list "$rest" ;; esac
done <"$work/commands"

# The verbs that are there, in the README and in the list.
sed -n 's/^| the command | `lockstep \(.*\)` |$/\1/p' README.md | sed 's/`, `/\n/g' | sort >"$work/shown"
status 0 "$lockstep" list verbs --json
sed -n 's/.*"name": "\([a-z]*\)".*/\1/p' "$work/out" | grep -v '^help$' | sort >"$work/listed"
cmp -s "$work/shown" "$work/listed" || fail "the README has other verbs: $(tr '\n' ' ' <"$work/shown")"

# Numbers of the README: as many types of layers, and at least so many ops in tens.
counted() { "$lockstep" list | awk -v kind="$1" '$1 == kind { print $2 }'; }
grep -qF "$(counted layers) types of layers" README.md || fail "the README has other than $(counted layers) types of layers"
grep -qF "over $((($(counted ops) - 1) / 10))0 ops" README.md || fail "the README has another number of ops than $(counted ops)"

# The self-check: kernels, cases, hashes and errors are the same everywhere.
table()
{
    awk '/^kernel +cases / { on = 1 } /^$/ { on = 0 } on { print $1, $2, $4, $5, $6 }' "$1"
}
status 0 "$lockstep" selfcheck --threads 1 --isa scalar
table "$work/out" >"$work/printed"
table docs/reference/numerics.md >"$work/shown"
diff "$work/shown" "$work/printed" >&2 || fail 'docs/reference/numerics.md shows another self-check: put in what it prints'
# The document's has 2 instruction sets and 4 numbers of threads.
summary=$(sed -n 's/^\(.* cases, \)\([0-9]*\) runs on .*/echo "\1$((8 * \2)) runs"/p' "$work/out" | sh)
grep -qF "$summary on {scalar, avx2} x {1, 2, 3, 4} threads" docs/reference/numerics.md || fail "not in docs/reference/numerics.md: $summary"
