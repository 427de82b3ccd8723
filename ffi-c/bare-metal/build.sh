#!/bin/sh
# Builds the C library without std, and prints its path:
#
#     ffi-c/bare-metal/build.sh [TARGET]     default thumbv7em-none-eabi; more arguments go to cargo
set -eu
cd "$(dirname "$0")"
target=${1:-thumbv7em-none-eabi}
[ $# -eq 0 ] || shift
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/../../target}/bare/s"
cargo build --quiet --profile bare --locked --package scheduled-events-c-bare-metal --target "$target" "$@"
cd "$CARGO_TARGET_DIR/$target/bare"
cp libscheduled_events_bare_metal.a libscheduled_events_core.a
echo "$PWD/libscheduled_events_core.a"
