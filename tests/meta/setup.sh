#!/bin/sh
# tools/setup: silent and fast when nothing is missing; otherwise installs as root or with sudo,
# and else prints the line to run.  A folder with invented commands plays the machine.
# shellcheck disable=SC2016 # the invented commands expand their own variables
set -eu
setup=$PWD/tools/setup
machine=$(mktemp -d)
trap 'rm -rf "$machine"' EXIT

fail() {
    printf '%s\n' "$@"
    exit 1
}

# invent NAME [LINE]: a command of the machine.
invent() {
    printf '#!/bin/sh\n%s\n' "${2-}" >"$machine/$1"
    chmod +x "$machine/$1"
}

# run STATUS GROUP...: on the machine; what it says is in $said.
run() {
    wanted=$1
    shift
    got=0
    said=$(env -i PATH="$machine" CC=cc "$setup" "$@" 2>&1) || got=$?
    [ "$got" = "$wanted" ] || fail "tools/setup $*: status $got, not $wanted:" "$said"
}

for real in sh env sed mktemp rm cat; do
    ln -s "$(command -v $real)" "$machine/$real"
done
invent uname 'echo none'
invent cc 'exit 0'
invent cmake
invent ninja
invent clang-format
invent shellcheck
invent mpicc
invent id 'echo 1000'

run 0 build
[ -z "$said" ] || fail "nothing is missing, but it says:" "$said"
run 2 attic
case $said in
*'no group "attic"; the groups are build mpi test lint demo arm coverage bench') ;;
*) fail 'it must name the groups, not' "$said" ;;
esac
# Groups that the Makefile asks for are there.
for group in $(sed -n 's/^\t@tools\/setup\( --optional\)*//p' Makefile); do
    said=$(env -i PATH="$machine" CC=cc "$setup" "$group" 2>&1) || :
    case $said in *'no group'*) fail "$said" ;; esac
done
run 2 lint
case $said in
*'missing: clang-tidy'*'in Debian: clang-tidy'*) ;;
*) fail 'no apt: it must name what is missing, not' "$said" ;;
esac
run 0 --optional lint
# the cblas.h of another BLAS is not OpenBLAS
invent cc 'read -r line; case $line in *cblas.h* | *dnnl.h*) exit 0 ;; esac; exit 1'
run 2 bench
case $said in
*'missing: OpenBLAS'*'in Debian: libopenblas-dev'*) ;;
*) fail 'another BLAS: it must name OpenBLAS, not' "$said" ;;
esac
invent cc 'exit 0'

# clang-tidy reads modules for MPI, whose compiler may be there without its header
invent mpicc 'read -r line; case $line in *mpi.h*) exit 1 ;; esac; exit 0'
invent clang-tidy
run 2 lint
case $said in
*'missing: Open MPI'*'in Debian: libopenmpi-dev'*) ;;
*) fail 'an MPI without its header: it must name Open MPI, not' "$said" ;;
esac
invent mpicc
run 0 lint
rm "$machine/clang-tidy"

invent apt-get 'echo "apt-get $*" >>'"$machine"'/calls; test -e '"$machine"'/lists || test "$1" = update'
run 2 lint
case $said in
*'
apt-get update && apt-get install -y --no-install-recommends clang-tidy') ;;
*) fail 'no root: the last line must be what to run, not' "$said" ;;
esac
[ ! -e "$machine/calls" ] || fail 'no root: it must not call apt-get'

invent sudo 'test "$1" = -n && shift && "$@"'
: >"$machine/lists"
run 0 build lint
case $(cat "$machine/calls") in
'apt-get install '*' clang-tidy') ;;
*) fail 'with sudo it must install clang-tidy alone, and fetch no lists, not' "$(cat "$machine/calls")" ;;
esac

rm "$machine/lists" "$machine/calls" "$machine/sudo"
invent id 'echo 0'
invent apt-get 'echo "apt-get $*" >>'"$machine"'/calls; test -e '"$machine"'/lists || { test "$1" = update && : >'"$machine"'/lists; }'
run 0 lint
case $(cat "$machine/calls") in
*install*clang-tidy*update*install*clang-tidy) ;;
*) fail 'without lists it must fetch them and try again, not' "$(cat "$machine/calls")" ;;
esac
invent apt-get 'echo "no network"; exit 100'
run 2 lint
case $said in
*'no network'*'could not install clang-tidy'*) ;;
*) fail 'a failed installation must be shown, not' "$said" ;;
esac

# The real machine: nothing to do costs less than a second.
start=$(date +%s%N)
"$setup" build
took=$((($(date +%s%N) - start) / 1000000))
[ "$took" -lt 1000 ] || fail "nothing to do took $took ms"
