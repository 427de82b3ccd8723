#!/bin/sh
# A check for the custom plugin monitor of node-problem-detector, with the configuration beside it. It ends with
#   1  while an event of this machine is announced, or has started, and prints it in one line,
#   0  if there is none,
#   2  if that cannot be known, which leaves the condition as it is.
# `wait` has other codes for these: 0, 4 and 1.
events=$("${SCHEDULED_EVENTS:-scheduled-events}" wait --mine --timeout 1s --json 2>/dev/null)
case $? in
0)
    line='s/.*"event_type":"\([^"]*\)","event_status":"\([^"]*\)".*"not_before":"*\([^",]*\).*/\1 \2, not before \3/p'
    printf '%s\n' "$events" | sed -n "$line" | head -n 1
    exit 1
    ;;
4)
    echo "no event is announced"
    exit 0
    ;;
*)
    echo "the metadata service does not answer"
    exit 2
    ;;
esac
