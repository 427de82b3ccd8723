"""Trackers, policies, approvals and sessions."""

import json
import pickle
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import DOCUMENT, VM

import scheduled_events as se

START = 1_649_700_000


def document(*events: "dict[str, Any]", incarnation: int = 1) -> bytes:
    full = [{"EventStatus": "Scheduled", "EventType": "Reboot", "Resources": [VM], **event} for event in events]
    return json.dumps({"DocumentIncarnation": incarnation, "Events": full}).encode()


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_a_time_outside_of_python_s_years_hides_no_other_event(moment: str) -> None:
    body = document({"EventId": "a", "NotBefore": moment}, {"EventId": "b", "EventType": "Preempt"})
    changes = se.Tracker(vm_names=[VM]).observe(se.parse(body), now=START)
    assert [(change.event_id, change.not_before) for change in changes] == [("a", None), ("b", None)]
    session = se.Session(vm_names=VM)
    assert isinstance(session.next(START), se.Get)
    session.on_response(200, memoryview(body), now=START)
    steps = [session.next(START) for _ in range(4)]
    assert [step.record.event_id for step in steps if isinstance(step, se.Report)] == ["a", "a", "b", "b"]


def test_an_invalid_time_changes_nothing() -> None:
    tracker = se.Tracker(vm_names=[VM])
    for moment in (1e30, -1e30, 253_402_300_800, float("nan")):
        with pytest.raises(ValueError, match="years 1 to 9999"):
            tracker.observe(se.parse(DOCUMENT), now=moment)
    assert len(tracker.observe(se.parse(DOCUMENT), now=START)) == 1


def test_a_tracker_counts_the_repeated_ids_that_it_ignores() -> None:
    tracker = se.Tracker(vm_names=[VM])
    assert tracker.ignored == 0
    ids = [str(number) for number in range(66)]
    repeated = se.parse(document(*({"EventId": event_id} for event_id in [*ids, "65", "65"])))
    assert len(tracker.observe(repeated, now=START)) == 66
    assert (len(tracker), tracker.ignored) == (66, 2)
    assert tracker.observe(repeated, now=START) == []
    assert tracker.ignored == 2
    with pytest.raises(se.CapacityError):
        tracker.observe(se.parse(document(*({"EventId": str(number)} for number in range(1025)))), now=START)
    assert tracker.ignored == 2
    tracker.observe(se.parse(b'{"Events":[]}'), now=START)
    assert tracker.ignored == 0


def test_a_tracker_reports_changes() -> None:
    tracker = se.Tracker(vm_names=[VM])
    moment = datetime(2022, 4, 11, 22, 0, tzinfo=timezone.utc)
    (change,) = tracker.observe(se.parse(DOCUMENT), now=moment)
    assert isinstance(change, se.Change)
    assert (change.change, change.event_type, change.mine, change.time) == ("scheduled", "Freeze", True, moment)
    assert tracker.observe(se.parse(DOCUMENT)) == []
    assert tracker.approved("c7061bac-afdc-4513-b24b-aa5f13a16123")
    assert not tracker.approved("other")
    (gone,) = tracker.observe(se.parse(b'{"Events":[]}'), now=moment)
    assert gone.change == "ended"
    assert (change.resources, change.description) == (("WestNO_0", "WestNO_1"), "Live Migration.")
    assert list(gone.to_dict().items()) == [
        ("record", "change"),
        ("change", "ended"),
        ("event_id", "C7061BAC-AFDC-4513-B24B-AA5F13A16123"),
        ("event_type", "Freeze"),
        ("event_status", "Scheduled"),
        ("resource_type", None),
        ("resources", None),
        ("not_before", "2022-04-11T22:26:58Z"),
        ("description", None),
        ("event_source", None),
        ("duration_in_seconds", 5),
        ("mine", True),
        ("time", "2022-04-11T22:00:00Z"),
    ]
    many = se.parse(document(*({"EventId": str(number)} for number in range(1025))))
    with pytest.raises(se.CapacityError) as caught:
        tracker.observe(many)
    assert caught.value.needed == 1025


