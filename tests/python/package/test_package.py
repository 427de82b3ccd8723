"""The package as a whole: names, the command, the examples, the pages, the fixture, subinterpreters and forks."""

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, VM

import scheduled_events as se

EXAMPLES = ROOT / "py" / "examples"


def run(*arguments: str, environment: "dict[str, str]", **more: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=60, **more
    )


def test_public_names_are_documented_and_the_version_is_the_workspace_s() -> None:
    for name in se.__all__:
        assert getattr(se, name) is not None
    assert se.__version__ == importlib.metadata.version("scheduled-events")
    assert f'version = "{se.__version__}"' in (ROOT / "Cargo.toml").read_text()
    with pytest.raises(AttributeError, match="nothing"):
        se.__getattribute__("nothing")
    public = [value for name in se.__all__ if isinstance(value := getattr(se, name), type)]
    assert {value.__module__ for value in public} == {"scheduled_events"}
    assert [value for value in public if not value.__doc__] == []
    assert importlib.metadata.requires("scheduled-events") is None
    files = importlib.metadata.files("scheduled-events") or []
    assert {"LICENSE-APACHE", "LICENSE-MIT"} <= {file.name for file in files}
    for error in (se.ParseError, se.EndpointError, se.PolicyError, se.ConfigError, se.StateError, se.SnapshotError):
        assert issubclass(error, se.Error)


def test_spot_is_imported_at_first_use(environment: "dict[str, str]") -> None:
    script = """
import sys, scheduled_events as se
assert "scheduled_events.spot" not in sys.modules
assert se.spot.Phase.PROCESSING.next("notice") == "evicted"
assert se.spot is sys.modules["scheduled_events.spot"]
"""
    done = run("-c", script, environment=environment)
    assert done.returncode == 0, done.stderr


def test_asyncio_is_imported_at_first_use(environment: "dict[str, str]") -> None:
    script = """
import sys, scheduled_events as se
from scheduled_events import aio
assert "asyncio" not in sys.modules
watch = aio.watch
assert se.aio is sys.modules["scheduled_events.aio"]
assert se.aio.watch is watch
"""
    done = run("-c", script, environment=environment)
    assert done.returncode == 0, done.stderr


def test_the_command_runs_and_has_its_exit_codes(environment: "dict[str, str]", tmp_path: Path) -> None:
    for command in (["-m", "scheduled_events"], [str(Path(sys.executable).parent / "scheduled-events")]):
        done = run(*command, "--version", environment=environment)
        assert (done.returncode, done.stdout) == (0, f"scheduled-events {se.__version__}\n")
    codes = {
        ("check", str(ROOT / "tests/corpus/flow-2-scheduled.json")): 0,
        ("list", "--endpoint", "http://127.0.0.1:9"): 1,
        ("nonsense",): 2,
        ("check", str(ROOT / "tests/corpus/refused-trailing-brace.json")): 3,
    }
    for arguments, code in codes.items():
        assert run("-m", "scheduled_events", *arguments, environment=environment).returncode == code


@pytest.mark.parametrize(
    ("name", "scenario", "words"),
    [
        ("sample_2020", "user-reboot", ["scheduled: Reboot", "approved", "completed: Reboot"]),
        ("drain", "user-reboot", ["draining for Reboot", "'record': 'approval'", "back after Reboot"]),
        ("asyncio_service", "user-reboot", ["drained for Reboot", "serving again after Reboot"]),
    ],
)
def test_an_example_runs(
    name: str, scenario: str, words: "list[str]", environment: "dict[str, str]", tmp_path: Path
) -> None:
    with se.replay(scenario, speed=20) as url:
        environment = {**environment, "SCHEDULED_EVENTS_ENDPOINT": url}
        done = run(str(EXAMPLES / f"{name}.py"), environment=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in words:
        assert word in done.stdout


@pytest.mark.parametrize("name", ["sample_2017", "drop_in"])
def test_an_example_of_one_poll_runs(name: str, environment: "dict[str, str]") -> None:
    with se.replay("live-migration", speed=20) as url, se.Client(url) as client:
        while not ((document := client.poll()) and document.events):
            pass
        done = run(str(EXAMPLES / f"{name}.py"), environment={**environment, "SCHEDULED_EVENTS_ENDPOINT": url})
    assert done.returncode == 0, done.stderr
    assert f"+ Scheduled Event. {VM} is scheduled for Freeze not before " in done.stdout


def test_the_samples_are_shorter_than_microsoft_s() -> None:
    lengths = {"sample_2017": 37, "sample_2020": 79}
    for name, original in lengths.items():
        lines = (EXAMPLES / f"{name}.py").read_text().splitlines()
        assert len([line for line in lines if line.strip()]) < original


def test_every_example_is_tested() -> None:
    tested = {"sample_2017", "sample_2020", "drain", "asyncio_service", "drop_in"}
    # test_coming_from.py has that of event_hub, and test_clients.py that with threads.
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*tested, "event_hub", "threaded_service"}


