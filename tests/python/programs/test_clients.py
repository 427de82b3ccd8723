"""Programs of other people that the tests run against the replay server: each keeps every rule of the wire contract."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import scheduled_events as se

CLIENTS = {
    "node": ["node", str(ROOT / "examples/clients/client.mjs")],
    "bash": ["bash", str(ROOT / "examples/clients/client.sh")],
    "asyncio": [sys.executable, str(ROOT / "py/examples/asyncio_service.py")],
    "threads": [sys.executable, str(ROOT / "py/examples/threaded_service.py")],
}
DRAINED = {
    "node": "drained for Reboot",
    "bash": "drained for Reboot",
    "asyncio": "drained for",
    "threads": "unready for",
}
RECOVERED = {name: "ready again" if name == "threads" else "serving again" for name in CLIENTS}


@pytest.mark.parametrize("faults", [[], ["get.status:503@2", "empty@3", "post.status:500@1"]], ids=["plain", "faulty"])
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_drains_approves_and_keeps_the_rules(
    name: str, faults: "list[str]", environment: "dict[str, str]", tmp_path: Path
) -> None:
    for program in {"node": ["node"], "bash": ["curl", "jq"]}.get(name, []):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    server = se.replay("user-reboot", speed=20, faults=faults)
    with server as url:
        done = subprocess.run(
            CLIENTS[name],
            env={**environment, "SCHEDULED_EVENTS_ENDPOINT": url, "http_proxy": "http://127.0.0.1:9"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert DRAINED[name] in done.stdout
        assert RECOVERED[name] in done.stdout
        assert [request["status"] for request in server.requests() if request["method"] == "POST"][-1] == 200
        verdict = server.finish()
        verdict.assert_clean()
        assert [str(finding) for finding in verdict.findings] == []


def test_the_examples_with_testcontainers_are_programs(tmp_path: Path) -> None:
    """No container engine runs them here."""
    page = (ROOT / "docs/use/testing.md").read_text("utf-8")
    (python,) = re.findall(r"^```python\n(from testcontainers.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (node,) = re.findall(r"^```js\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    compile(python, "test_it.py", "exec")
    command = "replay user-reboot --speed 20 --listen 0.0.0.0:8080 --report /var/lib/scheduled-events/report.xml"
    assert command in python
    assert command in node
    if not shutil.which("node"):
        pytest.skip("node is not installed: the example for Node.js is not parsed")
    (tmp_path / "example.mjs").write_text(node)
    subprocess.run(["node", "--check", str(tmp_path / "example.mjs")], check=True, timeout=60)


def test_every_client_is_tested() -> None:
    tested = {Path(command[-1]).name for command in CLIENTS.values()}
    assert {path.name for path in (ROOT / "examples/clients").iterdir()} <= tested
