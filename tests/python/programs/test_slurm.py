"""examples/agents/slurm.sh as a hook of the command, against the replay server and a real Slurm."""

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE, eventually
from slurm import Slurm, slurm
from test_examples_agents import AGENTS, DONE, Machine

SCRIPT = f"{AGENTS}/slurm.sh"
DRAIN, RESUME = (shlex.join([SCRIPT, word]) for word in ("drain", "resume"))
# It goes on for two seconds after SIGTERM.
ENDS_SLOWLY = "trap 'sleep 2; exit 0' TERM\nsleep 600 &\nwait\nwait"
IGNORES_SIGTERM = "trap '' TERM\nwhile :; do sleep 1; done"


@pytest.fixture
def cluster(environment: "dict[str, str]", tmp_path: Path) -> "Iterator[Slurm]":
    with slurm(tmp_path / "slurm", environment) as cluster:
        yield cluster


def drain(cluster: Slurm, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {**cluster.environment, **variables}
    return subprocess.run([SCRIPT, "drain"], env=environment, capture_output=True, text=True, timeout=PATIENCE)


def test_slurm_waits_for_its_jobs(cluster: Slurm, tmp_path: Path) -> None:
    cluster.submit("short", f"while [ ! -e {tmp_path}/end ]; do sleep 0.1; done")
    cluster.environment["LEAVE"] = "2"
    machine = Machine(tmp_path, cluster.environment)

    def end_jobs() -> None:
        eventually("the drain", lambda: cluster.node() == ("draining", "azure-maintenance"))
        assert machine.posts() == 0
        (tmp_path / "end").touch()

    assert machine.watch(DRAIN, RESUME, end_jobs) == DONE
    assert cluster.restarts("short") == [0]
    assert cluster.node() == ("idle", "none")


def test_fault_45_a_job_that_takes_a_while_to_end_is_requeued_once(cluster: Slurm, tmp_path: Path) -> None:
    cluster.submit("slow", ENDS_SLOWLY)
    # Two tasks run, and one is pending. The job's own number is that of one of its tasks.
    cluster.submit("array", "sleep 600", "--array=1-3%2")
    machine = Machine(tmp_path, cluster.environment, "preempt", speed=3)
    assert machine.watch(DRAIN, RESUME) == DONE
    assert cluster.restarts("slow") == [1]
    assert sorted(cluster.restarts("array")) == [0, 1, 1]
    assert cluster.node()[1] == "none"


def test_fault_45_what_slurm_does_not_requeue_ends_by_a_signal(cluster: Slurm, tmp_path: Path) -> None:
    cluster.submit("once", ENDS_SLOWLY, "--no-requeue")
    cluster.interactive("srun", "srun", "sleep", "600")
    cluster.interactive("salloc", "salloc", "srun", "sleep", "600")
    cluster.interactive("idle", "salloc", "sleep", "600")
    machine = Machine(tmp_path, cluster.environment, "preempt", speed=3)
    assert machine.watch(DRAIN, RESUME) == DONE
    assert cluster.states("once") == ["COMPLETED"]
    assert [cluster.states(name) for name in ("srun", "salloc", "idle")] == [["FAILED"], ["FAILED"], ["CANCELLED"]]


def test_slurm_fails_the_drain_for_a_job_that_stays(cluster: Slurm, tmp_path: Path) -> None:
    stays = cluster.submit("stays", IGNORES_SIGTERM, "--no-requeue")
    cluster.submit("plain", "sleep 600")
    done = drain(cluster, SCHEDULED_EVENTS_SECONDS_LEFT="10")
    assert done.returncode == 1
    notice, verdict = done.stderr.splitlines()
    assert notice.startswith(f"slurm: job {stays} of ")
    assert notice.endswith("must not be requeued: it gets SIGTERM")
    assert verdict == f"slurm: still here: {stays}"
    assert cluster.states("stays") == ["RUNNING"]
    assert cluster.restarts("plain") == [1]


def test_slurm_leaves_a_node_drained_that_an_administrator_drained(cluster: Slurm, tmp_path: Path) -> None:
    cluster.run("scontrol", "update", "NodeName=node1", "State=DRAIN", "Reason=broken fan")
    assert Machine(tmp_path, cluster.environment).watch(DRAIN, RESUME) == DONE
    assert cluster.node() == ("drained", "broken fan")


def test_slurm_that_does_not_answer_has_no_drained_node(cluster: Slurm, tmp_path: Path) -> None:
    controller = cluster.daemons[1]
    controller.kill()
    controller.wait(PATIENCE)
    done = drain(cluster, SLURMD_NODENAME="node1")
    assert done.returncode == 1
    assert "Unable to contact slurm controller" in done.stderr


def test_slurm_without_this_machine_is_not_asked_again(cluster: Slurm, tmp_path: Path) -> None:
    hostname = tmp_path / "commands" / "hostname"
    hostname.parent.mkdir()
    hostname.write_text("#!/bin/sh\necho stranger\n")
    hostname.chmod(0o755)
    done = drain(cluster, PATH=f"{hostname.parent}:{cluster.environment['PATH']}")
    assert done.stderr == "slurm: no node has the host name stranger; set SLURMD_NODENAME\n"
    assert done.returncode == 78
