"""Other people's programs, unchanged and moved onto the package: Microsoft's samples, and Pacemaker's azure-events-az.

None of them is a part of this repository. The agent is that of Debian's package resource-agents. The scripts
in ``scripts/`` use the service as the samples do. The samples themselves run, too, where a copy of Microsoft's pages is
beside the repository.
"""

import json
import re
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

import scheduled_events as se

STAND_INS = Path(__file__).parent / "stand_ins"
SCRIPTS = Path(__file__).parent / "scripts"
AGENT = Path("/usr/lib/ocf/resource.d/heartbeat/azure-events-az")
HOST = socket.gethostname()


def references() -> "Path | None":
    """The folder with copies of Microsoft's pages, if there is one beside the repository."""
    beside = [parent / "shared" / "references" for parent in ROOT.parents]
    return next((folder for folder in beside if folder.is_dir()), None)


def original(version: str) -> str:
    """Microsoft's Python sample of this version of the page, as Python 3."""
    folder = references()
    assert folder is not None
    page = (folder / f"scheduled-events-linux-{version}.txt").read_text("utf-8")
    start = page.index("#!/usr/bin/python")
    start = page.rindex("\n", 0, start) + 1
    indented = page[start:]
    script = textwrap.dedent(indented[: re.search(r"^ *(?:sys\.exit\(0\)|main\(\))\n(?! *sys)", indented, re.M).end()])  # type: ignore[union-attr]
    script = script.replace("import urllib2", "import urllib.request as urllib2")
    return re.sub(r"^( *)print (\".*)$", r"\1print(\2)", script, flags=re.M)


def run(script: str, url: str, environment: "dict[str, str]") -> "subprocess.CompletedProcess[str]":
    environment = {**environment, "PYTHONPATH": str(STAND_INS / "imds"), "REPLAY": url}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, input="1\n1\n2\n", timeout=120
    )


# Each script, what it prints, and how many events it approves.
SAMPLES = [
    ("urllib_2017.py", [": Scheduled Reboot of a VirtualMachine", f"{HOST} may go from T"], 0),
    (
        "requests_2020.py",
        ["approved: 200", "Started: Virtual machine is going to be restarted", "document 3 is done"],
        1,
    ),
]
ORIGINALS = [
    ("2017-08-01", [f"{HOST} is scheduled for Reboot not before"], 0),
    ("2020-07-01", ["Virtual machine is going to be restarted", "Processed events from document: 3"], 1),
]


@pytest.mark.parametrize(("name", "expected", "approvals"), SAMPLES + (ORIGINALS if references() else []))
def test_microsoft_s_samples_do_the_same_with_the_import_changed(
    name: str, expected: "list[str]", approvals: int, environment: "dict[str, str]"
) -> None:
    unchanged = (SCRIPTS / name).read_text("utf-8") if name.endswith(".py") else original(name)
    changed = unchanged.replace("import json", "import scheduled_events as json")
    assert changed != unchanged
    found = []
    for script in (unchanged, changed):
        server = se.replay("user-reboot", speed=10, seed=1, vm_name=HOST)
        with server as url, se.Client(url) as client:
            while not client.poll().events:
                pass
            done = run(script, url, environment)
            posts = [request["body"] for request in server.requests() if request["method"] == "POST"]
        printed = re.sub(r"\d\d:\d\d:\d\d|(?<=_)\d\d_\w+_\d{4}|\w\w\w,", "T", done.stdout)
        found.append((done.returncode, printed, posts, done.stderr[-300:]))
    assert found[0] == found[1]
    code, printed, posts, errors = found[0]
    assert (code, errors) == (0, "")
    assert [text for text in expected if text not in printed] == []
    assert len(posts) == approvals


# What the agent does with urllib, done with the package. It goes where the agent has its class of this name.
MOVED = """
import scheduled_events

class azHelper:
	client = scheduled_events.Client(user_agent=USER_AGENT)

	@staticmethod
	def request(function, *arguments):
		try:
			return function(*arguments)
		except scheduled_events.EndpointError as error:
			if error.cause in ("connection-lost", "empty-body"):
				raise
			ocf.logger.warning("Request failed: %s" % error)
			clusterHelper.setAttr(attr_globalPullState, "IDLE")

	@staticmethod
	def getInstanceInfo():
		return attrDict({"name": azHelper.client.vm_name()})

	@staticmethod
	def pullScheduledEvents():
		return attrDict(azHelper.request(azHelper.client.poll))

	@staticmethod
	def forceEvents(eventIDs):
		azHelper.request(azHelper.client.approve, eventIDs)

"""


