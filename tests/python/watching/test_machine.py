"""The machine in and out of service: preparations, recoveries, attempts and the gate, in sessions and watchers."""

import asyncio
import json
import logging
import pickle
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import VM, has_prepared

import scheduled_events as se

START = 1_649_700_000
OTHER = "WestNO_1"
PREPARE = se.Policy([se.Rule("prepare")])


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(START + seconds, timezone.utc)


def event(event_id: str, **members: Any) -> "dict[str, Any]":
    usual = {"EventId": event_id, "EventStatus": "Scheduled", "EventType": "Reboot", "Resources": [VM]}
    return {**usual, "NotBefore": moment(900).strftime("%a, %d %b %Y %H:%M:%S GMT"), **members}


class Machine:
    """Drives a session with documents and a clock of its own. Requests succeed at once."""

    def __init__(self, policy: "se.Policy | str" = PREPARE, **options: Any) -> None:
        self.options = {"policy": policy, "vm_names": VM, "seed": 1, **options}
        self.session = se.Session(**self.options)
        self.now: float = START
        self.incarnation = 0
        self.body = b""
        self.polls = 0
        self.post_status = 200
        self.posted: list[tuple[str, ...]] = []

    def serve(self, *events: "dict[str, Any]") -> "list[Any]":
        """Let the next poll return these events, and return the steps that follow from it."""
        self.incarnation += 1
        self.body = json.dumps({"DocumentIncarnation": self.incarnation, "Events": events}).encode()
        self.now += 10
        return self.run()

    def run(self) -> "list[Any]":
        """Send the requests that are due, and return all other steps up to the wait for the next poll."""
        steps = []
        while not isinstance(step := self.session.next(self.now), se.Wait) or step.seconds < 0.5:
            if isinstance(step, se.Wait):
                self.now += step.seconds
            elif isinstance(step, se.Get):
                self.polls += 1
                self.session.on_response(200, self.body, now=self.now)
            elif isinstance(step, se.Post):
                if self.post_status == 200:
                    self.posted.append(step.event_ids)
                self.session.on_response(self.post_status, now=self.now)
            else:
                steps.append(step)
        return steps

    def restart(self, **options: Any) -> None:
        snapshot = self.session.snapshot()
        self.session = se.Session(**{**self.options, **options})
        self.session.restore(snapshot)


def only(kind: Any, steps: "list[Any]") -> Any:
    """The only step of this kind."""
    (found,) = [step for step in steps if isinstance(step, kind)]
    return found


def has(kind: Any, steps: "list[Any]") -> bool:
    return any(isinstance(step, kind) for step in steps)


def test_what_an_event_waits_for() -> None:
    machine = Machine()
    (due,) = [step for step in machine.serve(event("a")) if isinstance(step, se.PrepareDue)]
    (waiting,) = machine.session.waiting(machine.now)
    assert (waiting.event_id, waiting.waits_for, waiting.attempt) == ("a", "preparation", due.attempt)
    since = datetime.fromtimestamp(int(machine.now), timezone.utc)
    assert (waiting.since, waiting.until, waiting.last_call) == (since, None, False)
    assert (waiting.action, waiting.rule, waiting.reason) == (se.Action.PREPARE, 1, "a rule matches")
    assert waiting.event.event_id == "a"
    machine.session.prepared("a", False)
    (failed,) = machine.session.waiting(machine.now)
    assert (failed.since, failed.until, failed.attempt) == (None, since + timedelta(seconds=5), None)
    assert pickle.loads(pickle.dumps(failed)) == failed


def test_another_policy_decides_the_next_document() -> None:
    machine = Machine("observe")
    assert not any(isinstance(step, se.PrepareDue) for step in machine.serve(event("a")))
    machine.session.set_policy(PREPARE)
    assert any(isinstance(step, se.PrepareDue) for step in machine.serve(event("a")))
    with pytest.raises(se.PolicyError):
        machine.session.set_policy("no such policy")


