"""Documents and events as Python objects."""

import collections.abc
import copy
import gc
import json
import pickle
import sys
import threading
from datetime import datetime, timezone
from typing import Any

import pytest
from conftest import DOCUMENT
from hypothesis import given, settings
from hypothesis import strategies as st

import scheduled_events as se


def test_attributes_are_the_meaning_of_the_members(event: se.Event) -> None:
    assert event.event_type is se.EventType.FREEZE
    assert event.event_status is se.EventStatus.SCHEDULED
    assert event.event_source is se.EventSource.PLATFORM
    assert event.resources == ("WestNO_0", "WestNO_1")
    assert type(event.resources) is tuple
    assert event.not_before == datetime(2022, 4, 11, 22, 26, 58, tzinfo=timezone.utc)
    assert event.not_before is not None
    assert event.not_before.tzinfo is timezone.utc
    assert (event.description, event.duration_in_seconds, event.resource_type) == (
        "Live Migration.",
        5,
        "VirtualMachine",
    )
    assert event.concerns("westno_1")
    assert event.concerns(["x", "WESTNO_0"])
    assert not event.concerns("WestNO")
    for empty in ("", [""]):
        with pytest.raises(ValueError, match="a machine's name must not be empty"):
            event.concerns(empty)


def test_a_document_concerns_the_machines_of_its_events() -> None:
    events = [{"EventId": "a", "Resources": ["vm_0"]}, {"EventId": "b"}, {"EventId": "c", "Resources": ["vm_1", "é"]}]
    document = se.parse(json.dumps({"Events": events}))
    assert [document.concerns(name) for name in ("VM_1", "é", "vm_2", "vm", ["x", "vm_0"], [])] == [
        *(True, True, False, False, True, False)
    ]
    assert not se.parse(b'{"Events":[]}').concerns("vm_0")
    with pytest.raises(ValueError, match="a machine's name must not be empty"):
        document.concerns("")
    with pytest.raises(TypeError):
        document.concerns(3)  # type: ignore[arg-type]


def test_words_are_strings(event: se.Event) -> None:
    kind = event.event_type
    assert kind == "Freeze"
    assert {"Freeze": 1}[kind] == 1
    assert f"{kind}|{kind!s}" == "Freeze|Freeze"
    assert f"{kind:>8}" == "  Freeze"
    assert json.dumps([kind]) == '["Freeze"]'
    assert "is " + kind == "is Freeze"
    assert repr(kind) == "EventType.FREEZE"
    unknown = se.parse('{"Events":[{"EventId":"a","EventType":"Pause"}]}').events[0]
    assert unknown.event_type == "Pause"
    assert type(unknown.event_type) is str


def test_events_cannot_be_changed(event: se.Event) -> None:
    with pytest.raises(AttributeError):
        event.event_id = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        event.other = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        event["EventId"] = "b"  # type: ignore[index]


def test_documents_and_events_with_any_difference_are_unequal() -> None:
    events = [
        se.parse(json.dumps({"Events": [{"EventId": "a", **members}]})).events[0]
        for members in ({"NotBefore": "foo"}, {"NotBefore": "bar"}, {"Unknown": 1}, {"Unknown": 2}, {})
    ]
    assert [[one == other for other in events] for one in events] == [
        [one is other for other in events] for one in events
    ]
    assert se.parse(b'{"Events":[],"x":1}') != se.parse(b'{"Events":[]}')
    assert se.parse('{"Events":[{"EventId":"\\u0061"}]}') == se.parse('{"Events":[{"EventId":"a"}]}')


def test_events_compare_hash_copy_and_pickle(event: se.Event, document: se.Document) -> None:
    pretty = se.parse(json.dumps(json.loads(DOCUMENT), indent=4))
    assert pretty.events[0] == event
    assert hash(pretty.events[0]) == hash(event)
    assert pretty == document
    assert hash(pretty) == hash(document)
    assert {event, pretty.events[0]} == {event}
    other = se.parse(DOCUMENT.replace(b"Freeze", b"Reboot"))
    assert other.events[0] != event
    assert other != document
    assert event != "Freeze"
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(event, protocol)) == event
        assert pickle.loads(pickle.dumps(document, protocol)) == document
        assert pickle.loads(pickle.dumps(document.events, protocol)) == document.events
    assert copy.deepcopy(event) == event
    assert "C7061BAC" in repr(event)
    assert "Freeze" in repr(event)
    assert repr(document) == "<Document incarnation=2 events=1>"


