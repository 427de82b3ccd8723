#!/usr/bin/env python3
"""Measure the size of the command and of the libraries, and the memory that core needs: tests/bench/sizes.py FILE. `make bench-sizes`.

Writes the figures to FILE as JSON. Needs binutils and the target thumbv7em-none-eabi: tests/setup bench installs both.
`make sizes` fails if one of them exceeds its limit.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "sizes"


def run(*command: str | Path) -> str:
    """Run a command, which builds into a folder of this script, and return its output."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)})
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(words)} failed:\n{done.stderr}{done.stdout}")
    return done.stdout


def stripped(program: Path) -> int:
    """Return the size of the file without its symbols."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / program.name
        run("strip", "--strip-all", "-o", copy, program)
        return copy.stat().st_size


def core() -> tuple[dict[str, int], dict[str, int]]:
    """Return the bytes of core's code for thumbv7em at level z, and of its memory and stack, from tests/sizes."""
    output = run("tests/sizes/sizes.sh")
    code = re.findall(r"thumbv7em-none-eabi\s+z\s+(\S.*?)\s+(\d+)\s+\d+$", output, re.MULTILINE)
    memory = re.findall(r"(\d+) bytes: (an? .*?)(?:, \d+ each)?$", output, re.MULTILINE)
    stack = re.findall(r"(\d+) bytes of stack: (parse, accepted|session: on_response)", output)
    return (
        {f"core on a Cortex-M4: {what}": int(size) for what, size in code},
        {what: int(size) for size, what in memory} | {f"stack, {what}": int(size) for size, what in stack},
    )


def main(file: Path) -> None:
    """Build, measure, print and write."""
    for profile, package in {"command": "scheduled-events-cli", "wheel": "scheduled-events-py"}.items():
        run("cargo", "build", "--quiet", "--locked", "--profile", profile, "--package", package)
    run("ffi-c/build.sh")
    sizes = {
        "the command": stripped(TARGET / "command/scheduled-events"),
        "the C library, shared": stripped(TARGET / "c-library/libscheduled_events.so"),
        "the Python module": stripped(TARGET / "wheel/lib_native.so"),
    }
    code, memory = core()
    sizes |= code
    for what, size in (sizes | memory).items():
        print(f"{what:<60} {size:>10,} bytes")
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    run_of = {"date": date, "rustc": run("rustc", "--version").strip()}
    file.write_text(json.dumps({"run": run_of, "sizes": sizes, "memory": memory}, indent=2) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve())
