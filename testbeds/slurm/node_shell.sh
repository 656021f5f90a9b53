#!/bin/sh
# Runs a command on a node of the cluster as ssh would, for launchers that want one: node_shell.sh [options] ADDRESS COMMAND...
# The last number of the address is that of the node; the command gets the node's network and host name.
while [ "${1#-}" != "$1" ]; do
  case $1 in -[lpoi]) shift ;; esac
  shift
done
node=n${1##*.}
shift
exec ip netns exec "$node" unshare --uts sh -c 'hostname "$0"; exec sh -c "$*"' "$node" "$@"