def blocks(page: str) -> "list[str]":
    """The blocks of Python on a page."""
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_example_of_the_readme_runs(environment: "dict[str, str]") -> None:
    (example,) = blocks("README.md")
    done = run("-c", example, environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    for printed in ("Approval(", "Change(change='completed'"):
        assert printed in done.stdout


def prints(command: "list[str]", environment: "dict[str, str]", beginning: str) -> bool:
    """Whether a program that runs until it is killed prints such a line within a minute."""
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as program:
        timer = threading.Timer(60, program.kill)
        timer.start()
        assert program.stdout is not None
        printed = any(line.startswith(beginning) for line in program.stdout)
        timer.cancel()
        program.kill()
    return printed


def test_the_examples_of_the_guide_run(environment: "dict[str, str]", tmp_path: Path) -> None:
    watching, draining, approving, own_client, outside, following, testing, judging, stepping, reading = blocks(
        "docs/program/python.md"
    )
    assert blocks("py/README.md") == [watching]
    worker, states = blocks("docs/use/spot.md")
    compile(worker, "sum.py", "exec")  # cli/tests/suite/run/guide_worker.rs runs it
    exec(states, {})
    with se.replay("user-reboot", speed=20) as url:
        environment = {**environment, "SCHEDULED_EVENTS_ENDPOINT": url}
        assert prints([sys.executable, "-c", watching], environment, "Approval(")
    with se.replay("user-reboot", speed=20) as url:
        environment = {**environment, "SCHEDULED_EVENTS_ENDPOINT": url}
        done = run("-c", draining, environment=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for printed in ("drain for Reboot", "Gate(", "back after Reboot", "Recover("):
        assert printed in done.stdout
    with se.replay("user-reboot", speed=20) as url:
        environment = {**environment, "SCHEDULED_EVENTS_ENDPOINT": url}
        end = time.monotonic() + 60
        while "approved" not in done.stdout and time.monotonic() < end:
            done = run("-c", approving, environment=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "approved: Reboot\n", "")
    # The first request is never answered; the host runs until it is killed.
    with se.replay("user-reboot", speed=20, faults=["get.silence@1"]) as url:
        environment = {**environment, "SCHEDULED_EVENTS_ENDPOINT": url, "PYTHONUNBUFFERED": "1"}
        assert prints([sys.executable, "-c", own_client], environment, "Approval(")
    (tmp_path / "test_it.py").write_text(testing)
    done = run("-m", "pytest", "-p", "no:cacheprovider", "test_it.py", environment=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    done = run("-c", judging, environment=environment)
    # A watcher logs the fault.
    assert (done.returncode, done.stderr) == (0, "poll failed: status 503 (Service Unavailable)\n")
    assert done.stdout.splitlines()[:2] == ["True", "passed"], done.stdout
    done = run("-c", stepping, environment=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Started\n", "")
    message = ROOT / "tests/corpus/notifications/cloud-event.json"
    (tmp_path / "message.json").write_bytes(message.read_bytes())
    done = run("-c", outside, environment=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for printed in ("scheduled Freeze ('/subscriptions/", "POST https://management.azure.com/subscriptions/"):
        assert printed in done.stdout
    done = run("-c", following, environment=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for printed in ("applied\n", "change='scheduled'", "POST /subscriptions/"):
        assert printed in done.stdout
    names: dict[str, Any] = {}
    exec(reading, names)
    assert names["json"].loads('{"Events":[]}')["Events"] == []


def test_the_pages_agree_on_the_pythons_that_the_wheel_ran_on() -> None:
    ran = [
        re.findall(r"3\.9 to 3\.\d+", (ROOT / f"docs/{page}.md").read_text())
        for page in ("program/python", "inside/releasing")
    ]
    assert len(ran[0]) == 1
    assert ran[0] == ran[1]


def test_the_page_of_the_api_is_what_the_stubs_have() -> None:
    program = ROOT / "tests/docs/python_api.py"
    subprocess.run([sys.executable, str(program), "--check"], check=True)


def test_every_entry_of_the_page_of_the_api_has_a_text() -> None:
    page = (ROOT / "docs/program/python-api.md").read_text()
    entries = re.findall(r"^- (.*)$", page, re.MULTILINE)
    assert [entry for entry in entries if not re.fullmatch(r"`[^`]+`: \S.*", entry)] == []
    sections = re.split(r"^###? ", page, flags=re.MULTILINE)[1:]
    assert [
        section for section in sections if not re.search(r"^[A-Z].*\.", section.partition("\n")[2], re.MULTILINE)
    ] == []
    names = {section.partition("\n")[0].split("`")[1] for section in sections if section.startswith("`")}
    assert names >= {name for name in se.__all__ if isinstance(getattr(se, name), type)} - {"JSONDecodeError"}
    # Private names mean nothing to a reader.
    assert re.findall(r"\b_[A-Za-z]\w+", re.sub(r"`[A-Z_]+='.*", "", page)) == []
    spec = importlib.util.spec_from_file_location("python_api", ROOT / "tests/docs/python_api.py")
    assert spec is not None
    assert spec.loader is not None
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    with pytest.raises(ValueError, match="size has no text"):
        writer.item("size", "")


def test_the_fixture_serves_a_scenario(scheduled_events_replay: Any) -> None:
    url = scheduled_events_replay("preempt", speed=60, vm_name="spot_3", verdict=False)
    assert se.Client(url).vm_name() == "spot_3"
    (server,) = scheduled_events_replay.servers
    (request,) = server.requests()
    assert request["method"] == "GET"
    assert ("Metadata", "true") in [(name.title(), value) for name, value in request["headers"]]
    assert not server.finished
    server.close()
    with pytest.raises(RuntimeError, match="closed"):
        server.requests()


def test_the_service_has_the_version_that_a_test_chooses() -> None:
    version = "2024-07-09"
    with (
        se.replay("rebalance", speed=0.01, newest_api_version=version) as url,
        se.Client(url, api_version=version) as client,
    ):
        assert client.poll().incarnation == 1
    with (
        se.replay("rebalance", speed=0.01) as url,
        se.Client(url, api_version=version) as client,
        pytest.raises(se.EndpointError, match="400"),
    ):
        client.poll()
    with pytest.raises(se.ConfigError, match="no service has this api-version"):
        se.replay("rebalance", newest_api_version="2020-07-02")


def test_a_test_steps_through_a_scenario() -> None:
    def seen() -> "list[tuple[str, str]]":
        return [(event.event_type, event.event_status) for event in client.poll().events]

    server = se.replay("user-reboot", speed=0.01)
    with server as url, se.Client(url) as client:
        assert not server.step()
        assert seen() == []
        assert server.step()
        assert seen() == [("Reboot", "Scheduled")]
        client.approve([client.poll().events[0].event_id])
        assert seen() == [("Reboot", "Scheduled")]
        assert server.step()
        assert seen() == [("Reboot", "Started")]
        assert server.step()
        assert seen() == []
        assert server.finished
        assert not server.step()
    with pytest.raises(RuntimeError, match="closed"):
        server.step()


def test_every_scenario_is_served() -> None:
    assert set(se.scenarios()) >= {"preempt", "terminate", "scale-in", "live-migration"}
    for scenario in se.scenarios():
        with se.replay(scenario, speed=100) as url:
            assert url.startswith("http://127.0.0.1:")


def test_a_subinterpreter_gets_an_import_error(environment: "dict[str, str]") -> None:
    script = '''
try:
    import _interpreters as interpreters
    create = lambda: interpreters.create("legacy")
    run = interpreters.run_string
except ImportError:
    import _xxsubinterpreters as interpreters
    create, run = interpreters.create, interpreters.run_string
import scheduled_events
inner = create()
error = run(inner, """
try:
    import scheduled_events
except ImportError as error:
    print("refused:", error, flush=True)
""")
assert error is None, error
interpreters.destroy(inner)
print(scheduled_events.parse(b'{"Events":[]}'))
'''
    done = run("-c", script, environment=environment)
    assert done.returncode == 0, done.stderr
    inner, outer = done.stdout.splitlines()
    # PyO3 refuses it for this reason on some versions, and this package on the others.
    assert inner.startswith("refused: ")
    assert "one interpreter in a process" in inner or "does not support loading in subinterpreters" in inner
    assert outer == "<Document incarnation=None events=0>"


def test_a_forked_child_can_read_and_watch(environment: "dict[str, str]") -> None:
    script = f"""
import os, scheduled_events as se
with se.replay("user-reboot", speed=20) as url:
    client = se.Client(url)
    client.poll()
    child = os.fork()
    if child == 0:
        client.poll()
        os._exit(len(list(se.Client(url, vm_names={VM!r}).watch(max_polls=2))))
    assert os.waitpid(child, 0)[1] >> 8 < 10
    print("done")
"""
    done = run("-c", script, environment=environment)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