def test_records_are_frozen_values() -> None:
    change = se.Change("scheduled", "a", "Freeze", resources=("b",), time=datetime(2022, 1, 1, tzinfo=timezone.utc))
    assert change == pickle.loads(pickle.dumps(change))
    assert hash(change) == hash(pickle.loads(pickle.dumps(change)))
    assert isinstance(change, se.Record)
    assert "event_id='a'" in repr(change)
    with pytest.raises(AttributeError, match="frozen"):
        change.event_id = "b"
    with pytest.raises(AttributeError, match="frozen"):
        del change.event_id
    assert se.Prepare("a", "ready") != se.Recover("a", "ready")
    assert se.Decision(se.Action.HOLD, None, "no rule matches").event_id is None
    for wrong in ({}, {"event_id": "a", "more": 1}):
        with pytest.raises(TypeError):
            se.Prepare(**wrong)
    with pytest.raises(TypeError):
        se.Prepare("a", "b", *[None] * 13, "more")
    with pytest.raises(TypeError, match="twice"):
        se.Prepare("a", event_id="a")


def test_a_class_derived_from_a_record_has_its_fields() -> None:
    class Derived(se.Untracked):  # type: ignore[misc]
        note: str = "a"

    assert (Derived(1, 2).own, Derived(1, others=2).others, Derived.__module__) == (1, 2, __name__)
    assert Derived(1, 2) != se.Untracked(1, 2)
    assert repr(Derived(1, 2)) == "Derived(own=1, others=2, time=None, machine=None, vm_id=None)"


@pytest.mark.parametrize("now", [0, 0.5, datetime.now(timezone.utc), datetime.now(timezone(timedelta(hours=3))), None])
def test_a_time_is_a_number_or_an_aware_datetime(event: se.Event, now: Any) -> None:
    decision = se.Policy.sample().decide(event, VM, now)
    assert (decision.action, decision.rule, decision.reason) == (se.Action.APPROVE, 2, "short interruption")
    assert (decision.event, decision.mine) == (event, True)


@pytest.mark.parametrize(
    ("now", "error"),
    [(datetime(2022, 1, 1), ValueError), (float("nan"), ValueError), (float("inf"), ValueError), ("now", TypeError)],
)
def test_other_times_are_refused(event: se.Event, now: Any, error: "type[Exception]") -> None:
    with pytest.raises(error):
        se.Policy.sample().decide(event, VM, now)


def test_a_decision_has_an_action_a_rule_and_a_reason(event: se.Event) -> None:
    decision = se.Policy.observe().decide(event, vm_names=[VM], now=0)
    assert (decision.action, decision.rule, decision.reason) == ("hold", None, "the policy only observes")
    assert decision.action is se.Action.HOLD
    assert se.Policy.sample().decide(event, now=0).reason == "VM name unknown"
    assert se.Policy.sample().decide(event, ["other"], 0).reason == "another VM's event"
    assert decision.to_dict() == {
        "record": "decision",
        "event_id": event.event_id,
        "action": "hold",
        "rule": None,
        "reason": "the policy only observes",
        **{name: value for name, value in event.to_dict(VM).items() if name not in ("record", "event_id")},
    }


