"""The machines of a run, and the replay servers that stand for their metadata service."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines import HERE, ROOT, Engine, limited, program, start, wait_for
from proxy import Documents, Proxy

BUILT = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve() / "debug"
WATCHER = program("SCHEDULED_EVENTS", BUILT / "scheduled-events")
DAEMON = program("SCHEDULED_EVENTS_FLEET", BUILT / "scheduled-events-fleet")
PARTS = ("watcher", "daemon")
# The faults of the replay servers.
FAULTS = [
    "post.reset@1", "post.status:503@2", "post.reset@5-6", "post.silence@8", "post.reset-mid-body@9-10",
    "get.status:503@12-14", "get.empty@20", "get.stale:2@25-30", "get.reset@40", "get.half-document@50",
    "get.status:429@60-61", "get.stale:3@80-84", "get.silence@100", "get.not-json@120", "get.reset-mid-body@140-141",
]  # fmt: skip
# The durations of an event, in seconds: at first, and after each change the next one.
DURATIONS = (5, 900)


@dataclass
class Timings:
    """The durations of a run, in seconds. `settings` is the configuration of the daemons."""

    notice: int
    silent_after: int
    return_within: int
    settings: str
    pause_max: float  # of what is stopped, silent or cut off
    boot_max: float  # of a machine that starts slowly
    ends_machines: bool  # some are removed, and some are added

    @classmethod
    def quick(cls, short: bool) -> Timings:
        if short:
            # No machine leaves for good, and on a busy computer none must seem to.
            settings = 'heartbeat = "5s"\nsilent_after = "10m"\nreturn_within = "60s"\n'
            return cls(90, 600, 60, settings, 4, 6, False)
        settings = 'heartbeat = "5s"\nsilent_after = "20s"\nreturn_within = "60s"\nforget_after = "2m"\n'
        return cls(90, 20, 60, settings, 12, 40, True)

    @classmethod
    def default(cls, short: bool) -> Timings:
        return cls(900, 120, 900, "", 60, 240, not short)


@dataclass
class Fate:
    """When a machine joins and when it is deleted, in seconds since the begin of the run."""

    joins: float = 0
    leaves: float = float("inf")
    # When an event that appears then terminates it.
    ends: float = float("inf")

    @classmethod
    def by_chance(cls, chance: random.Random, seconds: int) -> Fate:
        dice = chance.random()
        if dice < 0.1:
            return cls(joins=chance.uniform(0, seconds / 2))
        return cls(leaves=chance.uniform(seconds / 4, seconds)) if dice < 0.2 else cls()

    def is_there(self, at: float) -> bool:
        """Whether the machine most likely exists for an event that appears at this time."""
        return self.joins - 10 < at < min(self.leaves - 30, self.ends)


def scenario(fates: list[Fate], limit: int, seconds: int, timings: Timings, chance: random.Random) -> str:
    """Events that follow each other, as a scenario of the replay server."""
    text = ['about = "Events that follow each other."']
    at = 4.0
    # In a long run, more events would only wait for places and prepare by their last call.
    interval = 2 * max(1, min(2, 30 / len(fates))) if timings.ends_machines else 1
    while at < seconds:
        # One in ten events affects a machine that does not exist.
        is_certain = chance.random() < 0.9
        there = [peer for peer, fate in enumerate(fates) if not is_certain or fate.is_there(at)]
        # One in ten is larger than the limit, and goes alone.
        size = limit + 2 if chance.random() < 0.1 else chance.randint(1, max(2, limit // 2))
        peers = chance.sample(there, min(len(there), size))
        event_type = "Reboot"
        # However long the run is, most machines stay.
        if timings.ends_machines and chance.random() < 0.08 and 2 * len(there) > len(fates):
            event_type, peers = "Terminate", peers[:1]
            fates[peers[0]].ends = at
        names = ", ".join(f'"{{peer:{peer}}}"' for peer in peers)
        text.append(
            f'[[event]]\nevent_type = "{event_type}"\nappears = "{int(at * 1000)}ms"\nnotice = "{timings.notice}s"\n'
            f'duration_in_seconds = {DURATIONS[0]}\nstarts_after_approval = "500ms"\nstarted_for = "1500ms"\n'
            f"resources = [{names}]\n"
        )
        at += chance.uniform(6, 14) * interval
    return "\n".join(text)


def now() -> int:
    return time.time_ns() // 1_000_000


class Journal:
    """The faults and their victims, for check.py: a line for each fault once it has ended."""

    def __init__(self, file: Path) -> None:
        self.file = file.open("w")
        self.counts: dict[str, int] = {}

    def begin(self, who: str, what: str) -> Callable[[], None]:
        """Begins a fault, and returns a function that ends it. `who` is a machine, or nobody for the store."""
        began = now()
        self.counts[what] = self.counts.get(what, 0) + 1

        def end() -> None:
            self.write({"machine": who, "what": what, "begin": began, "end": now()})

        return end

    def write(self, line: dict[str, object]) -> None:
        print(json.dumps(line), file=self.file, flush=True)


class Replay:
    """A replay server with some machines, and events until the end."""

    def __init__(self, number: int, folder: Path, first: str, count: int, text: str) -> None:
        scenario = folder / f"scenario-{number}.toml"
        scenario.write_text(text)
        self.log = (folder / f"server-{number}.log").open("w")
        words = [WATCHER, "replay", scenario, "--machines", count, "--vm-name", first, "--seed", number + 1]
        words += [word for fault in FAULTS for word in ("--fault", fault)]
        self.process = subprocess.Popen(
            limited(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.urls: dict[str, str] = {}
        self.is_over = False
        # The events that have started, and their types.
        self.started: list[tuple[str, str]] = []
        self.open: set[str] = set()
        # The durations of events that have changed, and how often one did.
        self.durations: dict[str, int] = {}
        self.changes = 0
        # How many approvals failed.
        self.failed = 0
        threading.Thread(target=self.read, args=(first,), daemon=True).start()
        wait_for("the replay server", lambda: len(self.urls) == count)

    def read(self, first: str) -> None:
        for line in self.process.stdout or ():
            print(now(), line, end="", file=self.log, flush=True)
            words = line.split()
            if line.startswith("listening on "):
                self.urls[words[4] if len(words) > 4 else first] = words[2]
            elif " appears, Scheduled" in line:
                self.open.add(words[1].lower())
            elif line.endswith(" is Started\n"):
                self.open.discard(words[1].lower())
                self.started.append((words[1].lower(), words[0]))
            elif ": POST " in line and " -> 200" not in line:
                self.failed += 1
            self.is_over |= "every event has ended" in line

    def change_event(self, event: str) -> None:
        """Changes the event's duration."""
        now = DURATIONS.index(self.durations.get(event, DURATIONS[0]))
        self.durations[event] = DURATIONS[(now + 1) % len(DURATIONS)]
        self.changes += 1

    def change(self, document: dict[str, Any]) -> None:
        """Changes a document to what it is now."""
        document["DocumentIncarnation"] += self.changes
        for event in document["Events"]:
            event["DurationInSeconds"] = self.durations.get(event["EventId"].lower(), event["DurationInSeconds"])


