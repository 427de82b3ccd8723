"""The ABI: the present one compared with the accepted one, and programs that were compiled with accepted headers."""

import os
import re
import shutil
import signal
import subprocess

from toolbox import Failed, HEADER, HERE, LIBRARY, POSIX, PROGRAMS, ROOT, WARNINGS, WORK, abi, declared, expect, library, run

ABI = HERE / "abi"
BASELINE = ABI / "libscheduled_events.abi"
NO_BASELINE = "no baseline before the first release"


def present_abi():
    """The ABI as abidw describes it, of a C library that defines what the header declares: libabigail cannot read the types of
    the Rust library. `symbols` checks that the Rust library exports the same functions, and Rust tests check its layout."""
    enums = re.findall(r"typedef enum (schedev_\w+)", HEADER.read_text())
    # Enumerations are passed as uint32_t, so no function refers to them.
    constants = (f"void constants({', '.join(f'enum {name} a{i}' for i, name in enumerate(enums))}) "
                 f"{{ {' '.join(f'(void)a{i};' for i in range(len(enums)))} }}")
    shared, out = WORK / "libabi.so", WORK / "now.abi"
    stub_library(HEADER, shared, "-g", f"-ffile-prefix-map={WORK}=.", f"-ffile-prefix-map={ROOT}=.", more=constants)
    return described(shared, out)


def described(shared, out):
    """The ABI of a shared library, which abidw writes to `out`."""
    run("abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--out-file", out, shared)
    return out


def stub_library(header, shared, *flags, more=""):
    """Builds a shared library with the functions of a header, which trap, and with the library's soname."""
    text = re.sub(r"/\*.*?\*/|^#.*?(?<!\\)$", "", header.read_text(), flags=re.S | re.M)
    stubs = [f"{' '.join(prototype.split())} {{ __builtin_trap(); }}"
             for prototype in re.findall(r"^(?:SCHEDEV_MUST_USE\n)?(?:SCHEDEV_API )?((?:const |)\w+ \*?schedev_\w+\([^;]*\));", text, re.M)]
    expect(len(stubs) == len(declared(header)), f"{len(stubs)} stubs for {len(declared(header))} functions")
    library()
    source = shared.with_suffix(".c")
    source.write_text(f'#include "{header}"\n' + "\n".join([*stubs, more]) + "\n")
    run("gcc", "-std=c11", *flags, "-shared", "-fPIC", f"-Wl,-soname,libscheduled_events.so.{abi()}", source, "-o", shared)


def check_itself():
    """abidiff finds a made-up library equal to its baseline, and different once it has lost a member of a struct or a function."""
    def made_up(name, text):
        shared = WORK / f"made-up-{name}.so"
        source = shared.with_suffix(".c")
        source.write_text(text)
        run("gcc", "-std=c11", "-g", "-shared", "-fPIC", "-Wl,-soname,libmade_up.so.0", source, "-o", shared)
        return described(shared, shared.with_suffix(".abi"))

    text = "struct pair { int a, b; };\nint first(struct pair *pair) { return pair->a; }\nint second(void) { return 2; }\n"
    baseline = made_up("baseline", text)
    run("abidiff", baseline, made_up("same", text))
    for lost, changed in (("member", text.replace(", b", "")), ("function", text.replace("int second", "static int second"))):
        try:
            run("abidiff", baseline, made_up(lost, changed))
        except Failed:
            continue
        raise Failed(f"abidiff does not notice a lost {lost}")


def accepted():
    """The headers of the accepted ABI, by version: none before the first release."""
    headers = {header.stem.partition("-")[2]: header for header in sorted(ABI.glob("scheduled_events-*.h"))}
    is_released = re.search(r"^## \[\d", (ROOT / "CHANGELOG.md").read_text(), re.M)
    expect(headers and BASELINE.exists() or not (headers or BASELINE.exists() or is_released), f"{ABI} lacks the baseline: run --accept-abi")
    return headers


def check_baseline():
    """The ABI equals the baseline."""
    check_itself()
    now = present_abi()
    if not accepted():
        return f"{NO_BASELINE}; the comparison works with a made-up one"
    run("abidiff", BASELINE, now)
    return "equal"


def check_old_programs(corpus_through):
    """Programs that were compiled with an accepted header work with the present library.

    They are compiled with a header from abi/ and linked to a library that has only the functions of that header, which
    trap. They run with the present library. `corpus_through` passes the corpus through a command. Before the first release, the
    present header replaces an accepted one, so that this check itself is tested."""
    headers, results = accepted(), []
    if not headers:
        headers, results = {"present": HEADER}, [NO_BASELINE]
    for version, header in headers.items():
        then = WORK / f"abi-{version}"
        then.mkdir()
        shutil.copyfile(header, then / "scheduled_events.h")
        stub_library(then / "scheduled_events.h", then / f"libscheduled_events.so.{abi()}")
        (then / "libscheduled_events.so").symlink_to(f"libscheduled_events.so.{abi()}")
        programs = {}
        for name in ("reading", "session", "misuse"):
            programs[name] = then / name
            run("gcc", "-std=c11", *WARNINGS, POSIX, f"-I{then}", PROGRAMS / f"{name}.c", "-o", then / name, f"-L{then}",
                "-lscheduled_events")
        trapped = subprocess.run([programs["session"]], env={**os.environ, "LD_LIBRARY_PATH": str(then)})
        expect(trapped.returncode == -signal.SIGILL, f"the library of stubs did not trap: {trapped.returncode}")
        now = ["env", f"LD_LIBRARY_PATH={LIBRARY}"]
        run(*now, programs["session"])
        run(*now, programs["misuse"])
        results.append(f"{version}: {corpus_through([*now, programs['reading']])}")
    return ", ".join(results)


def accept(version):
    """Makes the present ABI the baseline, and keeps the header."""
    ABI.mkdir(exist_ok=True)
    shutil.copyfile(present_abi(), BASELINE)
    header = ABI / f"scheduled_events-{version}.h"
    shutil.copyfile(HEADER, header)
    return f"{BASELINE.relative_to(ROOT)} and {header.name} written: describe the change in CHANGELOG.md"
