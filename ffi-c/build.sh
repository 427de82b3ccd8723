#!/bin/sh
# Builds the C library as it ships: target/c-library/libscheduled_events.{a,so}. More arguments go to cargo: with
# `--target x86_64-pc-windows-gnu` it builds scheduled_events.dll, with libscheduled_events.dll.a to link programs with.
set -eu
cd "$(dirname "$0")/.."
# Since 1.90 rustc links with lld on this target. lld keeps the handler of panics although nothing can reach it, with all
# that it prints backtraces with; the system's linker drops it, and the library is a third of the size.
host=$(rustc --version --verbose | sed -n 's/^host: //p')
minor=$(rustc --version | sed -n 's/^rustc 1\.\([0-9]*\).*/\1/p')
case " $* " in *" --target"*) host= ;; esac
if [ "$host" = x86_64-unknown-linux-gnu ] && [ "${minor:-0}" -ge 90 ]; then
  set -- "$@" -- -Clinker-features=-lld
fi
cargo rustc --quiet -p scheduled-events-c --profile c-library --lib --crate-type cdylib,staticlib "$@"
