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
    "prepare": ["event", "attempt"],
    "gate": ["event", "attempt"],
    "recover": ["event", "events", "own", "attempt"],
    "problem": ["offset"],
}


def stub_properties(name: str) -> "list[str]":
    stub = ast.parse((ROOT / "py/python/scheduled_events/__init__.pyi").read_text("utf-8"))
    (found,) = [node for node in stub.body if isinstance(node, ast.ClassDef) and node.name == name]
    return [node.name for node in found.body if isinstance(node, ast.FunctionDef)]


def test_every_record_of_a_watch_has_a_class() -> None:
    members = _native._record_members()
    assert set(members) - set(CLASSES) == {"document", "event", "scenario"}
    assert [example["record"] for example in EXAMPLES] == list(members)


@pytest.mark.parametrize("kind", CLASSES)
def test_the_class_and_its_stub_have_the_members_of_the_definition(kind: str) -> None:
    (example,) = [example for example in EXAMPLES if example["record"] == kind]
    members = [name for name in example if name != "record"]
    assert tuple(members) == CLASSES[kind]._members == _native._record_members()[kind]
    fields = CLASSES[kind].__match_args__
    assert sorted(fields) == sorted([*members, *MORE.get(kind, []), "time"])
    assert tuple(stub_properties(CLASSES[kind].__name__)) == fields


@pytest.mark.parametrize("example", [example for example in EXAMPLES if example["record"] in CLASSES], ids=str)
@pytest.mark.parametrize("timed", [False, True])
def test_to_dict_is_what_the_command_prints(example: "dict[str, Any]", timed: bool) -> None:
    if timed:
        example = {**example, "time": "2022-04-11T22:00:00Z"}
    record = _records.from_dict(dict(example))
    assert list(record.to_dict().items()) == list(example.items())
    assert record == pickle.loads(pickle.dumps(record))
    assert record.time == (datetime(2022, 4, 11, 22, tzinfo=timezone.utc) if timed else None)


def test_events_and_documents_have_records_too(event: se.Event, document: se.Document) -> None:
    by_kind = {example["record"]: example for example in EXAMPLES}
    assert list(event.to_dict(vm_names="WestNO_0").items()) == [
        *{**by_kind["event"], "description": "Live Migration."}.items()
    ]
    assert event.to_dict()["mine"] is None
    assert list(document.to_dict().items()) == list(by_kind["document"].items())
