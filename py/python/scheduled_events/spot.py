"""Spot machines: what an eviction does, and the life cycle of a workload that lives with it.

The tables are those of Microsoft's guidance for interruptible workloads on Spot VMs. ``scheduled-events run`` keeps a
worker according to this life cycle.

>>> Phase.PROCESSING.next(Signal.NOTICE)
Phase.EVICTED
>>> Phase.SHUTDOWN.next(Signal.WARMED_UP) is None
True
>>> EvictionPolicy.DELETE.effect().keeps_data_disks
False
"""

from __future__ import annotations

from typing import NamedTuple

from . import _native
from ._words import _Word

__all__ = [
    "Charges",
    "EvictionCause",
    "EvictionEffect",
    "EvictionPolicy",
    "EvictionType",
    "MaxPrice",
    "Phase",
    "Replacement",
    "Signal",
    "SpotInput",
    "SpotState",
]


class Signal(_Word):
    """What moves a workload from one phase to the next."""

    WARMED_UP = "warmed-up"
    NOTICE = "notice"
    WITHDRAWN = "withdrawn"
    STOPPED = "stopped"
    RESTARTED = "restarted"
    RECOVERED = "recovered"
    RESUMED = "resumed"


class Phase(_Word):
    """Where an interruptible workload is in its life cycle."""

    WARM_UP = "warm-up"
    PROCESSING = "processing"
    EVICTED = "evicted"
    SHUTDOWN = "shutdown"
    RECOVER = "recover"
    RESUME = "resume"

    def next(self, signal: Signal | str) -> Phase | None:
        """Return the phase after a signal; None if the signal has no meaning in this phase, which continues."""
        phase = _native._spot_next_phase(str(self), str(signal))
        return None if phase is None else Phase(phase)


class EvictionCause(_Word):
    """Why a machine is evicted."""

    CAPACITY = "capacity"
    PRICE = "price"


class EvictionType(_Word):
    """When a machine is evicted, chosen when it is created."""

    CAPACITY_ONLY = "capacity-only"
    PRICE_OR_CAPACITY = "price-or-capacity"

    def is_evicted_for(self, cause: EvictionCause | str) -> bool:
        """Return whether a machine of this type is evicted for this cause."""
        return _native._spot_is_evicted_for(str(self), str(cause))


class Charges(_Word):
    """What is paid for a machine."""

    MACHINE_AND_DISKS = "machine-and-disks"
    DISKS = "disks"
    NOTHING = "nothing"


class Replacement(_Word):
    """How a machine comes back after an eviction."""

    REALLOCATE = "reallocate"
    RECREATE = "recreate"


class MaxPrice(_Word):
    """A machine's maximum price beside the current one; ``UNLIMITED`` is Azure's -1."""

    UNLIMITED = "unlimited"
    SUFFICIENT = "sufficient"
    EXCEEDED = "exceeded"


class SpotInput(_Word):
    """What is done to a machine."""

    DEPLOY = "deploy"
    EVICT = "evict"
    RESTART = "restart"


class EvictionPolicy(_Word):
    """What an eviction does to the machine, chosen when it is created."""

    DEALLOCATE = "deallocate"
    DELETE = "delete"

    def effect(self) -> EvictionEffect:
        """Return what an eviction leaves. Its cause makes no difference."""
        state, disks, local, capacity, dynamic, static, cores, charges, replacement = _native._spot_effect(str(self))
        return EvictionEffect(
            state=SpotState(state),
            keeps_data_disks=disks,
            keeps_local_checkpoints=local,
            keeps_capacity=capacity,
            keeps_dynamic_addresses=dynamic,
            keeps_static_addresses=static,
            occupies_cores=cores,
            charges=Charges(charges),
            replacement=Replacement(replacement),
        )


class SpotState(_Word):
    """The state of a machine."""

    RUNNING = "running"
    STOPPED = "stopped"
    DELETED = "deleted"

    @staticmethod
    def after(
        state: SpotState | str | None,
        event: SpotInput | str,
        *,
        max_price: MaxPrice | str,
        has_capacity: bool,
        policy: EvictionPolicy | str,
    ) -> tuple[SpotState, Charges] | None:
        """Return what becomes of a machine and what is paid for it; None if the state stays. None is no machine yet."""
        before = None if state is None else str(state)
        after = _native._spot_next_state(before, str(event), str(max_price), has_capacity, str(policy))
        return None if after is None else (SpotState(after[0]), Charges(after[1]))


class EvictionEffect(NamedTuple):
    """What an eviction leaves of a machine, and what the workload may expect afterwards."""

    state: SpotState
    keeps_data_disks: bool
    keeps_local_checkpoints: bool
    keeps_capacity: bool
    keeps_dynamic_addresses: bool
    keeps_static_addresses: bool | None
    """None: the guidance does not state it for a deleted machine."""
    occupies_cores: bool
    charges: Charges
    replacement: Replacement
