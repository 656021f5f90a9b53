#!/bin/sh
# Stands in for ssh: enter.sh HOST COMMAND... runs COMMAND in the container HOST of this bed (engines.py wrote down how).
host=$1
shift
if [ ! -r "$CONTAINER_BED/hosts/$host" ]; then
  echo "enter.sh: no container $host in $CONTAINER_BED" >&2
  exit 1
fi
eval "exec $(cat "$CONTAINER_BED/hosts/$host") \"\$@\""