@pytest.mark.parametrize("ahead", [840, 840.0, timedelta(minutes=14)])
def test_a_start_is_a_time_of_day(ahead: "float | timedelta") -> None:
    machine = Machine(se.Policy([se.Rule("prepare", prepare_before=60)]))
    assert not any(isinstance(step, se.PrepareDue) for step in machine.serve(event("a")))
    (waiting,) = machine.session.waiting(machine.now)
    assert (waiting.waits_for, waiting.until) == ("due-time", moment(840))
    machine.session.set_time_of_day_ahead(ahead)
    assert any(isinstance(step, se.PrepareDue) for step in machine.serve(event("a")))


@pytest.mark.parametrize("ahead", [float("nan"), "soon", None])
def test_what_is_no_length_of_time_is_refused(ahead: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        se.Session().set_time_of_day_ahead(ahead)


def test_two_overlapping_prepared_events_are_recovered_from_once() -> None:
    machine = Machine()
    session = machine.session
    assert session.out_of_service_since is None
    prepares = [step for step in machine.serve(event("a"), event("b")) if isinstance(step, se.PrepareDue)]
    assert [step.event_id for step in prepares] == ["a", "b"]
    assert len({step.attempt for step in prepares}) == 2
    assert session.out_of_service_since == moment(10)
    for step in prepares:
        assert session.prepared(step.event_id)
    assert not has(se.RecoverDue, machine.serve(event("b")))
    assert not has(se.RecoverDue, machine.serve(event("b", EventStatus="Started")))
    recover = only(se.RecoverDue, machine.serve())
    assert (recover.event_id, recover.event_ids, recover.own) == ("b", ("b", "a"), True)
    assert recover.event == recover.events[0]
    assert [ended.event_id for ended in recover.events] == ["b", "a"]
    assert recover == pickle.loads(pickle.dumps(recover))
    # The event is no longer in a document, so the rest is as the last one that had it says.
    assert (recover.event_type, recover.event_status, recover.resources) == ("Reboot", "Started", ("WestNO_0",))
    assert session.out_of_service_since == moment(10)
    assert not session.recovered("a")
    assert session.recovered("b", attempt=recover.attempt)
    assert not session.recovered("b")
    assert session.out_of_service_since is None
    assert machine.run() == []
    assert session.is_idle


def test_another_machine_s_event_is_recovered_from_alone() -> None:
    machine = Machine(se.Policy([se.Rule("prepare", scope="any")]))
    for step in machine.serve(event("a"), event("x", Resources=[OTHER])):
        if isinstance(step, se.PrepareDue):
            machine.session.prepared(step.event_id)
    recover = only(se.RecoverDue, machine.serve(event("a")))
    assert (recover.event_ids, recover.own) == (("x",), False)
    assert machine.session.recovered("X")
    assert machine.session.out_of_service_since == moment(10)


def test_a_change_of_type_voids_the_preparation() -> None:
    machine = Machine()
    freeze = event("a", EventType="Freeze", DurationInSeconds=9)
    first = only(se.PrepareDue, machine.serve(freeze))
    redeploy = {**freeze, "EventType": "Redeploy"}
    steps = machine.serve(redeploy)
    assert only(se.Cancel, steps) == se.Cancel(first.attempt, "a")
    assert not has(se.PrepareDue, steps)
    assert not machine.session.prepared("a", attempt=first.attempt)
    second = only(se.PrepareDue, machine.run())
    assert second.attempt != first.attempt
    assert second.event is not None
    assert second.event.event_type == "Redeploy"
    assert machine.posted == []
    machine.post_status = 500
    assert machine.session.prepared("a", attempt=second.attempt)
    machine.run()
    # It is ready, and was not approved yet.
    machine.post_status = 200
    third = only(se.PrepareDue, machine.serve({**redeploy, "EventType": "Preempt"}))
    assert machine.posted == []
    assert machine.session.prepared("a", attempt=third.attempt)
    machine.run()
    assert machine.posted == [("a",)]


def test_an_answer_to_an_outdated_attempt_counts_for_nothing() -> None:
    machine = Machine()
    first = only(se.PrepareDue, machine.serve(event("a")))
    machine.restart()
    assert not machine.session.prepared("a")
    second = only(se.PrepareDue, machine.serve(event("a")))
    assert second.attempt != first.attempt
    assert not machine.session.prepared("a", attempt=first.attempt)
    assert not machine.session.prepared("b", attempt=second.attempt)
    assert not machine.session.recovered("a", attempt=second.attempt)
    machine.run()
    assert machine.posted == []
    # Without a number, the attempt in progress is meant; ids are compared without case.
    assert machine.session.prepared("A")
    machine.run()
    assert machine.posted == [("a",)]


def test_a_failed_recovery_is_repeated() -> None:
    machine = Machine()
    machine.serve(event("a"))
    machine.session.prepared("a")
    first = only(se.RecoverDue, machine.serve())
    attempts = [first.attempt]
    for delay in (5, 10, 20):
        assert machine.session.recovered("a", done=False, attempt=attempts[-1], now=machine.now)
        machine.now += delay - 1
        assert not has(se.RecoverDue, machine.run())
        machine.now += 1
        attempts.append(only(se.RecoverDue, machine.run()).attempt)
        assert machine.session.out_of_service_since == moment(10)
    assert len(set(attempts)) == 4
    assert not machine.session.recovered("a", attempt=attempts[0])
    assert machine.session.recovered("a", attempt=attempts[-1])
    assert machine.session.out_of_service_since is None


def test_a_session_asks_its_gate_before_it_prepares_and_before_it_approves() -> None:
    machine = Machine(gate=True)
    session = machine.session
    shared = event("a", Resources=[OTHER, VM])
    gate = only(se.GateDue, machine.serve(shared))
    assert (gate.event_id, gate.phase) == ("a", "prepare")
    assert gate.event is not None
    assert gate.event.resources == (OTHER, VM)
    for wrong in (None, "yes", 1):
        with pytest.raises(ValueError, match="expected True, False or"):
            session.gate_answered("a", wrong, now=machine.now)  # type: ignore[arg-type]
    assert not session.gate_answered("a", True, attempt=gate.attempt + 1, now=machine.now)
    assert session.gate_answered("a", False, attempt=gate.attempt, now=machine.now)
    assert not session.gate_answered("a", True, now=machine.now)
    machine.now += 4
    assert not has(se.GateDue, machine.run())
    machine.now += 1
    assert only(se.GateDue, machine.run()).phase == "prepare"
    assert session.gate_answered("a", True, now=machine.now)
    assert only(se.PrepareDue, machine.run()).event_id == "a"
    assert session.prepared("a")
    assert only(se.GateDue, machine.run()).phase == "approve"
    assert session.gate_answered("a", "another-approves", now=machine.now)
    machine.now += 5
    assert only(se.GateDue, machine.run()).phase == "approve"
    polls = machine.polls
    assert session.gate_answered("a", "open", now=machine.now)
    machine.run()
    # A poll that began after the answer, and did not wait for the interval, shows the event unchanged.
    assert (machine.polls, machine.posted) == (polls + 1, [("a",)])


def test_several_machines_without_leader_are_prepared_for_and_not_approved() -> None:
    shared = event("a", Resources=[VM, OTHER])
    for leader, posted in ((None, []), ("first-resource", [("a",)])):
        machine = Machine(se.Policy([se.Rule("prepare")], leader=leader))
        steps = machine.serve(shared)
        decision = only(se.Report, [step for step in steps if has_decision(step)])
        assert decision.record.action is se.Action.PREPARE
        assert ("set a gate or leader" in decision.record.reason) == (leader is None)
        assert only(se.PrepareDue, steps).event_id == "a"
        assert machine.session.prepared("a")
        machine.run()
        machine.serve(shared)
        assert machine.posted == posted


def has_decision(step: Any) -> bool:
    return isinstance(step, se.Report) and isinstance(step.record, se.Decision)


def test_a_snapshot_of_another_machine_is_refused() -> None:
    machine = Machine(machine_id="one")
    machine.serve(event("a"))
    snapshot = machine.session.snapshot()
    for machine_id in ("one", None):
        session = se.Session(PREPARE, VM, machine_id=machine_id)
        session.restore(snapshot)
        assert session.out_of_service_since == moment(10)
    clone = se.Session(PREPARE, VM, machine_id="clone")
    with pytest.raises(se.SnapshotError, match="of another machine") as caught:
        clone.restore(snapshot)
    assert caught.value.kind == "other-machine"
    assert pickle.loads(pickle.dumps(caught.value)).kind == "other-machine"
    assert clone.out_of_service_since is None
    assert not clone.has_seen_event
    with pytest.raises(se.SnapshotError) as caught:
        clone.restore(snapshot[:-1])
    assert caught.value.kind == "damaged"


def test_what_was_ready_before_a_reboot_is_prepared_for_again() -> None:
    for boot_id, repeats in (("first", False), (None, False), ("second", True)):
        machine = Machine(boot_id="first")
        machine.post_status = 500
        machine.serve(event("a"))
        machine.session.prepared("a")
        machine.run()
        machine.restart(boot_id=boot_id)
        assert has(se.PrepareDue, machine.serve(event("a"))) == repeats


def test_recover_all_counts_events_that_were_not_prepared_for() -> None:
    for recover_all in (False, True):
        machine = Machine(se.Policy.observe(), recover_all=recover_all)
        machine.serve(event("a", EventStatus="Started"))
        assert (machine.session.out_of_service_since is not None) == recover_all
        assert has(se.RecoverDue, machine.serve()) == recover_all


def test_a_rule_may_say_how_long_before_the_start_to_act() -> None:
    policy = se.Policy([se.Rule("prepare", prepare_before="10min")])
    machine = Machine(policy)
    steps = machine.serve(event("a"))
    decisions = [step.record for step in steps if has_decision(step)]
    assert [decision.act_from for decision in decisions] == [moment(300)]
    assert "act_from" not in decisions[0].to_dict()
    assert not has(se.PrepareDue, steps)
    document = se.parse(json.dumps({"Events": [event("a")]}))
    assert policy.decide(document.events[0], VM, START).act_from == moment(300)
    assert PREPARE.decide(document.events[0], VM, START).act_from is None
    machine.now = START + 299
    assert not has(se.PrepareDue, machine.run())
    machine.now += 1
    assert only(se.PrepareDue, machine.run()).event_id == "a"


def test_a_rule_may_depend_on_the_notice() -> None:
    document = se.parse(json.dumps({"Events": [event("a"), event("b", NotBefore="")]}))
    policy = se.Policy([se.Rule("prepare", min_notice="15min", max_notice=timedelta(minutes=15)), se.Rule("ignore")])
    actions = [policy.decide(document.events[0], VM, START + late).action for late in (0, 1)]
    assert actions == ["prepare", "ignore"]
    assert policy.decide(document.events[1], VM, START).action == "ignore"


def test_rules_and_leaders_keep_their_new_members() -> None:
    rule = se.Rule("prepare", min_notice="1min", max_notice=120, prepare_before=timedelta(minutes=20), scope="any")
    text = 'Rule("prepare", min_notice=60, max_notice=120, prepare_before=1200, scope="any")'
    assert repr(rule) == text
    assert eval(text, {"Rule": se.Rule}) == pickle.loads(pickle.dumps(rule)) == rule
    assert (rule.min_notice, rule.max_notice, rule.prepare_before) == (60, 120, 1200)
    for other in (se.Rule("prepare", scope="any"), se.Rule("prepare", min_notice=60, max_notice=120, scope="any")):
        assert rule != other
        assert se.Policy([rule]) != se.Policy([other])
    toml = '[[rule]]\nmin_notice = 60\nmax_notice = "2min"\nprepare_before = "20m"\nscope = "any"\naction = "prepare"'
    assert se.Policy.from_toml(toml) == pickle.loads(pickle.dumps(se.Policy([rule]))) == se.Policy([rule])
    with pytest.raises(se.PolicyError, match="min_notice is longer than max_notice"):
        se.Rule("hold", min_notice=2, max_notice=1)
    for action in ("hold", "ignore"):
        with pytest.raises(se.PolicyError, match=f"prepare_before has no effect with the action `{action}`"):
            se.Rule(action, prepare_before="20m")
    leaders: list[Any] = [None, "first-resource", "everyone", {"mode": "rank", "take_over_after": 30}]
    policies = [se.Policy([rule], leader=leader) for leader in leaders]
    for leader, policy in zip(leaders, policies, strict=True):
        assert policy.leader == leader
        assert pickle.loads(pickle.dumps(policy)) == policy
        assert [policy == other for other in policies].count(True) == 1
    assert [repr(policy) for policy in policies[:2]] == [
        "<Policy of 1 rules>",
        "<Policy of 1 rules, leader='first-resource'>",
    ]
    assert se.Policy.sample().leader is None


OVERLAPPING = """
about = "Two reboots at once."
[[event]]
event_type = "Reboot"
resources = ["{vm}"]
appears = "20s"
notice = "15min"
starts_after_approval = "30s"
started_for = "2min"
[[event]]
event_type = "Redeploy"
resources = ["{vm}"]
appears = "40s"
notice = "15min"
starts_after_approval = "3min"
started_for = "3min"
"""


def test_a_watch_recovers_once_from_overlapping_events(tmp_path: Path) -> None:
    scenario = tmp_path / "overlapping.toml"
    scenario.write_text(OVERLAPPING)
    recovered: list[se.Event] = []
    with se.replay(scenario, speed=60) as url, se.Client(url, vm_names=VM) as client:
        options: dict[str, Any] = {"prepare": lambda _: True, "recover": recovered.append, "until_idle": True}
        records = list(client.watch(PREPARE, interval=0.2, **options))
    ids = [record.event_id for record in records if has_prepared(record)]
    assert len(ids) == 2
    assert records[-1].to_dict()["outcome"] == "done"
    recover = only(se.Recover, records)
    assert (recover.event_id, recover.event_ids) == (ids[1], (ids[1], ids[0]))
    assert [(done.event_id, done.event_type) for done in recovered] == [(ids[1], "Redeploy")]


def test_a_watch_repeats_a_recovery_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def recover(event: se.Event) -> None:
        calls.append(event.event_id)
        if len(calls) == 1:
            raise OSError("the load balancer does not respond")

    with se.replay("user-reboot", speed=60) as url, se.Client(url, vm_names=VM) as client:
        records = list(client.watch(PREPARE, prepare=lambda _: True, recover=recover, until_idle=True))
    assert [record.outcome for record in records if isinstance(record, se.Recover)] == ["failed", "done"]
    assert len(set(calls)) == 1
    (logged,) = [record for record in caplog.records if "the recovery failed" in record.message]
    assert logged.levelno == logging.ERROR


def test_a_watch_waits_for_a_cancelled_function_and_ignores_its_result() -> None:
    release = threading.Event()

    def prepare(event: se.Event) -> bool:
        release.wait(20)
        return True

    with se.replay("cancelled", speed=60) as url, se.Client(url, vm_names=VM) as client:
        kinds = []
        for record in client.watch(PREPARE, prepare=prepare, recover=lambda _: True, until_idle=True, interval=0.2):
            kinds.append(record.change if isinstance(record, se.Change) else record.record)
            if kinds[-1] == "cancelled":
                release.set()
            if has_prepared(record):
                assert record.outcome == "cancelled"
    assert kinds == ["scheduled", "decision", "prepare", "cancelled", "prepare", "recover"]


def test_a_watch_asks_its_gate(caplog: pytest.LogCaptureFixture) -> None:
    # The gate is asked again after five seconds, whatever the speed of the scenario. With less than a minute of notice,
    # the last call comes at once.
    answers: dict[str, list[Any]] = {"prepare": [OSError("no quorum"), True], "approve": ["another-approves", True]}
    asked: list[tuple[str, str, str]] = []

    def gate(event: se.Event, phase: str) -> object:
        asked.append((phase, str(event.event_type), threading.current_thread().name))
        answer = answers[phase].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    server = se.replay("user-reboot", speed=10)
    with server as url, se.Client(url, vm_names=VM) as client:
        options: dict[str, Any] = {"prepare": lambda _: asked.append(("prepared", "", "")), "gate": gate}
        records = list(client.watch(PREPARE, until_idle=True, interval=0.2, **options))
        posts = [request for request in server.requests() if request["method"] == "POST"]
    phases = [phase for phase, _, _ in asked]
    assert phases == ["prepare", "prepare", "prepared", "approve", "approve"]
    assert asked[0] == ("prepare", "Reboot", "scheduled-events")
    assert len(posts) == 1
    gates = [(record.phase, record.outcome) for record in records if isinstance(record, se.Gate)]
    assert gates == [
        ("prepare", "closed"),
        ("prepare", "open"),
        ("approve", "another-approves"),
        ("approve", "open"),
    ]
    kinds = [record.record for record in records]
    assert kinds.index("prepare") > kinds.index("gate")
    assert kinds.index("approval") == max(at for at, kind in enumerate(kinds) if kind == "gate") + 1
    assert "the gate failed" in caplog.text
    assert "no quorum" in caplog.text


def test_a_session_prepares_by_the_last_call() -> None:
    soon = event("a", NotBefore=moment(610).strftime("%Y-%m-%dT%H:%M:%SZ"))
    for last_call, expected in ((None, 310), (timedelta(minutes=2), 490), ("30s", 580), ("never", None)):
        machine = Machine(gate=True, last_call=last_call)
        steps: list[Any] = []
        while machine.now < START + 700 and not has(se.PrepareDue, steps):
            steps += machine.serve(soon)
            for step in steps:
                if isinstance(step, se.GateDue):
                    machine.session.gate_answered("a", False, attempt=step.attempt, now=machine.now)
        assert (machine.now - START if has(se.PrepareDue, steps) else None) == expected, last_call
        records = [step.record for step in steps if isinstance(step, se.Report)]
        outcomes = [(record.phase, record.outcome) for record in records if isinstance(record, se.Gate)]
        assert outcomes == ([] if expected is None else [("prepare", "last-call")])
    wrong: Any
    for wrong, error in (
        ("soon", se.ConfigError),
        (-1, se.ConfigError),
        (1.5, se.ArgumentError),
        (object(), se.ArgumentError),
    ):
        for refused in (
            lambda wrong: Machine(gate=True, last_call=wrong),
            lambda wrong: se.Client("http://127.0.0.1:1", vm_names=VM).watch(last_call=wrong),
            lambda wrong: se.aio.watch("http://127.0.0.1:1", vm_names=VM, last_call=wrong),
        ):
            with pytest.raises(error):
                refused(wrong)


def test_a_gate_that_stays_closed_approves_nothing(tmp_path: Path) -> None:
    scenario = tmp_path / "soon.toml"
    scenario.write_text(SOON)
    server = se.replay(scenario, speed=20)
    with server as url, se.Client(url, vm_names=VM) as client:
        policy = se.Policy([se.Rule("approve")])
        records = list(client.watch(policy, gate=lambda *_: False, recover_all=True, until_idle=True, interval=0.2))
        assert all(request["method"] == "GET" for request in server.requests())
    outcomes = [record.outcome for record in records if isinstance(record, (se.Gate, se.Recover))]
    # The event started at its NotBefore, and this machine recovers from it although nothing was prepared for.
    assert outcomes == ["closed", "no-command"]


SOON = """
about = "A reboot that starts after thirty seconds."
[[event]]
event_type = "Reboot"
resources = ["{vm}"]
appears = "10s"
notice = "30s"
started_for = "2min"
"""


async def open_later(event: se.Event, phase: str) -> bool:
    """Open the gate when it is awaited."""
    await asyncio.sleep(0.01)
    return True


def test_aio_awaits_its_gate() -> None:
    async def main(url: str) -> "list[Any]":
        watch = se.aio.watch(url, policy=PREPARE, prepare=lambda _: True, gate=open_later, vm_names=VM, until_idle=True)
        return [record async for record in watch]

    with se.replay("user-reboot", speed=60) as url:
        records = asyncio.run(main(url))
        assert [record.phase for record in records if isinstance(record, se.Gate)] == ["prepare", "approve"]
        assert has(se.Approval, records)
        with pytest.raises(TypeError, match="aio"):
            se.Client(url).watch(gate=open_later)
