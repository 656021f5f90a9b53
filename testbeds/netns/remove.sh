#!/bin/sh
# Removes what create.sh PREFIX made, also when it is only half there. Processes left inside are killed.
prefix=$1
for side in 1 2; do
  if ip netns list | grep -q "^$prefix-$side\b"; then
    ip netns pids "$prefix-$side" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns delete "$prefix-$side"
  fi
done
exit 0
