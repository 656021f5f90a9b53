#!/bin/sh
# Installs what building, testing and the demonstration need and a bare Debian, Ubuntu, Fedora or openSUSE lacks. Prints first what it will do; silent where all is there.
# Usage: prepare.sh [--check] build|test|demo|interconnect|launchers|ssh|suites|vm …
#   --check   names what is missing and fails, installs nothing
set -eu
here=$(cd "$(dirname "$0")/../mk" && pwd)
. "$here/packages.sh"

need_python() {
  need python3 python3
  python3 -c 'import venv, ensurepip' 2>/dev/null || missing python3-venv python3-pip
  [ -e "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])' 2>/dev/null)/Python.h" ] || missing python3-dev
}

check=
[ "${1:-}" != --check ] || { check=1; shift; }
for want in "$@"; do
  case $want in
    build)
      need cc gcc
      need make make
      [ -e /usr/include/stdio.h ] || missing libc6-dev
      need_rust
      ;;
    demo)
      need_python
      need ip iproute2
      [ -e /usr/include/fftw3.h ] || missing libfftw3-dev
      ;;
    test)
      need_python
      need ip iproute2
      need valgrind valgrind
      need tclsh tcl
      need ucx_info ucx-utils
      need gfortran gfortran
      need groff groff-base
      need zsh zsh
      need fish fish
      need mmdebstrap mmdebstrap
      [ -e /usr/include/ucp/api/ucp.h ] || missing libucx-dev
      ;;
    suites)
      need_python
      ls /usr/lib/*/libblas.so >/dev/null 2>&1 || missing libblas-dev
      ;;
    vm)
      need qemu-system-x86_64 qemu-system-x86
      need busybox busybox-static
      need modinfo kmod
      ;;
    launchers)
      need slurmd slurmd
      need slurmctld slurmctld
      need srun slurm-client
      need munged munge
      # Slurm's plugin loads libpmix.so, which is in the package for developers.
      ls /usr/lib/*/pmix2/lib/libpmix.so >/dev/null 2>&1 || missing slurm-wlm-basic-plugins libpmix2 libpmix-dev
      ;;
    ssh)
      need sshd openssh-server
      need ssh openssh-client
      need ip iproute2
      need tcsh tcsh
      ;;
    interconnect)
      need ovs-vswitchd openvswitch-switch
      need ethtool ethtool
      need ping iputils-ping
      need ibsim ibsim-utils
      need opensm opensm
      need ibtracert infiniband-diags
      need chromium chromium
      need lua5.1 lua5.1
      need lua5.4 lua5.4
      need smpicc libsimgrid-dev
      [ -e /usr/include/slurm/spank.h ] || missing libslurm-dev
      ;;
    *) echo "prepare.sh: unknown: $want" >&2; exit 2 ;;
  esac
done
if [ -n "$check" ]; then
  [ -z "$packages$rust" ] && exit 0
  echo "missing:$packages${rust:+ Rust}; 'make deps' installs it" >&2
  exit 1
fi
install_missing
