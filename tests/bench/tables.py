#!/usr/bin/env python3
"""Write the tables of docs/inside/performance.md from the results of the benchmarks in target/performance.

`make performance` and `make cost-fleet` run the benchmarks and then this. Each table is between `<!-- table: NAME -->` and
`<!-- end -->`. A table whose results are missing stays as it is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/inside/performance.md"

# The documents of the benchmark that the page shows, with their number of events.
DOCUMENTS = {"S": "1 event", "L": "100 events", "XL": "1,000 events"}
PARSERS = ["simdjson", "yyjson", "jiter", "serde_json borrowed", "cJSON"]

STORES = {"etcd": "etcd", "blob": "Blob storage", "kubernetes": "Kubernetes"}
# The machines of a group, and those of them that one event names.
EVENTS = [(100, 1), (100, 100), (1000, 1), (1000, 100)]
# USD for an operation on a general-purpose v2 account, hot tier, locally redundant: the page names the source.
PRICES = {"writes": 0.05 / 10_000, "lists": 0.05 / 10_000, "reads": 0.004 / 10_000}
MONTH = 730 * 3600
HEARTBEAT = 30


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table: the first column left-aligned, the others right-aligned."""
    lines = [head, [":--", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"|{'|'.join(line)}|" for line in lines)


def reading(report: Any) -> str:
    """Return each parser's time: core's in microseconds, the others' as multiples of it."""
    columns = [it for it in report["readings"] if it["form"] == "compact" and it["document"] in DOCUMENTS]
    head = [report["run"]["date"][:10], *(f"{DOCUMENTS[it['document']]}, {it['bytes']:,} B" for it in columns)]
    versions = {it["name"]: it["version"] for it in report["readers"]}
    rows = [["**this project**", *(f"{it['readers']['core']['ns'] / 1000:,.1f} µs" for it in columns)]]
    for parser in PARSERS:
        cells = [it["readers"].get(parser) for it in columns]
        rows.append([f"{parser} {versions.get(parser, '')}".strip(), *(f"{cell['ratio']:.1f} ×" if cell else "–" for cell in cells)])
    return table(head, rows)


def polls(report: Any) -> str:
    """Return the cost of a poll."""
    rows = [[cost["name"], f"{cost['processor_us']:,.0f} µs", f"{cost['peak_kib'] * 1024 / 1e6:.1f} MB"] for cost in report["costs"]]
    return table([report["run"]["date"][:10], "processor time of a poll", "memory, at most"], rows)


def python(report: Any) -> str:
    """Return the results of py/bench.py for small and large documents."""
    rows = []
    for shown in report["shown"]:
        document, _, what = shown["title"].partition(": ")
        if what and (document.split()[0] not in DOCUMENTS or what != "read four members"):
            continue
        (_, value), *others = shown["values"].items()
        ratios = ", ".join(f"{name} {other / value:.1f} ×" for name, other in others)
        rows.append([shown["title"], f"{value:,.0f} {shown['unit'].replace('us', 'µs')}", ratios])
    return table([report["run"]["date"][:10], "the module", "others, as multiples of it"], rows)


def sizes(report: Any) -> str:
    """Return the sizes of the programs and of core on bare metal."""
    return table([report["run"]["date"], "bytes"], [[what, f"{size:,}"] for what, size in report["sizes"].items()])


def memory(report: Any) -> str:
    """Return the memory and the stack that core needs."""
    return table([report["run"]["date"], "bytes"], [[what, f"{size:,}"] for what, size in report["memory"].items()])


def fleet_idle(report: Any) -> str:
    """Return what an idle machine asks of each store, in the largest fleet that was measured."""
    largest = {row["engine"]: row for row in sorted(report["idle"], key=lambda row: row["machines"])}
    rows = []
    for engine, store in STORES.items():
        if row := largest.get(engine):
            machine_minutes = row["machines"] * report["seconds"] / 60
            times = [f"{row[key] / machine_minutes:.0f} ms" for key in ("daemons_ms", "store_ms")]
            rows.append([f"{store}, {row['machines']:,} machines", f"{row['bytes'] / machine_minutes / 60:.0f}", *times])
    head = [report["date"], "bytes a second", "processor time of the daemon a minute", "of the store"]
    return table(head, rows)


def shown_events(report: Any, engine: str) -> list[Any]:
    """Return the rows of an engine that the page shows."""
    return [row for row in report["events"] if row["engine"] == engine and (row["group"], row["machines"]) in EVENTS]


def fleet_events(report: Any) -> str:
    """Return what one event asks of each store, for each of its machines."""
    rows = [
        [f"{store}, {row['machines']:,} of {row['group']:,} machines",
         *(f"{row[kind] / row['machines']:,.0f}" for kind in ("writes", "reads", "lists")),
         f"{row['bytes'] / row['machines'] / 1000:,.0f} KB"]
        for engine, store in STORES.items() for row in shown_events(report, engine)
    ]  # fmt: skip
    return table([report["date"], "writes", "reads", "lists", "traffic"], rows)


def fleet_price(report: Any) -> str:
    """Return what a machine costs on Blob storage."""

    def price(row: dict[str, Any]) -> float:
        return sum(row[kind] * PRICES[kind] for kind in PRICES)

    idle = [row for row in report["idle"] if row["engine"] == "blob"]
    if not idle:
        sys.exit("error: target/performance/fleet.json has no figures of Blob storage; run `make cost-fleet` with it")
    month = max(price(row) / row["machines"] / report["seconds"] * MONTH for row in idle)
    rows = [[f'idle, `heartbeat = "{s}s"`', f"{month * HEARTBEAT / s:.2f} USD a month"] for s in (HEARTBEAT, 4 * HEARTBEAT)]
    rows += [
        [f"one event of {row['machines']:,} of {row['group']:,} machines", f"{price(row) / row['machines']:.5f} USD"]
        for row in shown_events(report, "blob")
    ]
    return table([report["date"], "price of a machine"], rows)


# The tables, with the file that has their figures.
TABLES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "reading": ("read", reading),
    "polls": ("poll", polls),
    "python": ("python", python),
    "sizes": ("sizes", sizes),
    "memory": ("sizes", memory),
    "fleet idle": ("fleet", fleet_idle),
    "fleet events": ("fleet", fleet_events),
    "fleet price": ("fleet", fleet_price),
}
OTHER_TABLES = {"fleet"}  # `make performance-fleet` writes it itself


def main() -> None:
    """Write the tables into the page."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = re.findall(r"<!-- table: (.*?) -->", page)
    if wrong := set(wanted) ^ {*TABLES, *OTHER_TABLES}:
        sys.exit(f"error: {PAGE.relative_to(ROOT)} and tests/bench/tables.py name different tables: {', '.join(sorted(wrong))}")
    for name, (file, make) in TABLES.items():
        figures = ROOT / f"target/performance/{file}.json"
        if not figures.exists():
            print(f"{figures.relative_to(ROOT)} is missing: the table {name!r} stays as it is")
            continue
        made = make(json.loads(figures.read_text(encoding="utf-8")))
        between = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        page = between.sub(lambda found: f"{found.group(1)}\n{made}\n\n{found.group(2)}", page)  # noqa: B023
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
