"""The replay server as a test has it: machines, faults while it runs, verdicts, and the fixture of pytest."""

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from conftest import VM

import scheduled_events as se


def send(url: str, body: "bytes | None" = None, header: bool = True) -> None:
    request = urllib.request.Request(f"{url}/metadata/scheduledevents?api-version=2020-07-01", body)
    if header:
        request.add_header("Metadata", "true")
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).read()
    except urllib.error.HTTPError as error:
        error.close()


def test_each_machine_has_an_address_and_a_name() -> None:
    server = se.replay("terminate-pair", speed=0.01, vm_name="web_0", machines=2)
    with server as url:
        assert list(server.machines) == ["web_0", "web_1"]
        assert server.machines["web_0"] == url == server.url
        for name, address in server.machines.items():
            assert se.Client(address).vm_name() == name
        se.Client(server.machines["web_1"]).poll()
        assert [request["machine"] for request in server.requests()] == ["web_0", "web_1", "web_1"]
    with pytest.raises(se.ConfigError, match="machines: "):
        se.replay("preempt", machines=0)


def test_a_fault_can_come_and_go_while_the_server_runs() -> None:
    server = se.replay("user-reboot", speed=0.01, machines=2)
    with server, se.Client(server.machines["WestNO_0"]) as first, se.Client(server.machines["WestNO_1"]) as second:
        for client in (first, second):
            client.poll()
        server.inject_fault("get.status:503@1", "WestNO_1")
        first.poll()
        with pytest.raises(se.EndpointError, match="503"):
            second.poll()
        second.poll()
        server.inject_fault("empty")
        for client in (first, second):
            with pytest.raises(se.EndpointError, match="empty"):
                client.poll()
        server.clear_faults("WestNO_0")
        first.poll()
        with pytest.raises(se.EndpointError):
            second.poll()
        server.clear_faults()
        second.poll()
        with pytest.raises(se.ConfigError, match=r"fault: unknown fault `x`"):
            server.inject_fault("x")
        with pytest.raises(se.ConfigError, match=r'machine: found "db_1", expected one of WestNO_0, WestNO_1'):
            server.clear_faults("db_1")
        with pytest.raises(se.ConfigError, match="first-call-delay"):
            server.inject_fault("first-call-delay:5")
    with pytest.raises(RuntimeError, match="closed"):
        server.inject_fault("empty")


def test_a_client_that_keeps_the_rules_has_a_clean_verdict() -> None:
    server = se.replay("user-reboot", speed=30)
    with server as url, se.Client(url) as client:
        list(client.watch("sample", until_idle=True))
        verdict = server.finish()
        assert verdict.is_clean, str(verdict)
        verdict.assert_clean()
        assert verdict.rules["header"] == "passed"
        assert verdict.rules["redirect"] == "not-checked"
        assert verdict.reasons["redirect"] == "no redirect led to where the server sees who follows"
        unchecked = {rule for rule, outcome in verdict.rules.items() if outcome == "not-checked"}
        assert set(verdict.reasons) == unchecked
        assert str(verdict).startswith("WestNO_0: clean")
        assert repr(verdict) == "<Verdict clean, 0 findings>"
        # The test has ended.
        send(url, header=False)
        assert server.finish() is verdict
    assert server.finish() is verdict


def test_a_verdict_names_the_rule_its_sentence_and_its_section() -> None:
    server = se.replay("user-reboot", speed=0.01, machines=2)
    with server as url:
        send(url)
        send(server.machines["WestNO_1"], header=False)
    verdict = server.finish()  # the with block has closed the server
    assert not verdict.is_clean
    found = [finding for finding in verdict.findings if finding.rule == "header"]
    assert len(found) == 1
    assert (found[0].level, found[0].machine, found[0].event_id) == ("must", "WestNO_1", None)
    assert found[0].about == "It sends `Metadata: true` once with every request."
    assert found[0].section == "1, header"
    assert found[0].at >= 0
    assert verdict.rules["header"] == "broken"
    with pytest.raises(AssertionError) as caught:
        verdict.assert_clean()
    assert "docs/inside/wire.md, section 1, header" in str(found[0])
    for part in ("WestNO_1: not clean", found[0].about, "docs/inside/wire.md, section 1, header", found[0].message):
        assert part in str(caught.value)


def test_text_of_a_client_does_not_act_on_a_terminal() -> None:
    server = se.replay("user-reboot", speed=0.01)
    with server as url:
        send(url, b'{"StartRequests":[{"EventId":"\\u001b[31mred"}]}')
        report = str(server.finish())
    assert "start-requests" in report
    assert "red" in report
    assert "\x1b" not in report


def outcomes(folder: Path, test: str, environment: "dict[str, str]") -> "tuple[int, str]":
    (folder / "test_it.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "test_it.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout


CARELESS = """
import urllib.request

def poll(url):  # without the header
    try:
        urllib.request.urlopen(url + "/metadata/scheduledevents?api-version=2020-07-01")
    except urllib.error.HTTPError:
        pass

def test_it(scheduled_events_replay):
    poll(scheduled_events_replay("user-reboot", speed=0.01))
"""


def test_the_fixture_fails_a_test_whose_client_broke_a_rule(environment: "dict[str, str]", tmp_path: Path) -> None:
    code, output = outcomes(tmp_path, CARELESS, environment)
    assert code == 1, output
    assert "1 failed" in output
    for part in ("not clean", "It sends `Metadata: true` once with every request.", "wire.md, section 1, header"):
        assert part in output
    # Another failure is reported alone.
    code, output = outcomes(tmp_path, CARELESS + "    assert 0, 'another reason'\n", environment)
    assert (code, "another reason" in output, "wire.md" in output) == (1, True, False), output


def test_a_test_may_have_the_verdict_itself(environment: "dict[str, str]", tmp_path: Path) -> None:
    own = CARELESS.replace("speed=0.01", "speed=0.01, verdict=False")
    own += "    assert not scheduled_events_replay.servers[0].finish().is_clean\n"
    code, output = outcomes(tmp_path, own, environment)
    assert (code, "1 passed" in output) == (0, True), output


def test_a_fixture_on_the_fixture_fails_its_test_too(environment: "dict[str, str]", tmp_path: Path) -> None:
    test = CARELESS.replace(
        "def test_it(scheduled_events_replay):\n", "import pytest\n@pytest.fixture\ndef url(scheduled_events_replay):\n"
    )
    test = test.replace("    poll(scheduled", "    return (scheduled") + "\ndef test_it(url):\n    poll(url)\n"
    code, output = outcomes(tmp_path, test, environment)
    assert (code, "1 failed" in output) == (1, True), output


def test_a_server_without_a_client_is_not_clean() -> None:
    server = se.replay("user-reboot", vm_name=VM)
    with server:
        verdict = server.finish()
    assert not verdict.is_clean
    assert set(verdict.rules.values()) == {"not-checked"}
    assert verdict.reasons["poll-gap"] == "it never polled"
    with pytest.raises(AssertionError, match=f"{VM}: not tested"):
        verdict.assert_clean()


def test_a_client_that_stops_in_the_middle_of_its_event_is_not_clean() -> None:
    server = se.replay("user-reboot", speed=0.01)
    with server as url, se.Client(url) as client:
        client.poll()
        server.step()
        client.poll()
    assert server.finish().rules["stops-polling"] == "broken"
