"""Records have the members of their one definition, and type checkers see the fields that they have."""

import ast
import inspect
import pickle
import pydoc
import re
from datetime import datetime, timezone
from typing import Any

import pytest
from conftest import ROOT

import scheduled_events as se
from scheduled_events import _native, _records

EXAMPLES = _native._record_examples()
CLASSES: "dict[str, Any]" = _records._RECORDS
# Fields that are not part of the record.
MORE = {"decision": ["act_from"], "poll-failed": ["repeated"], "problem": ["offset"]}


SOURCE = (ROOT / "py/python/scheduled_events/_records.py").read_text("utf-8")
STEPS = ["Get", "Post", "Wait", "Cancel", "Report", "PrepareDue", "GateDue", "RecoverDue", "Waiting"]


def declared(name: str) -> "dict[str, str | None]":
    """The fields that type checkers see in a class, with their defaults."""
    (found,) = [node for node in ast.parse(SOURCE).body if isinstance(node, ast.ClassDef) and node.name == name]
    fields: dict[str, str | None] = {}
    for field in found.body:
        if isinstance(field, ast.AnnAssign) and not ast.unparse(field.annotation).startswith("ClassVar"):
            default = field.value
            if isinstance(default, ast.Call):
                default = next((word.value for word in default.keywords if word.arg == "default"), None)
            fields[ast.unparse(field.target)] = None if default is None else ast.unparse(default)
    return fields


def test_every_record_of_a_watch_has_a_class() -> None:
    members = _native._record_members()
    assert set(members) - set(CLASSES) == {"document", "event", "gap", "status", "waiting", "scenario"}
    assert [example["record"] for example in EXAMPLES] == list(members)


@pytest.mark.parametrize("kind", CLASSES)
def test_the_class_has_the_members_of_the_definition(kind: str) -> None:
    (example,) = [example for example in EXAMPLES if example["record"] == kind]
    members = [name for name in example if name != "record"]
    assert tuple(members) == _native._record_members()[kind]
    fields = CLASSES[kind].__match_args__
    assert sorted(fields) == sorted([*members, *MORE.get(kind, []), "time", "machine", "vm_id"])
    assert CLASSES[kind].record == kind
    assert isinstance(vars(_records._AboutEvent)["event"], property)
    assert issubclass(CLASSES[kind], _records._AboutEvent) == ("mine" in members)


@pytest.mark.parametrize("name", [*(kind.__name__ for kind in CLASSES.values()), "Dropped", "EventRecord", *STEPS])
def test_a_class_has_a_real_signature_and_help_for_each_field(name: str) -> None:
    found = getattr(se, name)
    signature = inspect.signature(found)
    assert tuple(signature.parameters) == found.__match_args__
    empty = inspect.Parameter.empty
    defaults = {
        key: None if value.default is empty else repr(value.default) for key, value in signature.parameters.items()
    }
    assert list(declared(name).items()) == list(defaults.items())
    text = pydoc.plain(pydoc.render_doc(found))
    for field in found.__match_args__:
        assert inspect.getdoc(getattr(found, field)), field
    assert f"class {name}(" in text
    assert f"{name}({', '.join(map(str, signature.parameters.values()))})" in text


def test_the_words_that_type_checkers_know_are_core_s() -> None:
    for source, name in (
        ("core/src/tracker/change.rs", "_ChangeWord"),
        ("core/src/session/gate.rs", "_GateWord"),
        ("core/src/session/waiting.rs", "_WaitsFor"),
    ):
        words = set(re.findall(r'^    \w+ => "([a-z-]+)"', (ROOT / source).read_text("utf-8"), re.MULTILINE))
        (stubbed,) = re.findall(rf"^ +{name}: TypeAlias = Literal\[([^]]*)\]", SOURCE, re.MULTILINE)
        assert set(re.findall(r'"([a-z-]+)"', stubbed)) == words


@pytest.mark.parametrize("example", [example for example in EXAMPLES if example["record"] in CLASSES], ids=str)
@pytest.mark.parametrize("timed", [False, True])
def test_to_dict_is_what_the_command_prints(example: "dict[str, Any]", timed: bool) -> None:
    time = datetime(2022, 4, 11, 22, tzinfo=timezone.utc) if timed else None
    if timed:
        example = {**example, "time": "2022-04-11T22:00:00Z"}
    record: Any = _native._record_example(example["record"], time)
    assert list(record.to_dict().items()) == list(example.items())
    assert record == pickle.loads(pickle.dumps(record))
    assert record.time == time


@pytest.mark.parametrize("kind", [kind for kind, fields in CLASSES.items() if "mine" in fields.__match_args__])
def test_a_record_about_an_event_has_the_event(kind: str, event: se.Event) -> None:
    (example,) = [example for example in EXAMPLES if example["record"] == kind]
    record: Any = _native._record_example(kind)
    expected = {name: value for name, value in example.items() if name in _native._record_members()["event"]}
    assert isinstance(record.event, se.Event)
    assert record.event.to_dict(vm_names="WestNO_0") == {"record": "event", **expected}
    assert (record.event.event_type, record.event.resources) == (se.EventType.FREEZE, ("WestNO_0", "WestNO_1"))
    assert record.event.description == record.description == example["description"]


def test_an_approval_has_its_events() -> None:
    (example,) = [example for example in EXAMPLES if example["record"] == "approval"]
    second = {**dict.fromkeys(example["events"][0]), "event_id": "b", "description": "Zoë\u202e"}
    one: Any = _native._record_example("approval")
    record = se.Approval(("a", "b"), 200, (*one.events, se.EventRecord("b", description="Zoë\u202e")))
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


def test_a_record_is_short_as_text_and_whole_as_its_repr() -> None:
    moment = datetime(2022, 4, 11, 22, 26, 58, tzinfo=timezone.utc)
    change = se.Change(
        "scheduled", "a", "Freeze", "Scheduled", "VirtualMachine", ("vm_0",) * 200, moment, "x" * 500, mine=True
    )
    assert (
        str(change)
        == "Change(change='scheduled', event_id='a', event_type='Freeze', not_before=2022-04-11 22:26:58+00:00)"
    )
    assert str(se.Report(change)) == f"Report(record={change})"
    assert len(repr(change)) > 500
    assert str(se.Approval(("a",), 200, (se.EventRecord("a"),))) == "Approval(event_ids=('a',), status=200)"
    assert str(se.PollFailed("timeout", 1000)) == "PollFailed(cause='timeout', retry_in_ms=1000)"
    # Text from outside does not act on a terminal.
    assert "\x1b" not in str(se.Change("scheduled", "\x1b[31m"))
