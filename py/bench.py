"""Compare with orjson, msgspec, json and requests in one run, and print ratios: times depend on the machine.

    pip install orjson msgspec requests && python py/bench.py [--json FILE]

Competitors that are not installed are left out. Times are medians of interleaved rounds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import scheduled_events as se

ROUNDS = 25
OWN = "WestNO_1"
# The results: title, unit and times.
RESULTS: list[dict[str, Any]] = []


def document(events: int, resources: int) -> bytes:
    """Return a document as Azure writes it, with this many events of this many resources each."""
    names = [f"WestNO_{number}" for number in range(resources)]
    written = [
        {
            "EventId": f"C7061BAC-AFDC-4513-B24B-{number:012X}",
            "EventStatus": "Scheduled",
            "EventType": "Freeze",
            "ResourceType": "VirtualMachine",
            "Resources": names,
            "NotBefore": "Mon, 11 Apr 2022 22:26:58 GMT",
            "Description": "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
            "EventSource": "Platform",
            "DurationInSeconds": 5,
        }
        for number in range(events)
    ]
    return json.dumps({"DocumentIncarnation": 2, "Events": written}, separators=(",", ":")).encode()


def attributes(data: bytes) -> None:
    """Read the four members that most scripts read, with the time as a datetime."""
    for event in se.parse(data).events:
        event.event_type, event.event_status, event.resources, event.not_before  # noqa: B018


def items(data: bytes) -> None:
    """Read the same four members as items."""
    for event in se.parse(data)["Events"]:
        event["EventType"], event["EventStatus"], event["Resources"], event["NotBefore"]


def member(data: bytes) -> bool:
    """Look for this machine's name in the resources."""
    return any([OWN in event.resources for event in se.parse(data).events])


def concerns(data: bytes) -> bool:
    """Look for this machine's name with ``Document.concerns``."""
    return se.parse(data).concerns(OWN)


def event_concerns(data: bytes) -> bool:
    """Look for this machine's name with ``Event.concerns``."""
    return any([event.concerns(OWN) for event in se.parse(data).events])


def with_loads(loads: Callable[[bytes], Any]) -> tuple[Callable[[bytes], object], Callable[[bytes], object]]:
    """Do the same with a function that returns dictionaries."""

    def read(data: bytes) -> None:
        for event in loads(data)["Events"]:
            event["EventType"], event["EventStatus"], event["Resources"], event["NotBefore"]

    def find(data: bytes) -> bool:
        return any([OWN in event["Resources"] for event in loads(data)["Events"]])

    return read, find


def with_msgspec(msgspec: Any) -> tuple[Callable[[bytes], object], Callable[[bytes], object]]:
    """Do the same with msgspec's structures."""
    texts = ["EventId", "EventStatus", "EventType", "ResourceType", "NotBefore", "Description", "EventSource"]
    fields = [*((name, str, "") for name in texts), ("Resources", list[str], []), ("DurationInSeconds", int, -1)]
    event_type = msgspec.defstruct("Event", fields)
    kind = msgspec.defstruct("Document", [("Events", list[event_type]), ("DocumentIncarnation", int, 0)])
    decode = msgspec.json.Decoder(kind).decode

    def read(data: bytes) -> None:
        for event in decode(data).Events:
            event.EventType, event.EventStatus, event.Resources, event.NotBefore  # noqa: B018

    def find(data: bytes) -> bool:
        return any([OWN in event.Resources for event in decode(data).Events])

    return read, find


def measure(functions: dict[str, Callable[[bytes], object]], data: bytes) -> dict[str, float]:
    """Return nanoseconds per call, as medians of interleaved rounds."""
    calls = max(1, 400_000 // len(data))
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            since = time.process_time_ns()
            for _ in range(calls):
                function(data)
            times[name].append((time.process_time_ns() - since) / calls)
    return {name: statistics.median(rounds) for name, rounds in times.items()}


def show(title: str, times: dict[str, float], unit: str = "ns") -> None:
    """Print the times, and their ratios to the first."""
    RESULTS.append({"title": title, "unit": unit, "values": times})
    first = next(iter(times.values()))
    shown = [f"{name} {value:,.0f} {unit} ({value / first:.2f}x)" for name, value in times.items()]
    print(f"{title:34} {', '.join(shown)}")


def child(code: str, *arguments: str) -> list[float]:
    """Run code in a new Python process, and return the numbers that it prints."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


IMPORT = "import time; t = time.perf_counter_ns(); import {}; print((time.perf_counter_ns() - t) / 1000)"
IDLE = """
import sys, time, threading
def rss():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
bare = rss()
{}
print(bare, rss())
"""
WATCH = """import scheduled_events as se
watch = se.Client(sys.argv[1]).watch(prepare=print, recover=print)
threading.Timer(2.5, watch.close).start()
for record in watch: pass"""
REQUESTS = """import requests
for _ in range(3):
    requests.get(sys.argv[1] + "/metadata/scheduledevents?api-version=2020-07-01", headers={"Metadata": "true"}).json()
    time.sleep(0.5)"""


def optional(name: str) -> Any:
    """Import a competitor, or print that it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed and is left out")
        return None


def main() -> None:
    """Run all benchmarks."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", metavar="FILE", help="also write the results to this file")
    chosen = options.parse_args()
    orjson, msgspec, requests = (optional(name) for name in ("orjson", "msgspec", "requests"))
    competitors = {"json": with_loads(json.loads)}
    if orjson:
        competitors = {"orjson": with_loads(orjson.loads), **competitors}
    if msgspec:
        competitors = {"msgspec": with_msgspec(msgspec), **competitors}
    for name, events, resources in [("S 1x2", 1, 2), ("M 10x4", 10, 4), ("L 100x10", 100, 10), ("X 1x1000", 1, 1000)]:
        data = document(events, resources)
        reads = {
            "attributes": attributes,
            "items": items,
            **{competitor: both[0] for competitor, both in competitors.items()},
        }
        show(f"{name}: read four members", measure(reads, data))
        finds = {"concerns": concerns, "of each event": event_concerns, "in resources": member}
        finds.update({competitor: both[1] for competitor, both in competitors.items()})
        show(f"{name}: own name among resources", measure(finds, data))
        unread: dict[str, Callable[[bytes], object]] = {"parse": se.parse, "json": json.loads}
        if orjson:
            unread = {"parse": se.parse, "orjson": orjson.loads, "json": json.loads}
        show(f"{name}: parse and nothing else", measure(unread, data))

    imports = {"scheduled_events": "scheduled_events", "json": "json", **({"requests": "requests"} if requests else {})}
    times = {name: min(child(IMPORT.format(module))[0] for _ in range(9)) for name, module in imports.items()}
    show("import, beyond bare Python", times, "us")

    with se.replay("live-migration", speed=0.01) as url:
        bare, watch = child(IDLE.format(WATCH), url)
        sizes = {"idle watch": watch, "bare Python": bare}
        if requests:
            sizes["requests, three polls"] = child(IDLE.format(REQUESTS), url)[1]
        show("resident", sizes, "KiB")

    if chosen.json:
        versions = {
            competitor.__name__: competitor.__version__ for competitor in (orjson, msgspec, requests) if competitor
        }
        run = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "python": platform.python_version()}
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump({"run": run, "versions": versions, "shown": RESULTS}, file, indent=2)


if __name__ == "__main__":
    main()
