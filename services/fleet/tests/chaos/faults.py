"""Faults of machines and of their store. Each fault ends by itself."""

from __future__ import annotations

import heapq
import itertools
import random
import signal
import time
from collections.abc import Callable

from engines import Engine
from fleet import PARTS, Journal, Machine, Replay, Timings


class Faults:
    """Disturbs one machine or the store repeatedly."""

    def __init__(
        self, machines: list[Machine], engine: Engine, timings: Timings, journal: Journal, chance: random.Random
    ) -> None:
        self.machines, self.engine, self.timings, self.journal, self.chance = machines, engine, timings, journal, chance
        self.due: list[tuple[float, int, Callable[[], None]]] = []
        self.number = itertools.count()
        self.servers = list({id(machine.server): machine.server for machine in machines}.values())
        self.seen = {id(server): 0 for server in self.servers}
        self.began = time.monotonic()
        self.next = time.monotonic() + 3
        # In a long run each machine has as many faults in a small fleet as in a large one.
        self.pace = max(1, 24 / len(machines)) if timings.ends_machines else 1
        self.next_of_store = time.monotonic() + chance.uniform(8, 20)
        self.failed = {id(server): 0 for server in self.servers}
        self.next_change = time.monotonic() + chance.uniform(8, 16)
        self.next_backup = time.monotonic() + chance.uniform(20, 60)

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        heapq.heappush(self.due, (time.monotonic() + seconds, next(self.number), work))

    def pass_time(self) -> None:
        """Ends faults that are due, and begins random ones."""
        self.end_due(time.monotonic())
        self.reboot()
        self.join_and_leave(time.monotonic() - self.began)
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + self.chance.uniform(0.2, 2) * self.pace
            machine = self.chance.choice(self.machines)
            if not machine.is_disturbed and not machine.off:
                self.disturb(machine)
        if time.monotonic() >= self.next_of_store:
            self.next_of_store = time.monotonic() + self.chance.uniform(15, 40)
            self.disturb_store()
        if time.monotonic() >= self.next_change:
            self.next_change = time.monotonic() + self.chance.uniform(10, 40)
            self.change_event(self.chance.choice(self.servers))
        # Some change after the decision, before the approval is repeated.
        for server in self.servers:
            if server.failed != self.failed[id(server)]:
                self.failed[id(server)] = server.failed
                if self.chance.random() < 0.5:
                    self.change_event(server)
        # In a short run, the events do not survive a loss of registers.
        if self.timings.ends_machines and time.monotonic() >= self.next_backup:
            self.next_backup = time.monotonic() + self.chance.uniform(40, 90)
            self.restore_store()

    def end_due(self, until: float) -> None:
        while self.due and self.due[0][0] <= until:
            heapq.heappop(self.due)[2]()

    def end_all(self) -> None:
        """Ends all faults. Machines that were removed stay away."""
        self.end_due(float("inf"))
        for machine in self.machines:
            self.join(machine)

    def disturb(self, machine: Machine) -> None:
        faults = [self.kill] * 4 + [self.stop] * 2 + [self.switch_off] + [self.delay] * 2
        if self.timings.ends_machines:
            faults.append(self.copy)
        if machine.proxy:
            faults += [self.silence, self.refuse, self.cut]
        self.chance.choice(faults)(machine)

    def parts(self) -> tuple[str, ...]:
        return self.chance.choice([("watcher",), ("daemon",), PARTS])

    def for_a_while(self, machine: Machine, what: str, seconds: float, end: Callable[[], None]) -> None:
        machine.is_disturbed = True
        has_ended = self.journal.begin(machine.name, what)

        def work() -> None:
            end()
            machine.is_disturbed = False
            has_ended()

        self.later(seconds, work)

    def kill(self, machine: Machine) -> None:
        parts = self.parts()
        machine.kill(parts)
        self.for_a_while(
            machine, f"killed {' and '.join(parts)}", self.chance.uniform(0, 4), lambda: machine.start(parts)
        )

    def stop(self, machine: Machine) -> None:
        parts = self.parts()
        machine.signal(parts, signal.SIGSTOP)
        self.for_a_while(
            machine,
            f"stopped {' and '.join(parts)}",
            self.chance.uniform(1, self.timings.pause_max),
            lambda: machine.signal(parts, signal.SIGCONT),
        )

    def silence(self, machine: Machine) -> None:
        assert machine.proxy
        machine.proxy.silence()
        self.for_a_while(machine, "silent store", self.chance.uniform(1, self.timings.pause_max), machine.proxy.heal)

    def refuse(self, machine: Machine) -> None:
        assert machine.proxy
        machine.proxy.refuse()
        self.for_a_while(
            machine, "refused connections", self.chance.uniform(1, self.timings.pause_max), machine.proxy.heal
        )

    def cut(self, machine: Machine) -> None:
        assert machine.proxy
        machine.proxy.cut()
        self.for_a_while(machine, "cut connections", 0, lambda: None)

    def delay(self, machine: Machine) -> None:
        """The machine's documents stay as they are."""
        machine.documents.is_late = True

        def end() -> None:
            machine.documents.is_late = False

        self.for_a_while(machine, "late documents", self.chance.uniform(1, self.timings.pause_max), end)

    def copy(self, machine: Machine) -> None:
        """Another computer starts as a copy of the machine, which goes on."""
        machine.start_copy()
        seconds = self.chance.uniform(2, 2 * self.timings.pause_max)
        self.for_a_while(machine, "copy", seconds, machine.end_copy)

    def change_event(self, server: Replay) -> None:
        """The duration of an event changes. Half of the times, the documents of a machine are late then."""
        events = sorted(server.open)
        if not events:
            return
        machines = [machine for machine in self.machines if machine.server is server]
        machine = self.chance.choice(machines)
        if self.chance.random() < 0.5 and not machine.is_disturbed and not machine.off:
            self.delay(machine)
        server.change_event(self.chance.choice(events))
        self.journal.begin("an event", "changed event")()

    def restore_store(self) -> None:
        """The store comes back from a backup of some seconds ago."""
        has_ended = self.journal.begin("", "restored store")
        self.engine.back_up()

        def restore() -> None:
            self.engine.restore()
            has_ended()

        self.later(self.chance.uniform(2, self.timings.pause_max), restore)

    def switch_off(self, machine: Machine) -> None:
        """The machine is switched off while it is in service, and comes back with a new disk."""
        if not machine.is_out():
            self.boot(machine, self.chance.uniform(4, 6), loses_disk=True)

    def boot(self, machine: Machine, seconds: float, loses_disk: bool) -> None:
        machine.kill()

        def on() -> None:
            # A preparation in progress when its watcher was killed continues for some seconds. A
            # machine never gets a new disk while it is out of service for an event that has not
            # started: it would be in service, and still marked as ready.
            kind, event = machine.last_step()
            if loses_disk and not (kind == "prepare" and event in machine.server.open):
                machine.lose_disk()
                self.journal.begin(machine.name, "lost disk")()
            machine.start()

        self.for_a_while(machine, "off", seconds, on)

    def join_and_leave(self, at: float) -> None:
        for machine in self.machines:
            if at >= machine.fate.joins:
                self.join(machine)
            # Without an event: it holds no slot.
            is_idle = not machine.is_disturbed and not machine.off and not machine.is_skewed
            if at >= machine.fate.leaves and is_idle and not machine.is_out():
                self.end(machine, "removed")

    def join(self, machine: Machine) -> None:
        if not machine.processes:
            machine.start()
            self.journal.begin(machine.name, "joined")()

    def end(self, machine: Machine, what: str) -> None:
        machine.kill()
        machine.is_disturbed = True
        self.journal.begin(machine.name, what)()

    def reboot(self) -> None:
        """Started events take machines down: most are back soon, some late, some with a new disk, some never."""
        for server in self.servers:
            for event, event_type in server.started[self.seen[id(server)] :]:
                self.seen[id(server)] += 1
                for machine in self.machines:
                    is_hit = machine.server is server and machine.last_step() == ("prepare", event)
                    if not is_hit or machine.is_disturbed or machine.off:
                        continue
                    if event_type == "Terminate" and not machine.is_skewed:
                        self.end(machine, "terminated")
                    elif (dice := self.chance.random()) < 0.6:
                        seconds = self.chance.uniform(4, self.timings.boot_max if dice < 0.2 else 6)
                        self.boot(machine, seconds, loses_disk=self.chance.random() < 0.3)

    def disturb_store(self) -> None:
        if not self.engine.process:
            return
        if self.engine.can_be_killed and self.chance.random() < 0.5:
            has_ended = self.journal.begin("", "killed store")
            self.engine.stop()
            time.sleep(self.chance.uniform(0, 3))
            self.engine.start()
            has_ended()
            return
        has_ended = self.journal.begin("", "stopped store")
        self.engine.signal(signal.SIGSTOP)

        def go_on() -> None:
            self.engine.signal(signal.SIGCONT)
            has_ended()

        self.next_of_store += 10
        self.later(self.chance.uniform(1, min(8, self.timings.pause_max)), go_on)
