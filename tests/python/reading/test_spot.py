"""Spot machines: the module has the words and the tables of core."""

import doctest
import itertools

import pytest

from scheduled_events import spot
from scheduled_events.spot import EvictionCause, EvictionPolicy, EvictionType, Phase, Signal, SpotInput, SpotState


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
    assert sum(phase is not None for phase in found) == 16
    assert all(phase is None or isinstance(phase, Phase) for phase in found)
    assert Phase.EVICTED.next("withdrawn") is Phase.PROCESSING
    with pytest.raises(ValueError, match='found "asleep", expected one of warmed-up'):
        Phase.EVICTED.next("asleep")


def test_the_policy_decides_what_an_eviction_leaves():
    stopped, deleted = EvictionPolicy.DEALLOCATE.effect(), EvictionPolicy.DELETE.effect()
    assert stopped == ("stopped", True, True, False, False, True, True, "disks", "reallocate")
    assert deleted == ("deleted", False, False, False, False, None, False, "nothing", "recreate")
    assert repr(deleted.state) == "SpotState.DELETED"
    assert [kind.is_evicted_for(cause) for kind, cause in itertools.product(EvictionType, EvictionCause)] == [
        True,
        False,
        True,
        True,
    ]


def test_the_states_of_a_machine():
    def after(state, event, max_price, has_capacity, policy):
        return SpotState.after(state, event, max_price=max_price, has_capacity=has_capacity, policy=policy)

    assert after(None, SpotInput.DEPLOY, "sufficient", True, "delete") == ("running", "machine-and-disks")
    assert after("running", "evict", "exceeded", True, "deallocate") == ("stopped", "disks")
    assert after("stopped", "restart", "sufficient", False, "deallocate") is None
    with pytest.raises(ValueError, match="expected one of running, stopped, deleted"):
        after("gone", "restart", "sufficient", False, "deallocate")


def test_the_examples_of_the_module_run():
    assert doctest.testmod(spot) == (0, 3)
