#!/bin/sh
# Builds libmpifort.so.12, for Fortran programs that were built with MPICH's or Intel MPI's wrappers, into a tree that has lib/mpich/libmpi.so.12 already.
# Usage: mpich.sh WORK TREE   (WORK: a folder for what is generated and compiled)
#
# It needs a C compiler and Python 3, no Fortran compiler. Without them it says so and builds nothing. With unchanged inputs it does nothing. CC names another compiler.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
work=$(cd "$1" && pwd) place=$(cd "$2/lib/mpich" && pwd)
cc=${CC:-cc} library=libmpifort.so.12

for tool in "$cc" python3; do
  command -v "$tool" >/dev/null 2>&1 || { echo "no $tool: $library is not built ('make deps' installs what is missing)"; exit 0; }
done

inputs=$( (cd "$here/.." && cat fortran/*.py fortran/*.sh fortran/runtime/* fortran/mpich/* crates/abi/src/ch*.rs crates/abi/include/mpi.h; "$cc" --version; echo "$place") | cksum)
if [ "$(cat "$work/inputs" 2>/dev/null)" = "$inputs" ] && [ -e "$place/$library" ]; then exit 0; fi
rm -rf "$work"
mkdir -p "$work"
python3 -B "$here/mpich.py" "$work"

cd "$work"
flags="-std=gnu11 -O2 -fPIC -Wall -Wextra -Werror -Wno-maybe-uninitialized -I$here/mpich -I$here/runtime -I$work"
for file in convert attributes callbacks; do "$cc" $flags -c "$here/runtime/$file.c" -o "$file.o"; done
"$cc" $flags -c "$here/mpich/modules.c" -o modules.o
"$cc" $flags -c external.c -o external.o
"$cc" $flags -DFORTRAN_PROFILING -c external.c -o pexternal.o
# The tree may be moved, so the C library is looked for beside this one.
"$cc" -shared -o "$library" ./*.o -Wl,-soname,$library -Wl,--version-script,"$here/mpich/exports.map" -Wl,-z,defs \
  -Wl,-rpath,'$ORIGIN' -L"$place" -l:libmpi.so.12

install -m 755 "$library" "$place/$library"
# Debian's name of it, and those that a linker looks for.
for name in libmpifort.so libmpichfort.so.12 libmpichfort.so; do ln -sf "$library" "$place/$name"; done
echo "$inputs" >inputs
