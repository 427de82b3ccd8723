#!/usr/bin/env bash
# Builds the wheel as it ships, installs it with its competitors, and runs py/bench.py.
set -euo pipefail
cd "$(dirname "$0")/../.."

mkdir -p target/performance
venv=target/performance/venv
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet 'maturin>=1.9.4,<2' orjson msgspec requests
wheels=$PWD/target/performance/wheels
rm -rf "$wheels"
maturin=$PWD/$venv/bin/maturin
(cd py && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../target} "$maturin" build --out "$wheels")
"$venv/bin/pip" install --quiet --force-reinstall "$wheels"/*.whl
"$venv/bin/python" py/bench.py --json target/performance/python.json "$@"