def agent() -> str:
    if not AGENT.is_file():
        pytest.skip("the package resource-agents is not installed; `tests/setup python` does it")
    return AGENT.read_text("utf-8")


def moved(text: str) -> str:
    """The agent with the package in the place of urllib."""
    found = re.subn(r"^class azHelper:.*?(?=^####)", lambda _: MOVED, text, flags=re.M | re.S)
    assert found[1] == 1
    return found[0].replace("import urllib2", "urllib2 = None").replace("from urllib2 import URLError", "")


class Cluster:
    """A node of a cluster of stand-ins that runs the agent."""

    def __init__(self, folder: Path, text: str, url: str, environment: "dict[str, str]") -> None:
        self.folder = folder
        commands = folder / "commands"
        commands.mkdir(parents=True)
        for name in ("crm_attribute", "crm_node", "crm_resource", "crm_simulate"):
            (commands / name).symlink_to(STAND_INS / "pacemaker")
        self.agent = folder / "azure-events-az"
        self.agent.write_text(text, "utf-8")
        (folder / "state").mkdir()
        self.environment = {
            **environment,
            "PATH": f"{commands}:{environment['PATH']}",
            "CLUSTER": str(folder / "state"),
            "OCF_ROOT": "/usr/lib/ocf",
            "OCF_FUNCTIONS_DIR": "/usr/lib/ocf/lib/heartbeat",
            "OCF_RESKEY_eventTypes": "Freeze,Reboot,Redeploy",
            "PYTHONPATH": str(STAND_INS / "imds"),
            "REPLAY": url,
            "SCHEDULED_EVENTS_ENDPOINT": url,
        }

    def monitor(self) -> int:
        """Call the agent as Pacemaker does every ten seconds, and return its exit code."""
        return self.call("monitor").returncode

    def call(self, action: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(self.agent), action]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def effects(self) -> "list[str]":
        """The changes of attributes so far."""
        log = self.folder / "state" / "log"
        return log.read_text().splitlines() if log.exists() else []


# Enough for an agent to read an event, to see that its resources have moved, and to approve, with a fault between them.
CALLS = 4


def effects(
    text: str,
    folder: Path,
    environment: "dict[str, str]",
    scenario: str,
    faults: "list[str]",
    user_agent: str = "Pacemaker-ResourceAgent/",
) -> Any:
    """What the agent does in a scenario: changes of attributes, approvals, and the number of failed calls."""
    # Nothing changes but between two rounds of calls, however long a call takes.
    server = se.replay(scenario, speed=0.01, seed=1, vm_name="db_0", faults=faults)
    with server as url:
        cluster = Cluster(folder, text, url, environment)
        failed, plays = 0, True
        while plays:
            failed += sum(cluster.monitor() != 0 for _ in range(CALLS))
            plays = server.step()
        assert server.finished
        posts = [json.loads(request["body"]) for request in server.requests() if request["method"] == "POST"]
        agents = {value for request in server.requests() for name, value in request["headers"] if name == "user-agent"}
    assert all(value.startswith(user_agent) for value in agents)
    return cluster.effects(), posts, failed


SCENARIOS = [
    "user-reboot",
    "user-redeploy",
    "redeploy",
    "host-maintenance",
    "live-migration",
    "cancelled",
    "hardware-failure",
]
FAULTS = ["get.status:500@2", "get.status:429@1", "get.empty@2", "get.not-json@2", "get.reset@2", "post.status:503@1"]


@pytest.mark.parametrize(
    ("scenario", "fault"), [*((name, None) for name in SCENARIOS), *(("user-reboot", fault) for fault in FAULTS)]
)
def test_azure_events_az_has_the_same_effects_with_the_package(
    scenario: str, fault: "str | None", environment: "dict[str, str]", tmp_path: Path
) -> None:
    text = agent()
    faults = [fault] if fault else []
    before = effects(text, tmp_path / "before", environment, scenario, faults)
    after = effects(moved(text), tmp_path / "after", environment, scenario, faults)
    assert after == before
    changed, posts, failed = before
    assert f"{HOST} #health-azure -1000000" in changed
    assert changed.index(f"{HOST} #health-azure -1000000") < changed.index(f"{HOST} #health-azure 0")
    assert changed[-1] != f"{HOST} #health-azure -1000000"
    assert len(posts) == (0 if scenario == "hardware-failure" else 1)
    assert failed == (fault is not None and fault.startswith("get"))
