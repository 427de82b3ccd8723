#!/usr/bin/env python3
"""Write the tables of docs/inside/performance.md from the results of the benchmarks in target/performance.

`make performance` runs the benchmarks and then this, and `make cost-fleet` does the same for the tables of a fleet's cost:
`bench/tables.py fleet`. Each table is between `<!-- table: NAME -->` and `<!-- end -->`; the text around the tables is written by
people.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/inside/performance.md"
MADE_BY = {"read": "make bench", "poll": "make bench-poll", "python": "make bench-python",
           "sizes": "make bench-sizes ARGS=--variants", "fleet": "make cost-fleet"}  # fmt: skip


def figures(name: str) -> Any:
    """Return the results of a benchmark."""
    path = ROOT / f"target/performance/{name}.json"
    if not path.exists():
        sys.exit(f"error: {path.relative_to(ROOT)} is missing; `{MADE_BY[name]}` writes it")
    return json.loads(path.read_text(encoding="utf-8"))


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table: the first column left-aligned, the others right-aligned."""
    lines = [head, [":--", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(value: float) -> str:
    """Return a number without decimals."""
    return f"{value:,.0f}"


def runs() -> str:
    """Return where, when and with which tools everything was measured."""
    read, poll, python, sizes = (figures(name)["run"] for name in ("read", "poll", "python", "sizes"))
    about = f"{read['processor']}, {read['processors']} processors, {read['system']}"
    rows = [
        [command("make bench", read), read["date"], f"{read['rustc']}; {read['cc']}; load {read['load']}"],
        [command("make bench-poll", poll), poll["date"], f"{poll['rustc']}; load {poll['load']}"],
        ["`make bench-python`", python["date"], f"Python {python['python']}"],
        [command("make bench-sizes", sizes), sizes["date"], sizes["rustc"]],
    ]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"Machine: {about}.\n\n| command | when | with |\n| :-- | :-- | :-- |\n{lines}"


def command(make: str, run: dict[str, str]) -> str:
    """Return how a benchmark was called, without its output files."""
    own = re.sub(r"--(json|python|command) \S+", "", run["arguments"] + " ").split()
    return f"`{make} ARGS=\"{' '.join(own)}\"`" if own else f"`{make}`"


def goals() -> str:
    """Return every goal and whether it is reached."""
    all_goals = [goal for name in ("read", "poll", "sizes") for goal in figures(name)["goals"]]
    rows = [[g["what"], g["wanted"], g["measured"], "yes" if g["reached"] else "**no**"] for g in all_goals]
    return table(["goal", "wanted", "measured", "reached"], rows)


def reading(form: str) -> str:
    """Return each parser's time: core's in nanoseconds, the others' as multiples of it."""
    report = figures("read")
    columns = [reading for reading in report["readings"] if reading["form"] == form]
    head = [form, *(f"{column['document']}, {column['bytes']:,} B" for column in columns)]
    rows = []
    for reader in (reader["name"] for reader in report["readers"]):
        cells = [column["readers"].get(reader) for column in columns]
        if reader == "core":
            rows.append(["**core**, ns", *(number(cell["ns"]) for cell in cells)])
        else:
            rows.append([reader, *(f"{cell['ratio']:.2f} ×" if cell else "–" for cell in cells)])
    rows.append(["core, ns per byte", *(f"{c['readers']['core']['ns'] / c['bytes']:.2f}" for c in columns)])
    return table(head, rows)


def readers() -> str:
    """Return how each parser was set up and which faults it accepts."""
    report = figures("read")
    rows = [
        [f"{reader['name']} {reader['version'].replace('this tree', '')}".strip(), reader["note"],
         "; ".join(reader["accepted_faults"]) or "none"]
        for reader in report["readers"]
    ]  # fmt: skip
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    absent = "".join(f"\n\nNot measured: {absent}." for absent in report["absent"])
    return f"| parser | setup | accepts, of ten faults |\n| :-- | :-- | :-- |\n{lines}{absent}"


def following() -> str:
    """Return the cost of following, with parsing for comparison."""
    columns = figures("read")["followings"]
    steps = list(columns[0]["steps"])
    cell = "{ns:,.0f} ns ({ratio:.2f} ×)"
    rows = [[step, *(cell.format(**column["steps"][step]) for column in columns)] for step in steps]
    return table(["unchanged document", *(column["document"] for column in columns)], rows)


def instructions() -> str:
    """Return the counted instructions."""
    text = (ROOT / "bench/instructions.toml").read_text(encoding="utf-8")
    return table(["call", "instructions"], [[case, f"{int(n):,}"] for case, n in re.findall(r'"(.*?)" = (\d+)', text)])


def polls() -> str:
    """Return the cost of a poll."""
    report = figures("poll")
    rows = [
        [cost["name"], number(cost["processor_us"]), f"{cost['ratio']:.2f} ×",
         *("–" if cost[key] is None else number(cost[key]) for key in ("p50_us", "p99_us")),
         f"{cost['peak_kib'] * 1024 / 1e6:.1f}"]
        for cost in report["costs"]
    ]  # fmt: skip
    absent = "".join(f"\n\nNot measured: {absent}." for absent in report["absent"])
    return table([f"{report['polls']} polls of {report['bytes']} B", "processor µs", "× ureq", "p50 µs", "p99 µs",
                  "peak MB"], rows) + absent  # fmt: skip


def python() -> str:
    """Return the results of py/bench.py."""
    report = figures("python")
    lines = ["| | the module | others, as multiples of it |", "| :-- | --: | :-- |"]
    for shown in report["shown"]:
        (first, value), *others = shown["values"].items()
        ratios = ", ".join(f"{name} {other / value:.2f} ×" for name, other in others)
        lines.append(f"| {shown['title']} | {first} {number(value)} {shown['unit'].replace('us', 'µs')} | {ratios} |")
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    return "\n".join(lines) + f"\n\nCompared with {versions}, and the json module of Python {report['run']['python']}."


def weights() -> str:
    """Return the sizes of the programs, crate by crate."""
    programs = figures("sizes")["programs"]
    head = ["bytes", *programs]
    rows = [
        ["file, stripped", *(f"**{weight['stripped']:,}**" for weight in programs.values())],
        ["code", *(f"{weight['code']:,}" for weight in programs.values())],
        ["unwinding tables", *(f"{weight['unwinding']:,}" for weight in programs.values())],
    ]
    crates = sorted({crate for weight in programs.values() for crate, code in weight["crates"].items() if code >= 2000},
                    key=lambda crate: -max(weight["crates"].get(crate, 0) for weight in programs.values()))  # fmt: skip
    for crate in crates:
        codes = [weight["crates"].get(crate, 0) for weight in programs.values()]
        rows.append([f"code of {crate}", *(f"{code:,}" if code else "–" for code in codes)])
    return table(head, rows)


def variants() -> str:
    """Return the size of the command with other profiles."""
    sizes = figures("sizes")
    first = sizes["variants"].get("as it ships")
    rows = [[name, f"{size:,}", f"{size / first - 1:+.1%}"] for name, size in sizes["variants"].items()]
    return table(["the command, built", "bytes, stripped", ""], rows)


def bare_metal() -> str:
    """Return the size of core on bare metal."""
    rows = [[what, f"{code:,}"] for what, code in figures("sizes")["bare metal"].items()]
    return table(["thumbv7em, opt-level z", "bytes of code"], rows)


STORES = {"etcd": "etcd", "blob": "Blob storage", "kubernetes": "Kubernetes", "folder": "folder"}
# USD for an operation on a general-purpose v2 account, hot tier, locally redundant: docs/inside/performance.md names the source.
PRICES = {"writes": 0.05 / 10_000, "lists": 0.05 / 10_000, "reads": 0.004 / 10_000}
MONTH = 730 * 3600
HEARTBEAT = 30


def price(row: dict[str, Any]) -> float:
    """Return what the operations of a row cost on Blob storage."""
    return sum(row[kind] * PRICES[kind] for kind in PRICES)


def fleet_idle() -> str:
    """Return what idle machines ask of each store."""
    report = figures("fleet")
    rows = []
    for row in report["idle"]:
        per_machine = row["machines"] * report["seconds"]
        rows.append([
            STORES[row["engine"]],
            number(row["machines"]),
            *(f"{row[kind] / per_machine * 60:.1f}" for kind in ("writes", "reads", "lists")),
            f"{row['bytes'] / per_machine:.1f}",
            # A folder has no process.
            *(f"{row[key] / per_machine * 60:.1f} ms" if row.get(key) else "–" for key in ("daemons_ms", "store_ms")),
        ])  # fmt: skip
    head = ["store", "machines", "writes per machine and minute", "reads", "lists", "bytes per machine and second"]
    head += ["processor, daemon, per minute", "store, per machine and minute"]
    return f"Measured on {report['date']}.\n\n{table(head, rows)}"


def fleet_events() -> str:
    """Return what one event asks of each store, for each of its machines."""
    rows = []
    for row in figures("fleet")["events"]:
        cells = [f"{row[kind] / row['machines']:.1f}" for kind in ("writes", "reads", "lists")]
        kilobytes = row["bytes"] / row["machines"] / 1000
        names = [STORES[row["engine"]], number(row["group"]), number(row["machines"])]
        rows.append([*names, *cells, f"{kilobytes:,.0f} KB"])
    head = ["store", "group", "machines", "writes per machine", "reads", "lists", "bytes per machine"]
    return table(head, rows)


def fleet_price() -> str:
    """Return what a machine costs on Blob storage."""
    report = figures("fleet")
    idle = [row for row in report["idle"] if row["engine"] == "blob"]
    events = [row for row in report["events"] if row["engine"] == "blob"]
    if not idle or not events:
        sys.exit("error: target/performance/fleet.json has no figures of Blob storage; run `make cost-fleet` with it")
    month = max(price(row) / row["machines"] / report["seconds"] * MONTH for row in idle)
    rows = [
        [f'idle, `heartbeat = "{seconds}s"`', f"{month * HEARTBEAT / seconds:.3f} USD a month"]
        for seconds in (HEARTBEAT, 2 * HEARTBEAT, 4 * HEARTBEAT)
    ]
    rows += [
        [f"one event of {number(row['machines'])} of {number(row['group'])} machines", f"{price(row) / row['machines']:.5f} USD"]
        for row in events
    ]
    return table(["on Blob storage", "price per machine"], rows)


FLEET_TABLES = {"fleet idle": fleet_idle, "fleet events": fleet_events, "fleet price": fleet_price}
OTHER_TABLES = {"fleet"}  # `make performance-fleet` writes it itself
TABLES = {
    "runs": runs,
    "goals": goals,
    **{f"reading {form}": lambda form=form: reading(form) for form in ("compact", "pretty", "escapes", "shuffled")},
    "readers": readers,
    "following": following,
    "instructions": instructions,
    "polls": polls,
    "python": python,
    "weights": weights,
    "variants": variants,
    "bare metal": bare_metal,
}


def main() -> None:
    """Write the tables into the page: those of the benchmarks, or of a fleet's cost."""
    tables = FLEET_TABLES if sys.argv[1:] == ["fleet"] else TABLES
    page = PAGE.read_text(encoding="utf-8")
    wanted = re.findall(r"<!-- table: (.*?) -->", page)
    if wrong := set(wanted) ^ {*TABLES, *FLEET_TABLES, *OTHER_TABLES}:
        sys.exit(f"error: {PAGE.relative_to(ROOT)} and bench/tables.py name different tables: {', '.join(sorted(wrong))}")
    for name, make in tables.items():
        between = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        made = make()
        page = between.sub(lambda found: f"{found.group(1)}\n{made}\n\n{found.group(2)}", page)  # noqa: B023
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