class Machine:
    """A watcher and a daemon."""

    def __init__(
        self,
        name: str,
        server: Replay,
        fate: Fate,
        folder: Path,
        limit: int,
        engine: Engine,
        policy: Path,
        timings: Timings,
    ) -> None:
        self.name, self.server, self.limit, self.fate = name, server, limit, fate
        self.folder = folder / "machines" / name
        self.folder.mkdir(parents=True)
        self.proxy = Proxy(engine.port) if engine.port else None
        port = self.proxy.port if self.proxy else 0
        self.environment = {**os.environ, **engine.environment(self.folder, port), "TZ": "UTC"}
        self.documents = Documents(server.urls[name], server.change)
        url = self.documents.url
        config = self.folder / "fleet.toml"
        config.write_text(
            f'machine = "{name}"\nmetadata = "{url}"\nsocket = "{self.folder}/socket"\naudit = "{self.folder}/audit"\n'
            f"{timings.settings}{engine.config(port)}"
            f'[[group]]\nname = "all"\nmachines = ["*"]\nmax_unavailable = {limit}\n'
        )
        self.log = (self.folder / "log").open("w")
        hook = HERE / "hook"
        watch = [WATCHER, "watch", "--endpoint", url, "--vm-name", name, "--policy", policy, "--quiet"]
        watch += ["--state", self.folder / "state", "--audit", self.folder / "audit"]
        watch += ["--gate", f"'{DAEMON}' --config '{config}' ask"]
        for kind in ("prepare", "recover"):
            watch += [f"--{kind}", f"'{hook}' {kind} '{self.folder}/hooks'"]
        self.words = {"watcher": watch, "daemon": [DAEMON, "--config", config, "run"]}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        # The processes that do not run: killed, not started yet, or ended for good.
        self.off: set[str] = set(PARTS)
        # Whether a fault lasts.
        self.is_disturbed = False
        # Whether its configuration has another limit than the others'.
        self.is_skewed = False
        self.losses = 0
        self.copies: list[subprocess.Popen[bytes]] = []
        self.copied = 0

    def start_copy(self) -> None:
        """Starts another computer with this machine's configuration, and without state."""
        self.copied += 1
        folder = self.folder.parent.parent / "copies" / f"{self.name}-{self.copied}"
        folder.mkdir(parents=True)
        config = (self.folder / "fleet.toml").read_text()
        (folder / "fleet.toml").write_text(config.replace(f"{self.folder}/", f"{folder}/"))
        environment = {**self.environment, "SCHEDULED_EVENTS_BOOT_ID": folder.name}
        with (folder / "log").open("w") as log:
            for part in reversed(PARTS):
                words = [str(word).replace(str(self.folder), str(folder)) for word in self.words[part]]
                self.copies.append(start(limited(words), log, env=environment))

    def end_copy(self) -> None:
        for process in self.copies:
            process.kill()
            process.wait()
        self.copies.clear()

    def start(self, parts: tuple[str, ...] = PARTS) -> None:
        for part in parts:
            self.processes[part] = start(limited(self.words[part]), self.log, env=self.environment)
            self.off.discard(part)

    def kill(self, parts: tuple[str, ...] = PARTS) -> None:
        for part in parts:
            if part not in self.off:
                self.off.add(part)
                self.processes[part].kill()
                self.processes[part].wait()

    def signal(self, parts: tuple[str, ...], number: signal.Signals) -> None:
        for part in parts:
            with contextlib.suppress(ProcessLookupError):
                self.processes[part].send_signal(number)

    def last_step(self) -> tuple[str, str]:
        """The kind and the event of the last preparation or recovery that began or ended."""
        with contextlib.suppress(OSError, IndexError, ValueError):
            _, _, kind, event, _ = (self.folder / "hooks").read_text().splitlines()[-1].split()
            return kind, event.lower()
        return "", ""

    def is_out(self) -> bool:
        return self.last_step()[0] == "prepare"

    def lose_disk(self) -> None:
        """Deletes the state. The audit files are kept in a place that only check.py reads."""
        self.losses += 1
        for file in self.folder.glob("audit*"):
            if not file.name.startswith("audit-lost"):
                file.rename(self.folder / f"audit-lost-{self.losses}{file.name.removeprefix('audit')}")
        for file in self.folder.glob("state*"):
            file.unlink()

    def stop(self) -> None:
        self.end_copy()
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            if process.poll() is None:
                process.kill()

    def ended_by_itself(self) -> list[str]:
        return [part for part, process in self.processes.items() if part not in self.off and process.poll() is not None]
