"""The corpus that all languages read: the same documents, the same results."""

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


def test_every_document_of_the_corpus_has_an_expected_result() -> None:
    documents = {path.name.removesuffix(".json") for path in CORPUS.glob("*.json")}
    documents -= {name for name in documents if name.endswith(".expected")}
    assert documents == set(CASES)
    assert len(CASES) > 200


def attributes(event: se.Event, mine: "bool | None") -> "dict[str, Any]":
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
def test_a_document_reads_as_expected(name: str) -> None:
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
        all_names = [*names, *(f"_{name}" for name in names if version == "2017-03-01")]
        return event.concerns(all_names) if names else None

    assert [attributes(event, mine(event)) for event in document.events] == expected["events"]
    records = [event.to_dict(names, api_version=version) for event in document.events]
    assert records == [{"record": "event", **event} for event in expected["events"]]
    assert document.to_dict() == {
        "record": "document",
        "incarnation": expected["incarnation"],
        "events": len(expected["events"]),
        "problems": len(expected["problems"]),
    }
    members = ("event", "member", "kind", "line", "column")
    assert [{name: getattr(problem, name) for name in members} for problem in document.problems] == expected["problems"]
    now = datetime.fromisoformat(expected["now"].replace("Z", "+00:00"))
    decisions = [se.Policy.sample().decide(event, names, now, api_version=version) for event in document.events]
    assert [
        {"event_id": decision.event_id, "action": decision.action, "rule": decision.rule} for decision in decisions
    ] == expected["decisions"]


def ascii_upper(text: str) -> str:
    return "".join(char.upper() if char.isascii() else char for char in text)


@pytest.mark.parametrize("name", CASES)
def test_items_equal_those_of_json(name: str) -> None:
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
def test_every_input_type_reads_the_same(kind: Any) -> None:
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


def test_a_tracker_follows_a_flow_of_documents() -> None:
    tracker = se.Tracker(["North_0"])
    seen = []
    for step in ["flow-1-nothing-yet", "flow-2-scheduled", "flow-3-started", "flow-4-gone", "flow-5-incarnation-reset"]:
        changes = tracker.observe(se.parse(case(step)[0]), now=0)
        seen.append([(change.change, change.event_type) for change in changes])
    assert seen[:4] == [[], [("scheduled", "Freeze")], [("started", "Freeze")], [("completed", "Freeze")]]
