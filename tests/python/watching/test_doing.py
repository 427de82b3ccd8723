"""The client and its watchers, against the replay server."""

import asyncio
import gc
import http.server
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE, VM, eventually, has_prepared

import scheduled_events as se

PREPARE = se.Policy([se.Rule("prepare")])


def test_a_rule_that_names_advice_asks_for_the_version_that_shows_it() -> None:
    policy = se.Policy([se.Rule("prepare", event="SpotRebalanceRecommendation")])
    done: list[tuple[str, str | None]] = []
    server = se.replay("rebalance-withdrawn", speed=40, vm_name=VM, newest_api_version="2024-07-09")
    with server as url, se.Client(url) as client:
        watch = client.watch(
            policy,
            prepare=lambda event: done.append(("prepare", event.event_type)),
            recover=lambda event: done.append(("recover", event.event_type)),
            until_idle=True,
        )
        records = list(watch)
    changes = [record.change for record in records if isinstance(record, se.Change)]
    assert changes == ["advised", "advice-withdrawn"]
    assert done == [("prepare", "SpotRebalanceRecommendation"), ("recover", "SpotRebalanceRecommendation")]
    assert not [record for record in records if isinstance(record, se.Approval)]


def test_a_client_polls_and_approves() -> None:
    with se.replay("user-reboot", speed=60, vm_name="web_0") as url, se.Client(url, timeout=5) as client:
        assert client.vm_name() == "web_0"
        assert client.endpoint == url
        first = client.poll()
        assert first["Events"] == []
        documents = [first]
        while not documents[-1].events:
            documents.append(client.poll())
        event = documents[-1].events[0]
        client.approve(event)
        client.approve([event.event_id])
        with pytest.raises(se.EndpointError) as caught:
            client.approve("NO-SUCH-EVENT")
        assert (caught.value.status, caught.value.cause) == (400, "status-400")
    with pytest.raises(se.Error, match="closed"):
        client.poll()
    assert repr(client) == "<Client closed>"
    assert se.Client("http://127.0.0.1:1", vm_names="given").vm_name() == "given"


@pytest.mark.parametrize(
    ("fault", "status", "cause"),
    [
        ("status:429", 429, "status-429"),
        ("status:500", 500, "status-500"),
        ("status:304", 304, "status-304"),
        ("empty", 200, "empty-body"),
        ("reset", None, "connection-lost"),
        ("silence", None, "timeout"),
        ("redirect:302", 302, "redirect-302"),
        ("endless-body", None, ("too-large", "timeout")),
    ],
)
def test_an_endpoint_s_failure_has_a_status_or_a_cause(fault: str, status: "int | None", cause: Any) -> None:
    timeout = 0.5 if fault in ("silence", "endless-body") else 30
    with se.replay("preempt", faults=[fault]) as url, se.Client(url, timeout=timeout) as client:
        with pytest.raises(se.EndpointError) as caught:
            client.poll()
        assert caught.value.status == status
        assert caught.value.cause in (cause if isinstance(cause, tuple) else (cause,))


def test_a_first_poll_does_not_wait_for_one_connection() -> None:
    """Fault 30 of tests/field-faults.md."""
    with se.replay("user-reboot", faults=["get.silence@1"]) as url:
        since = time.monotonic()
        assert isinstance(se.Client(url).poll(), se.Document)
        assert 4 < time.monotonic() - since < 60


def test_a_poll_returns_a_document_or_raises() -> None:
    with se.replay("preempt", faults=["empty@1", "not-json@2", "status:304@3"]) as url, se.Client(url) as client:
        with pytest.raises(se.EndpointError, match="empty body"):
            client.poll()
        with pytest.raises(se.ParseError):
            client.poll()
        with pytest.raises(se.EndpointError, match="304"):
            client.poll()
        assert client.poll() == client.poll()
        assert isinstance(client.poll(), se.Document)
    with pytest.raises(se.EndpointError) as caught:
        se.Client(url, timeout=2).poll()
    assert caught.value.cause == "unreachable"
    with pytest.raises(se.EndpointError, match=r"cannot determine this machine's own name \(") as caught:
        se.Client(url, timeout=2).vm_name()
    assert caught.value.cause == "no-name"


