"""Spot machines: the module has the life cycle of core."""

import doctest
import itertools
import sys

import pytest

from scheduled_events.spot import Phase, Signal


def test_an_evicted_workload_passes_through_every_phase():
    phase = Phase.PROCESSING
    passed = []
    signals = (Signal.NOTICE, Signal.STOPPED, Signal.RESTARTED, Signal.RECOVERED, Signal.RESUMED, Signal.WARMED_UP)
    for signal in signals:
        phase = phase.next(signal)
        passed.append(phase)
    assert passed == ["evicted", "shutdown", "recover", "resume", "warm-up", "processing"]
    assert set(passed) == set(Phase)


def test_every_pair_of_phase_and_signal_is_known():
    found = [phase.next(signal) for phase, signal in itertools.product(Phase, Signal)]
    assert sum(phase is not None for phase in found) == 17
    assert all(phase is None or isinstance(phase, Phase) for phase in found)
    assert Phase.EVICTED.next("withdrawn") is Phase.PROCESSING
    with pytest.raises(ValueError, match='found "asleep", expected one of warmed-up'):
        Phase.EVICTED.next("asleep")


def test_the_examples_of_the_module_run():
    assert doctest.testmod(sys.modules["scheduled_events.spot"]) == (0, 2)
