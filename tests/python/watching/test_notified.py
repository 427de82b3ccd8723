"""Sessions that get notifications: the life of an event, late ones, documents beside them, and what is refused."""

import json
import pathlib
from datetime import datetime, timezone
from typing import Any

import pytest

import scheduled_events as se

START = 1_600_000_000
MACHINE = (
    "/subscriptions/0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d/resourceGroups/web"
    "/providers/Microsoft.Compute/virtualMachines/db"
)
ID = "743c15d8-a994-46fc-93af-b84ee33f9a14"


def properties(status: str, **more: Any) -> "dict[str, Any]":
    event = {"EventId": ID, "EventStatus": status, "EventType": "Reboot", "Resources": ["db"]}
    return {**event, "Description": "Host maintenance", **more}


def message(status: str, minute: int, **more: Any) -> se.Notification:
    """A message of Event Grid, sent at this minute."""
    time = datetime.fromtimestamp(START + 60 * minute, timezone.utc).isoformat()
    info = {"id": MACHINE, "properties": properties(status, **more)}
    kind = "microsoft.maintenance/scheduledevents/write"
    body = {"id": "m", "eventType": kind, "eventTime": time, "data": {"resourceInfo": info}}
    return se.parse_notifications(json.dumps(body))[0]


class Outside:
    """Drives a session with notifications and a clock of its own. Requests succeed at once."""

    def __init__(self, source: Any = "notifications", **options: Any) -> None:
        policy = se.Policy([se.Rule("prepare")])
        self.session = se.Session(policy, "db", seed=1, source=source, **options)
        self.now: float = START
        self.body = b""
        self.prepared = "ready"
        self.incarnation = 0
        self.steps: list[Any] = []

    def notify(self, status: str, minute: int, **more: Any) -> str:
        return self.session.on_notification(message(status, minute, **more), now=self.now)

    def work(self) -> "list[str]":
        """Do what is due, and return what it was."""
        self.steps = []
        done = []
        while not isinstance(step := self.session.next(self.now), se.Wait) or step.seconds < 0.5:
            if isinstance(step, se.Wait):
                self.now += step.seconds
            elif isinstance(step, se.Get):
                self.session.on_response(200, self.body, now=self.now)
            elif isinstance(step, se.Post):
                request = se.acknowledge_request(MACHINE, step.event_ids)
                assert request.path.startswith(MACHINE.replace("resourceGroups", "resourcegroups"))
                done.append("post")
                assert isinstance(self.session.on_response(200, now=self.now), se.Approval)
            elif isinstance(step, se.PrepareDue):
                done.append("prepare")
                ready, retry = self.prepared == "ready", self.prepared != "abandoned"
                assert self.session.prepared(step.event_id, ready, step.attempt, retry=retry)
            elif isinstance(step, se.RecoverDue):
                done.append("recover")
                assert self.session.recovered(step.event_id, now=self.now)
            elif isinstance(step, se.Report) and isinstance(step.record, se.Change):
                done.append(step.record.change)
            self.steps.append(step)
        return done

    def poll(self, *events: "dict[str, Any]") -> "list[str]":
        self.incarnation += 1
        self.body = json.dumps({"DocumentIncarnation": self.incarnation, "Events": events}).encode()
        self.now += 10
        return self.work()


def test_the_life_of_an_event_without_a_document() -> None:
    outside = Outside()
    assert outside.session.is_idle
    assert outside.notify("Scheduled", 0) == "applied"
    assert outside.work() == ["scheduled", "prepare", "post"]
    # Steps and records have what the notification says, as they have it from a document.
    (due,) = [step for step in outside.steps if isinstance(step, se.PrepareDue)]
    assert due.event is not None
    assert (due.event.description, due.event.resources) == ("Host maintenance", ("db",))
    (known,) = outside.session.events
    assert (known.event_id, known.event_status, known.resources, known.mine) == (ID, "Scheduled", ("db",), True)
    assert outside.notify("Scheduled", 0) == "applied"
    assert outside.notify("Started", 10) == "applied"
    assert outside.notify("Scheduled", 5) == "ignored"
    assert outside.work() == ["started"]
    assert outside.notify("Completed", 20) == "applied"
    assert outside.work() == ["completed", "recover"]
    (change,) = [step.record for step in outside.steps if isinstance(step, se.Report)]
    assert isinstance(change, se.Change)
    assert (change.event_status, change.description) == ("Started", "Host maintenance")
    assert outside.session.is_idle
    assert outside.notify("Started", 15) == "ignored"
    assert outside.work() == []


