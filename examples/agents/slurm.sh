#!/bin/sh
# Drains this Slurm node before Azure maintenance, and resumes it afterwards:
#
#   scheduled-events watch … --prepare 'slurm.sh drain' --recover 'slurm.sh resume'
#
# Jobs may end by themselves until LEAVE seconds before the event (60); then they are requeued. So an eviction with 30 seconds
# of notice requeues them at once. A node that an administrator drained stays drained.
set -eu
node=${SLURMD_NODENAME:-$(hostname -s)}
reason=azure-maintenance
state() { scontrol show node "$node" --oneliner; }
left() { echo $(($(date -d "${SCHEDULED_EVENTS_NOT_BEFORE:-now}" +%s) - $(date +%s))); }
case $1 in
    drain)
        state | grep -q ' State=[^ ]*DRAIN' || scontrol update "NodeName=$node" State=DRAIN "Reason=$reason"
        while jobs=$(squeue --noheader --nodelist "$node" --format %A | paste -sd ,) && [ -n "$jobs" ]; do
            [ "$(left)" -gt "${LEAVE:-60}" ] || scontrol requeue "$jobs"
            sleep 1
        done
        ;;
    resume)
        ! state | grep -q " Reason=$reason" || scontrol update "NodeName=$node" State=RESUME
        ;;
    *)
        echo "usage: slurm.sh drain|resume" >&2
        exit 2
        ;;
esac
