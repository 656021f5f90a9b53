#!/bin/sh
# The demonstration: two hosts (network namespaces joined by a veth pair), four ranks, two real programs.
# 1. a distributed 3-D FFT in C that checks itself, with the channel that each pair of ranks uses: shared memory and single copy inside a
# host, TCP between the hosts; 2. mpi4py-fft on real terrain.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
say() { printf '\n== %s\n' "$*"; }
begin=$(date +%s)

[ -x dist/bin/mpiexec ] || { echo "run: make build" >&2; exit 1; }
prefix=fd$$
trap 'testbeds/netns/remove.sh $prefix' EXIT
trap 'exit 130' INT TERM HUP PIPE
say "two hosts"
testbeds/netns/create.sh "$prefix"
mkdir -p build/demo
dist/bin/mpicc -O2 examples/fft3d/fft3d.c -o build/demo/fft3d -lm
python=$root/build/mpi4py/venv/bin/python

# The namespaces play hosts. Without this, their node agents find that they are one host, and all ranks use memory.
export FERRULE_LOCALITY=node

# The launcher runs on the first host, as a user's shell would; `ferrule why` also prints the channel of each pair of ranks.
on_two_hosts() {
  ip netns exec "$prefix-1" "$root/dist/bin/mpiexec" --launcher-exec 'ip netns exec {host} {command}' -host "$prefix-1:2,$prefix-2:2" -n 4 "$@"
}

say "3-D FFT, 4 ranks on 2 hosts: the channel of each pair"
ip netns exec "$prefix-1" "$root/dist/bin/ferrule" why -- --launcher-exec 'ip netns exec {host} {command}' \
  -host "$prefix-1:2,$prefix-2:2" -n 4 build/demo/fft3d 64 64 64
say "3-D FFT, larger"
on_two_hosts build/demo/fft3d 128 128 64
say "mpi4py-fft on real terrain, 4 ranks on 2 hosts"
on_two_hosts "$python" examples/mpi4py_fft/terrain.py
say "all right; $(($(date +%s) - begin)) s after the build"
