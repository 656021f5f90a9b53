#!/bin/sh
# Stands in for ssh: node_shell.sh [ssh options] HOST COMMAND... runs COMMAND in the network namespace that has the address HOST
# (or that name). The map is in $NETNS_MAP: "namespace=address,namespace=address". Another way in may be named by $NODE_ENTER,
# such as "docker exec -i".
while :; do
  case $1 in
    -o | -l | -p | -i) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
host=$1
shift
namespace=$host
for pair in $(echo "$NETNS_MAP" | tr ',' ' '); do
  [ "${pair#*=}" = "$host" ] && namespace=${pair%%=*}
done
# shellcheck disable=SC2086 # several words
exec ${NODE_ENTER:-ip netns exec} "$namespace" sh -c "$*"