def test_policies_from_rules_text_and_files_are_equal(tmp_path: Path, event: se.Event) -> None:
    rules = [
        se.Rule("approve", event="Freeze", max_duration="8s"),
        se.Rule("prepare", event=["Preempt", "Reboot"], source="User", min_duration=timedelta(minutes=1), scope="any"),
    ]
    policy = se.Policy(rules, leader={"mode": "rank", "take_over_after": "30s"})
    assert policy.decide(event, VM, 0).rule == 1
    text = """
        leader = { mode = "rank", take_over_after = 30 }
        [[rule]]
        event = "Freeze"
        max_duration = 8
        action = "approve"
        [[rule]]
        event = ["Preempt", "Reboot"]
        source = "User"
        min_duration = "1min"
        scope = "any"
        action = "prepare"
    """
    assert policy == se.Policy.from_toml(text)
    assert policy != se.Policy(rules)
    file = tmp_path / "policy.toml"
    file.write_text(text)
    assert se.Policy.from_file(file) == se.Policy.from_file(str(file)) == policy
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert pickle.loads(pickle.dumps(se.Policy.sample())) == se.Policy.sample()
    assert se.Policy() == se.Policy.observe() == se.Policy.from_toml("")
    assert repr(se.Policy.sample()) == "Policy.sample()"
    assert se.Policy(leader="everyone") != se.Policy()
    assert pickle.loads(pickle.dumps(rules)) == rules
    assert rules[0] != rules[1]
    assert {rules[0], se.Rule("approve", event=["Freeze"], max_duration=8)} == {rules[0]}
    assert (rules[0].action, rules[0].event, rules[0].max_duration, rules[0].scope) == (
        "approve",
        ["Freeze"],
        8,
        "mine",
    )
    assert repr(rules[0]) == 'Rule("approve", event=["Freeze"], max_duration=8)'


def test_invalid_policies_are_refused(tmp_path: Path) -> None:
    with pytest.raises(se.PolicyError) as caught:
        se.Policy.from_toml('[[rule]]\naction = "aprove"')
    assert (caught.value.line, caught.value.column) == (2, 10)
    file = tmp_path / "policy.toml"
    file.write_text("rule = 3")
    with pytest.raises(se.PolicyError, match=r"policy\.toml:1:8"):
        se.Policy.from_file(file)
    with pytest.raises(FileNotFoundError):
        se.Policy.from_file(tmp_path / "none.toml")
    *event_types, advice = se.EventType
    known = ", ".join([*event_types, "Other", advice])
    wrong: dict[str, dict[str, Any]] = {
        'unknown action "aprove"; expected one of approve, prepare, hold, ignore': {"action": "aprove"},
        f'unknown event "Frezee"; expected one of {known}': {"event": "Frezee"},
        'unknown source "Nobody"; expected one of Platform, User, Other': {"source": ["User", "Nobody"]},
        'unknown scope "mine\'"; expected one of mine, others, any': {"scope": "mine'"},
        "event: an empty list matches nothing; omit it to match everything": {"event": []},
        "source: an empty list": {"source": []},
        '"8 parsecs" is not a duration': {"max_duration": "8 parsecs"},
        "a duration is 0 to 4294967295 seconds, not -1": {"max_duration": -1},
        "is not a whole number of seconds": {"max_duration": timedelta(seconds=0.5)},
        "min_duration is longer than max_duration": {"min_duration": 2, "max_duration": 1},
    }
    for message, options in wrong.items():
        with pytest.raises(se.PolicyError, match=re.escape(message)):
            se.Rule(**{"action": "hold", **options})
    leaders: dict[str, Any] = {
        'unknown leader "first"; expected first-resource, rank or everyone': "first",
        "take_over_after is only valid with the mode": {"mode": "everyone", "take_over_after": 3},
        "leader has no mode": {},
        'unknown key "after" of leader': {"mode": "rank", "after": 3},
    }
    for message, leader in leaders.items():
        with pytest.raises(se.PolicyError, match=re.escape(message)):
            se.Policy(leader=leader)
    assert se.Policy(leader="rank") == se.Policy(leader={"mode": "rank", "take_over_after": timedelta(seconds=30)})
    with pytest.raises(se.PolicyError, match="32"):
        se.Policy([se.Rule("hold")] * 33)


def test_start_requests_writes_the_request_body(event: se.Event) -> None:
    assert se.start_requests(["a", 'b"\\\n']) == rb'{"StartRequests":[{"EventId":"a"},{"EventId":"b\"\\\n"}]}'
    one = b'{"StartRequests":[{"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123"}]}'
    assert se.start_requests(event) == se.start_requests(event.event_id) == se.start_requests([event]) == one


