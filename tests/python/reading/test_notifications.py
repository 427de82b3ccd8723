"""Notifications of Event Grid and Resource Graph, and the request that approves events outside the machine."""

import collections.abc
import json
import pickle
from typing import Any

import pytest
from test_corpus import CORPUS, attributes

import scheduled_events as se

FOLDER = CORPUS / "notifications"
CASES = sorted(path.name.removesuffix(".expected.json") for path in FOLDER.glob("*.expected.json"))
GROUP = "/subscriptions/0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d/resourceGroups/web"
MACHINE = GROUP + "/providers/Microsoft.Compute/virtualMachines/db-1"
IDS = ["743C15D8-A994-46FC-93AF-B84EE33F9A14", "3da1b9aa-5204-4335-8c33-c54e315dcffe"]


def body_of(case: str) -> bytes:
    return (FOLDER / f"{case}.json").read_bytes()


def milliseconds(notification: se.Notification) -> "int | None":
    time = notification.time
    assert time is None or time.utcoffset() is not None
    return None if time is None else round(time.timestamp() * 1000)


def reading(notification: se.Notification) -> "dict[str, Any]":
    event = attributes(notification.event, None)
    del event["mine"]
    return {
        "id": notification.id,
        "time_ms": milliseconds(notification),
        "resource_id": notification.resource_id,
        "state": notification.state,
        "machines": list(notification.machines),
        "event": event,
    }


@pytest.mark.parametrize("case", CASES)
def test_every_notification_of_the_corpus_reads_as_expected(case: str) -> None:
    expected = json.loads((FOLDER / f"{case}.expected.json").read_text("utf-8"))
    if "error" in expected:
        with pytest.raises(se.ParseError) as refused:
            se.parse_notifications(body_of(case))
        error = refused.value
        assert {"kind": error.kind, "line": error.line, "column": error.column} == expected["error"]
        return
    for notification in expected["notifications"]:
        # Here, what has no id is left out.
        notification["machines"] = [machine for machine in notification["machines"] or () if machine]
    notifications = se.parse_notifications(body_of(case))
    assert [reading(notification) for notification in notifications] == expected["notifications"]
    assert notifications.left_out == expected["left_out"]
    assert notifications.validation_code == expected["validation_code"]


def test_the_corpus_is_complete() -> None:
    assert len(CASES) >= 30
    assert {path.name for path in FOLDER.iterdir()} == {
        f"{case}{end}" for case in CASES for end in (".json", ".expected.json")
    }


def test_notifications_are_a_sequence() -> None:
    body = body_of("grid-array-of-a-scale-set")
    notifications = se.parse_notifications(body.decode())
    assert isinstance(notifications, collections.abc.Sequence)
    first, second = notifications
    assert (len(notifications), notifications[0], notifications[-1]) == (2, first, second)
    assert notifications[:1] == (first,)
    assert list(reversed(notifications)) == [second, first]
    assert first != second
    assert first in notifications
    assert (notifications.index(second), notifications.count(first)) == (1, 1)
    with pytest.raises(IndexError):
        notifications[2]
    assert list(pickle.loads(pickle.dumps(notifications))) == [first, second]
    members = [first.id, first.time, first.resource_id, first.state, first.event]
    assert [getattr(first, name) for name in first.__match_args__] == members
    assert repr(first).startswith(
        "<Notification '6e9f8439-8bf5-48f1-805d-ad8ab7cd1951' state='scheduled' event=<Event "
    )
    assert repr(notifications).endswith(" left_out=0>")


def test_an_event_outlives_its_notifications() -> None:
    event = se.parse_notifications(bytearray(body_of("grid-machine")))[0].event
    assert event["EventStatus"] == "Completed"
    assert se.Policy.sample().decide(event, vm_names=["db-1"]).action == "hold"


def test_one_event_is_in_the_path_and_several_are_in_the_body() -> None:
    start = MACHINE.replace("resourceGroups", "resourcegroups") + "/providers/Microsoft.Maintenance/scheduledevents"
    version = "?api-version=2025-10-01-preview"
    for one in (IDS[0], [IDS[0]], {"EventId": IDS[0]}):
        request = se.acknowledge_request(MACHINE, one)
        assert (request.method, request.path) == ("POST", f"{start}/{IDS[0]}/acknowledge{version}")
        assert request.body == b""
    request = se.acknowledge_request(MACHINE + "/providers/microsoft.maintenance/scheduledevents/x", IDS)
    assert [getattr(request, name) for name in request.__match_args__] == ["POST", start + version, request.body]
    assert json.loads(request.body) == {"value": IDS}
    assert repr(request).startswith("<Request POST path='/subscriptions/")


def test_the_request_for_a_notification() -> None:
    for notification in se.parse_notifications(body_of("cloud-event")):
        request = se.acknowledge_request(notification.resource_id, notification.event)
        assert f"/{notification.event.event_id}/acknowledge?" in request.path


@pytest.mark.parametrize(
    ("resource_id", "ids", "message"),
    [
        ("/subscriptions/x", IDS, "expected `/subscriptions/` and a GUID"),
        (MACHINE + "/../other", IDS, "expected nothing"),
        (MACHINE, ["../x"], "the id of event 1 is not a GUID"),
        (MACHINE, [], "at least one event"),
    ],
)
def test_what_cannot_be_in_a_request_is_refused(resource_id: str, ids: "list[str]", message: str) -> None:
    with pytest.raises(se.ConfigError, match=message):
        se.acknowledge_request(resource_id, ids)


def test_arguments_of_another_type_are_refused() -> None:
    with pytest.raises(se.ArgumentError):
        se.parse_notifications(7)  # type: ignore[arg-type]
    with pytest.raises(se.ArgumentError):
        se.acknowledge_request(7, IDS)  # type: ignore[arg-type]
    with pytest.raises(se.ArgumentError):
        se.acknowledge_request(MACHINE, 7)  # type: ignore[arg-type]
