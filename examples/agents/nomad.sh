#!/bin/sh
# Drains this Nomad client before Azure maintenance, and makes it eligible again afterwards. It follows Nomad's documentation of
# `nomad node drain`, and was never run against a real Nomad:
#
#   scheduled-events watch … --prepare 'nomad.sh drain' --recover 'nomad.sh resume'
#
# The drain ends when all allocations have left. What is still here ten seconds before the event is stopped. NOMAD_ADDR and
# NOMAD_TOKEN are Nomad's own variables; the token needs node:write.
set -eu
case $1 in
    drain)
        left=$((${SCHEDULED_EVENTS_SECONDS_LEFT:-0} - 10))
        [ "$left" -gt 5 ] || left=5
        exec nomad node drain -enable -self -yes -deadline "${left}s" -m "Azure: $SCHEDULED_EVENTS_EVENT_TYPE"
        ;;
    resume)
        # This also makes the node eligible.
        exec nomad node drain -disable -self -yes
        ;;
    *)
        echo "usage: nomad.sh drain|resume" >&2
        exit 2
        ;;
esac