def test_a_session_from_start_to_end() -> None:
    policy = se.Policy([se.Rule("prepare")])
    session = se.Session(policy, VM, interval=1.0, seed=1)
    now: float = START
    reported: list[str] = []
    bodies = [
        document(),
        document({"EventId": "a", "NotBefore": "Tue, 12 Apr 2022 22:26:58 GMT"}, incarnation=2),
        document({"EventId": "a", "EventStatus": "Started", "NotBefore": ""}, incarnation=3),
        document(incarnation=4),
    ]
    at, approved = 0, False
    for _ in range(60):
        step = session.next(now)
        if isinstance(step, se.Get):
            assert step.timeout > 1
            at = min(at + (approved or at == 0), len(bodies) - 1)
            assert session.awaits_answer
            assert session.on_response(200, bodies[at], now=now) is None
        elif isinstance(step, se.Post):
            assert step.body == se.start_requests("a")
            assert step.event_ids == ("a",)
            approved = True
            answer = session.on_response(200, now=now)
            assert isinstance(answer, se.Approval)
            assert (answer.event_ids, answer.status) == (("a",), 200)
        elif isinstance(step, se.PrepareDue):
            assert step.event is not None
            assert step.event.resources == (VM,)
            assert step.event.not_before == datetime(2022, 4, 12, 22, 26, 58, tzinfo=timezone.utc)
            assert step.event["NotBefore"] == "Tue, 12 Apr 2022 22:26:58 GMT"
            snapshot = session.snapshot()
            assert session.prepared(step.event_id, ready=True)
            assert not session.prepared(step.event_id)
            restored = se.Session(policy, VM)
            restored.restore(snapshot)
            assert restored.has_seen_event
        elif isinstance(step, se.RecoverDue):
            reported.append("recover")
            assert session.recovered(step.event_id)
        elif isinstance(step, se.Wait):
            now += max(step.seconds, 0.001)
        else:
            record = step.record
            reported.append(record.change if isinstance(record, se.Change) else record.record)
        if "recover" in reported and session.is_idle:
            break
    assert reported == ["scheduled", "decision", "started", "completed", "recover"]


def test_advice_is_prepared_for_and_never_approved() -> None:
    event = {"EventId": "a", "EventStatus": "Advisory", "EventType": "SpotRebalanceRecommendation", "Resources": [VM]}
    (advice,) = se.parse(document(event)).events
    assert (advice.event_type, advice.event_status) == (se.EventType.SPOT_REBALANCE_RECOMMENDATION, "Advisory")
    assert advice.is_advice
    named = se.Rule("prepare", event="SpotRebalanceRecommendation")
    for policy, expected in [
        (se.Policy([se.Rule("approve")]), ["advised", "hold"]),
        (se.Policy([named, se.Rule("approve")]), ["advised", "prepare", "PrepareDue"]),
    ]:
        session = se.Session(policy, VM, seed=1)
        now, done = START, []
        bodies = [document(event), document(event), document(incarnation=2)]
        while bodies or not session.is_idle:
            step = session.next(now)
            if isinstance(step, se.Get):
                assert step.api_version == ("2024-07-09" if "prepare" in expected else "2020-07-01")
                session.on_response(200, bodies.pop(0), now=now)
            elif isinstance(step, se.Wait):
                now = step.until.timestamp()
            elif isinstance(step, (se.PrepareDue, se.RecoverDue)):
                done.append(type(step).__name__)
                answer = session.prepared if isinstance(step, se.PrepareDue) else session.recovered
                assert answer(step.event_id, True)
            else:
                assert isinstance(step, se.Report)
                record = step.record
                assert isinstance(record, (se.Change, se.Decision))
                done.append(str(record.change if isinstance(record, se.Change) else record.action))
        assert done == [*expected, "advice-withdrawn", *(["RecoverDue"] if "prepare" in expected else [])]


