#!/bin/sh
# A command with more rights than who starts it hears nothing from the environment: it loads no code and
# opens no file that is named there.
. "$(dirname "$0")/../expect.sh"
command -v cc >/dev/null || { echo 'SKIPPED: there is no cc'; exit 77; }
chmod 755 "$work"

# The command, as another user's or, for who is not root, another group's.
victim=$work/victim
cp "$lockstep" "$victim"
if [ "$(id -u)" -eq 0 ]; then
    chown nobody "$victim" && chmod 4755 "$victim"
else
    other=$(id -G | tr ' ' '\n' | grep -vx "$(id -g)" | head -n 1)
    [ -n "$other" ] || { echo 'SKIPPED: this user has one group'; exit 77; }
    chgrp "$other" "$victim" && chmod 2755 "$victim"
fi
if LD_SHOW_AUXV=1 "$victim" --version 2>/dev/null | grep -q AT_SECURE; then
    echo 'SKIPPED: rights of files do not count here'
    exit 77
fi

# A module for MPI that says that it was loaded.
mkdir "$work/modules"
cat >"$work/module.c" <<'END'
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { fputs("LOADED\n", stderr); }
END
cc -shared -fPIC "$work/module.c" -o "$work/modules/lockstep-mpi-mpich.so" || exit 1
set -- env PMI_RANK=0 PMI_SIZE=1 LK_MPI=mpich LK_MPI_MODULES="$work/modules"
"$@" "$lockstep" topo >"$work/out" 2>"$work/err"
err 'LOADED'
"$@" "$victim" topo >"$work/out" 2>"$work/err"
! grep -q LOADED "$work/err" || fail 'a module of the caller was loaded'

# Nor does it compute as the caller says.
status 2 env LK_ISA=none "$lockstep" gradcheck relu
status 0 env LK_ISA=none "$victim" gradcheck relu
