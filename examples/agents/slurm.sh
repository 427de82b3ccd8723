#!/bin/sh
# Drains this Slurm node before Azure maintenance, and resumes it afterwards:
#
#   scheduled-events watch … --prepare 'slurm.sh drain' --recover 'slurm.sh resume'
#
# Jobs may end by themselves until LEAVE seconds before the event (60). Then each is requeued once, and what is completing is
# waited for; an eviction with 30 seconds of notice requeues at once. A job that must not be requeued (--no-requeue, srun, salloc)
# gets SIGTERM, and an allocation in which nothing runs is revoked. The drain fails if a job is still here when the event is due.
# A node that an administrator drained stays drained.
set -eu
reason=azure-maintenance
report() { echo "slurm: $*" >&2; }
if [ -z "${SLURMD_NODENAME-}" ]; then # Slurm may know this machine by another name than its host name.
    names=$(sinfo --noheader --Node --format '%n %N')
    host=$(hostname -s)
    SLURMD_NODENAME=$(echo "$names" | awk -v host="$host" 'tolower($1) == tolower(host) { print $2; exit }')
    [ -n "$SLURMD_NODENAME" ] || { report "no node has the host name $host; set SLURMD_NODENAME" && exit 78; }
fi
node=$SLURMD_NODENAME
jobs() { squeue --noheader --nodelist "$node" --Format 'JobArrayID:40,StateCompact:4,BatchFlag:2,Requeue:2,UserName:32'; }
steps() { squeue --noheader --steps --jobs "$1" --format %i | grep -v extern; }
uptime() { cut -d . -f 1 /proc/uptime; } # Unlike the clock, it is never set.
# stop ID STATE BATCH REQUEUE USER: does once what ends a job.
stop() {
    job=${1%+*} # A part of a heterogeneous job is taken for all of it.
    case "$2,$ended" in CG,* | *",$job,"*) return ;; esac
    if [ "$3$4" = 11 ]; then
        scontrol requeue "$job" || return 0 # The next round tries again.
    elif [ "$3" = 1 ]; then
        report "job $job of $5 must not be requeued: it gets SIGTERM"
        scancel --full --signal=TERM "$job" || return 0
    elif [ -n "$(steps "$job")" ]; then
        case $ended in *",$job.steps,"*) return ;; esac
        report "job $job of $5 is interactive: it gets SIGTERM"
        scancel --signal=TERM "$job" || return 0
        job=$job.steps # Its allocation may be left.
    else
        report "job $job of $5 is an allocation in which nothing runs: it is revoked"
        scancel "$job" || return 0
    fi
    ended="$ended$job,"
}
case ${1-} in
    drain)
        state=$(scontrol show node "$node" --oneliner)
        echo "$state" | grep -q ' State=[^ ]*DRAIN' || scontrol update "NodeName=$node" State=DRAIN "Reason=$reason"
        leave=${LEAVE:-60} ended=,
        left=${SCHEDULED_EVENTS_SECONDS_LEFT:-$leave}
        [ "$left" -gt 10 ] || left=10
        end=$(($(uptime) + left))
        # A failing squeue does not mean that there are no jobs.
        while here=$(jobs) || exit 1 && [ -n "$here" ]; do
            left=$((end - $(uptime)))
            # shellcheck disable=SC2086 # The columns.
            [ "$left" -gt "$leave" ] || while read -r job; do stop $job; done <<JOBS
$here
JOBS
            [ "$left" -gt 0 ] || { report still here: $(echo "$here" | cut -d ' ' -f 1) && exit 1; }
            sleep 1
        done
        ;;
    resume)
        state=$(scontrol show node "$node" --oneliner)
        case $state in *" Reason=$reason "*) scontrol update "NodeName=$node" State=RESUME ;; esac
        ;;
    *)
        echo "usage: slurm.sh drain|resume" >&2
        exit 2
        ;;
esac
