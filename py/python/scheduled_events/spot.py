"""The life cycle of a workload on a Spot machine, as Microsoft's guidance for interruptible workloads describes it.

``scheduled-events run`` keeps a worker according to it.

>>> Phase.PROCESSING.next(Signal.NOTICE)
Phase.EVICTED
>>> Phase.SHUTDOWN.next(Signal.WARMED_UP) is None
True
"""

from __future__ import annotations

from . import _native
from ._words import _Word

__all__ = ["Phase", "Signal"]


class Signal(_Word):
    """What moves a workload from one phase to the next."""

    WARMED_UP = "warmed-up"
    NOTICE = "notice"
    ADVISED = "advised"
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
