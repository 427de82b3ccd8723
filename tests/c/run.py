#!/usr/bin/env python3
"""Tests the C library, its headers, examples and packages.

    tests/c/run.py [CHECK...]            run all checks, or those named
    tests/c/run.py --tier test|verify    run the everyday checks, or the long-running ones
    tests/c/run.py --tier bare-metal     run the library without an operating system, in QEMU
    tests/c/run.py --list
    tests/c/run.py --bench               measure the C layer against Rust
    tests/c/run.py --accept-abi          make the present ABI the baseline; see README.md

A check fails if a tool is missing; none is skipped.
"""

import concurrent.futures
import http.server
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

sys.dont_write_bytecode = True

import agents
import bare_metal
import collectd
import corpus
import documented
import kept_abi
import packages
from toolbox import (CXX_HEADERS, HEADER, HERE, INCLUDE, LIBRARY, POSIX, PROGRAMS, ROOT, TARGET, WARNINGS, WORK, Failed, abi, compile,
                     declared, expect, exported, library, run)

CHECKS = {}
MUTATIONS = 20_000
MANY_MUTATIONS = 1_000_000
SIZE_MAX = 327_000
BOOT_ID = "0d3f8c5e-6f0e-4a55-9a0c-7d2b7d3f1c11"
# C++17 is needed, so what C++98 lacks does not matter, and structs are padded as those of any C program.
EVERYTHING = ["-Weverything", "-Wno-c++98-compat", "-Wno-c++98-compat-pedantic", "-Wno-padded"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]


def check(function, tier="test"):
    function.tier = tier
    CHECKS[function.__name__.replace("_", "-")] = function
    return function


def long_check(function):
    """A check of the verify tier."""
    return check(function, tier="verify")


@check
def header_is_generated():
    """include/scheduled_events.h is up to date."""
    run(ROOT / "ffi-c/header/generate.sh", "--verify")
    return "up to date"


@check
def header_stands_alone():
    """The headers compile alone and twice, with each compiler and language version."""
    count = 0
    for compiler in ("gcc", "clang"):
        for std in ("c99", "c11", "c17"):
            for source in ("header.c", *(["layout.c"] if std != "c99" else [])):
                run(compiler, f"-std={std}", *WARNINGS, f"-I{INCLUDE}", "-c", PROGRAMS / source, "-o", "/dev/null")
                count += 1
    for compiler in ("g++", "clang++"):
        for std in ("c++11", "c++17", "c++20", "c++2b"):
            for source in ("header.c", "layout.c"):
                run(compiler, f"-std={std}", *WARNINGS, f"-I{INCLUDE}", "-x", "c++", "-c", PROGRAMS / source, "-o", "/dev/null")
                count += 1
            if std != "c++11":
                for header in CXX_HEADERS:
                    twice = f'#include "{header}"\n#include "{header}"\n'
                    run(compiler, f"-std={std}", *WARNINGS, "-Wshadow", "-fsyntax-only", "-x", "c++", "-", input=twice)
                    count += 1
    return f"{count} compilations"


@check
def macros_do_not_leak():
    """The headers define only macros with the library's prefix."""
    def macros(text):
        out = run("g++", "-std=c++17", "-dM", "-E", "-x", "c++", f"-I{INCLUDE}", "-", input=text)
        return set(re.findall(r"^#define (\w+)", out, re.M))

    headers = "".join(header.read_text() for header in [HEADER, *CXX_HEADERS])
    standard = "\n".join(re.findall(r"^#include <.*>$", headers, re.M))
    own = macros("".join(f'#include "{header.name}"\n' for header in CXX_HEADERS)) - macros(standard + "\n")
    stray = {name for name in own if not name.startswith(("SCHEDEV_", "SCHEDULED_EVENTS_H"))}
    expect(not stray, f"macros leak: {sorted(stray)}")
    return f"{len(own)} macros"


