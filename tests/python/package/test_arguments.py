"""What calls accept and refuse: events as arguments, errors under one base, functions with a task, options."""

import json
import logging
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import DOCUMENT, VM, eventually, has_prepared

import scheduled_events as se

PREPARE = se.Policy([se.Rule("prepare")])
ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
BODY = b'{"StartRequests":[{"EventId":"' + ID.encode() + b'"}]}'


def forms() -> "list[Any]":
    """One event, in each form that a call accepts."""
    document = se.parse(DOCUMENT)
    (change,) = se.Tracker(VM).observe(document, now=0)
    session = se.Session(PREPARE, VM)
    decision = se.Policy.observe().decide(document.events[0], VM, 0)
    assert session.events == ()
    return [ID, document.events[0], json.loads(DOCUMENT)["Events"][0], {"EventId": ID}, change, decision]


def test_an_event_is_approved_by_whatever_it_is() -> None:
    for form in forms():
        assert se.start_requests(form) == BODY
        assert se.start_requests([form]) == BODY
        assert se.start_requests(iter((form,))) == BODY
    events = json.loads(DOCUMENT)["Events"]
    with se.replay("user-reboot", speed=60) as url, se.Client(url) as client:
        while not (document := client.poll()).events:
            pass
        client.approve(json.loads(bytes(document))["Events"])
        client.approve({"EventId": document.events[0].event_id, "EventStatus": "Scheduled"})
        for wrong in (json.loads(DOCUMENT), se.parse(DOCUMENT), {"EventStatus": "Scheduled"}, {}, b"id", 7, None):
            with pytest.raises(TypeError) as caught:
                client.approve(wrong)  # type: ignore[arg-type]
            assert isinstance(caught.value, se.Error)
            with pytest.raises(se.ArgumentError):
                se.start_requests(wrong)  # type: ignore[arg-type]
        for wrong in ([b"id"], [None], [{"EventId": 7}], [["nested"]]):
            with pytest.raises(se.ArgumentError):
                client.approve(wrong)  # type: ignore[arg-type]
        with pytest.raises(se.ArgumentError, match=r"a document has \.events"):
            client.approve(document)
        for nothing in ([], "", [""], ({},)[:0]):
            with pytest.raises(ValueError, match="at least one event") as refused:
                client.approve(nothing)
            assert isinstance(refused.value, se.Error)
    assert events == json.loads(DOCUMENT)["Events"]


def test_sessions_and_trackers_take_events_too() -> None:
    for form in forms():
        session = se.Session(PREPARE, VM, seed=1)
        now = 1_649_700_000.0
        while not isinstance(step := session.next(now), se.PrepareDue):
            if isinstance(step, se.Get):
                session.on_response(200, DOCUMENT, now=now)
            elif isinstance(step, se.Wait):
                now += step.seconds
        assert session.prepared(form, attempt=step.attempt)
        assert not session.prepared(step)
        assert [followed.event_id for followed in session.events] == [ID]
        (followed,) = session.events
        assert isinstance(followed, se.EventRecord)
        assert (followed.event_type, followed.resources, followed.mine) == ("Freeze", (VM, "WestNO_1"), True)
        assert followed.description == "Live Migration."
        with pytest.raises(se.ArgumentError):
            session.prepared(7)  # type: ignore[arg-type]
        tracker = se.Tracker(VM)
        tracker.observe(se.parse(DOCUMENT), now=0)
        assert tracker.approved(form)


