#!/usr/bin/env bash
# Measures the command as it ships: bytes of the file, and of memory while it watches an event from start to end.
# Fails when either is above its limit.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."

# Of this, `completions` (clap_complete) takes 87 KB, `man` (clap_mangen) 53 KB, `status` 59 KB, `run` 62 KB, and what
# operators print and record (`terminate-profile`, `simulate-eviction`, `record`, `discover`) 125 KB.
# What is outside the machines (`replay --control-plane`) takes 52 KB.
# Testing clients (the verdicts, reports, machines and COMMAND of `replay`) and `timeline` take 97 KB together.
# The clock of the service takes 1 KB, the journal 5 KB, and metrics 31 KB; with prometheus-client in place of client/src/metrics/exposition.rs they would
# take 81 KB.
# That the errors of the client and of scenarios are types, not texts, takes 11 KB.
# Retries of a preparation, documents that are read in part, requests beside a silent one and the clock in both directions take 11 KB.
# Advice and the choice of the version take 47 KB with what `replay` shows of it, watchers that report what they see and the lines of `run` 34 KB.
# `capture`, its mask and `contract` with its 41 rules take 110 KB, of which a quarter is the texts and tables of rules and options.
# `doctor` with its checks, the rehearsal and the report takes 160 KB.
# Gauges of open failures, the hash of the policy (sha2), records that name their machine, lanes by it, and lines that are logged once take 27 KB.
# The file of all options (`--config`, `config`, reading it again) and what `check` says without a document take 115 KB.
# What the verdict knows of hangs, of requests without an end or an answer, and of clients that were shown nothing takes 7 KB.
# Places of wrong endpoints, versions and policies, and what is expected instead of negative numbers, take 8 KB.
# One file for `watch` and `run`, what `doctor` says of a file with a mistake, of `sh -c`, of a unit and of node_exporter, and the question before
# the rehearsal of a unit take 13 KB.
# The tables with which the stack of a core dump is read take 450 KB: without them no stack could be.
# The paths of the crates are in the file: with a home folder of a longer name it had 1,200 bytes more.
file_max=3222000
# The pages of the file that are in memory count, so a larger file takes more although `watch` runs none of what was added.
memory_max=6400000
# The layout of its pages is random and changes the memory by a tenth, so this takes the median of many runs. That of 15 differed by
# 80,000 bytes from time to time.
watches=101

cargo build --locked --profile command --package scheduled-events-cli
program=${CARGO_TARGET_DIR:-target}/command/scheduled-events
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT

await() { # PATTERN FILE PROCESS: waits until the process writes a matching line to the file
    for _ in $(seq 600); do
        grep -qs "$1" "$2" && return
        kill -0 "$3" 2>/dev/null || break
        sleep 0.1
    done
    cat "$folder"/*.log
    echo "error: no line matches $1"
    exit 1
}
"$program" replay redeploy --speed 60 >"$folder/url" 2>"$folder/replay.log" &
await '^listening on ' "$folder/url" $!
url=$(sed -n 's/^listening on //p' "$folder/url")
processes=()
for number in $(seq $watches); do
    "$program" watch --json --endpoint "$url" --state "$folder/$number.state" --interval 200ms \
        >"$folder/$number.records" 2>"$folder/$number.log" &
    processes+=($!)
done
for number in $(seq $watches); do
    process=${processes[number - 1]}
    await '"change":"completed"' "$folder/$number.records" "$process"
    sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB$/\1/p' "/proc/$process/status"
    kill -TERM "$process"
    wait "$process"
done >"$folder/peaks"
file=$(stat -c %s "$program")
memory=$(($(sort -n "$folder/peaks" | sed -n "$((watches / 2 + 1))p") * 1024))

echo "The command, as it ships:"
printf '  %8d bytes, of %d at most: file\n' "$file" $file_max
printf '  %8d bytes, of %d at most: memory of watch\n' "$memory" $memory_max
[[ $file -le $file_max && $memory -le $memory_max ]]
