#!/bin/sh
# Every row of docs/guide/porting.md about DDL's launcher: the words on the right are those on the left, with the
# command's name and "--" before the program, and lockstep run takes them.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../places.sh"
[ -n "$mpis" ] || { echo 'SKIPPED: there is no MPI'; exit 77; }
lockstep=$(readlink -f "$lockstep")
document=$(readlink -f "$tests/../docs/guide/porting.md")
unset DDL_OPTIONS DDL_HOST_PORT DDL_HOST_LIST LK_TIERS
cd "$work" || exit 1
printf 'a\nb\nc\n' >hosts
for rank in 0 1 2 3 4 5 6 7 8 9 10 11; do echo "rank $rank=h$((rank / 4)) slot=0:0"; done >4x3.rf
printf '#!/bin/sh\n' >program
chmod +x program
PATH=$(dirname "$lockstep"):$PATH

sed -n '/^## DDL: the launcher/,/^## keras/ s/^| `\(.*\)` | `\([^`]*\)`.* |$/\1\t\2/p' "$document" >rows
[ "$(wc -l <rows)" -ge 15 ] || fail 'cannot read the table'
tab=$(printf '\t')
while IFS=$tab read -r theirs ours; do
    case $theirs in
    ddlrun\ ./program) want='lockstep run -m p -- ./program' ;; # nothing there is p
    rank_gen.py*)
        status 0 sh -c "$ours"
        [ "$(wc -l <"$work/out")" -eq 12 ] || fail "not 12 ranks: $ours"
        continue
        ;;
    *) want=$(echo "$theirs" | sed 's/^ddlrun/lockstep run/; s/^mpirun/lockstep run/; s| ./program| -- ./program|') ;;
    esac
    [ "$ours" = "$want" ] || fail "another row: $ours"
    for mpi in $mpis; do
        status 0 env LK_MPI="$mpi" sh -c "$(echo "$ours" | sed 's/run /run --dry-run /')"
        out 'DDL_HOST_PORT=2200'
        case $ours in
        *no_ddloptions*) ! grep -q 'DDL_OPTIONS=' "$work/out" || fail 'DDL_OPTIONS is set' ;;
        *dump_iter*) grep -q "^DDL_OPTIONS='-mode p:.* -dump_iter 100'" "$work/out" || fail "$ours: other options" ;;
        *n:*) grep -q "^DDL_OPTIONS='-mode n:" "$work/out" || fail "$ours: another mode" ;;
        *) grep -q "^DDL_OPTIONS='-mode p" "$work/out" || fail "$ours: another mode" ;;
        esac
    done
done <rows

# All options of ddlrun that are known are in the help.
status 0 lockstep run --help
for option in '-m, --mode' --ddlarg --no-ddloptions '-rf, --rankfile' '-H, --host' --hostfile --aisles --racks \
    --nodes --accelerators --tcp --mpiarg '-x VAR' '-v, --verbose'; do
    out "  $option"
done
