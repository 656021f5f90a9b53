#!/bin/sh
# Builds the Fortran interfaces into a tree that has mpi.h and libmpi_abi.so.1 already: modules and mpif.h into include/, libmpifort_abi.so.1 into lib/.
# Usage: build.sh WORK TREE   (WORK: a folder for what is generated and compiled)
#
# Without gfortran or Python 3 it says so and builds nothing. With unchanged inputs it does nothing. FC and CC name other compilers.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
work=$(cd "$1" && pwd) tree=$(cd "$2" && pwd)
fc=${FC:-gfortran} cc=${CC:-cc} library=libmpifort_abi.so.1

for tool in "$fc" python3; do
  command -v "$tool" >/dev/null 2>&1 || { echo "no $tool: the Fortran interfaces are not built ('make deps' installs what is missing)"; exit 0; }
done

inputs=$( (cd "$here/.." && cat fortran/*.py fortran/*.sh fortran/runtime/* crates/abi/src/ch*.rs crates/abi/include/mpi.h; "$fc" --version; "$cc" --version; echo "$tree") | cksum)
if [ "$(cat "$work/inputs" 2>/dev/null)" = "$inputs" ] && [ -e "$tree/lib/$library" ] && [ -e "$tree/include/mpi_f08.mod" ]; then exit 0; fi
rm -rf "$work"
mkdir -p "$work"
python3 -B "$here/generate.py" "$work"

cd "$work"
# Warnings are errors in the hand-written files; an array of handles that is empty is no use of an uninitialised one.
flags="-std=gnu11 -O2 -fPIC -Wall -Wextra -Werror -Wno-maybe-uninitialized -I$here/runtime -I$tree/include"
for file in convert attributes callbacks predefined; do "$cc" $flags -c "$here/runtime/$file.c" -o "$file.o"; done
for file in special keys functions spawn; do
  "$cc" $flags -c "$here/runtime/$file.c" -o "$file.o"
  "$cc" $flags -DFORTRAN_PROFILING -c "$here/runtime/$file.c" -o "p$file.o"
done
"$cc" $flags -c procedures.c -o procedures.o
"$cc" $flags -DFORTRAN_PROFILING -c procedures.c -o pprocedures.o
for file in constants types callbacks sizeof mpi mpi_f08; do "$fc" -O2 -fPIC -c "$file.f90" -o "module_$file.o"; done
# The tree may be moved, so the C library is looked for beside this one.
"$fc" -shared -o "$library" ./*.o -Wl,-soname,$library -Wl,--version-script,"$here/runtime/exports.map" -Wl,-z,defs \
  -Wl,-rpath,'$ORIGIN' -L"$tree/lib" -l:libmpi_abi.so.1

install -m 644 mpif.h ./*.mod "$tree/include"
install -m 755 "$library" "$tree/lib/$library"
ln -sf "$library" "$tree/lib/libmpifort_abi.so"
echo "$inputs" >inputs
