#!/bin/sh
# Generates include/scheduled_events.h; with --verify only checks that it is up to date.
# ffi-c/header/Cargo.lock pins the generator and its dependencies.
set -eu
cd "$(dirname "$0")"
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/../../target}/header" exec cargo run --quiet --locked -- "$@"
