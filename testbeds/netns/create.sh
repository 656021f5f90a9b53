#!/bin/sh
# Makes two network namespaces joined by a veth pair: two "hosts" on one machine.
# Usage: create.sh PREFIX   → namespaces PREFIX-1 (10.77.X.1) and PREFIX-2 (10.77.X.2); prints "namespace address" lines.
# Remove them with remove.sh PREFIX; callers do so in a trap.
set -eu
prefix=$1
number=$(printf '%s' "$prefix" | cksum | cut -d' ' -f1)
net="10.$((64 + number % 60)).$((number / 60 % 250))"
ip netns add "$prefix-1"
ip netns add "$prefix-2"
ip link add eth0 netns "$prefix-1" type veth peer name eth0 netns "$prefix-2"
for side in 1 2; do
  ip -n "$prefix-$side" addr add "$net.$side/24" dev eth0
  ip -n "$prefix-$side" link set eth0 up
  ip -n "$prefix-$side" link set lo up
  echo "$prefix-$side $net.$side"
done