def test_invalid_options_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for endpoint in ("https://169.254.169.254", "http://example.com", "nothing"):
        with pytest.raises(se.ConfigError):
            se.Client(endpoint)
    assert se.Client("http://10.1.2.3", allow_endpoint=True).endpoint == "http://10.1.2.3"
    with pytest.raises(se.ConfigError):
        se.Client(api_version="2020&x")
    monkeypatch.setenv("SCHEDULED_EVENTS_ENDPOINT", "http://127.0.0.1:9")
    client = se.Client()
    assert client.endpoint == "http://127.0.0.1:9"
    with pytest.raises(se.ConfigError):
        client.watch(interval=0.1)
    with pytest.raises(ValueError, match="positive"):
        client.watch(interval=0)
    with pytest.raises(FileNotFoundError):
        client.watch(policy="no-such-file.toml")
    with pytest.raises(se.StateError):
        client.watch(state=tmp_path / "no" / "folder" / "state")
    with client.watch(state=tmp_path / "state"), pytest.raises(se.StateError, match="in use"):
        client.watch(state=tmp_path / "state")
    with pytest.raises(se.ConfigError, match=r'no scenario and no file "prempt"; did you mean "preempt"\?'):
        se.replay("prempt")
    with pytest.raises(se.ConfigError, match="cannot read"):
        se.replay(tmp_path)
    with pytest.raises(se.ConfigError):
        se.replay("preempt", faults=["statsu:1"])
    with pytest.raises(se.ConfigError):
        se.replay("preempt", speed=0)
    with pytest.raises(ValueError, match="address"):
        se.replay("preempt", listen="here")


def test_a_watch_reports_an_event_from_start_to_end(tmp_path: Path) -> None:
    threads: list[str] = []
    seen: list[tuple[str, se.Event]] = []

    def prepare(event: se.Event) -> bool:
        threads.append(threading.current_thread().name)
        seen.append(("prepare", event))
        return True

    def recover(event: se.Event) -> None:
        seen.append(("recover", event))

    with se.replay("user-reboot", speed=15) as url, se.Client(url) as client:
        watch = client.watch(PREPARE, prepare=prepare, recover=recover, state=tmp_path / "state", until_idle=True)
        records = list(watch)
        assert watch.closed
        assert list(watch) == []
    assert [record.record for record in records] == [
        "change", "decision", "prepare", "prepare", "approval", "change", "change", "recover",
    ]  # fmt: skip
    assert [record.change for record in records if isinstance(record, se.Change)] == [
        "scheduled",
        "started",
        "completed",
    ]
    outcomes = [record.outcome for record in records if isinstance(record, (se.Prepare, se.Recover))]
    assert outcomes == ["begun", "ready", "done"]
    assert [what for what, _ in seen] == ["prepare", "recover"]
    event = seen[0][1]
    assert isinstance(event, se.Event)
    assert event.event_type == "Reboot"
    assert event.resources == (VM,)
    assert event["EventSource"] == "User"
    assert event["DurationInSeconds"] == -1
    assert threads == ["scheduled-events"]
    assert (tmp_path / "state").exists()


