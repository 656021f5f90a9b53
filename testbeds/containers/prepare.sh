#!/bin/sh
# Installs the container engines and tools of the testbed, without starting any service. Silent where all is there.
set -eu
here=$(cd "$(dirname "$0")/../../mk" && pwd)
. "$here/packages.sh"
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
[ -z "$packages" ] || missing containernetworking-plugins
install_missing
