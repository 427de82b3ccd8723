"""The corpus that all languages share reads the same here."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

import scheduled_events as se

CORPUS = ROOT / "tests" / "corpus"
CASES = sorted(path.name.removesuffix(".expected.json") for path in CORPUS.glob("*.expected.json"))


def case(name: str) -> "tuple[bytes, dict[str, Any]]":
    expected = json.loads((CORPUS / f"{name}.expected.json").read_text("utf-8"))
    return (CORPUS / f"{name}.json").read_bytes(), expected


def test_the_corpus_is_whole() -> None:
    documents = {path.name.removesuffix(".json") for path in CORPUS.glob("*.json")}
    documents -= {name for name in documents if name.endswith(".expected")}
    assert documents == set(CASES)
    assert len(CASES) > 200


def record(event: se.Event, mine: "bool | None") -> "dict[str, Any]":
    return {
        "event_id": event.event_id,
        "event_type": event.event_type,
        "event_status": event.event_status,
        "resource_type": event.resource_type,
        "resources": list(event.resources) if isinstance(event.get("Resources"), list) else None,
        "not_before": event.not_before and event.not_before.isoformat().replace("+00:00", "Z"),
        "description": event.description,
        "event_source": event.event_source,
        "duration_in_seconds": event.duration_in_seconds,
        "mine": mine,
    }


@pytest.mark.parametrize("name", CASES)
def test_reading(name: str) -> None:
    body, expected = case(name)
    if "error" in expected:
        with pytest.raises(se.ParseError) as caught:
            se.parse(body)
        error = caught.value
        assert {"kind": error.kind, "line": error.line, "column": error.column} == expected["error"]
        return
    document = se.parse(body)
    version, names = expected.get("api_version", "2020-07-01"), expected["vm_names"]
    assert document.incarnation == expected["incarnation"]
    assert type(document.incarnation) is type(expected["incarnation"])

    def mine(event: se.Event) -> "bool | None":
        spelt = [*names, *(f"_{name}" for name in names if version == "2017-03-01")]
        return event.concerns(spelt) if names else None

    assert [record(event, mine(event)) for event in document.events] == expected["events"]
    told = ("event", "member", "kind", "line", "column")
    assert [{name: getattr(problem, name) for name in told} for problem in document.problems] == expected["problems"]
    now = datetime.fromisoformat(expected["now"].replace("Z", "+00:00"))
    decisions = [se.Policy.sample().decide(event, names, now, api_version=version) for event in document.events]
    assert [
        {"event_id": decision.event_id, "action": decision.action, "rule": decision.rule} for decision in decisions
    ] == expected["decisions"]


def ascii_upper(text: str) -> str:
    return "".join(char.upper() if char.isascii() else char for char in text)


@pytest.mark.parametrize("name", CASES)
def test_items_are_what_json_gives(name: str) -> None:
    body, expected = case(name)
    if "error" in expected:
        return
    theirs = json.loads(body.decode("utf-8-sig"))
    document = se.parse(body)
    assert list(document) == list(theirs)
    assert document.get("DocumentIncarnation") == theirs.get("DocumentIncarnation")
    by_id: dict[str, Any] = {}
    for raw in theirs["Events"]:
        if isinstance(raw, dict) and isinstance(raw.get("EventId"), str):
            by_id.setdefault(ascii_upper(raw["EventId"]), raw)
    for event in document["Events"]:
        raw = by_id[ascii_upper(event.event_id)]
        assert dict(event) == raw
        assert list(event) == list(raw)
        assert event == raw
        for name_of_member, value in raw.items():
            assert event[name_of_member] == value
            assert type(event[name_of_member]) is type(value)


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda body: body.decode("utf-8", "surrogateescape")])
def test_every_kind_of_input_reads_the_same(kind: Any) -> None:
    for path in sorted(Path(CORPUS).glob("[a-f]*.json")):
        body = path.read_bytes()
        if path.name.endswith(".expected.json"):
            continue
        try:
            expected = se.parse(body)
        except se.ParseError as error:
            with pytest.raises(se.ParseError) as caught:
                se.parse(kind(body))
            assert (caught.value.kind, caught.value.offset) == (error.kind, error.offset)
        else:
            assert se.parse(kind(body)) == expected


def test_a_flow_through_the_tracker() -> None:
    tracker = se.Tracker(["North_0"])
    told = []
    for step in ["flow-1-nothing-yet", "flow-2-scheduled", "flow-3-started", "flow-4-gone", "flow-5-incarnation-reset"]:
        changes = tracker.observe(se.parse(case(step)[0]), now=0)
        told.append([(change.change, change.event_type) for change in changes])
    assert told[:4] == [[], [("scheduled", "Freeze")], [("started", "Freeze")], [("completed", "Freeze")]]