def test_items_are_those_of_a_dict(event: se.Event, document: se.Document) -> None:
    assert isinstance(event, collections.abc.Mapping)
    assert isinstance(document, collections.abc.Mapping)
    assert event["NotBefore"] == "Mon, 11 Apr 2022 22:26:58 GMT"
    assert type(event["EventType"]) is str
    assert event["Resources"] == ["WestNO_0", "WestNO_1"]
    assert event.get("Nothing") is None
    assert event.get("Nothing", 7) == 7
    assert event.get("EventId", 7) != 7
    assert "EventId" in event
    assert "event_id" not in event
    assert 3 not in event  # type: ignore[operator]
    assert len(event) == 9
    assert dict(event.items()) == dict(zip(event.keys(), event.values(), strict=True))
    with pytest.raises(KeyError, match="Nothing"):
        event["Nothing"]
    assert document["DocumentIncarnation"] == 2
    assert document["Events"] == [event]
    assert type(document["Events"]) is list
    assert document == json.loads(DOCUMENT)
    assert bytes(document) == DOCUMENT
    unknown = se.parse('{"Events":[{"EventId":"a","DurationInSeconds":-1,"New":{"b":[1.5,true]}}],"Hint":[null]}')
    assert unknown.events[0]["DurationInSeconds"] == -1
    assert unknown.events[0].duration_in_seconds is None
    assert unknown.events[0]["New"] == {"b": [1.5, True]}
    assert unknown["Hint"] == [None]
    with pytest.raises(KeyError):
        unknown["DocumentIncarnation"]


def test_events_are_a_sequence() -> None:
    ids = [f"id-{number}" for number in range(5)]
    document = se.parse(json.dumps({"Events": [{"EventId": event_id} for event_id in ids]}))
    events = document.events
    assert document.events is events
    assert isinstance(events, collections.abc.Sequence)
    assert [event.event_id for event in events] == ids
    assert [event.event_id for event in reversed(events)] == ids[::-1]
    assert [event.event_id for event in events[1:4:2]] == ["id-1", "id-3"]
    assert [event.event_id for event in events[::-1]] == ids[::-1]
    assert events[-1].event_id == "id-4"
    assert len(events) == 5
    assert events[2] in events
    assert events.index(events[2]) == 2
    assert events.count(events[2]) == 1
    assert events == tuple(document["Events"])
    assert events != events[:2]
    assert not se.parse('{"Events":[]}').events
    for place in (5, -6, 2**62):
        with pytest.raises(IndexError):
            events[place]
    with pytest.raises(TypeError):
        events["a"]  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="not in"):
        events.index("a")


def test_events_match_patterns(event: se.Event) -> None:
    scope: dict[str, Any] = {"se": se, "event": event}
    exec(
        "match event:\n case se.Event(event_id, se.EventType.FREEZE, 'Scheduled'): a = event_id\n"
        "match event:\n case {'EventType': 'Freeze', 'Resources': [first, *_]}: b = first\n",
        scope,
    )
    assert scope["a"] == event.event_id
    assert scope["b"] == "WestNO_0"


def test_other_input_is_a_parse_error() -> None:
    with pytest.raises(se.ParseError) as caught:
        se.parse('{"DocumentIncarnation":1,\n "Events":[}')
    error = caught.value
    assert isinstance(error, ValueError)
    assert isinstance(error, se.Error)
    assert (error.kind, error.offset, error.line, error.column) == ("unexpected-byte", 37, 2, 12)
    assert str(error) == "expected a value, found `}` at line 2, column 12"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.offset, str(again)) == (se.ParseError, 37, str(error))
    for wrong in (None, 3, ["{}"], {"Events": []}):
        with pytest.raises(TypeError, match="bytes"):
            se.parse(wrong)  # type: ignore[arg-type]
    with pytest.raises(se.ParseError) as caught:
        se.parse('{"Events":["\ud800"]}')
    assert (caught.value.kind, caught.value.offset) == ("invalid-utf8", 12)
    with pytest.raises(se.ParseError):
        se.loads("")
    # A view with gaps.
    assert se.parse(memoryview(b"".join(bytes([byte, 0]) for byte in DOCUMENT))[::2]).incarnation == 2


def test_times_outside_of_python_s_years_are_none() -> None:
    texts = ["9999-12-31T23:59:59-10:00", "0001-01-01T00:00:00+10:00"]
    for text in texts:
        event = se.parse(json.dumps({"Events": [{"EventId": "a", "NotBefore": text}]})).events[0]
        assert event.not_before is None
        assert event["NotBefore"] == text


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
EVENTS = st.fixed_dictionaries(
    {"EventId": TEXTS.filter(bool)},
    optional={
        "EventType": st.sampled_from(["Freeze", "Preempt"]) | TEXTS,
        "EventStatus": st.sampled_from(["Scheduled", "Started"]) | TEXTS,
        "EventSource": TEXTS,
        "Resources": st.lists(TEXTS, max_size=5),
        "NotBefore": TEXTS | st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1)).map(lambda time: f"{time:%FT%TZ}"),
        "Description": TEXTS,
        "DurationInSeconds": st.integers(-1, 10**6) | st.none(),
        "ResourceType": TEXTS,
        "Extra": st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, st.lists, max_leaves=5),
    },
)


