"""Pacemaker's azure-events-az, of Debian's package resource-agents, on a real cluster: unchanged, with the package, and
beside examples/agents/azure-maintenance.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually, python_path
from pacemaker import Cluster, pacemaker
from test_pacemaker import AGENT as OURS
from test_pacemaker import paste, pastes

import scheduled_events as se

AGENT = Path("/usr/lib/ocf/resource.d/heartbeat/azure-events-az")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Cluster]":
    """The guide's cluster, in which no agent runs but those that a test calls."""
    with pacemaker(tmp_path_factory.mktemp("pacemaker") / "cluster", python_path()) as cluster:
        for text in pastes():
            paste(cluster, text)
        stop = ["--meta", "--set-parameter=target-role", "--parameter-value=Stopped"]
        cluster.nodes[0].run("crm_resource", "--resource=health-azure-clone", *stop)
        cluster.nodes[0].run("crm_resource", "--wait")
        yield cluster


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


# Pacemaker 2.1 omits the line if nothing is planned. The agent looks for it, and fails without: it would never approve.
SIMULATE = """#!/bin/sh
# Passes on what Pacemaker's crm_simulate prints, with the line that older versions always print.
plan=$(/usr/sbin/crm_simulate "$@") || exit
echo "$plan"
case $plan in *"Transition Summary:"*) ;; *) echo "Transition Summary:" ;; esac
"""


class Caller:
    """Calls an agent on the first node of a cluster as Pacemaker does, and notes which attributes it changes."""

    def __init__(self, cluster: Cluster, text: str, theirs: bool) -> None:
        self.cluster, self.theirs = cluster, theirs
        # azure-events-az takes the host's name for the node's.
        self.host = "db-1" if theirs else "another-name"
        path = cluster.environment["PATH"]
        self.path = f"{cluster.folder}/commands:{path}" if theirs else path
        self.agent = cluster.folder / "agent"
        self.agent.write_text(text, "utf-8")
        (cluster.folder / "started").touch()
        (cluster.folder / "commands").mkdir(exist_ok=True)
        (cluster.folder / "commands/crm_simulate").write_text(SIMULATE)
        (cluster.folder / "commands/crm_simulate").chmod(0o755)
        cluster.reset()
        self.attributes = cluster.attributes()
        self.effects: list[str] = []

    def monitor(self) -> int:
        """Call the agent as Pacemaker does every ten seconds, and return its exit code."""
        done = self.cluster.nodes[0].call(
            *["unshare", "--uts", "sh", "-c", f'hostname {self.host} && exec "$@"', "sh"],
            sys.executable,
            str(self.agent),
            "monitor",
            PATH=self.path,
            OCF_ROOT="/usr/lib/ocf",
            OCF_FUNCTIONS_DIR="/usr/lib/ocf/lib/heartbeat",
            OCF_RESKEY_eventTypes="Freeze,Reboot,Redeploy",
            OCF_RESKEY_state=str(self.cluster.folder / "started"),
            OCF_RESOURCE_INSTANCE="health-azure",
        )
        assert self.theirs or "Traceback" not in done.stderr, done.stderr
        found = self.cluster.attributes()
        names = sorted(found.keys() | self.attributes.keys())
        changed = [name for name in names if found.get(name) != self.attributes.get(name)]
        self.effects += [f"{name} {found.get(name, 'deleted')}" for name in changed]
        self.attributes = found
        return done.returncode


def effects(cluster: Cluster, text: str, scenario: str, faults: "list[str]", theirs: bool = True) -> Any:
    """What the agent does in a scenario: changes of attributes, approvals, and the number of failed calls."""
    # Nothing changes but between two rounds of calls, however long a call takes.
    server = se.replay(scenario, speed=0.01, seed=1, vm_name="db_0", faults=faults)
    caller = Caller(cluster, text, theirs)
    with server as url:
        cluster.nodes[0].metadata.serve(url)
        # Enough to read an event, to see that its resources have moved, and to approve, with a fault between them.
        calls = 3 + len(faults)
        failed, plays = 0, True
        while plays:
            failed += sum(caller.monitor() != 0 for _ in range(calls))
            plays = server.step()
        assert server.finished
        posts = [json.loads(request["body"]) for request in server.requests() if request["method"] == "POST"]
        agents = {value for request in server.requests() for name, value in request["headers"] if name == "user-agent"}
    user_agent = "Pacemaker-ResourceAgent/" if theirs else "azure-maintenance"
    assert all(value.startswith(user_agent) for value in agents)
    return caller.effects, posts, failed


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


def health(changes: "list[str]") -> "list[str]":
    return [line for line in changes if "#health-azure" in line]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_azure_events_az_has_the_same_effects_with_the_package_and_as_our_agent(
    scenario: str, cluster: Cluster
) -> None:
    text = agent()
    before = effects(cluster, text, scenario, [])
    changed, posts, failed = before
    assert effects(cluster, moved(text), scenario, []) == before
    assert changed.index("db-1 #health-azure -1000000") < changed.index("db-1 #health-azure 0")
    assert health(changed)[-1] == "db-1 #health-azure 0"
    # azure-events-az asks Pacemaker for a machine that is no node of the cluster, and fails.
    assert (failed > 0) == (scenario == "live-migration")
    assert len(posts) == (scenario not in ("hardware-failure", "live-migration"))

    ours, our_posts, failed = effects(cluster, OURS.read_text(), scenario, [], theirs=False)
    assert failed == 0
    assert health(ours) == health(changed)
    assert len({request["EventId"] for post in our_posts for request in post["StartRequests"]}) == len(posts)


@pytest.mark.parametrize("fault", FAULTS)
def test_azure_events_az_has_the_same_effects_with_the_package_and_a_fault(fault: str, cluster: Cluster) -> None:
    before = effects(cluster, agent(), "user-reboot", [fault])
    assert effects(cluster, moved(agent()), "user-reboot", [fault]) == before
    changed, posts, failed = before
    assert health(changed) == ["db-1 #health-azure -1000000", "db-1 #health-azure 0"]
    assert (len(posts), failed) == (1, fault.startswith("get"))


def test_the_pacemaker_agent_waits_until_all_nodes_of_an_event_are_empty(cluster: Cluster) -> None:
    server = se.replay("live-migration", speed=20, seed=1, vm_name="db_0")
    with server as url, se.Client(url) as client:
        cluster.nodes[0].metadata.serve(url)
        caller = Caller(cluster, OURS.read_text(), theirs=False)

        def posts() -> int:
            return sum(request["method"] == "POST" for request in server.requests())

        resources = eventually("the event", lambda: [e.resources for e in client.poll().events])[0]
        for _ in range(3):
            assert caller.monitor() == 0
        assert caller.attributes["db-1 azure-empty"] == "db_0"
        assert posts() == 0
        # The case of a name does not matter.
        other = next(name for name in resources if name != "db_0").upper()
        update = ["--lifetime=forever", "--name=azure-empty", f"--update={other}"]
        cluster.nodes[0].run("crm_attribute", "--node=db-2", *update)
        assert caller.monitor() == 0
        assert posts() == 1
