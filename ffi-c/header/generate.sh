#!/bin/sh
# Generates include/scheduled_events.h; with --verify only checks that it is up to date.
set -eu
cd "$(dirname "$0")"
exec cargo run --quiet --locked --package scheduled-events-header -- "$@"
