"""A real Slurm of one node for tests: munged, slurmctld and slurmd, with their own files and ports, without systemd."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from conftest import PATIENCE, eventually

PROGRAMS = ("munged", "slurmctld", "slurmd", "squeue")
# As Debian's packages start them, but for the places, and a scheduler that does not wait.
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
KillWait=3
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=16
PartitionName=all Nodes=node1 Default=YES
"""


def free_ports(count: int) -> "list[int]":
    listeners = [socket.socket() for _ in range(count)]
    try:
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()


class Slurm:
    """A cluster whose only node, ``node1``, is this machine, which has another name."""

    def __init__(self, folder: Path, environment: "dict[str, str]") -> None:
        self.folder = folder
        path = f"{environment['PATH']}:/usr/sbin:/usr/local/sbin"
        missing = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
        assert not missing, f"{', '.join(missing)}: not installed; `tests/setup python` does it"
        self.environment = {**environment, "PATH": path, "SLURM_CONF": f"{folder}/slurm.conf"}
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        host = socket.gethostname().partition(".")[0]
        user = pwd.getpwuid(os.geteuid()).pw_name
        text = CONFIGURATION.format(folder=folder, host=host, user=user, ports=free_ports(2))
        (folder / "slurm.conf").write_text(text)
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o600)
        self.daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "seed-file": "munge.seed"}
        options = [f"--{option}={self.folder}/{file}" for option, file in files.items()]
        # The folder of a test is private, which munged takes for a mistake.
        self.daemon("munged", "--force", "--foreground", f"--log-file={self.folder}/munged.log", *options)
        eventually("munged", (self.folder / "munge.socket").exists)
        self.daemon("slurmctld", "-D")
        self.daemon("slurmd", "-D", "-N", "node1")
        eventually("an idle node", lambda: self.run("sinfo", "--noheader", "--format=%T", check=False) == "idle")

    def daemon(self, *command: str) -> None:
        with (self.folder / f"{command[0]}.out").open("wb") as out:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=out, stderr=out))

    def stop(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.kill()
            daemon.wait(PATIENCE)
        # The jobs, and slurmd's processes beside them, are children of nobody.
        while left := self.processes():
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def processes(self) -> "list[int]":
        """The processes of this cluster: this one is not one of them."""
        mark = f"SLURM_CONF={self.folder}/".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                pass  # It has ended, or is another user's.
        return found

    def run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        assert not check or done.returncode == 0, (command, done.stderr)
        return done.stdout.strip()

    def submit(self, name: str, script: str, *options: str) -> str:
        """Submit a batch job and wait until it runs, or until as much of an array runs as may."""
        file = self.folder / f"{name}.sh"
        file.write_text(f"#!/bin/sh\n{script}\n")
        output = f"--output={self.folder}/{name}.%j.out"
        job = self.run("sbatch", "--parsable", f"--job-name={name}", output, *options, str(file))
        eventually(f"a start of {name}", lambda: "RUNNING" in self.states(name))
        return job

    def interactive(self, name: str, *command: str) -> "subprocess.Popen[bytes]":
        """Start srun or salloc, and wait until the job runs."""
        words = [command[0], f"--job-name={name}", *command[1:]]
        with (self.folder / f"{name}.out").open("wb") as out:
            process = subprocess.Popen(
                words, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        self.daemons.append(process)
        eventually(f"a start of {name}", lambda: "RUNNING" in self.states(name))
        return process

    def states(self, name: str) -> "list[str]":
        """The state of each job of this name, and of each task of an array that was started."""
        return self.run("squeue", "--noheader", "--states=all", "--format=%T", f"--name={name}").split()

    def restarts(self, name: str) -> "list[int]":
        """How often each job of this name was requeued."""
        table = self.run("squeue", "--noheader", "--states=all", f"--name={name}", "--Format=RestartCnt")
        return [int(word) for word in table.split()]

    def node(self) -> "tuple[str, str]":
        """The state of the node and the reason for it."""
        state, _, reason = self.run("sinfo", "--noheader", "--Node", "--format=%T|%E").partition("|")
        return state, reason


@contextmanager
def slurm(folder: Path, environment: "dict[str, str]") -> "Iterator[Slurm]":
    """A running cluster, of which nothing is left afterwards."""
    cluster = Slurm(folder, environment)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
