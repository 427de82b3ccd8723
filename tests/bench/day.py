#!/usr/bin/env python3
"""Measure what a day of metrics and audit costs: processor time and bytes. `make bench-day`.

    tests/bench/day.py [POLLS]

Four watchers poll a quiet replay server once a second, POLLS times each (default 120): with no file, with --metrics-file, with
--audit, and with both. The processor time of a day is extrapolated from the polls after the first one. A fifth one follows a
whole maintenance, whose records are counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAM = TARGET / "command/scheduled-events"
DAY = 86_400  # polls


def start(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([PROGRAM, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def replay(*words: object) -> tuple[subprocess.Popen[str], str]:
    server = subprocess.Popen([PROGRAM, "replay", *map(str, words)], stdout=subprocess.PIPE, text=True)
    first = server.stdout.readline() if server.stdout else ""
    if not first.startswith("listening on "):
        sys.exit("error: the replay server did not start")
    return server, first.split()[-1]


def seconds(process: subprocess.Popen[bytes]) -> float:
    """The processor time of a process, once it has ended."""
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"error: a watcher ended with status {status}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    polls = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    subprocess.run(
        ["cargo", "build", "--quiet", "--locked", "--profile", "command", "--package", "scheduled-events-cli"], cwd=ROOT, check=True
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {"metrics": folder / "metrics.prom", "audit": folder / "audit"}
        rows = {
            "no file": [],
            "--metrics-file": ["--metrics-file", files["metrics"]],
            "--audit": ["--audit", files["audit"]],
            "both": ["--metrics-file", folder / "both.prom", "--audit", folder / "both"],
        }
        quiet = folder / "quiet.toml"
        quiet.write_text('about = "Nothing happens."\n[[event]]\nevent_type = "Freeze"\nresources = ["{vm}"]\nappears = "24h"\n')
        server, url = replay(quiet)
        watch = ["watch", "--endpoint", url]
        first = {row: start(*watch, *options, "--max-polls", 1) for row, options in rows.items()}
        first = {row: seconds(process) for row, process in first.items()}
        all_polls = {row: start(*watch, *options, "--max-polls", polls) for row, options in rows.items()}
        all_polls = {row: seconds(process) for row, process in all_polls.items()}
        server.terminate()
        print(f"{'files':16} {'processor time of a day of polls':>34}")
        for row in rows:
            print(f"{row:16} {(all_polls[row] - first[row]) / (polls - 1) * DAY:>32.0f} s")
        print(f"metrics file: {files['metrics'].stat().st_size:,} bytes, replaced after each poll")
        print(f"audit file: {files['audit'].stat().st_size:,} bytes after {polls + 1} polls and two starts")

        server, url = replay("host-maintenance", "--speed", 120)
        records = folder / "maintenance"
        seconds(start("watch", "--endpoint", url, "--policy", "observe", "--until-idle", "--interval", "200ms", "--audit", records))
        server.terminate()
        lines = records.read_bytes().splitlines()
        print(f"audit of one maintenance: {sum(map(len, lines)) + len(lines):,} bytes, {len(lines)} records")


main()