def test_a_session_falls_back_where_the_service_does_not_know_the_version() -> None:
    for status in (400, 404):
        session = se.Session(vm_names=VM, needs_advice=True)
        now, versions, reports = START, [], []
        while len(versions) < 3:
            step = session.next(now)
            if isinstance(step, se.Get):
                versions.append((step.api_version, round(now - START, 1)))
                known = step.api_version == "2020-07-01"
                session.on_response(200 if known else status, document() if known else b"", now=now)
            elif isinstance(step, se.Wait):
                now = min(now + 0.1, now + step.seconds)
            else:
                assert isinstance(step, se.Report)
                reports.append(step.record)
        assert [version for version, _ in versions] == ["2024-07-09", "2020-07-01", "2020-07-01"]
        assert versions[1][1] <= 0.3
        assert [report.to_dict()["api_version"] for report in reports] == ["2024-07-09"]
        assert isinstance(reports[0], se.NoAdvice)
    step = se.Session(api_version="2019-08-01", needs_advice=True).next()
    assert isinstance(step, se.Get)
    assert step.api_version == "2019-08-01"
    with pytest.raises(se.ConfigError, match="API version"):
        se.Session(api_version="")


def test_a_preview_that_is_never_answered_is_asked_for_in_the_other_version_and_pauses() -> None:
    """Fault 30 of tests/field-faults.md."""
    session = se.Session(vm_names=VM, needs_advice=True)
    now = START
    for _ in range(4):
        step = session.next(now)
        while isinstance(step, se.Wait):
            now = step.until
            step = session.next(now)
        assert isinstance(step, se.Get)
        assert step.api_version == "2024-07-09"
        assert session.repeat_version == "2020-07-01"
        assert session.advice_unseen_since is None
        assert session.on_response(200, '{"Events":[]}', now=now, repeated=True) is None
    assert session.advice_unseen_since is not None
    assert session.advice_unseen_since.timestamp() == START
    step = session.next(now)
    assert isinstance(step, se.Wait)
    step = session.next(step.until)
    assert isinstance(step, se.Get)
    assert step.api_version == "2020-07-01"


def test_a_session_backs_off_after_failures() -> None:
    session = se.Session("sample")
    causes = ["timeout", TimeoutError(), ConnectionRefusedError(), ConnectionResetError(), OSError(), "too-large"]
    expected = ["timeout", "timeout", "unreachable", "connection-lost", "unreachable", "too-large"]
    found = []
    now: float = START
    for cause in causes:
        while not isinstance(step := session.next(now), se.Get):
            assert isinstance(step, se.Wait)
            now += step.seconds
        failed = session.on_failure(cause, now)
        assert isinstance(failed, se.PollFailed)
        assert failed.retry_in_ms > 0
        found.append(failed.cause)
    assert found == expected
    while not isinstance(step := session.next(now), se.Get):
        now += getattr(step, "seconds", 0)
    failed = session.on_response(503, "busy", retry_after=7.5, now=now)
    assert isinstance(failed, se.PollFailed)
    assert failed.cause == "status-503"
    assert failed.retry_in_ms >= 7500
    while not isinstance(step := session.next(now), se.Get):
        now += getattr(step, "seconds", 0)
    unchanged = session.on_response(304, now=now)
    assert isinstance(unchanged, se.PollFailed)
    assert unchanged.cause == "status-304"
    with pytest.raises(ValueError, match="unknown cause"):
        session.on_failure("why")
    with pytest.raises(se.SnapshotError):
        session.restore(b"nothing")
    with pytest.raises(se.ConfigError):
        se.Session(interval=0.1)
    with pytest.raises(se.ConfigError):
        se.Session(vm_names=["x" * 200])
    with pytest.raises(ValueError, match="positive"):
        se.Session(interval=-1)
    with pytest.raises(ValueError, match="must not be empty"):
        se.Session(vm_names=[""])
    session.set_names("vm")
    assert isinstance(se.Session().next(), se.Get)
    assert isinstance(se.Session(se.Policy.sample()).next(datetime.now(timezone.utc)), se.Get)
