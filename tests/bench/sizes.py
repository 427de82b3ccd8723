#!/usr/bin/env python3
"""Measure the size of the command and the libraries, crate by crate. `make bench-sizes`.

    tests/bench/sizes.py [--json FILE] [--variants]

A function counts for the crate that its name begins with; a generic function for the crate that defines it, whichever
crate uses it. --variants also builds the command with other profiles, which takes a while. Needs binutils and the target
thumbv7em-none-eabi: tests/setup bench installs both.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "sizes"
OWN_TARGET = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
COMMAND_GOAL = 1_500_000
CORE_GOAL = 12 * 1024
STACK_GOAL = 1024

# The crates of Rust's standard library and their dependencies.
STANDARD = {
    "std", "core", "alloc", "gimli", "addr2line", "rustc_demangle", "miniz_oxide", "hashbrown", "object", "memchr",
    "std_detect", "panic_unwind", "unwind", "adler2", "compiler_builtins", "__rustc",
}  # fmt: skip

# The profile of each variant and what it changes in the profile.
VARIANTS = {
    'opt-level "s"': ("command", ['profile.command.opt-level="s"']),
    'panic "unwind"': ("command", ['profile.command.panic="unwind"']),
    "the release profile": ("release", []),
}


def run(*command: str | Path, **more: object) -> str:
    """Run a command and return its output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT, **more)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))} failed:\n{done.stderr}{done.stdout}")
    return done.stdout


def cargo(*arguments: str, settings: list[str] = []) -> None:
    """Build into a folder of this script."""
    configs = [word for setting in settings for word in ("--config", setting)]
    run("cargo", *arguments, "--quiet", "--locked", *configs, env=OWN_TARGET)


def sections(program: Path) -> dict[str, int]:
    """Return the sizes of a program's sections."""
    lines = (line.split() for line in run("size", "-A", "-d", program).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 3 and words[0].startswith(".")}


def stripped(program: Path) -> int:
    """Return the size of the file without its symbols."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(program, folder)
        run("strip", "--strip-all", copy)
        return os.path.getsize(copy)


def crate_of(function: str) -> str:
    """Return the crate that a demangled name begins with."""
    if found := re.search(r"(?:^|[^A-Za-z0-9_:])([a-z_][a-z0-9_]*)(?:\[[0-9a-f]+\])?::", " " + function):
        return found.group(1)
    return "C"


def by_crate(program: Path) -> dict[str, int]:
    """Return the bytes of code for each crate, the largest first."""
    code: collections.Counter[str] = collections.Counter()
    seen = set()
    for line in run("nm", "--print-size", "--demangle", program).splitlines():
        address, size, kind, name = (line.split(None, 3) + [""] * 4)[:4]
        # Functions with identical code share an address.
        if kind not in {"t", "T", "w", "W"} or address in seen:
            continue
        seen.add(address)
        crate = crate_of(name)
        code["Rust's standard library" if crate in STANDARD else crate] += int(size, 16)
    return dict(code.most_common())


def measured(program: Path) -> dict[str, object]:
    """Return all figures of a program or library."""
    parts = sections(program)
    return {
        "stripped": stripped(program),
        "code": parts.get(".text", 0),
        "unwinding": sum(parts.get(name, 0) for name in (".eh_frame", ".eh_frame_hdr", ".gcc_except_table")),
        "crates": by_crate(program),
    }


def bare_metal() -> tuple[dict[str, int], int]:
    """Return the bytes of code for thumbv7em at level z, and the stack of parsing, from tests/sizes."""
    output = run("tests/sizes/sizes.sh", env=OWN_TARGET)
    found = re.findall(r"thumbv7em-none-eabi\s+z\s+(\S.*?)\s+(\d+)\s+\d+$", output, re.MULTILINE)
    stack = re.findall(r"(\d+) bytes of stack: parse", output)
    return {what: int(code) for what, code in found}, max(int(size) for size in stack)


def variant(profile: str, settings: list[str]) -> int:
    """Return the size of the stripped command, built with other settings."""
    cargo("build", "--profile", profile, "--package", "scheduled-events-cli", settings=settings)
    return os.path.getsize(TARGET / profile / "scheduled-events")


def main() -> None:
    """Build, measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, help="also write the figures to this file")
    options.add_argument("--variants", action="store_true", help="also build the command with other profiles")
    chosen = options.parse_args()

    symbols = 'strip="none"'
    cargo("build", "--profile", "command", "--package", "scheduled-events-cli", settings=[f"profile.command.{symbols}"])
    cargo("build", "--profile", "wheel", "--package", "scheduled-events-py", settings=[f"profile.wheel.{symbols}"])
    run("ffi-c/build.sh", "--config", f"profile.c-library.{symbols}", env=OWN_TARGET)
    programs = {
        "command": measured(TARGET / "command/scheduled-events"),
        "C library": measured(TARGET / "c-library/libscheduled_events.so"),
        "Python module": measured(TARGET / "wheel/lib_native.so"),
    }
    for name, weight in programs.items():
        print(f"{name}: {weight['stripped']:,} bytes stripped, {weight['code']:,} of code, "
              f"{weight['unwinding']:,} of unwinding tables")  # fmt: skip
        for crate, code in list(weight["crates"].items())[:15]:
            print(f"  {crate:<28} {code:>9,} {code / weight['code']:>6.1%}")
    bare, stack = bare_metal()
    print("core for thumbv7em, level z, bytes of code:")
    for what, code in bare.items():
        print(f"  {what:<38} {code:>9,}")
    command, core = programs["command"]["stripped"], bare["parse, track, decide, approve"]
    weights = {"as it ships": command}
    for what, (profile, settings) in VARIANTS.items() if chosen.variants else []:
        weights[what] = variant(profile, settings)
        print(f"the command with {what}: {weights[what]:,} bytes stripped")
    goals = [
        {"what": "the stripped command", "wanted": "≤ 1.5 MB", "measured": f"{command / 1e6:.2f} MB",
         "reached": command <= COMMAND_GOAL},
        {"what": "core for thumbv7em: parse, track, decide, approve", "wanted": "≤ 12 KB",
         "measured": f"{core / 1024:.1f} KB", "reached": core <= CORE_GOAL},
        {"what": "stack of parse", "wanted": "≤ 1 KiB", "measured": f"{stack:,} B", "reached": stack <= STACK_GOAL},
    ]  # fmt: skip
    print("\ngoals")
    for goal in goals:
        verdict = "reached" if goal["reached"] else "NOT REACHED"
        print(f"  {goal['what']:<58} {goal['wanted']:>10} {goal['measured']:>10}  {verdict}")
    if chosen.json:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
        run_of = {"date": now, "rustc": run("rustc", "--version").strip(), "arguments": " ".join(sys.argv[1:])}
        figures = {"run": run_of, "programs": programs, "bare metal": bare, "variants": weights, "goals": goals}
        chosen.json.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