@pytest.mark.parametrize("worker", [lambda _: False, lambda _: 1 / 0, None])
def test_an_event_whose_preparation_fails_is_not_approved(worker: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = se.replay("user-reboot", speed=300)
    with server as url, se.Client(url) as client, caplog.at_level(logging.INFO, "scheduled_events"):
        records = list(client.watch(PREPARE, prepare=worker, until_idle=True, interval=0.3))
        assert [request for request in server.requests() if request["method"] == "POST"] == []
    outcomes = [record.outcome for record in records if has_prepared(record)]
    # One that failed is tried again as long as there is time.
    assert set(outcomes) == {"no-command" if worker is None else "failed"}
    assert not [record for record in records if isinstance(record, se.Approval)]
    logged = [record.message for record in caplog.records if record.name == "scheduled_events"]
    assert f"this machine is {VM}" in logged


async def drain_later(event: se.Event) -> None:
    """Drain when it is awaited."""
    await asyncio.sleep(0.05)
    drained.append(event.event_id)


drained: "list[str]" = []


def test_a_coroutine_that_is_not_awaited_fails_the_preparation(caplog: pytest.LogCaptureFixture) -> None:
    with se.replay("user-reboot", speed=60) as url, se.Client(url, vm_names=VM) as client:
        with pytest.raises(TypeError, match="aio"):
            client.watch(PREPARE, prepare=drain_later)
        records = []
        for record in client.watch(PREPARE, prepare=partial(drain_later), interval=0.2):
            records.append(record)
            if has_prepared(record):
                break
        assert records[-1].outcome == "failed"
        assert not any(isinstance(record, se.Approval) for record in records)
    assert "awaits" in caplog.text
    assert not drained


def test_aio_awaits_what_a_worker_returns() -> None:
    async def main() -> None:
        with se.replay("user-reboot", speed=60) as url:
            async with se.aio.watch(url, policy=PREPARE, prepare=partial(drain_later), vm_names=VM) as watch:
                async for record in watch:
                    if has_prepared(record):
                        assert (record.outcome, drained) == ("ready", [record.event_id])
                        return

    drained.clear()
    asyncio.run(main())
    assert drained


def test_a_preparation_that_ends_with_its_loop_is_repeated_after_a_restart(tmp_path: Path) -> None:
    state = tmp_path / "state"
    begun = []

    async def drain(event: se.Event) -> None:
        begun.append(event.event_id)
        await asyncio.sleep(600)

    with se.replay("user-reboot", speed=1) as url:
        watch = se.aio.watch(url, policy=PREPARE, prepare=drain, vm_names=VM, state=state, interval=0.2)
        with pytest.raises(asyncio.TimeoutError):
            asyncio.run(asyncio.wait_for(forever(watch, begun), 10))
        # Time to save the state, in case that the preparation is reported as failed.
        time.sleep(1)
        asyncio.run(watch.aclose())
        again = threading.Event()
        with se.Client(url, vm_names=VM) as client:
            records = client.watch(PREPARE, prepare=lambda _: again.set(), state=state, interval=0.2)
            assert any(isinstance(record, se.Approval) for record in records if again.is_set())


async def forever(watch: "se.aio.Watch", begun: "list[str]") -> None:
    """Read the records until the preparation has begun, then raise."""
    async for _ in watch:
        for _ in range(100):
            if begun:
                raise asyncio.TimeoutError
            await asyncio.sleep(0.05)


def test_a_worker_runs_even_if_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    refused = []

    def refuse_once(thread: threading.Thread) -> None:
        if not refused and thread._target.__name__ == "_do":  # type: ignore[attr-defined]
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_once)
    done = []
    with se.replay("user-reboot", speed=120) as url, se.Client(url, vm_names=VM) as client:
        options: dict[str, Any] = {"until_idle": True, "interval": 0.2}
        records = list(client.watch(PREPARE, prepare=done.append, recover=done.append, **options))
    assert refused
    outcomes = [record.outcome for record in records if isinstance(record, (se.Prepare, se.Recover))]
    assert outcomes == ["begun", "ready", "done"]
    assert len(done) == 2


