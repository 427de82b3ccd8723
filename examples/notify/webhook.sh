#!/bin/sh
# webhook.sh URL: posts the change on standard input, and tries again for as long as the event leaves time.
exec curl -fsS -m 10 --retry 60 --retry-all-errors --retry-max-time 840 -o /dev/null -H 'Content-Type: application/json' --data-binary @- "$1"
