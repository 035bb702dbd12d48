#!/bin/sh
# Install, move the installed tree, and build the README's example against it: with pkg-config and
# with the CMake package of docs/guide/install.md, shared and static, as C and as C++, and with that of the
# build folder.  Then the example of a host program with its own MPI, by the compiler of each MPI.
#
#   tests/install/check.sh BUILD-FOLDER        77: cannot run here
set -eu
build=$(cd "${1:?usage: tests/install/check.sh BUILD-FOLDER}" && pwd)
command -v pkg-config >/dev/null || { echo 'SKIPPED: there is no pkg-config'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# block KIND FILE: the first ```KIND block of a document.
block() {
    awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next } on && /^```/ { exit } on' "$2"
}

DESTDIR="$work/stage" cmake --install "$build" --prefix /opt/lockstep >/dev/null
mv "$work/stage/opt/lockstep" "$work/moved"
rmdir "$work/stage/opt" "$work/stage" # nothing was installed elsewhere

# Links of the installed documents lead somewhere.
find "$work/moved/share/doc/lockstep" -name '*.md' | while IFS= read -r document; do
    grep -o '](\([^)#]*\)' "$document" | cut -c3- | grep -v '^https\?:' | while IFS= read -r link; do
        [ -e "$(dirname "$document")/$link" ] || { echo "$document: there is no $link"; exit 1; }
    done
done

# So are the presets, all of them.
[ "$(cd experiments && echo ./*)" = "$(cd "$work/moved/share/lockstep/experiments" && echo ./*)" ] ||
    { echo 'the presets are not installed'; exit 1; }

library=$(dirname "$(find "$work/moved" -name liblockstep.so)")
export LD_LIBRARY_PATH="$library" PKG_CONFIG_PATH="$library/pkgconfig" CMAKE_PREFIX_PATH="$work/moved"
block c README.md >"$work/example.c"
block text README.md >"$work/expected"
block cmake docs/guide/install.md >"$work/CMakeLists.txt"
cp "$work/example.c" "$work/example.cpp"
[ -s "$work/example.c" ] && [ -s "$work/expected" ] && [ -s "$work/CMakeLists.txt" ]

# runs NAME PROGRAM: it must print what the README says.
runs() {
    "$2" >"$work/printed" 2>&1 || { cat "$work/printed"; echo "$1: failed"; exit 1; }
    diff -u "$work/expected" "$work/printed" || { echo "$1: prints something else"; exit 1; }
    echo "$1: ok"
}

run=$PWD/tests/dist/run.sh
cd "$work"
cc=${CC:-cc}
# shellcheck disable=SC2046 # pkg-config prints lists of words
{
    "$cc" -Wall -Wextra -Werror example.c -o shared $(pkg-config --cflags --libs lockstep)
    runs 'pkg-config, shared' ./shared
    ldd ./shared | grep -q "$library/liblockstep.so.0"
    "$cc" -static example.c -o static $(pkg-config --static --cflags --libs lockstep)
    runs 'pkg-config, static' ./static
    if command -v c++ >/dev/null; then
        c++ -Wall -Werror example.cpp -o plus $(pkg-config --cflags --libs lockstep)
        runs 'pkg-config, C++' ./plus
    fi
}
{ cmake -S . -B tree && cmake --build tree; } >log 2>&1 || { cat log; exit 1; }
runs 'CMake, shared' tree/example
# What is not installed is found in the build folder, which may be in PATH for the sake of the command.
{ env -u CMAKE_PREFIX_PATH PATH="$build:$PATH" cmake -S . -B found && cmake --build found; } >log 2>&1 ||
    { cat log; exit 1; }
grep -qF "lockstep_DIR:PATH=$build" found/CMakeCache.txt
runs 'CMake, with the build folder in PATH' found/example
sed -i 's/lockstep::lockstep/lockstep::lockstep_static/' CMakeLists.txt
{ cmake -S . -B tree && cmake --build tree; } >log 2>&1 || { cat log; exit 1; }
runs 'CMake, static' tree/example
if ldd tree/example | grep -q liblockstep; then
    echo 'CMake, static: linked to the shared library'
    exit 1
fi

examples=$work/moved/share/doc/lockstep/examples
cp "$examples/output/14_host_heat.txt" "$work/expected"
for mpi in openmpi mpich; do
    command -v "mpicc.$mpi" >/dev/null || continue
    # shellcheck disable=SC2046 # pkg-config prints lists of words
    "mpicc.$mpi" -Wall -Wextra -Werror "$examples/14_host_heat.c" -o "$mpi" $(pkg-config --cflags --libs lockstep) -lm
    printf '#!/bin/sh\nexec "%s" %s 3 "%s"\n' "$run" "$mpi" "$work/$mpi" >start
    chmod +x start
    runs "a host of $mpi" ./start
done
version=$(pkg-config --modversion lockstep)
"$work/moved/bin/lockstep" info | grep -q "$version"
