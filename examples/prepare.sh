#!/bin/sh
# Installs what building, testing and the demonstration need and a bare Debian or Ubuntu lacks. Silent where all is there.
# Usage: prepare.sh build|test|demo|interconnect|launchers|vm
set -eu
want=$1
packages=
need() { command -v "$1" >/dev/null 2>&1 || packages="$packages $2"; }
need cc gcc
need ld.lld lld
need make make
need curl curl
need python3 python3
[ -e /usr/include/stdio.h ] || packages="$packages libc6-dev"
python3 -c 'import venv, ensurepip' 2>/dev/null || packages="$packages python3-venv python3-pip python3-dev"
[ -e "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])' 2>/dev/null)/Python.h" ] || packages="$packages python3-dev"
need ip iproute2
case $want in
  demo) [ -e /usr/include/fftw3.h ] || packages="$packages libfftw3-dev" ;;
  test) need valgrind valgrind ;;
  vm)
    PATH=$PATH:/usr/sbin:/sbin
    need qemu-system-x86_64 qemu-system-x86
    need busybox busybox-static
    need modinfo kmod
    ;;
  launchers)
    PATH=$PATH:/usr/sbin:/sbin
    need slurmd slurmd
    need slurmctld slurmctld
    need srun slurm-client
    need munged munge
    # Slurm's plugin loads libpmix.so, which is in the package for developers.
    ls /usr/lib/*/pmix2/lib/libpmix.so >/dev/null 2>&1 || packages="$packages slurm-wlm-basic-plugins libpmix2 libpmix-dev"
    ;;
  interconnect)
    PATH=$PATH:/usr/sbin:/sbin
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
    [ -e /usr/include/slurm/spank.h ] || packages="$packages libslurm-dev"
    ;;
esac
if [ -n "$packages" ]; then
  echo "installing:$packages"
  sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  # Services (Open vSwitch's) are not started: tests run their own. Where the machine has no policy, one stands for the time being.
  policy=/usr/sbin/policy-rc.d
  if [ -e $policy ]; then policy=; else
    printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
    $sudo chmod 755 $policy
    trap '$sudo rm -f $policy' EXIT
  fi
  $sudo apt-get update -q >/dev/null
  install() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null; }
  # One that conflicts with what is there keeps none of the others away: whatever needs it says so itself.
  # shellcheck disable=SC2086
  install $packages || for package in $packages; do
    install "$package" || echo "can't be installed: $package"
  done
fi
if ! command -v cargo >/dev/null 2>&1 && [ ! -x "$HOME/.cargo/bin/cargo" ]; then
  echo "installing Rust"
  curl -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --default-toolchain none >/dev/null
fi
