//! The life cycle of a workload on a Spot machine, as words. `python/scheduled_events/spot.py` has the classes.

use pyo3::prelude::*;
use scheduled_events_core::spot::{Phase, Signal};

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