@check
def symbols():
    """The library exports what the header declares, and everything is documented."""
    names = exported(library())
    expect(names == declared(), f"exported and declared differ: {sorted(names ^ declared())}")
    text = HEADER.read_text()
    for name in sorted(names):
        comment = re.search(r"/\*\*((?:(?!\*/).)*)\*/\n(?:SCHEDEV_MUST_USE\n)?[^;/#]*\b" + name + r"\(([^;]*)\);", text, re.S)
        expect(comment, f"{name} has no comment")
        for parameter in re.findall(r"(\w+)(?:,|$)", comment[2].replace("void", "").strip()):
            expect(f"@param {parameter} " in comment[1], f"{name}: {parameter} is not documented")
    types = re.findall(r"^} (schedev_\w+);", text, re.M)
    for name in types:
        expect(re.search(r"\*/\ntypedef (?:struct|enum) " + name + r" {", text), f"{name} has no comment")
    return f"{len(names)} functions, {len(types)} types"


@check
def version():
    """The macros, the library, the soname and the crate have the same version."""
    crate = re.split("[#@]", run("cargo", "pkgid", "-p", "scheduled-events-c", cwd=ROOT).strip())[-1]
    macro = {name: int(value) for name, value in re.findall(r"#define SCHEDEV_VERSION_(\w+) (\d+)$", HEADER.read_text(), re.M)}
    expect(f"{macro['MAJOR']}.{macro['MINOR']}.{macro['PATCH']}" == crate, f"macros: {macro}, crate: {crate}")
    expect(f'#define SCHEDEV_VERSION_STRING "{crate}"' in HEADER.read_text(), "SCHEDEV_VERSION_STRING is another version")
    library()
    expect(abi() == (f"0.{macro['MINOR']}" if macro["MAJOR"] == 0 else str(macro["MAJOR"])), f"the soname ends in {abi()}")
    return crate


