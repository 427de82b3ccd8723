"""The records that wait for a reader: nothing waits for it, and no change is lost."""

import asyncio
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import VM, eventually

import scheduled_events as se

PREPARE = se.Policy([se.Rule("prepare")])


def posts(server: se.Replay) -> "list[dict[str, Any]]":
    return [request for request in server.requests() if request["method"] == "POST"]


def changes(records: "list[Any]") -> "list[str]":
    return [record.change for record in records if isinstance(record, se.Change)]


def test_a_watcher_that_nobody_reads_polls_approves_recovers_and_logs(caplog: pytest.LogCaptureFixture) -> None:
    recovered = threading.Event()
    server = se.replay("user-reboot", speed=60)
    with server as url, se.Client(url) as client, caplog.at_level(logging.INFO, "scheduled_events"):
        watch = client.watch(PREPARE, prepare=lambda _: True, recover=lambda _: recovered.set(), interval=0.2)
        assert recovered.wait(60)
        assert len(posts(server)) == 1
        eventually("the name", lambda: f"this machine is {VM}" in caplog.text)
        watch.close()
        assert watch.closed
        kinds = [record.record for record in watch]
    assert kinds[:5] == ["change", "decision", "prepare", "prepare", "approval"]
    assert list(watch) == []


def test_changes_that_were_not_read_are_reported_again_after_a_restart(tmp_path: Path) -> None:
    server = se.replay("user-reboot", speed=60)
    with server as url, se.Client(url, vm_names=VM) as client:
        first = client.watch("observe", state=tmp_path / "state", interval=0.2)
        scheduled = next(first)
        assert scheduled.change == "scheduled"
        # The decision and the later changes are not read.
        eventually("the end", lambda: server.finished)
        at = len(server.requests())
        eventually("more requests", lambda: len(server.requests()) > at + 2)
        first.close()
        second = client.watch("observe", state=tmp_path / "state", interval=0.2)
        again = [next(second), next(second)]
        assert changes(again) == ["started", "completed"]
        assert {record.event_id for record in again} == {scheduled.event_id}
        assert again[0].event.event_type == "Reboot"
        second.close()
        # Those that the first watcher still holds may be read, and were reported by the second one meanwhile.
        assert changes(list(first)) == ["started", "completed"]
        third = client.watch("observe", state=tmp_path / "state", interval=0.2, max_polls=2)
        assert changes(list(third)) == []


def test_changes_that_were_not_read_survive_a_kill(tmp_path: Path, environment: "dict[str, str]") -> None:
    state = tmp_path / "state"
    script = """
import sys, time, scheduled_events as se
watch = se.Client(sys.argv[1], vm_names="WestNO_0").watch(state=sys.argv[2], interval=0.2)
print("started", flush=True)
time.sleep(600)
"""
    server = se.replay("user-reboot", speed=60)
    with server as url:
        with subprocess.Popen([sys.executable, "-c", script, url, str(state)], env=environment) as program:
            eventually("the end", lambda: server.finished)
            at = len(server.requests())
            eventually("more requests", lambda: len(server.requests()) > at + 2)
            program.kill()
        with se.Client(url, vm_names=VM).watch(state=state, interval=0.2, max_polls=2) as watch:
            assert changes(list(watch)) == ["scheduled", "started", "completed"]


def test_failed_polls_of_one_cause_are_one_record() -> None:
    server = se.replay("preempt", faults=["status:503@1-3", "empty@4-"])
    with server as url, se.Client(url, vm_names=VM) as client:
        watch = client.watch(interval=0.2)
        eventually("more requests", lambda: len(server.requests()) >= 6)
        watch.close()
        failed = [(record.cause, record.repeated) for record in watch]
    assert failed[0] == ("status-503", 2)
    (cause, repeated) = failed[1]
    assert cause == "empty-body"
    assert repeated >= 1
    assert len(failed) == 2


MANY = """
about = "Many events of other machines, and one of this one."
[[event]]
event_type = "Reboot"
resources = ["other-{index}"]
count = 700
appears = "0s"
notice = "5s"
started_for = "10s"
[[event]]
event_type = "Freeze"
resources = ["{vm}"]
appears = "0s"
notice = "5s"
started_for = "10s"
"""


def test_records_beyond_the_limit_are_dropped_and_counted(tmp_path: Path) -> None:
    scenario = tmp_path / "many.toml"
    scenario.write_text(MANY)
    server = se.replay(scenario, speed=10)
    with server as url, se.Client(url, vm_names=VM) as client:
        watch = client.watch("observe", interval=0.2)
        eventually("the end", lambda: server.finished)
        at = len(server.requests())
        eventually("more requests", lambda: len(server.requests()) > at + 3)
        watch.close()
        records = list(watch)
    dropped = records[0]
    assert isinstance(dropped, se.Dropped)
    assert dropped.to_dict() == {"record": "dropped", "count": dropped.count}
    assert len(records) == 1 + 1024
    # The decisions went first, then the oldest changes.
    assert not any(isinstance(record, (se.Decision, se.Dropped)) for record in records[1:])
    # A poll may miss a state that an event has for a short time.
    assert 2 * 701 - 1024 <= dropped.count <= 4 * 701 - 1024
    assert all(change in ("completed", "ended") for change in changes(records)[-701:])


def test_a_log_that_blocks_delays_nothing() -> None:
    release = threading.Event()
    entered = threading.Event()

    class Blocking(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            entered.set()
            release.wait(60)

    logger = logging.getLogger("scheduled_events")
    handler = Blocking()
    logger.addHandler(handler)
    server = se.replay("user-reboot", speed=60, faults=["get.status:503@1"])
    try:
        with server as url, se.Client(url, vm_names=VM) as client:
            records = list(client.watch(PREPARE, prepare=lambda _: True, until_idle=True, interval=0.2))
            assert entered.is_set()
    finally:
        release.set()
        logger.removeHandler(handler)
    assert changes(records) == ["scheduled", "started", "completed"]
    assert any(isinstance(record, se.Approval) for record in records)


def test_an_asynchronous_reader_takes_only_what_it_gets(tmp_path: Path) -> None:
    async def first(url: str) -> "list[Any]":
        watch = se.aio.watch(url, vm_names=VM, state=tmp_path / "state", interval=0.2)
        records = [await watch.__anext__()]
        await asyncio.get_running_loop().run_in_executor(None, eventually, "the end", lambda: server.finished)
        at = len(server.requests())
        await asyncio.get_running_loop().run_in_executor(
            None, eventually, "more requests", lambda: len(server.requests()) > at + 2
        )
        await watch.aclose()
        again = se.aio.watch(url, vm_names=VM, state=tmp_path / "state", interval=0.2, max_polls=2)
        records += [record async for record in again]
        return records + [record async for record in watch]

    server = se.replay("user-reboot", speed=60)
    with server as url:
        records = asyncio.run(first(url))
    assert changes(records) == ["scheduled", "started", "completed", "started", "completed"]