@settings(deadline=None)
@given(st.lists(EVENTS, max_size=5), st.none() | st.integers(0, 2**64 - 1) | TEXTS, st.booleans(), st.booleans())
def test_documents_that_json_writes_are_read(events: Any, incarnation: Any, ascii_only: bool, pretty: bool) -> None:
    seen: set[str] = set()
    unique = []
    for event in events:
        key = "".join(char.upper() if char.isascii() else char for char in event["EventId"])
        if key not in seen:
            seen.add(key)
            unique.append(event)
    theirs = {"DocumentIncarnation": incarnation, "Events": unique}
    text = json.dumps(theirs, ensure_ascii=ascii_only, indent=2 if pretty else None)
    document = se.parse(text)
    assert document.incarnation == incarnation
    assert document == theirs
    for event, raw in zip(document.events, unique, strict=True):
        assert event.event_id == raw["EventId"]
        assert event.event_type == (raw.get("EventType") or None)  # an empty one is a problem
        assert event.resources == tuple(raw.get("Resources", ()))
        assert event.description == raw.get("Description")
        assert event.duration_in_seconds == (
            None if raw.get("DurationInSeconds") == -1 else raw.get("DurationInSeconds")
        )
        assert dict(event) == raw
        assert pickle.loads(pickle.dumps(event)) == event
        for name in filter(None, raw.get("Resources", ())):
            assert event.concerns("".join(char.upper() if char.isascii() else char for char in name))


@pytest.mark.parametrize("before", [0, 70_000])
@pytest.mark.parametrize(
    "names", [[], ["a"], [*"abcd"], [*"abcde"], ["a", "\n"], ["x" * 255], ["a", "x" * 256], ["ä", ""]], ids=len
)
def test_any_number_of_resources_at_any_offset_is_read(names: "list[str]", before: int) -> None:
    raw = {"EventId": "1", "Description": " " * before, "Resources": names}
    document = se.parse(json.dumps({"Events": [raw, {"EventId": "2"}]}, ensure_ascii=False))
    event, other = document.events
    assert event.resources == tuple(names)
    assert event["Resources"] == names
    assert other.resources == ()
    for name in filter(None, names):
        assert event.concerns(name)
        assert document.concerns(name)
        assert not other.concerns(name)
    assert not document.concerns("none of them")


@settings(deadline=None)
@given(st.datetimes(datetime(1, 1, 1)))
def test_every_time_is_read(moment: datetime) -> None:
    moment = moment.replace(microsecond=0, tzinfo=timezone.utc)
    written = moment.isoformat().replace("+00:00", "Z")
    (event,) = se.parse(json.dumps({"Events": [{"EventId": "1", "NotBefore": written}]})).events
    assert event.not_before == moment


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_parse_or_raise_parse_error(data: bytes) -> None:
    for body in (data, b'{"Events":[' + data + b"]}", DOCUMENT[: len(data)] + data):
        try:
            document = se.parse(body)
        except se.ParseError as error:
            assert 0 <= error.offset <= len(body)
        else:
            assert len([*map(repr, document.events)]) == len(document.events)


def test_ten_threads_read_at_once(document: se.Document) -> None:
    failures: list[BaseException] = []
    tracker, start = se.Tracker("WestNO_0"), threading.Barrier(10)

    def work() -> None:
        try:
            start.wait()
            for _ in range(500):
                event = se.parse(DOCUMENT).events[0]
                assert event == document.events[0]
                assert event.resources == ("WestNO_0", "WestNO_1")
                tracker.observe(document, now=0)
                se.Policy.sample().decide(event, "WestNO_0", 0)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(tracker) == 1


def rss() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def test_parsing_leaks_no_memory() -> None:
    def parse(times: int) -> None:
        for _ in range(times):
            for event in se.parse(DOCUMENT).events:
                event.event_type  # noqa: B018
                event.resources  # noqa: B018

    def refuse(times: int) -> None:
        for _ in range(times):
            try:
                se.parse(b'{"Events":[}')
            except se.ParseError:
                pass

    parse(10_000)
    refuse(10_000)
    gc.collect()
    before, objects = rss(), len(gc.get_objects())
    references = sys.getrefcount(se.EventType.FREEZE), sys.getrefcount(DOCUMENT)
    parse(100_000)
    refuse(10_000)
    gc.collect()
    assert rss() - before < 1 << 20
    assert abs(len(gc.get_objects()) - objects) < 50
    assert (sys.getrefcount(se.EventType.FREEZE), sys.getrefcount(DOCUMENT)) == references