@check
def dependencies():
    """The shared library needs only libc, imports no allocator and no panic handler, and is small."""
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", library())))
    beyond = needed - {"libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    expect(not beyond, f"needs {sorted(beyond)}")
    imported = set(re.findall(r"U (\w+)", run("nm", "-D", "--undefined-only", library())))
    refused = imported & {"malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "mmap64", "mmap", "abort",
                          "_Unwind_RaiseException", "_Unwind_Backtrace"}
    size = library().stat().st_size
    expect(size < SIZE_MAX and not refused, f"{size} bytes stripped, {SIZE_MAX} allowed; imports {', '.join(sorted(imported))}")
    return f"{size} bytes stripped, imports {', '.join(sorted(imported))}"


def corpus_through(command, *kind):
    count, wrong = corpus.differences([str(part) for part in command], *kind)
    expect(not wrong, f"{len(wrong)} differences in {count} cases\n    " + "\n    ".join(wrong[:10]))
    return f"{count} cases"


@check
def corpus_in_c():
    """The shared corpus is read as expected through C."""
    return corpus_through([compile("reading.c")])


@check
def corpus_in_cxx():
    """The shared corpus is read as expected through C++."""
    return corpus_through([compile("reading.cc")])


@check
def notifications_in_c():
    """The corpus' notifications are read as expected through C, and requests outside the machine are written and refused."""
    run(compile("outside.c"))
    return corpus_through([compile("notifications.c")], corpus.NOTIFICATIONS, corpus.notification_request)


@check
def misuse():
    """Invalid arguments are refused with a status."""
    return run(compile("misuse.c")).strip()


@check
def session():
    """A session from start to end, its records, and a tracker."""
    run(compile("session.c"))
    return "as expected"


@check
def tracker_in_cxx():
    """A tracker through C++."""
    run(compile("tracker.cc"))
    return "as expected"


@check
def cxx_without_exceptions():
    """The C++ headers work without exceptions and RTTI, and no warning of Clang is left."""
    for flags in (["-fno-exceptions", "-fno-rtti"], []):
        run(compile("plain.cc", *flags))
    everything = "".join(f'#include "{header}"\n' for header in CXX_HEADERS)
    for std in ("c++17", "c++20"):
        for flags in ([], ["-fno-exceptions", "-fno-rtti"]):
            run("clang++", f"-std={std}", *EVERYTHING, *flags, "-Werror", f"-I{INCLUDE}", "-fsyntax-only", "-x", "c++", "-",
                input=everything)
    return "with and without exceptions"


@check
def cxx_refuses():
    """The compiler refuses views of temporary strings, times without a unit, and masks."""
    source = HERE / "cpp/refused.cc"
    numbers = range(1 + max(int(number) for number in re.findall(r"REFUSED == (\d+)", source.read_text())))
    for compiler, chosen in (("g++", numbers), ("clang++", numbers[:2])):
        for number in chosen:
            command = [compiler, "-std=c++17", f"-I{INCLUDE}", f"-DREFUSED={number}", "-fsyntax-only", source]
            ran = subprocess.run([str(part) for part in command], capture_output=True, text=True)
            expect((ran.returncode == 0) == (number == 0), f"{compiler}, number {number}: exit {ran.returncode}\n{ran.stderr[:2000]}")
            # The reason must be the one that the number is about.
            reason = "deleted" if number <= 7 else "operator=|conver"
            expect(number == 0 or re.search(reason, ran.stderr), f"{compiler}, number {number}: {ran.stderr[:2000]}")
    return f"{len(numbers) - 1} programs"


@check
def machine():
    """The machine goes out of service and back: attempts, cancelled steps, recoveries, the gate, and restarts."""
    for source in ("machine.c", "machine.cc"):
        run(compile(source))
    return "as expected, in C and in C++"


@check
def notified_sessions():
    """A session that gets notifications, alone and beside documents."""
    for source in ("notified.c", "notified.cc"):
        program = compile(source)
        run(program)
        for name, inputs in corpus.scenarios():
            lines = [f"{one['at']} {kind} {text}\n" for one in inputs for kind, text in [corpus.scenario_input(one)]]
            done = [line.split() for line in run(program, "play", input="".join(lines)).splitlines()]
            expected = [one["expect"].split() for one in inputs if "expect" in one]
            expect(done == expected, f"{source}, {name}: {done}, expected {expected}")
    return "as expected, in C and in C++"


@check
def terminate_profiles():
    """The notification profiles of a scale set, and what Azure refuses, in C and in C++; the program of docs/use/terminate.md."""
    for source in ("terminate.c", "terminate.cc"):
        run(compile(source))
    page = (ROOT / "docs/use/terminate.md").read_text()
    program, printed = re.search(r"```c\n(.*?)```.*?```json\n(.*?)```", page, re.S).groups()
    source, out = WORK / "terminate-page.c", WORK / "terminate-page"
    source.write_text(program)
    run("gcc", "-std=c99", *WARNINGS, f"-I{INCLUDE}", source, "-o", out, f"-L{LIBRARY}", "-lscheduled_events",
        f"-Wl,-rpath,{LIBRARY}")
    expect(run(out) == printed, f"{run(out)!r} instead of {printed!r}")
    return "as expected, in C and in C++"


@check
def threads():
    """Threads share a document and run a session each."""
    return run(compile("threads.c", "-pthread")).strip()


def documents():
    names = [name for name in corpus.cases() if (corpus.CORPUS / f"{name}.json").stat().st_size < 2048]
    return [corpus.CORPUS / f"{name}.json" for name in names]


@check
def mutations():
    """Prefixes and some mutations of the corpus do not crash the library."""
    return run(compile("mutate.c"), str(MUTATIONS), *documents()).strip()


@long_check
def many_mutations():
    """Prefixes and a million mutations of the corpus do not crash the library."""
    return run(compile("mutate.c"), str(MANY_MUTATIONS), *documents()).strip()


@long_check
def sanitizers():
    """AddressSanitizer and UndefinedBehaviorSanitizer find nothing in the programs and the library."""
    flags = "-Zsanitizer=address -Zexternal-clangrt"
    run("cargo", "+nightly", "rustc", "--quiet", "-p", "scheduled-events-c", "--lib", "--crate-type", "staticlib",
        "--profile", "c-library", "--target", "x86_64-unknown-linux-gnu", cwd=ROOT,
        env={**os.environ, "RUSTFLAGS": flags, "CARGO_TARGET_DIR": str(TARGET / "sanitized"),
             "CARGO_PROFILE_C_LIBRARY_LTO": "off", "CARGO_PROFILE_C_LIBRARY_STRIP": "none"})
    archive = TARGET / "sanitized/x86_64-unknown-linux-gnu/c-library/libscheduled_events.a"
    counted = run("nm", archive).count("__asan_report_load")
    expect(counted > 0, "the library is not instrumented")
    more = [*SANITIZE, archive, "-lpthread", "-ldl", "-lm"]
    programs = {name: compile(f"{name}.c", *more, compiler="clang", name=f"{name}-asan")
                for name in ("misuse", "session", "machine", "notified", "terminate", "threads", "mutate", "reading")}
    for name in ("machine", "notified", "plain", "reading", "terminate", "tracker"):
        programs[f"{name}-cc"] = compile(f"{name}.cc", *more, compiler="clang++", name=f"{name}-cc-asan")
    for name, program in programs.items():
        expect("__asan_init" in run("nm", program), f"{name}: the sanitizer is off")
    for name in ("misuse", "session", "machine", "machine-cc", "notified", "notified-cc", "plain-cc", "terminate", "terminate-cc", "threads", "tracker-cc"):
        run(programs[name])
    corpus_through([programs["reading"]])
    corpus_through([programs["reading-cc"]])
    return f"{len(programs)} programs; " + run(programs["mutate"], "100000", *documents()).strip()


@long_check
def valgrind():
    """valgrind finds no error, and a session allocates nothing."""
    flags = ["--error-exitcode=9", "--leak-check=full", "--quiet"]
    for program, arguments in ((compile("misuse.c"), []), (compile("mutate.c"), ["2000", *documents()[:20]])):
        run("valgrind", *flags, program, *arguments)
    out = run("valgrind", "--error-exitcode=9", compile("session.c"))
    expect("total heap usage: 0 allocs" in out, out)
    return "no error, no allocation in a session"


@check
def install():
    """Another project finds, links and runs the installed library: CMake and pkg-config, shared and static."""
    prefix = installed()
    for folder, generator in (("cmake-make", "Unix Makefiles"),):
        build = WORK / folder
        run("cmake", "-G", generator, "-S", HERE / "package", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", build)
        for name in ("c_shared", "c_static", "cxx_shared", "cxx_static"):
            run(build / name)
    needed = run("readelf", "-d", build / "c_shared")
    expect(f"libscheduled_events.so.{abi()}" in needed, "the program does not need the soname")
    expect("libscheduled_events" not in run("readelf", "-d", build / "c_static"), "the static program is not static")
    for wanted, found in ((abi(), True), ("0.99", False), ("1.0", False)):
        project = WORK / f"find-{wanted}"
        project.mkdir()
        (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.20)\nproject(find C)\n"
                                                f"find_package(scheduled_events {wanted} REQUIRED)\n")
        ran = subprocess.run(["cmake", "-S", project, "-B", project / "b", f"-DCMAKE_PREFIX_PATH={prefix}"],
                             capture_output=True)
        expect((ran.returncode == 0) == found, f"find_package(scheduled_events {wanted}) should be {found}")
    for kind, static in (("shared", []), ("static", ["--static"])):
        flags = pkg_config(prefix, *static)
        if static:
            flags = [str(prefix / "lib/libscheduled_events.a") if flag == "-lscheduled_events" else flag for flag in flags]
        out = WORK / f"pkg-{kind}"
        run("gcc", *WARNINGS, HERE / "package/main.c", "-o", out, *flags, f"-Wl,-rpath,{prefix}/lib")
        run(out)
    return "CMake and pkg-config, shared and static"


def build_command():
    run("cargo", "build", "--quiet", "--locked", "--workspace", "--bin", "scheduled-events", cwd=ROOT)


def installed():
    prefix = WORK / "prefix"
    if not prefix.exists():
        run(ROOT / "ffi-c/install.sh", prefix, cwd=ROOT)
    return prefix


def pkg_config(prefix, *flags):
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    return shlex.split(run("pkg-config", "--cflags", "--libs", *flags, "scheduled_events", env=env))


@check
def examples():
    """The examples compile with the installed library and run; both agents survive faults, restarts and damaged files."""
    prefix = installed()
    flags = [*pkg_config(prefix), f"-Wl,-rpath,{prefix}/lib"]
    source = ROOT / "examples/c"
    run("gcc", "-std=c11", POSIX, *WARNINGS, source / "check.c", "-o", WORK / "check", *flags)
    for c, cxx, more in (("gcc", "g++", []), ("clang", "clang++", ["-g", *SANITIZE])):
        objects = []
        for name in ("process", "requests", "state_file"):
            objects.append(WORK / f"{name}-{c}.o")
            run(c, "-std=c11", POSIX, *WARNINGS, *more, "-c", source / f"{name}.c", "-o", objects[-1], *flags[:1])
        run(c, "-std=c11", POSIX, *WARNINGS, *more, source / "agent.c", *objects, "-o", WORK / f"agent-{c}", *flags, "-lcurl")
        run(cxx, "-std=c++17", *WARNINGS, *more, source / "agent.cc", *objects, "-o", WORK / f"agent-cc-{c}", *flags, "-lcurl")
    # curl_easy_setopt is a macro that names itself.
    run("clang++", "-std=c++17", *EVERYTHING, "-Wno-disabled-macro-expansion", "-Werror", "-fsyntax-only", source / "agent.cc", *flags[:1])
    for name in ("agent.c", "agent.cc"):
        expect(len((source / name).read_text().splitlines()) <= 300, f"{name} has grown beyond 300 lines")
    printed = run(WORK / "check", corpus.CORPUS / "freeze-scheduled-two-resources-second.json", "North_0")
    expect("would approve: short interruption" in printed, printed)
    refused = subprocess.run([WORK / "check", corpus.CORPUS / "refused-empty-file.json"], capture_output=True, text=True)
    expect(refused.returncode == 3 and ":1:1: " in refused.stderr, refused.stderr)
    build_command()
    with concurrent.futures.ThreadPoolExecutor() as threads:
        list(threads.map(lambda agent: agents.check(WORK / agent), ("agent-clang", "agent-cc-clang")))
    return "3 compiled and run"


@check
def one_snapshot_format():
    """The command, C and Python continue from the state files and snapshots of each other."""
    build_command()
    run("cargo", "build", "--quiet", "--locked", "-p", "scheduled-events-py", cwd=ROOT)
    command, folder = TARGET / "debug/scheduled-events", WORK / "handover"
    folder.mkdir(mode=0o700)
    shutil.copytree(ROOT / "py/python/scheduled_events", folder / "python/scheduled_events", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(TARGET / "debug/lib_native.so", folder / "python/scheduled_events/_native.abi3.so")
    policy, state = folder / "policy.toml", folder / "state"
    of_c, of_python, of_command_and_python = folder / "of-c", folder / "of-python", folder / "of-command-and-python"
    policy.write_text('[[rule]]\naction = "prepare"\n')
    env = {**os.environ, "SCHEDULED_EVENTS_BOOT_ID": BOOT_ID, "PYTHONPATH": str(folder / "python")}

    def python(*arguments):
        run(sys.executable, "-B", HERE / "handover.py", *arguments, timeout=60, env=env)

    server = subprocess.Popen([command, "replay", "user-reboot", "--speed", "60", "--vm-name", "web_0"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = server.stdout.readline().removeprefix("listening on ").strip()
        common = ("watch", "--json", "--endpoint", url, "--vm-name", "web_0", "--policy", policy)
        watcher = subprocess.Popen([str(part) for part in (command, *common, "--state", state, "--prepare", "true")],
                                   stdout=subprocess.PIPE, text=True, env=env)
        for line in watcher.stdout:
            record = json.loads(line)
            if record["record"] == "prepare" and record["outcome"] == "ready":
                break
        watcher.kill()
        watcher.wait()
        machine_id = urllib.request.urlopen(urllib.request.Request(
            f"{url}/metadata/instance/compute/vmId?api-version=2021-02-01&format=text", headers={"Metadata": "true"})).read().decode()
        python("keep", state, machine_id, BOOT_ID, of_command_and_python)
        for source in (state, of_command_and_python):
            run(compile("handover.c"), source, machine_id, BOOT_ID, of_c)
        python("recover", of_c, machine_id, BOOT_ID, of_python)
    finally:
        server.terminate()
        server.wait()
    with http.server.HTTPServer(("127.0.0.1", 0), NoEvents) as empty:
        threading.Thread(target=empty.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{empty.server_port}"
        for source in (of_c, of_python):
            for name in ("command", "python"):
                copy = folder / f"{source.name}-for-{name}"
                shutil.copyfile(source, copy)
                copy.chmod(0o600)
                if name == "python":
                    python("watch", copy, url)
                    continue
                log = run(command, "watch", "--json", "--endpoint", url, "--vm-name", "web_0", "--policy", policy, "--state", copy,
                          "--recover", "true", "--until-idle", timeout=60, env=env)
                records = map(json.loads, filter(lambda line: line.startswith("{"), log.splitlines()))
                outcomes = [record["outcome"] for record in records if record["record"] == "recover"]
                expect(outcomes == ["done"], f"the command recovered {outcomes} from {source.name}:\n{log}")
        empty.shutdown()
    return "between the command, C and Python, in each direction"


@check
def policy_from_toml():
    """`check --policy FILE --as c` prints a header that means the same as the file, in C and in C++."""
    build_command()
    command, folder = TARGET / "debug/scheduled-events", WORK / "policy"
    folder.mkdir()
    toml = folder / "policy.toml"
    toml.write_text('leader = { mode = "rank", take_over_after = "30s" }\n'
                    '[[rule]]\nevent = ["Freeze", "Reboot"]\nsource = "User"\nmin_duration = "2s"\nmax_duration = "8s"\naction = "approve"\n'
                    '[[rule]]\nevent = "Preempt"\nmin_notice = "1s"\nmax_notice = "600s"\nprepare_before = "60s"\naction = "prepare"\n'
                    '[[rule]]\nscope = "any"\naction = "ignore"\n')
    (folder / "policy.h").write_text(run(command, "check", "--policy", toml, "--as", "c"))
    for compiler, std, language in (("gcc", "c99", "c"), ("clang", "c11", "c"), ("g++", "c++17", "c++"), ("clang++", "c++11", "c++")):
        out = folder / f"policy-{compiler}"
        run(compiler, f"-std={std}", *WARNINGS, f"-I{INCLUDE}", f"-I{folder}", "-x", language, PROGRAMS / "policy.c", "-o", out,
            f"-L{LIBRARY}", "-lscheduled_events", f"-Wl,-rpath,{LIBRARY}")
        run(out)
    (folder / "policy.h").write_text(run(command, "check", "--policy", "observe", "--as", "c"))
    run("gcc", "-std=c99", *WARNINGS, "-Wno-unused", f"-I{INCLUDE}", "-fsyntax-only", folder / "policy.h")
    return "4 compilers"


class NoEvents(http.server.BaseHTTPRequestHandler):
    """Imitates a metadata service that announces nothing and knows no machine."""

    def do_GET(self):
        known = self.path.startswith("/metadata/scheduledevents")
        body = b'{"DocumentIncarnation":901,"Events":[]}' if known else b""
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@check
def package_managers():
    """The library builds, and a program with it, through CMake from the source tree, Meson and Conan."""
    return packages.check(installed())


def bare_metal_library():
    """The library without std works on a Cortex-M4 in QEMU as on this machine, and cannot panic."""
    return bare_metal.check()


# Needs tools that the other checks do not: `make bare-metal-c` installs them.
check(bare_metal_library, tier="bare-metal")


@check
def collectd_plugin():
    """The example plugin works under collectd: notifications, values, restarts, faults of the service."""
    build_command()
    return collectd.check(installed())


@check
def abi_is_kept():
    """The ABI equals the baseline."""
    return kept_abi.check_baseline()


@check
def old_programs():
    """Programs that were compiled with an accepted header work with the present library."""
    return kept_abi.check_old_programs(corpus_through)


@check
def readme():
    """The programs of docs/program/c.md and the snippets of README.md compile, and print what is expected."""
    prefix = installed()
    return documented.check_pages(pkg_config(prefix), prefix)


@check
def languages():
    """docs/program/languages.md names the functions of all languages, and one that is missing is found."""
    program, page = ROOT / "tests/docs/languages.py", WORK / "languages.md"
    run(sys.executable, program)
    text = (ROOT / "docs/program/languages.md").read_text()
    for name in ("Session::waiting", "schedev_session_waiting", "session::waiting", "Session.waiting"):
        page.write_text(text.replace(f"`{name}`", "—"))
        ran = subprocess.run([sys.executable, program, page], capture_output=True, text=True)
        expect(ran.returncode == 1 and ran.stdout.count("\n") == 1 and name in ran.stdout, f"without {name}: {ran.stdout}")
    page.write_text(text.replace("`session::waiting`", "`session::waiting` `session::nothing`"))
    expect(subprocess.run([sys.executable, program, page], capture_output=True).returncode == 1, "an invented name is accepted")
    return "each function has a row"


@check
def header_examples():
    """The two programs in the header's opening comment compile."""
    return documented.check_header()


def bench():
    """Measures parsing and reading every field in C and in Rust, alternating in one process."""
    run("cargo", "build", "--quiet", "--release", "--locked", "--package", "bench-core", cwd=ROOT / "tests/bench", env={**os.environ, "CARGO_TARGET_DIR": str(TARGET / "bench-core")})
    out = WORK / "bench"
    library()
    run("gcc", "-std=c11", "-O2", *WARNINGS, POSIX, f"-I{INCLUDE}", ROOT / "tests/bench/boundary/bench.c", "-o", out,
        TARGET / "bench-core/release/libbench_core.a", f"-L{LIBRARY}", "-lscheduled_events", f"-Wl,-rpath,{LIBRARY}",
        "-lpthread", "-ldl", "-lm")
    print(run(out).rstrip())


@check
def formatted():
    """The C and C++ files are formatted with clang-format."""
    folders = (PROGRAMS, HERE / "cpp", HERE / "bare-metal", ROOT / "tests/bench/boundary", HERE / "package", ROOT / "examples/c", ROOT / "examples/collectd",
               ROOT / "packaging/conan/test_package")
    sources = (path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in (".c", ".cc", ".h", ".hpp"))
    files = [HEADER, *CXX_HEADERS, *sources]
    run("clang-format", "--dry-run", "-Werror", *files)
    return f"{len(files)} files"


def main():
    arguments = sys.argv[1:]
    if arguments == ["--list"]:
        for name, function in CHECKS.items():
            print(f"{name:22} {function.tier:10} {function.__doc__.splitlines()[0]}")
        return 0
    if arguments == ["--bench"]:
        bench()
        return 0
    if arguments == ["--accept-abi"]:
        print(kept_abi.accept(version()))
        return 0
    names = arguments or list(CHECKS)
    if arguments[:1] == ["--tier"] and arguments[1:] in (["test"], ["verify"], ["bare-metal"]):
        names = [name for name, function in CHECKS.items() if function.tier == arguments[1]]
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        print(f"error: no such check: {', '.join(unknown)}", file=sys.stderr)
        return 2
    failed = []
    for name in names:
        start, used = time.monotonic(), cpu_seconds()
        try:
            word, result = "ok", CHECKS[name]()
        except (Failed, subprocess.TimeoutExpired) as error:
            word, result = "FAILED", str(error)
            failed.append(name)
        took = f"{time.monotonic() - start:6.1f} s  {cpu_seconds() - used:6.1f} s CPU"
        print(f"{word:6} {name:22} {took}  {result}", flush=True)
    shutil.rmtree(WORK, ignore_errors=True)
    print(f"{len(names) - len(failed)} of {len(names)} checks passed" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def cpu_seconds():
    """The processor time of all programs that the checks have run."""
    children = os.times()
    return children.children_user + children.children_system


if __name__ == "__main__":
    sys.exit(main())
