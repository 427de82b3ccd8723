#!/bin/sh
# Lets one of several machines at a time go out of service, with a lock in a folder that they share:
#
#   scheduled-events watch … --gate 'lock.sh take /mnt/shared/lock' --recover 'lock.sh release /mnt/shared/lock'
#
# The lock is a symbolic link whose target is the name of the machine that holds it. The system creates it in one step, or
# not at all if it exists, also over NFS. flock(1) would not do: its lock ends with the process or with a reboot, and this
# one must last from the preparation to the recovery. A machine that never comes back keeps the lock, until somebody
# removes it; meanwhile the others are not prepared for their events, which start at NotBefore.
#
# Exit code 0: this machine holds the lock (take), or does not any more (release). 1: another one holds it.
set -u
lock=$2
machine=${3:-$(hostname)}
case $1 in
    take)
        ln -sn "$machine" "$lock" 2>/dev/null
        [ "$(readlink "$lock")" = "$machine" ]
        ;;
    release)
        [ "$(readlink "$lock")" != "$machine" ] || rm "$lock"
        ;;
    *)
        echo "usage: lock.sh take|release LOCK [MACHINE]" >&2
        exit 2
        ;;
esac
