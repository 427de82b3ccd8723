"""Records have the members of their one definition, in Python and in its stub."""

import ast
import inspect
import json
import pickle
import pydoc
import re
from datetime import datetime, timezone
from typing import Any

import pytest
from conftest import ROOT

import scheduled_events as se
from scheduled_events import _native, _records

EXAMPLES: "list[dict[str, Any]]" = [json.loads(text) for text in _native._record_examples()]
CLASSES: "dict[str, Any]" = _records._RECORDS
# Fields that are not part of the record.
MORE = {"decision": ["act_from"], "poll-failed": ["repeated"], "problem": ["offset"]}


STUB = ast.parse((ROOT / "py/python/scheduled_events/_records.pyi").read_text("utf-8"))
STEPS = ["Get", "Post", "Wait", "Cancel", "Report", "PrepareDue", "GateDue", "RecoverDue"]


def stub(name: str) -> "tuple[list[str], dict[str, str | None]]":
    """The properties of a class in the stub, and the parameters of its constructor with their defaults."""
    (found,) = [node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == name]
    methods = [node for node in found.body if isinstance(node, ast.FunctionDef)]
    properties = [node.name for node in methods if node.name not in ("__init__", "to_dict")]
    if any(isinstance(base, ast.Name) and base.id == "_AboutEvent" for base in found.bases):
        properties += stub("_AboutEvent")[0]
    parameters: dict[str, str | None] = {}
    for init in (node for node in methods if node.name == "__init__"):
        names = [argument.arg for argument in init.args.args[1:]]
        parameters = dict.fromkeys(names)
        for name, default in zip(reversed(names), reversed(init.args.defaults)):
            parameters[name] = ast.unparse(default)
    return properties, parameters


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
    properties, _ = stub(CLASSES[kind].__name__)
    assert sorted(properties) == sorted(("record", *fields, *event))


@pytest.mark.parametrize("name", [*(kind.__name__ for kind in CLASSES.values()), "Dropped", "EventRecord", *STEPS])
def test_a_class_has_a_real_signature_and_help_for_each_field(name: str) -> None:
    found = getattr(se, name)
    signature = inspect.signature(found)
    assert tuple(signature.parameters) == found.__match_args__
    empty = inspect.Parameter.empty
    defaults = {
        key: None if value.default is empty else repr(value.default) for key, value in signature.parameters.items()
    }
    properties, parameters = stub(name)
    assert parameters == defaults
    assert set(properties) - {"record", "event"} == set(found.__match_args__) - {"record", "event"}
    text = pydoc.plain(pydoc.render_doc(found))
    for field in found.__match_args__:
        assert inspect.getdoc(getattr(found, field)), field
    assert f"class {name}(" in text
    assert f"{name}({', '.join(map(str, signature.parameters.values()))})" in text


def test_the_words_of_the_stub_are_core_s() -> None:
    text = (ROOT / "py/python/scheduled_events/_records.pyi").read_text("utf-8")
    for source, name in (("core/src/tracker/change.rs", "_ChangeWord"), ("core/src/session/gate.rs", "_GateWord")):
        words = set(re.findall(r'=> "([a-z-]+)"', (ROOT / source).read_text("utf-8")))
        (stubbed,) = re.findall(rf"^{name}: TypeAlias = Literal\[([^]]*)\]", text, re.MULTILINE)
        assert set(re.findall(r'"([a-z-]+)"', stubbed)) == words


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
