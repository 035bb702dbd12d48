#!/bin/sh
# How OpenMP waits: info tells of one that spins, and libraries that the bench measures wait passively.
. "$(dirname "$0")/../expect.sh"
unset OMP_WAIT_POLICY GOMP_SPINCOUNT KMP_BLOCKTIME OPENBLAS_THREAD_TIMEOUT

# spins VARIABLE=VALUE VARIABLE=PASSIVE: the line of info names what was set, and what to set instead.
spins()
{
    status 0 env "$1" "$lockstep" info
    grep -Eq "^threads +OpenMP +spins +because ${1%%=*} is ${1#*=}: .*; $2 lets them sleep\$" "$work/out" ||
        fail "info does not say that $1 spins"
    status 0 env "$1" "$lockstep" info --json
    out "\"name\": \"OpenMP\", \"value\": \"spins\", \"note\": \"because ${1%%=*} is "
}

sleeps()
{
    status 0 env "$@" "$lockstep" info
    grep -q 'OpenMP' "$work/out" && fail "info speaks of OpenMP with $*"
}

spins OMP_WAIT_POLICY=ACTIVE OMP_WAIT_POLICY=passive
spins GOMP_SPINCOUNT=infinite GOMP_SPINCOUNT=0
spins GOMP_SPINCOUNT=30G GOMP_SPINCOUNT=0
spins KMP_BLOCKTIME=infinite KMP_BLOCKTIME=0
spins KMP_BLOCKTIME=200 KMP_BLOCKTIME=0
spins KMP_BLOCKTIME=1s KMP_BLOCKTIME=0
sleeps LC_ALL=C
sleeps OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=1000 KMP_BLOCKTIME=1
sleeps GOMP_SPINCOUNT=2k KMP_BLOCKTIME=100us
sleeps GOMP_SPINCOUNT= KMP_BLOCKTIME=often

# A Python that says how its OpenMP was told to wait.
cat >"$work/python" <<'END_OF_PYTHON'
#!/bin/sh
echo "PyTorch that waits $OMP_WAIT_POLICY, $GOMP_SPINCOUNT rounds, $KMP_BLOCKTIME ms"
while read -r what rest; do
    case $what in mul | mixed) echo 1 0.99 ;; add) echo 1 1 ;; tanh) echo 1 0.786448 ;; esac
done
END_OF_PYTHON
chmod +x "$work/python"
status 0 env OMP_WAIT_POLICY=active KMP_BLOCKTIME=infinite "$lockstep" bench tape --python "$work/python" \
    --seconds 0 --ops 1 --elements 3
out 'torch: PyTorch that waits passive, 0 rounds, 0 ms'

# The OpenMP below oneDNN prints what it was told.
if [ -e "$(dirname "$lockstep")/peers/lockstep-peer-onednn.so" ]; then
    status 0 env OMP_WAIT_POLICY=active OMP_DISPLAY_ENV=verbose "$lockstep" bench kernels --against onednn \
        --seconds 0 --filter '1000-10 b16 forward'
    err "OMP_WAIT_POLICY = 'PASSIVE'"
    err "GOMP_SPINCOUNT = '0'"
fi