REFUSED: "list[Any]" = [
    lambda client: se.Client(timeout=0),
    lambda client: se.Client(timeout="soon"),  # type: ignore[arg-type]
    lambda client: se.Client(vm_names=b"WestNO_0"),  # type: ignore[arg-type]
    lambda client: se.Client(vm_names=[b"WestNO_0"]),  # type: ignore[list-item]
    lambda client: se.Client(vm_names=7),  # type: ignore[arg-type]
    lambda client: se.Client(vm_names=""),
    lambda client: se.Client(retries=-1),
    lambda client: se.Client(retries=1.5),  # type: ignore[arg-type]
    lambda client: se.Client(user_agent="a\nb"),
    lambda client: se.Client(trace="log"),  # type: ignore[arg-type]
    lambda client: client.approve([]),
    lambda client: client.watch(interval=0),
    lambda client: client.watch(interval=0.1),
    lambda client: client.watch(interval=float("nan")),
    lambda client: client.watch(interval=None),
    lambda client: client.watch(max_polls=-1),
    lambda client: client.watch(max_polls=2**70),
    lambda client: client.watch(max_polls="3"),
    lambda client: client.watch("sampel"),
    lambda client: client.watch(7),
    lambda client: client.watch(prepare="drain.sh"),
    lambda client: client.watch(prepare=lambda: None),
    lambda client: client.watch(recover=lambda a, b, c: None),
    lambda client: client.watch(gate=lambda event: True),
    lambda client: se.aio.watch(interval=0),
    lambda client: se.aio.watch(timeout=0),
    lambda client: se.aio.watch(policy="sampel"),
    lambda client: se.aio.watch(max_polls=-1),
    lambda client: se.aio.watch(gate=lambda: True),
    lambda client: se.Session(interval=0),
    lambda client: se.Session(vm_names=b"WestNO_0"),  # type: ignore[arg-type]
    lambda client: se.Session().on_failure("nonsense"),  # type: ignore[arg-type]
    lambda client: se.Rule("aprove"),  # type: ignore[arg-type]
    lambda client: se.Rule("hold", event="Frezee"),  # type: ignore[arg-type]
    lambda client: se.Rule("hold", scope="all"),  # type: ignore[arg-type]
    lambda client: se.Tracker(vm_names=b"WestNO_0"),  # type: ignore[arg-type]
    lambda client: se.parse(None),  # type: ignore[arg-type]
    lambda client: se.replay("preempt", listen="here"),
]