def test_a_client_s_timeout_applies_to_its_watchers() -> None:
    # Slower than this time-out, faster than the default of the first request.
    with se.replay("user-reboot", faults=["slow-body:3"]) as url:
        client = se.Client(url, timeout=0.5, vm_names=VM)
        with client, pytest.raises(se.EndpointError) as caught:
            list(client.watch(max_polls=1))
    assert caught.value.cause == "timeout"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_cannot_use_the_parent_s_watch(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with se.replay("user-reboot", speed=1) as url, se.Client(url, vm_names=VM) as client:
        watch = client.watch(state=state, interval=0.2)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            result = b"nothing"
            try:
                next(watch)
            except se.Error:
                result = b"refused"
            watch.close()
            del watch
            os.write(writer, result)
            time.sleep(600)
        try:
            assert os.read(reader, 100) == b"refused"
            watch.close()
            # The child inherited the open state file, but not its lock.
            client.watch(state=state, max_polls=1).close()
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)
            os.close(writer)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_client_has_a_connection_of_its_own() -> None:
    connections: set[object] = set()

    class Service(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            connections.add(self.client_address)
            self.send_response(200)
            self.send_header("Content-Length", "13")
            self.end_headers()
            self.wfile.write(b'{"Events":[]}')

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with se.Client(f"http://127.0.0.1:{server.server_port}") as client:
            client.poll()
            client.poll()
            assert len(connections) == 1
            child = os.fork()
            if child == 0:
                client.poll()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert len(connections) == 2
            client.poll()
            assert len(connections) == 2
        server.shutdown()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_leaves_the_parent_s_replay_server_alone() -> None:
    with se.replay("user-reboot") as url:
        server = se.replay("user-reboot")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                server.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        for address in (url, server.url):
            se.Client(address).poll()
        server.close()


def test_polling_continues_while_a_worker_runs() -> None:
    release = threading.Event()
    server = se.replay("user-reboot", speed=60)
    with server as url, se.Client(url) as client:
        watch = client.watch(PREPARE, prepare=lambda _: release.wait(3 * PATIENCE), interval=0.2)
        for record in watch:
            if isinstance(record, se.Decision):
                break
        before = len(server.requests())
        eventually("more polls", lambda: len(server.requests()) > before + 2)
        release.set()
        kinds = []
        for record in watch:
            kinds.append(record.record)
            if isinstance(record, se.Approval):
                break
        assert kinds[:3] == ["prepare", "prepare", "approval"]


def test_a_watch_without_any_answer_raises_at_its_end() -> None:
    with se.Client("http://127.0.0.1:9", vm_names=VM) as client:
        watch = client.watch(max_polls=1)
        assert isinstance(next(watch), se.PollFailed)
        with pytest.raises(se.EndpointError) as caught:
            next(watch)
        assert caught.value.cause == "unreachable"
        with (
            pytest.raises(se.EndpointError, match="status-500") as caught,
            se.replay("preempt", faults=["status:500"]) as url,
        ):
            list(se.Client(url, vm_names=VM).watch(max_polls=1))
        assert caught.value.status == 500


def test_a_watch_can_be_closed_from_another_thread() -> None:
    with se.replay("preempt", faults=["silence"]) as url, se.Client(url, vm_names=VM) as client:
        watch = client.watch()
        closer = threading.Timer(0.3, watch.close)
        closer.start()
        since = time.monotonic()
        assert list(watch) == []
        assert time.monotonic() - since < 60  # the first request has 130 s
        closer.join()
        watch.close()
        with client.watch() as other:
            pass
        assert other.closed
        open_watch = client.watch()
    assert open_watch.closed


def test_breaking_out_of_a_watch_leaves_no_thread() -> None:
    def ours() -> "list[str]":
        names = [(Path("/proc/self/task") / task / "comm").read_text() for task in os.listdir("/proc/self/task")]
        return [name for name in names if name.startswith("scheduled-even")]

    with se.replay("preempt", speed=60) as url:
        client = se.Client(url)
        for _ in client.watch(prepare=print):
            break
        gc.collect()
        deadline = time.monotonic() + 5
        while ours() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert ours() == []


UNSAFE = "\u202e\u2066\u200f\ufeff"


def test_log_messages_escape_what_acts_on_terminals(caplog: pytest.LogCaptureFixture) -> None:
    with se.replay("user-reboot", vm_name=f"web{UNSAFE}") as url, caplog.at_level(logging.INFO, "scheduled_events"):
        list(se.Client(url).watch(max_polls=2, interval=0.2))
    assert r"web\u{202e}\u{2066}\u{200f}\u{feff}" in caplog.text
    assert not set(UNSAFE) & set(caplog.text)


def test_dry_runs_and_policies_by_name(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rule]]\naction = "approve"\n')
    server = se.replay("user-reboot", speed=300)
    with server as url, se.Client(url) as client:
        state = tmp_path / "state"
        records = list(client.watch(policy, dry_run=True, until_idle=True, interval=0.3, state=state))
        assert [request["method"] for request in server.requests() if request["method"] == "POST"] == []
    decisions = [record for record in records if isinstance(record, se.Decision)]
    assert [decision.action for decision in decisions] == ["approve"]
    assert [path.name for path in tmp_path.iterdir()] == ["policy.toml"]


def test_a_watch_has_the_command_s_records(environment: "dict[str, str]") -> None:
    policy = ["--policy", "sample", "--json", "--until-idle"]
    with se.replay("user-reboot", speed=15, seed=7) as url:
        command = [sys.executable, "-m", "scheduled_events", "watch", "--endpoint", url, *policy]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    with se.replay("user-reboot", speed=15, seed=7) as url, se.Client(url) as client:
        ours = [record.to_dict() for record in client.watch("sample", until_idle=True)]

    def timeless(records: "list[dict[str, Any]]") -> "list[Any]":
        changing = {"time": "now", "not_before": "then"}

        def members(record: "dict[str, Any]") -> "list[Any]":
            return [
                (
                    name,
                    [members(event) for event in value]
                    if name == "events"
                    else changing.get(name, value)
                    if value
                    else value,
                )
                for name, value in record.items()
            ]

        return [members(record) for record in records]

    assert done.returncode == 0, done.stderr
    assert timeless(ours) == timeless(theirs)
    kinds = [record["record"] for record in ours]
    assert kinds == ["change", "decision", "approval", "change", "change"]


