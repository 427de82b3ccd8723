"""examples/agents/azure-maintenance on a real Pacemaker cluster of two nodes, as the guide sets it up."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE, ROOT, VM, eventually
from pacemaker import Cluster, pacemaker
from test_examples_agents import AGENTS

import scheduled_events as se

AGENT = AGENTS / "azure-maintenance"
OTHER_VM = "WestNO_1"
# A resource that runs on the first node unless something forbids it.
RESOURCE = """
primitive db ocf:pacemaker:Dummy op monitor interval=10s
location prefers-db-1 db 100: db-1
commit
"""


def pastes() -> "list[str]":
    """What the guide tells to paste, in order: on each node, and once."""
    page = (ROOT / "docs/use/coming-from.md").read_text("utf-8")
    section = page.partition("\n### azure-events-az\n")[2].partition("\n### ")[0]
    return re.findall(r"^```sh\n(.*?)^```", section, flags=re.M | re.S)


@pytest.fixture
def cluster(environment: "dict[str, str]", tmp_path: Path) -> "Iterator[Cluster]":
    with pacemaker(tmp_path / "cluster", environment) as cluster:
        yield cluster


def paste(cluster: Cluster, text: str) -> None:
    # The nodes share the folder of agents, so that one of them installs for both.
    cluster.nodes[0].run("sh", "-e", "-c", f"cd {ROOT}\n{text}")


def posts(server: se.Replay) -> int:
    return sum(request["method"] == "POST" for request in server.requests())


def score(cluster: Cluster, node: str) -> "str | None":
    return cluster.attributes().get(f"{node} #health-azure")


def test_the_guide_s_cluster_drains_approves_and_comes_back(cluster: Cluster) -> None:
    one, two = cluster.nodes
    server = se.replay("user-reboot", speed=0.01, seed=1, vm_name=VM)
    with server as url, se.replay("user-reboot", speed=0.01, seed=1, vm_name=OTHER_VM) as other_url:
        one.metadata.serve(url)
        two.metadata.serve(other_url)
        for text in pastes():
            paste(cluster, text)
        eventually("the agents", lambda: cluster.where("health-azure") == ["db-1", "db-2"])
        assert (score(cluster, "db-1"), score(cluster, "db-2")) == ("0", "0")
        one.run("crm", "configure", text=RESOURCE)
        eventually("the resource", lambda: cluster.where("db") == ["db-1"])
        one.run("crm_resource", "--validate", "--resource=health-azure")

        eventually("the event", server.step)
        eventually("the move", lambda: cluster.where("db") == ["db-2"])
        assert score(cluster, "db-1") == "-1000000"
        eventually("the approval", lambda: posts(server) == 1)
        assert cluster.where("health-azure") == ["db-1", "db-2"]
        while not server.finished:
            server.step()
        eventually("the return", lambda: cluster.where("db") == ["db-1"])
        assert (score(cluster, "db-1"), score(cluster, "db-2")) == ("0", "0")
        assert "the cluster lacks" not in one.log()


def test_fault_42_the_agent_reports_what_the_cluster_lacks_and_drains_nothing(cluster: Cluster) -> None:
    one, _ = cluster.nodes
    install, configure = pastes()
    paste(cluster, install)
    server = se.replay("user-reboot", speed=0.01, seed=1, vm_name=VM)
    with server as url:
        one.metadata.serve(url)
        one.run("crm", "configure", text=configure.splitlines()[1] + "\ncommit\n")
        lacks = ["allow-unhealthy-nodes=true", "node-health-strategy=custom"]
        validated = one.call("crm_resource", "--validate", "--resource=health-azure")
        assert validated.returncode != 0
        assert [text for text in lacks if text not in validated.stdout] == []
        eventually("the agent", lambda: cluster.where("health-azure"))
        assert [text for text in lacks if text not in one.log() + cluster.nodes[1].log()] == []
        assert "0" in (score(cluster, "db-1"), score(cluster, "db-2"))

        # With the strategy, the location rule is what is missing next.
        one.run("crm_attribute", "--type=crm_config", "--name=node-health-strategy", "--update=custom")
        validated = one.call("crm_resource", "--validate", "--resource=health-azure")
        assert "a location rule with the score #health-azure" in validated.stdout

        # The agent of the event's machine marks no node from which it would be removed itself.
        def monitor() -> "subprocess.CompletedProcess[str]":
            return call(cluster, "monitor", OCF_RESOURCE_INSTANCE="health-azure")

        monitor()
        eventually("the event", server.step)
        assert "the cluster lacks the clone's meta attribute" in monitor().stderr
        assert score(cluster, "db-1") in (None, "0")
        assert posts(server) == 0


def call(cluster: Cluster, action: str, agent: Path = AGENT, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Call an agent on the first node as Pacemaker does."""
    environment = {"OCF_ROOT": "/usr/lib/ocf", "OCF_RESKEY_state": str(cluster.folder / "started"), **variables}
    (cluster.folder / "started").touch()
    done = cluster.nodes[0].call(str(agent), action, **environment)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_fault_42_an_agent_whose_cluster_does_not_answer_reports_it(
    environment: "dict[str, str]", tmp_path: Path
) -> None:
    # No cluster runs on this machine itself.
    log = tmp_path / "log"
    environment = {
        **environment,
        "PATH": f"{environment['PATH']}:/usr/sbin",
        "OCF_RESKEY_state": f"{tmp_path}/started",
        "HA_LOGFILE": str(log),
    }
    with se.replay("user-reboot", speed=0.01, seed=1, vm_name=VM) as url:
        environment["SCHEDULED_EVENTS_ENDPOINT"] = url
        for action, code in (
            ("monitor", 7),
            ("start", 0),
            ("monitor", 0),
            ("validate-all", 1),
            ("stop", 0),
            ("stop", 0),
        ):
            done = subprocess.run(
                [str(AGENT), action], env=environment, capture_output=True, text=True, timeout=PATIENCE
            )
            assert done.returncode == code, (action, done.stderr)
            assert "Traceback" not in done.stderr
    assert "crm_node --name: exit code " in log.read_text()
    assert "cibadmin --query: exit code " in log.read_text()
    described = subprocess.run([str(AGENT), "meta-data"], env=environment, capture_output=True, text=True)
    assert '<parameter name="eventTypes"' in described.stdout
