"""Builds the C library for a Cortex-M4 without an operating system, links C programs to it, and runs them in QEMU.

The programs use newlib, whose stdin and stdout QEMU serves through semihosting.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess

import corpus
from toolbox import HERE, INCLUDE, PROGRAMS, ROOT, TARGET, WARNINGS, WORK, compile, declared, expect, run

TRIPLE = "thumbv7em-none-eabi"
CPU = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=soft"]
# Every panic goes through one of these functions of Rust's own library.
PANICS = re.compile(r"(?<![a-z_])core::[\w:]*(?:panicking::|_fail(?:ed)?$|_fail_rt$)|rust_begin_unwind|::panicked$", re.M)
SIZE_MAX = 51_000


def build(*features):
    """The library."""
    built = run(ROOT / "ffi-c/bare-metal/build.sh", TRIPLE, *(f"--features={feature}" for feature in features),
                env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)})
    out = WORK / f"{'-'.join(['libscheduled_events_core', *features])}.a"
    shutil.copyfile(built.strip().splitlines()[-1], out)
    return out


def link(source, library, *flags, name=None):
    """A program for the board, which starts at the address where QEMU loads it."""
    out = WORK / f"{name or source.stem}-{library.stem}.elf"
    run("arm-none-eabi-gcc", "-std=c11", "-Os", *CPU, *WARNINGS, f"-I{INCLUDE}", "--specs=rdimon.specs", "-ffunction-sections",
        "-Wl,--gc-sections", "-Wl,--no-warn-execstack", "-T", HERE / "bare-metal/mps2-an386.ld", *flags, source, library, "-o", out)
    return out


def in_qemu(program):
    return ["qemu-system-arm", "-M", "mps2-an386", "-display", "none", "-monitor", "none", "-serial", "none",
            "-semihosting-config", "enable=on,target=native", "-kernel", str(program)]


def output(command, data=b""):
    """What a program prints, and its exit status."""
    ran = subprocess.run([str(part) for part in command], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    return ran.stdout + ran.stderr, ran.returncode


def panics(program):
    return sorted(set(PANICS.findall(run("arm-none-eabi-nm", "--demangle", "--format=just-symbols", program))))


def memory(program):
    """Bytes of code and constants, and bytes of variables."""
    text, data, bss = run("arm-none-eabi-size", program).splitlines()[1].split()[:3]
    return int(text) + int(data), int(data) + int(bss)


def functions(library):
    symbols = run("arm-none-eabi-nm", "--defined-only", "--extern-only", "--format=just-symbols", library)
    return set(re.findall(r"^schedev_\w+$", symbols, re.M))


def contains_no_panic(programs, smallest):
    for program in programs:
        found = panics(program)
        expect(not found, f"{program.name} contains panics: {found[:5]}")
    library = build("deliberate-panic")
    found = panics(link(smallest, library, "-Wl,-u,schedev_panic_on_purpose"))
    expect(found, "the search does not find a deliberate panic")


def corpus_is_read(program, host):
    """Each document gives the expected contents, and the same bytes as on this machine."""
    names = corpus.cases()
    expect(output(in_qemu(program), b"x")[1] != 0, "a failing program does not end with an error")

    def differs(name):
        data, _ = corpus.request(name)
        return output(in_qemu(program), data) != output([host], data)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        different = [name for name, differed in zip(names, threads.map(differs, names)) if differed]
    expect(not different, f"{len(different)} documents are read differently in QEMU: {different[:10]}")
    return len(names)


def check():
    library = build()
    expect(functions(library) == declared(), f"exported and declared differ: {sorted(functions(library) ^ declared())}")
    smallest = HERE / "bare-metal/smallest.c"
    sources = [smallest, HERE / "bare-metal/following.c", PROGRAMS / "reading.c", PROGRAMS / "session.c"]
    programs = [link(source, library) for source in sources]
    contains_no_panic(programs, smallest)
    for program in (programs[0], programs[3]):
        printed, status = output(in_qemu(program))
        expect(status == 0, f"{program.name}: status {status}: {printed[-500:]}")
    documents = b"".join(corpus.request(name)[0] for name in corpus.cases())
    here, there = (output(command, documents) for command in ([compile(sources[1])], in_qemu(programs[1])))
    expect(here == there and here[1] == 0, f"the tracker differs in QEMU: {there[0][-500:]}")
    count = corpus_is_read(programs[2], compile("reading.c"))
    code, variables = memory(link(smallest, library, "-nostdlib", "-Wl,--defsym=_start=main", name="without-libc"))
    expect(code <= SIZE_MAX, f"the smallest program has {code} bytes of code, {SIZE_MAX} allowed")
    return (f"{count} documents as on this machine, a tracker over all of them ({here[0].count(b'approve')} approvals), a session, "
            f"no panic; parse, track, decide and approve link to {code} bytes of code without a C library, and {variables} of variables")
