//! Spot machines: the tables of core, as words and tuples. `python/scheduled_events/spot.py` has the classes.

use pyo3::prelude::*;
use scheduled_events_core::spot::{
    Allocation, EvictionCause, EvictionPolicy, EvictionType, MaxPrice, Phase, Signal, SpotInput,
    SpotState,
};

use crate::errors;

/// The value of a word.
fn value<T: Copy>(word: &str, all: &[T], word_of: fn(T) -> &'static str) -> PyResult<T> {
    let known = all.iter().copied().find(|known| word_of(*known) == word);
    known.ok_or_else(|| {
        let words: Vec<_> = all.iter().map(|known| word_of(*known)).collect();
        let message = format!("found {word:?}, expected one of {}", words.join(", "));
        Python::attach(|py| errors::config(py, &message))
    })
}

/// The phase after a signal.
#[pyfunction]
#[pyo3(name = "_spot_next_phase")]
pub(crate) fn next_phase(phase: &str, signal: &str) -> PyResult<Option<&'static str>> {
    let (phase, signal) = (
        value(phase, &Phase::ALL, Phase::word)?,
        value(signal, &Signal::ALL, Signal::word)?,
    );
    Ok(phase.next(signal).map(Phase::word))
}

/// Whether a machine of this type is evicted for this cause.
#[pyfunction]
#[pyo3(name = "_spot_is_evicted_for")]
pub(crate) fn is_evicted_for(eviction_type: &str, cause: &str) -> PyResult<bool> {
    let kind = value(eviction_type, &EvictionType::ALL, EvictionType::word)?;
    Ok(kind.is_evicted_for(value(cause, &EvictionCause::ALL, EvictionCause::word)?))
}

/// The members of `EvictionEffect`, in their order.
type Effect = (
    &'static str,
    bool,
    bool,
    bool,
    bool,
    Option<bool>,
    bool,
    &'static str,
    &'static str,
);

/// What an eviction leaves.
#[pyfunction]
#[pyo3(name = "_spot_effect")]
pub(crate) fn effect(policy: &str) -> PyResult<Effect> {
    let effect = value(policy, &EvictionPolicy::ALL, EvictionPolicy::word)?.effect();
    Ok((
        effect.state.word(),
        effect.keeps_data_disks,
        effect.keeps_local_checkpoints,
        effect.keeps_capacity,
        effect.keeps_dynamic_addresses,
        effect.keeps_static_addresses,
        effect.occupies_cores,
        effect.charges.word(),
        effect.replacement.word(),
    ))
}

/// The state of a machine afterwards, and what is paid for it.
#[pyfunction]
#[pyo3(name = "_spot_next_state")]
pub(crate) fn next_state(
    state: Option<&str>,
    event: &str,
    max_price: &str,
    has_capacity: bool,
    policy: &str,
) -> PyResult<Option<(&'static str, &'static str)>> {
    let state = state
        .map(|state| value(state, &SpotState::ALL, SpotState::word))
        .transpose()?;
    let allocation = Allocation {
        max_price: value(max_price, &MaxPrice::ALL, MaxPrice::word)?,
        has_capacity,
        policy: value(policy, &EvictionPolicy::ALL, EvictionPolicy::word)?,
    };
    let row = SpotState::after(
        state,
        value(event, &SpotInput::ALL, SpotInput::word)?,
        allocation,
    );
    Ok(row.map(|row| (row.to.word(), row.charges.word())))
}
