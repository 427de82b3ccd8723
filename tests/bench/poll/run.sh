#!/usr/bin/env bash
# Builds the command and the benchmark as they ship, and runs the benchmark.
set -euo pipefail
cd "$(dirname "$0")/../../.."

mkdir -p target/performance
python=target/performance/venv
[[ -x $python/bin/python ]] || python3 -m venv "$python"
"$python/bin/pip" install --quiet requests
cargo build --profile command --locked --package scheduled-events-cli
cargo build --profile command --locked --manifest-path tests/bench/Cargo.toml --package scheduled-events-bench-poll
"${CARGO_TARGET_DIR:-tests/bench/target}/command/scheduled-events-bench-poll" --python "$python/bin/python" \
    --command "${CARGO_TARGET_DIR:-target}/command/scheduled-events" --json target/performance/poll.json "$@"
