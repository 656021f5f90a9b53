#!/bin/sh
# Installs the container engines and tools of the testbed on Debian and Ubuntu, without starting any service. Silent where all is there.
set -eu
packages=
need() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null 2>&1 || packages="$packages $2"; }
need dockerd docker.io
need docker docker.io
need podman podman
need runc runc
need ch-run charliecloud-runtime
need mmdebstrap mmdebstrap
need iptables iptables
need ip iproute2
need newuidmap uidmap
need slirp4netns slirp4netns
[ -n "$packages" ] || exit 0
echo "installing:$packages"
[ "$(id -u)" = 0 ] || { echo "only root can install them" >&2; exit 1; }
# Packages that bring a daemon must not start it: the testbed runs its own.
if [ ! -e /usr/sbin/policy-rc.d ]; then
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
fi
apt-get update -q >/dev/null
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages containernetworking-plugins >/dev/null
