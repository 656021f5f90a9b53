#!/bin/sh
# EpilogSlurmctld: when a job ends, its routes go, also those of steps whose srun was killed. The manager's socket is the first argument or
# FERRULE_FABRIC_SOCKET. Never fails: a job must not suffer from a manager that is away (which ends such jobs itself when it
# is back, with `serve --slurm`).
socket=${FERRULE_FABRIC_SOCKET:-${1:-/run/ferrule-fabric.sock}}
case ${SLURM_JOB_ID:-} in ''|*[!0-9]*) exit 0 ;; esac
curl --silent --max-time 10 --unix-socket "$socket" --request DELETE "http://manager/v1/jobs/$SLURM_JOB_ID" >/dev/null 2>&1
exit 0
