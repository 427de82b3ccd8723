#!/usr/bin/env python3
"""Checks that docs/program/languages.md names each public function of the four languages once, and no other.

    tests/docs/languages.py [PAGE]      check the page
    tests/docs/languages.py --list      print what is found in the sources

The functions are those of core's sources (rustdoc's JSON is not stable), of scheduled_events.h and .hpp, and
of the Python package, whose stubs stubtest compares with the module. LEFT_OUT has what one language needs and no
other, and what others have in another form.
"""

import ast
import re
import sys
from pathlib import Path

from python_api import exported

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/program/languages.md"
LANGUAGES = ["Rust", "C", "C++", "Python"]

# What no row is about, with the reason.
LEFT_OUT = {
    "Rust": {
        # Records are structs here; the others write them as JSON, or have classes.
        "EventMembers", "HookOutcome", "Record", "RecordKind", "ResourceList", "TimedRecord",
        # Parts that the functions of other languages use or contain.
        "Arrival", "EventId", "EventLayout", "EventOrder", "EventSources", "EventTypes", "FifteenMinutes", "LastCall",
        "Members", "NotificationOrder", "Positions", "Recovering", "Report", "ResourceId", "ResourceIdError",
        "Resources", "ScheduledEventsProfile", "SessionConfig", "WouldPrepare",
        # Facts about services and versions of the API.
        "EvictionPolicy", "EvictionType", "Feature", "SpotState", "versions",
        "is_unsafe_to_print", "snapshot_length",
    },
    "C": set(),
    "C++": {
        # How the language handles results and ranges.
        "error", "one_of", "parse_error", "profile_error", "result",
        # A parameter of session::config.
        "last_call",
    },
    "Python": {
        # Over the network, or of the replay server: other Rust crates have them, and C and C++ have none.
        "Client", "Finding", "Replay", "Task", "Verdict", "Watch", "aio", "replay", "scenarios",
        # How the language handles JSON.
        "Request",
    },
}  # fmt: skip
# Functions of many types that convert between languages.
MANNERS = {"C++": {"c"}, "Python": {"get", "to_dict", "from_dict", "count", "index"}}


def rust() -> "set[str]":
    """`Type::function` and `module::function` of core."""
    found = set()
    for path in sorted((ROOT / "core/src").rglob("*.rs")):
        text = path.read_text("utf-8")
        text = text[: text.find("#[cfg(test)]\nmod tests")] if "#[cfg(test)]\nmod tests" in text else text
        if "tests" in path.parts or path.stem == "tests":
            continue
        owner = ""
        for line in text.splitlines():
            if match := re.match(r"impl(?:<[^>]*>)? (?:[\w:]+(?:<[^>]*>)? for )?&?(\w+)", line):
                owner = match[1]
            elif match := re.match(r"pub(?: const)?(?: unsafe)? fn (\w+)", line):
                found.add(match[1])
            elif match := re.match(r"    pub(?: const)? fn (\w+)", line):
                found.add(f"{owner}::{match[1]}")
    return found


def c() -> "set[str]":
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "include/scheduled_events.h").read_text("utf-8"), flags=re.DOTALL)
    return set(re.findall(r"^SCHEDEV_API [^;(]*?\b(schedev_\w+)\(", text, re.MULTILINE))


def cxx() -> "set[str]":
    """`function` and `type::function`; a try_ function counts with the one that throws, if there is one."""
    text = (ROOT / "include/scheduled_events.hpp").read_text("utf-8")
    # What is below `detail` is private.
    text = re.sub(r"^namespace detail \{\n.*?^\} // namespace detail\n", "", text, flags=re.MULTILINE | re.DOTALL)
    found, owner, public = set(), "", True
    for line in text.splitlines():
        if match := re.match(r"(?:template <.*> )?(class|struct) (?:\[\[nodiscard\]\] )?(\w+)[^;]*\{$", line):
            owner, public = match[2], match[1] == "struct"
        elif line.startswith("}"):
            owner = ""
        elif re.match(r"(public|private|protected):", line):
            public = line.startswith("public")
        elif owner and not public:
            continue
        elif owner and (match := re.match(r"  (?! |:|explicit|friend)(?:[\w\[\]:]|<[^(]*>|[ ,&*])+[ &*](\w+)\(", line)):
            if match[1] not in ("operator", owner) and "= delete" not in line:  # Nor constructors.
                found.add(f"{owner}::{match[1]}")
        elif not owner and (match := re.match(r"inline [\w:<>, &*]+? (\w+)\(", line)):
            found.add(match[1])
    return {name for name in found if "try_" not in name or name.replace("try_", "") not in found}


def python() -> "set[str]":
    """`function`, `Class`, `Class.method` and `module.function`."""
    package = ROOT / "py/python/scheduled_events"
    found = set()

    names = exported()

    def public(name: str, prefix: str = ".") -> bool:
        return not name.startswith("_") and (prefix != "" or name in names)

    modules = {"_native.pyi": "", "_client.py": "", "spot.py": "spot.", "terminate.py": "terminate.", "aio.py": "aio."}
    for file, prefix in modules.items():
        for node in ast.parse((package / file).read_text("utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and public(node.name, prefix):
                found.add(prefix + node.name)
            elif isinstance(node, ast.ClassDef) and public(node.name, prefix):
                members = {one.name for one in node.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))}
                found |= {f"{prefix}{node.name}.{name}" for name in members if public(name)}
    return found


def left_out(language: str, name: str) -> bool:
    owner, _, function = re.sub(r"\.", "::", name).rpartition("::")
    return bool({name, owner, owner.split("::")[0]} & LEFT_OUT[language]) or function in MANNERS.get(language, set())


def table(page: Path) -> "dict[str, list[str]]":
    """The names in each column."""
    columns: dict[str, list[str]] = {language: [] for language in LANGUAGES}
    for line in page.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 1 + len(LANGUAGES):
            for language, cell in zip(LANGUAGES, cells[1:]):
                columns[language] += re.findall(r"`([\w:.]+)`", cell)
    return columns


def main() -> int:
    found = dict(zip(LANGUAGES, (rust(), c(), cxx(), python())))
    if sys.argv[1:] == ["--list"]:
        for language, names in found.items():
            print(f"{language} ({len(names)})", *sorted(names), sep="\n    ")
        return 0
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    problems = []
    for language, named in table(page).items():
        expected = {name for name in found[language] if not left_out(language, name)}
        problems += [f"{page}: no row has {language}'s {name}: add it to one" for name in expected - set(named)]
        problems += [f"{page}: {language} has no {name}" for name in set(named) - expected]
        problems += [f"{page}: two rows have {language}'s {name}" for name in set(named) if named.count(name) > 1]
        known = {re.split(r"::|\.", name)[0] for name in found[language]}
        problems += [f"LEFT_OUT: {language} has no {name}" for name in LEFT_OUT[language] - known]
    for problem in sorted(problems):
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
