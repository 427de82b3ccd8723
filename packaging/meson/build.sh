#!/bin/sh
# Builds the static library for Meson: build.sh OUTPUT FOLDER
set -eu
mkdir -p "$2"
output=$(realpath -m "$1")
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$(realpath "$2")}"
"$(dirname "$0")/../../ffi-c/build.sh" --locked
cmp -s "$CARGO_TARGET_DIR/c-library/libscheduled_events.a" "$output" ||
  cp "$CARGO_TARGET_DIR/c-library/libscheduled_events.a" "$output"
