"""Records have the members of their one definition, in Python and in its stub."""

import ast
import json
import pickle
from datetime import datetime, timezone
from typing import Any

import pytest
from conftest import ROOT

import scheduled_events as se
from scheduled_events import _native, _records

EXAMPLES: "list[dict[str, Any]]" = [json.loads(text) for text in _native._record_examples()]
CLASSES: "dict[str, Any]" = _records._RECORDS
# Fields that are not part of the record.
MORE = {
    "decision": ["act_from"],
    "prepare": ["attempt"],
    "gate": ["attempt"],
    "recover": ["events", "own", "attempt"],
    "problem": ["offset"],
}


def stub_properties(name: str) -> "list[str]":
    stub = ast.parse((ROOT / "py/python/scheduled_events/__init__.pyi").read_text("utf-8"))
    (found,) = [node for node in stub.body if isinstance(node, ast.ClassDef) and node.name == name]
    return [node.name for node in found.body if isinstance(node, ast.FunctionDef)]


def test_every_record_of_a_watch_has_a_class() -> None:
    members = _native._record_members()
    assert set(members) - set(CLASSES) == {"document", "event", "gap", "status", "waiting", "scenario"}
    assert [example["record"] for example in EXAMPLES] == list(members)


@pytest.mark.parametrize("kind", CLASSES)
def test_the_class_and_its_stub_have_the_members_of_the_definition(kind: str) -> None:
    (example,) = [example for example in EXAMPLES if example["record"] == kind]
    members = [name for name in example if name != "record"]
    assert tuple(members) == CLASSES[kind]._members == _native._record_members()[kind]
    fields = CLASSES[kind].__match_args__
    assert sorted(fields) == sorted([*members, *MORE.get(kind, []), "time"])
    event = ("event",) if "mine" in members else ()
    assert tuple(stub_properties(CLASSES[kind].__name__)) == (*fields, *event)


@pytest.mark.parametrize("example", [example for example in EXAMPLES if example["record"] in CLASSES], ids=str)
@pytest.mark.parametrize("timed", [False, True])
def test_to_dict_is_what_the_command_prints(example: "dict[str, Any]", timed: bool) -> None:
    if timed:
        example = {**example, "time": "2022-04-11T22:00:00Z"}
    record = _records.from_dict(dict(example))
    assert list(record.to_dict().items()) == list(example.items())
    assert record == pickle.loads(pickle.dumps(record))
    assert record.time == (datetime(2022, 4, 11, 22, tzinfo=timezone.utc) if timed else None)


@pytest.mark.parametrize("kind", [kind for kind, fields in CLASSES.items() if "mine" in fields._members])
def test_a_record_about_an_event_has_the_event(kind: str, event: se.Event) -> None:
    (example,) = [example for example in EXAMPLES if example["record"] == kind]
    record = _records.from_dict(dict(example))
    expected = {name: value for name, value in example.items() if name in _native._record_members()["event"]}
    assert isinstance(record.event, se.Event)
    assert record.event.to_dict(vm_names="WestNO_0") == {"record": "event", **expected}
    assert (record.event.event_type, record.event.resources) == (se.EventType.FREEZE, ("WestNO_0", "WestNO_1"))
    assert record.event.description == record.description == example["description"]


def test_an_approval_has_its_events() -> None:
    (example,) = [example for example in EXAMPLES if example["record"] == "approval"]
    unknown = dict.fromkeys(example["events"][0])
    second = {**unknown, "event_id": "b", "description": "Zoë\u202e"}
    record = _records.from_dict({**example, "event_ids": ["a", "b"], "events": [example["events"][0], second]})
    assert [type(event) for event in record.events] == [se.EventRecord, se.EventRecord]
    assert record.to_dict()["events"] == [example["events"][0], second]
    first, last = record.events
    assert (first.mine, last.mine, last.resources) == (True, None, None)
    assert first.not_before == datetime(2022, 4, 11, 22, 26, 58, tzinfo=timezone.utc)
    assert (first.event.resources, last.event.description) == (first.resources, last.description)
    assert last == se.EventRecord("b", description="Zoë\u202e") == pickle.loads(pickle.dumps(last))
    assert se.Approval(["a"], 200).events == ()


def test_events_and_documents_have_records_too(event: se.Event, document: se.Document) -> None:
    by_kind = {example["record"]: example for example in EXAMPLES}
    assert list(event.to_dict(vm_names="WestNO_0").items()) == [
        *{**by_kind["event"], "description": "Live Migration."}.items()
    ]
    assert event.to_dict()["mine"] is None
    assert list(document.to_dict().items()) == list(by_kind["document"].items())
