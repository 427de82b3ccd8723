"""Paths, builds and assertions for the checks."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
ROOT = HERE.parent.parent
INCLUDE = ROOT / "include"
HEADER = INCLUDE / "scheduled_events.h"
CXX_HEADERS = sorted(INCLUDE.glob("*.hpp"))
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
LIBRARY = TARGET / "c-library"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wundef", "-Wconversion", "-Werror"]
POSIX = "-D_POSIX_C_SOURCE=200809L"
WORK = pathlib.Path(tempfile.mkdtemp(prefix="schedev-tests-"))


class Failed(Exception):
    """A check failed."""


def expect(condition, message):
    if not condition:
        raise Failed(message)


def run(*command, timeout=900, **more):
    """Runs a command that must succeed; returns its output."""
    command = [str(part) for part in command]
    if shutil.which(command[0]) is None:
        raise Failed(f"{command[0]} is not installed")
    ran = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **more)
    if ran.returncode != 0:
        output = (ran.stdout + ran.stderr).strip().splitlines()
        raise Failed(f"{' '.join(command[:6])}: exit {ran.returncode}\n    " + "\n    ".join(output[-15:]))
    return ran.stdout + ran.stderr


def library():
    """Builds the library as it is shipped, once, and gives it the name of its soname."""
    if not getattr(library, "built", False):
        run(ROOT / "ffi-c/build.sh", cwd=ROOT)
        link = LIBRARY / f"libscheduled_events.so.{abi()}"
        if not link.exists():
            link.symlink_to("libscheduled_events.so")
        library.built = True
    return LIBRARY / "libscheduled_events.so"


def abi():
    return re.search(r"soname: \[libscheduled_events\.so\.([0-9.]+)\]", run("readelf", "-d", LIBRARY / "libscheduled_events.so"))[1]


def program(source):
    """The path of a program of `programs` or `cpp`."""
    return (HERE / "cpp" if str(source).endswith(".cc") else PROGRAMS) / source


def compile(source, *flags, compiler=None, std=None, name=None):
    """Compiles a program of `programs` or `cpp` with the shared library; warnings are errors."""
    source = pathlib.Path(source)
    cxx = source.suffix == ".cc"
    compiler = compiler or ("g++" if cxx else "gcc")
    std = std or ("c++17" if cxx else "c11")
    out = WORK / (name or source.name.replace(".", "-"))
    library()
    run(compiler, f"-std={std}", "-O1", "-g", *WARNINGS, POSIX, f"-I{INCLUDE}", f"-I{PROGRAMS}", program(source), "-o", out, *flags,
        *([] if any(str(flag).endswith(".a") for flag in flags) else
          [f"-L{LIBRARY}", "-lscheduled_events", f"-Wl,-rpath,{LIBRARY}"]), cwd=ROOT)
    return out


def declared(header=HEADER):
    """The functions that the header declares."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    text = re.sub(r"^#.*?(?<!\\)$", "", text, flags=re.S | re.M)
    return set(re.findall(r"\b(schedev_\w+)\s*\(", re.sub(r"typedef[^;]*\(\*[^;]*;", "", text)))


def exported(path):
    return {line.split()[-1] for line in run("nm", "-D", "--defined-only", path).splitlines() if line.strip()}
