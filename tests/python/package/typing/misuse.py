"""Mistakes that type checkers have to find: a line with ``# error`` is one, and no other line is.

test_typing.py compares this with what mypy and pyright report. The program never runs.
"""

# pyright: strict
# ruff: noqa: B018

from typing_extensions import assert_type

import scheduled_events as se


def rules() -> None:
    se.Rule("approve", event="Freeze", scope="mine")
    se.Rule(se.Action.PREPARE, event=["Reboot", se.EventType.REDEPLOY])
    se.Rule("aprove")  # error
    se.Rule("approve", event="Frezee")  # error
    se.Rule("approve", event=["Reboot", "Redploy"])  # error
    se.Rule("approve", source="Admin")  # error
    se.Rule("approve", scope="all")  # error
    se.Policy(leader="first")  # error


def sessions(notification: se.Notification) -> None:
    session = se.Session(source="notifications")
    if session.on_notification(notification) == "late":  # error
        se.Session(source="queue")  # error
    session.on_notification(notification.event)  # error


def requests(client: se.Client) -> None:
    assert_type(client.poll(), se.Document)
    client.approve("id")
    client.approve({"EventId": "id"})
    client.approve(client.poll().events)
    client.approve(b"id")  # error
    client.approve(7)  # error
    client.approve(None)  # error
    se.start_requests(7)  # error
    se.Client(timeout="5s")  # error
    se.Client(vm_names=7)  # error
    se.Client(trace=print)  # error
    se.Client(retry=3)  # error


def prepare(event: se.Event) -> None: ...


def prepare_until(event: se.Event, task: se.Task) -> bool:
    return not task.cancelled.wait(1)


def gate(event: se.Event, phase: str) -> bool:
    return phase == "approve"


def nothing() -> None: ...


def watchers(client: se.Client) -> None:
    client.watch("sample", prepare=prepare, recover=prepare_until, gate=gate)
    client.watch(prepare=nothing)  # error
    client.watch(gate=prepare)  # error
    client.watch(interval="1s")  # error
    client.watch(7)  # error
    for record in client.watch():
        if record.record == "prepare":
            assert_type(record, se.Prepare)
        if isinstance(record, se.Change):
            if record.change == "startd":  # error
                pass
            record.outcome  # error
        elif isinstance(record, se.Prepare):
            assert_type(record.attempt, int | None)
            record.phase  # error
        elif isinstance(record, se.Dropped):
            assert_type(record.count, int)
        record.event_id = "a"  # error


def steps(session: se.Session) -> None:
    step = session.next()
    if isinstance(step, se.PrepareDue):
        session.prepared(step, ready=True, attempt=step.attempt)
        assert_type(step.event, se.Event)
        step.outcome  # error
    elif isinstance(step, se.GateDue):
        session.gate_answered(step, "open")
        session.gate_answered(step, "opened")  # error
    elif isinstance(step, se.Get):
        session.on_failure("timeout")
        session.on_failure("time-out")  # error


def events(event: se.Event) -> None:
    event.event_typ  # error
    event["EventId"] = "a"  # error
    if event.not_before is not None:
        event.not_before.isoformat()
    event.not_before.isoformat()  # error


def patterns(document: se.Document, rule: se.Rule, record: se.Record) -> None:
    match document.events[0]:
        case se.Event(event_id, event_type, event_status):
            print(event_id, event_type, event_status)
    match document:
        case se.Document(incarnation, events):
            print(incarnation, events)
    match rule:
        case se.Rule(action, event, source):
            print(action, event, source)
    match record:
        case se.Change(change, event_id):
            print(change, event_id)
        case se.PollFailed(cause, retry_in_ms):
            print(cause.upper(), retry_in_ms + 1)
        case se.Dropped(count, time, machine, vm_id, more):  # error
            print(count, time, machine, vm_id, more)
        case _:
            pass
