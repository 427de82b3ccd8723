#!/bin/sh
# Writes include/scheduled_events.h anew; with --verify only tells whether it is what the sources say.
# The generator and all that it needs are pinned by ffi-c/header/Cargo.lock.
set -eu
cd "$(dirname "$0")"
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/../../target}/header" exec cargo run --quiet --locked -- "$@"