def test_a_change_is_in_the_records() -> None:
    outside = Outside()
    outside.notify("Scheduled", 0, NotBefore="2020-09-13T13:00:00Z")
    outside.work()
    assert outside.notify("Scheduled", 5, NotBefore="2020-09-13T13:30:00Z", Description="Later") == "applied"
    assert outside.work() == ["rescheduled", "updated"]
    (known,) = outside.session.events
    assert known.description == "Later"
    assert known.not_before == datetime(2020, 9, 13, 13, 30, tzinfo=timezone.utc)


def test_the_document_s_end_makes_later_notifications_late() -> None:
    outside = Outside("both")
    assert outside.poll() == []
    assert outside.notify("Scheduled", 0) == "applied"
    assert outside.work() == ["scheduled", "prepare", "post"]
    assert outside.poll(properties("Scheduled", Description="Inside")) == ["updated"]
    assert outside.session.events[0].description == "Inside"
    assert outside.notify("Scheduled", 5) == "ignored"
    assert outside.poll() + outside.poll() == ["ended", "recover"]
    assert outside.notify("Started", 10) == "ignored"
    assert outside.poll() == []


def test_a_restart_needs_the_notification_again() -> None:
    outside = Outside()
    outside.notify("Scheduled", 0)
    step = outside.session.next(outside.now)
    while not isinstance(step, se.PrepareDue):
        step = outside.session.next(outside.now)
    assert outside.session.prepared(ID)
    snapshot = outside.session.snapshot()
    outside = Outside()
    outside.session.restore(snapshot)
    assert outside.work() == []
    assert outside.notify("Scheduled", 0) == "applied"
    assert outside.work() == ["post"]


def test_more_events_than_are_followed() -> None:
    session = se.Session(vm_names="db", source="notifications")
    row = {"type": "microsoft.maintenance/scheduledevents"}
    rows = [{**row, "properties": {**properties("Scheduled"), "EventId": str(number)}} for number in range(1025)]
    outcomes = [session.on_notification(notification) for notification in se.parse_notifications(json.dumps(rows))]
    assert outcomes == ["applied"] * 1024 + ["untracked"]


def test_what_is_refused() -> None:
    outside = Outside("documents")
    assert outside.notify("Scheduled", 0) == "ignored"
    with pytest.raises(se.ConfigError, match='unknown source "queue"; expected one of documents, notifications, both'):
        Outside("queue")
    for wrong in (None, 7, message("Scheduled", 0).event):
        with pytest.raises(se.ArgumentError):
            outside.session.on_notification(wrong)  # type: ignore[arg-type]


SCENARIOS = sorted((pathlib.Path(__file__).parents[2] / "corpus/sessions").glob("*.json"))


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_a_session_does_what_the_scenario_expects(path: pathlib.Path) -> None:
    outside = None
    for one in json.loads(path.read_text("utf-8")):
        if "source" in one:
            before, outside = outside, Outside(one["source"])
            if before is not None:
                outside.session.restore(before.session.snapshot())
                outside.body, outside.prepared = before.body, before.prepared
            continue
        assert outside is not None
        if "prepared" in one:
            outside.prepared = one["prepared"]
            continue
        outside.now = START + one["at"]
        done = []
        if "notify" in one:
            (notification,) = se.parse_notifications(json.dumps(one["notify"]))
            done.append(outside.session.on_notification(notification, now=outside.now))
        else:
            outside.body = json.dumps(one["document"]).encode()
        assert " ".join(done + outside.work()) == one["expect"], one
