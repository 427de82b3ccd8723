#!/usr/bin/env bash
# Builds what polls, as it ships, and lets it poll.
set -euo pipefail
cd "$(dirname "$0")/../.."

mkdir -p target/performance
python=target/performance/venv
[[ -x $python/bin/python ]] || python3 -m venv "$python"
"$python/bin/pip" install --quiet requests
cargo build --quiet --profile command --locked --package scheduled-events
cargo build --quiet --profile command --locked --manifest-path bench/Cargo.toml --package scheduled-events-bench-poll
"${CARGO_TARGET_DIR:-bench/target}/command/scheduled-events-bench-poll" --python "$python/bin/python" \
    --command "${CARGO_TARGET_DIR:-target}/command/scheduled-events" --json target/performance/poll.json "$@"
