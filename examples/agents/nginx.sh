#!/bin/sh
# Takes this machine's nginx out of a load balancer with health probes, such as Azure Load Balancer, and back into it:
#
#   scheduled-events watch … --prepare 'nginx.sh drain FLAG STATUS' --recover 'nginx.sh ready FLAG'
#
# nginx answers the probe with 503 while the file FLAG exists, and counts its requests at the address STATUS:
#
#   location = /health { if (-f FLAG) { return 503; } return 200; }
#   location = /status { stub_status; allow 127.0.0.1; deny all; access_log off; }
#
# A load balancer notices after some probes: PROBES is that time in seconds (15), which is halved until it fits before the
# event. After it, the drain ends when nginx works on no request but the one for its status. Idle connections do not count.
set -eu
flag=$2
case $1 in
    drain)
        touch "$flag"
        left=${SCHEDULED_EVENTS_SECONDS_LEFT:-0}
        probes=${PROBES:-15}
        while [ "$probes" -gt "$left" ] && [ "$probes" -gt 0 ]; do probes=$((probes / 2)); done
        sleep "$probes"
        while
            busy=$(curl -fsS --max-time 5 "$3" | awk '/^Reading:/ { print $2 + $4 }')
            [ "${busy:-2}" -gt 1 ]
        do sleep 0.2; done
        ;;
    ready)
        rm -f "$flag"
        ;;
    *)
        echo "usage: nginx.sh drain FLAG STATUS | ready FLAG" >&2
        exit 2
        ;;
esac