@pytest.mark.parametrize("call", REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_is_an_error_of_the_package_at_the_call(call: Any, tmp_path: Path) -> None:
    with se.Client("http://127.0.0.1:9", vm_names=VM) as client, pytest.raises(se.Error) as caught:
        call(client)
    assert isinstance(caught.value, (ValueError, TypeError))


def test_a_misspelled_policy_is_suggested() -> None:
    for name, nearest in (("sampel", "sample"), ("observed", "observe")):
        with pytest.raises(se.PolicyError, match=f"did you mean `{nearest}`"):
            se.Client("http://127.0.0.1:9").watch(name)
        with pytest.raises(se.PolicyError, match=f"did you mean `{nearest}`"):
            se.Session(name)


def test_a_function_that_takes_a_task_gets_its_deadline_and_its_events() -> None:
    tasks: dict[str, se.Task] = {}

    class Service:
        def drain(self, event: se.Event, task: se.Task) -> None:
            assert task.event == event
            tasks["prepare"] = task

        def __call__(self, event: se.Event, phase: str, task: se.Task) -> bool:
            tasks[f"gate {phase}"] = task
            return True

    def recover(event: se.Event, task: "se.Task | None" = None) -> None:
        assert task is not None
        tasks["recover"] = task

    service = Service()
    with se.replay("user-reboot", speed=60) as url, se.Client(url, vm_names=VM) as client:
        watch = client.watch(PREPARE, prepare=service.drain, recover=recover, gate=service, until_idle=True)
        (scheduled, *_) = [record for record in watch if isinstance(record, se.Change)]
    assert set(tasks) == {"prepare", "recover", "gate prepare", "gate approve"}
    assert tasks["prepare"].deadline == scheduled.not_before == tasks["gate approve"].deadline
    assert tasks["recover"].deadline is None
    assert [event.event_id for event in tasks["recover"].events] == [scheduled.event_id]
    assert not tasks["prepare"].cancelled.is_set()


def test_a_function_without_need_for_a_task_gets_none() -> None:
    calls: list[tuple[Any, ...]] = []

    def optional(event: se.Event, dry: bool = False) -> None:
        calls.append((event, dry))

    def several(*arguments: Any) -> None:
        calls.append(arguments)

    workers = [(optional, 2), (several, 1), (partial(lambda extra, event: calls.append((event,)), 0), 1)]
    for worker, count in workers:
        with se.replay("user-reboot", speed=300) as url, se.Client(url, vm_names=VM) as client:
            for record in client.watch(PREPARE, prepare=worker, interval=0.2):
                if has_prepared(record):
                    assert record.outcome == "ready"
                    break
        assert len(calls.pop()) == count


@pytest.mark.parametrize("scenario", ["cancelled", "user-reboot"])
def test_a_task_is_cancelled_when_its_event_ends_or_the_watcher_stops(scenario: str) -> None:
    given: list[se.Task] = []

    def prepare(event: se.Event, task: se.Task) -> bool:
        given.append(task)
        return not task.cancelled.wait(60)

    with se.replay(scenario, speed=60) as url, se.Client(url, vm_names=VM) as client:
        watch = client.watch(PREPARE, prepare=prepare, until_idle=True, interval=0.2)
        if scenario == "cancelled":
            assert [record.outcome for record in watch if has_prepared(record)] == ["cancelled"]
        else:
            eventually("the preparation", lambda: given)
            watch.close()
        assert given[0].cancelled.wait(60)
        assert "cancelled>" in repr(given[0])


def test_retries_repeat_what_may_succeed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    faults = ["get.status:503@1", "get.empty@2", "get.not-json@3", "get.retry-after:99@4", "name.status:500@1"]
    server = se.replay("preempt", faults=faults)
    with server as url, se.Client(url, retries=4) as client:
        assert isinstance(client.poll(), se.Document)
        assert client.vm_name() == VM
        with pytest.raises(se.EndpointError, match="400"):
            client.approve("NO-SUCH-EVENT")
        assert [request["method"] for request in server.requests()].count("POST") == 1
    assert len(pauses) == 5
    assert all(0.5 < pause <= 10 for pause in pauses)
    assert pauses[3] == 10
    with se.replay("preempt", faults=["status:503"]) as url, se.Client(url, retries=1) as client:
        with pytest.raises(se.EndpointError) as caught:
            client.poll()
        assert (caught.value.status, caught.value.retry_after) == (503, None)


def test_the_user_agent_is_sent_and_the_trace_has_a_line_for_each_request(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("my.agent")
    options: dict[str, Any] = {"user_agent": "my-agent/1.0", "trace": logger}
    server = se.replay("user-reboot", speed=60, faults=["get.status:503@2"])
    with server as url, se.Client(url, **options) as client, caplog.at_level(logging.DEBUG, "my.agent"):
        client.poll()
        with pytest.raises(se.EndpointError):
            client.poll()
        lines = [record.getMessage() for record in caplog.records if record.name == "my.agent"]
        list(client.watch("sample", until_idle=True))
        agents = {value for request in server.requests() for name, value in request["headers"] if name == "user-agent"}
        posts = [request for request in server.requests() if request["method"] == "POST"]
    path = "/metadata/scheduledevents?api-version=2020-07-01"
    assert len(lines) == 2
    assert lines[0].startswith(f"GET {path} 200 ")
    assert lines[0].endswith(" ms 37 bytes")
    assert lines[1].startswith(f"GET {path} 503 ")
    assert agents == {"my-agent/1.0"}
    watched = [record.getMessage() for record in caplog.records if record.name == "my.agent"][2:]
    assert watched[0].startswith("GET /metadata/instance/compute/name?")
    assert len([line for line in watched if line.startswith(f"POST {path} 200 ")]) == len(posts) == 1


def test_names_are_found_by_dir_and_the_lazy_module() -> None:
    assert {"watch", "Watch"} <= set(dir(se.aio))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: se.Rule(5), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: se.Rule("hold", event=5), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: se.Rule("hold", max_duration=8.5), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: se.Rule("hold", max_duration=10**30), se.ArgumentError),
        (lambda: se.Policy(None), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: se.Policy(leader=5), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: se.Policy.from_toml(b""), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: se.Policy.from_file("nul\0.toml"), se.PolicyError),
        (lambda: se.Policy.sample().decide(json.loads(DOCUMENT)["Events"][0], VM), se.ArgumentError),
        (lambda: se.Tracker(VM).observe(json.loads(DOCUMENT)), se.ArgumentError),
        (lambda: se.Session(interval="1"), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: se.Session(policy=5), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: se.Session(seed=-1), se.ArgumentError),
        (lambda: se.Session().on_response(99_999), se.ArgumentError),
        (lambda: se.Session().on_response(200, [1]), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: se.Session().on_response(503, retry_after="5"), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: se.Session().prepared(ID, attempt=-1), se.ArgumentError),
        (lambda: se.Session().restore("x"), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: se.replay("preempt", seed=-1), se.ArgumentError),
        (lambda: se.replay("preempt", faults="empty"), se.ArgumentError),
        # A lone surrogate, which UTF-8 does not have.
        (lambda: se.start_requests("\ud800"), se.ConfigError),
        (lambda: se.start_requests({"EventId": "\ud800"}), se.ConfigError),
        (lambda: se.Client(endpoint="http://\ud800"), se.ConfigError),
        (lambda: se.Client(vm_names="\ud800"), se.ConfigError),
        (lambda: se.Tracker(["\ud800"]), se.ConfigError),
        (lambda: se.Session("\ud800"), se.ConfigError),
        (lambda: se.Rule("hold", event="\ud800"), se.ConfigError),
        (lambda: se.parse(DOCUMENT).concerns("\ud800"), se.ConfigError),
    ],
)
def test_what_the_interpreter_refuses_has_the_package_s_base(call: "Any", error: "type[se.Error]") -> None:
    with pytest.raises(se.Error) as caught:
        call()
    assert type(caught.value) is error, caught.value


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("action", lambda: se.Rule(5)),  # type: ignore[arg-type]
        ("event", lambda: se.Rule("hold", event=5)),  # type: ignore[arg-type]
        ("source", lambda: se.Rule("hold", source=5)),  # type: ignore[arg-type]
        ("scope", lambda: se.Rule("hold", scope="X")),  # type: ignore[arg-type]
        ("max_duration", lambda: se.Rule("hold", max_duration="x")),
        ("min_notice", lambda: se.Rule("hold", min_notice=-1)),
        ("rules", lambda: se.Policy(None)),  # type: ignore[arg-type]
        ("leader", lambda: se.Policy(leader=5)),  # type: ignore[arg-type]
        ("take_over_after", lambda: se.Policy(leader={"mode": "rank", "take_over_after": "x"})),
        ("text", lambda: se.Policy.from_toml(b"")),  # type: ignore[arg-type]
        ("path", lambda: se.Policy.from_file(5)),  # type: ignore[arg-type]
        ("now", lambda: se.Policy.sample().decide(se.parse(DOCUMENT).events[0], VM, "x")),  # type: ignore[arg-type]
        ("vm_names", lambda: se.Tracker(5)),  # type: ignore[arg-type]
        ("vm_names", lambda: se.parse(DOCUMENT).concerns(5)),  # type: ignore[arg-type]
        ("event_id", lambda: se.Session().prepared(5)),  # type: ignore[arg-type]
        ("policy", lambda: se.Session(policy=5)),  # type: ignore[arg-type]
        ("last_call", lambda: se.Session(last_call=5.5)),  # type: ignore[arg-type]
        ("prepare_retries", lambda: se.Session(prepare_retries=-1)),
        ("body", lambda: se.Session().on_response(200, [1])),  # type: ignore[arg-type]
        ("cause", lambda: se.Session().on_failure("late")),  # type: ignore[arg-type]
        ("answer", lambda: se.Session().gate_answered(ID, "maybe")),  # type: ignore[arg-type]
        ("data", lambda: se.parse(5)),  # type: ignore[arg-type]
        ("resource_id", lambda: se.acknowledge_request("x", ID)),
        ("events", lambda: se.start_requests(7)),  # type: ignore[arg-type]
        ("events", lambda: se.Client().approve([])),
        ("scenario", lambda: se.replay("no-such")),
        ("speed", lambda: se.replay("preempt", speed="x")),  # type: ignore[arg-type]
        ("faults", lambda: se.replay("preempt", faults="empty")),
        ("faults", lambda: se.replay("preempt", faults=["no-such"])),
        ("listen", lambda: se.replay("preempt", listen="x")),
        ("newest_api_version", lambda: se.replay("preempt", newest_api_version="x")),
        ("endpoint", lambda: se.Client(5)),  # type: ignore[arg-type]
        ("timeout", lambda: se.Client(timeout="5s")),  # type: ignore[arg-type]
        ("vm_names", lambda: se.Client(vm_names=7)),  # type: ignore[arg-type]
        ("user_agent", lambda: se.Client(user_agent="a\nb")),
        ("retries", lambda: se.Client(retries="x")),  # type: ignore[arg-type]
        ("trace", lambda: se.Client(trace=print)),  # type: ignore[arg-type]
        ("policy", lambda: se.Client().watch(5)),  # type: ignore[arg-type]
        ("prepare", lambda: se.Client().watch(prepare=lambda: 0)),  # type: ignore[misc,arg-type]
        ("last_call", lambda: se.Client().watch(last_call="x")),
        ("interval", lambda: se.Client().watch(interval="x")),  # type: ignore[arg-type]
        ("interval", lambda: se.Client().watch(interval=0.1)),
        ("max_polls", lambda: se.Client().watch(max_polls=-1)),
        ("state", lambda: se.Client().watch(state=5)),  # type: ignore[arg-type]
        ("until_idle", lambda: se.Client().watch(until_idle="x")),  # type: ignore[arg-type]
    ],
)
def test_an_error_names_the_argument(name: str, call: "Any") -> None:
    with pytest.raises(se.Error) as caught:
        call()
    assert name in re.findall(r"\w+", str(caught.value))
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


def test_an_error_keeps_the_notes_of_its_users() -> None:
    error = se.ConfigError("a problem")
    error.add_note("seen at start")
    assert (str(error), error.__notes__) == ("a problem", ["seen at start"])


def test_a_document_has_no_member_with_a_lone_surrogate(document: se.Document, event: se.Event) -> None:
    for mapping in (document, event):
        assert "\ud800" not in mapping
        assert mapping.get("\ud800") is None
        with pytest.raises(KeyError):
            mapping["\ud800"]