# Programs inherit an ignored SIGINT from a shell that runs the tests in the background.
SCRIPT = """
import signal, sys, scheduled_events as se
signal.signal(signal.SIGINT, signal.default_int_handler)
client = se.Client(sys.argv[1])
{body}
"""


@pytest.mark.parametrize(
    "body",
    [
        "for record in client.watch(): print('record', flush=True)",
        "print('polling', flush=True); client.poll()",
        "import asyncio\nasync def main():\n    async for record in se.aio.watch(sys.argv[1]): print('record')\n"
        "print('aio', flush=True); asyncio.run(main())",
    ],
)
def test_ctrl_c_ends_a_program_at_once(body: str, environment: "dict[str, str]") -> None:
    with se.replay("preempt", faults=["get.silence"]) as url:
        script = SCRIPT.format(body="print('ready', flush=True)\n" + body)
        program = subprocess.Popen(
            [sys.executable, "-c", script, url],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        time.sleep(0.7)
        since = time.monotonic()
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=60)
        assert time.monotonic() - since < 30  # the first request has 130 s
        assert "KeyboardInterrupt" in errors
        assert program.returncode == -signal.SIGINT


def test_a_program_that_does_not_close_its_watch_ends_cleanly(environment: "dict[str, str]") -> None:
    with se.replay("preempt", speed=60) as url:
        script = SCRIPT.format(body="watch = client.watch(prepare=print, recover=print)\nnext(watch)\nprint('done')")
        done = subprocess.run(
            [sys.executable, "-c", script, url], env=environment, capture_output=True, text=True, timeout=30
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_restart_continues_from_the_state(tmp_path: Path, environment: "dict[str, str]") -> None:
    state, log = tmp_path / "state", tmp_path / "log"
    body = (
        "import time\n"
        "def note(what): return lambda event: open(sys.argv[3], 'a').write(what + '\\n') and True\n"
        "policy = se.Policy([se.Rule('prepare')])\n"
        "for record in client.watch(policy, prepare=note('prepare'), recover=note('recover'), state=sys.argv[2],\n"
        "                           until_idle=True, interval=0.3):\n"
        "    print(record.record, flush=True)\n"
    )
    with se.replay("user-reboot", speed=20) as url:
        command = [sys.executable, "-c", SCRIPT.format(body=body), url, str(state), str(log)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            while program.stdout.readline() not in ("approval\n", ""):
                pass
            program.kill()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert log.read_text().split() == ["prepare", "recover"]


def test_aio_reports_an_event_from_start_to_end() -> None:
    async def main(url: str) -> "tuple[list[Any], list[str]]":
        seen: list[str] = []

        async def prepare(event: se.Event) -> None:
            await asyncio.sleep(0.01)
            seen.append(f"prepare on {threading.current_thread().name}")

        def recover(event: se.Event) -> None:
            seen.append(f"recover on {threading.current_thread().name}")

        watch = se.aio.watch(url, policy=PREPARE, prepare=prepare, recover=recover, until_idle=True)
        return [record async for record in watch], seen

    with se.replay("user-reboot", speed=15) as url:
        records, seen = asyncio.run(main(url))
    assert [record.record for record in records][-1] == "recover"
    assert seen == ["prepare on MainThread", "recover on scheduled-events"]


def test_aio_is_cancelled_at_once_and_survives_a_time_out() -> None:
    async def main(url: str) -> None:
        watch = se.aio.watch(url, vm_names=VM, interval=0.2)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(watch.__anext__(), 0.3)
        task = asyncio.ensure_future(watch.__anext__())
        await asyncio.sleep(0.2)
        since = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - since < 3  # a request has five seconds
        # The watcher stays open until it is closed.
        waiting = asyncio.ensure_future(watch.__anext__())
        await asyncio.sleep(0.1)
        await watch.aclose()
        with pytest.raises(StopAsyncIteration):
            await waiting
        async with se.aio.watch(url, vm_names=VM) as other:
            pass
        assert [record async for record in other] == []

    with se.replay("live-migration", faults=["get.silence@2-"]) as url:
        asyncio.run(main(url))


def test_aio_raises_what_a_watch_raises() -> None:
    async def main() -> None:
        with pytest.raises(se.EndpointError):
            [record async for record in se.aio.watch("http://127.0.0.1:9", vm_names=VM, max_polls=1)]
        with pytest.raises(se.ConfigError):
            se.aio.watch("http://127.0.0.1:9", interval=0.1)

    asyncio.run(main())
