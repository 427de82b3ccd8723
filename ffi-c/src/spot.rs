//! The life cycle of a workload on a Spot machine.

use std::ffi::{CStr, c_char};

use scheduled_events_core::spot::{Phase, Signal};

use crate::abi::pointers::output;
use crate::boundary::{Result, boundary};
use crate::status::schedev_status::{self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT};

/// Where an interruptible workload is in its life cycle.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_spot_phase {
    /// It checks that it is healthy, and processes nothing yet.
    SCHEDEV_SPOT_WARMUP = 1,
    /// It processes, and saves checkpoints regularly.
    SCHEDEV_SPOT_PROCESSING = 2,
    /// An event that stops it is announced: it saves a last checkpoint and stops.
    SCHEDEV_SPOT_EVICTED = 3,
    /// It is stopped, and the machine may go away at any time.
    SCHEDEV_SPOT_SHUTDOWN = 4,
    /// The machine is back: it restores its latest checkpoint.
    SCHEDEV_SPOT_RECOVER = 5,
    /// It is about to continue, through a warm-up.
    SCHEDEV_SPOT_RESUME = 6,
}

/// What moves a workload from one phase to the next.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_spot_signal {
    /// The warm-up succeeded.
    SCHEDEV_SPOT_SIGNAL_WARMED_UP = 1,
    /// An event that stops the workload was announced.
    SCHEDEV_SPOT_SIGNAL_NOTICE = 2,
    /// The machine may be evicted soon, or not at all. A workload that processes saves a checkpoint, and goes on.
    SCHEDEV_SPOT_SIGNAL_ADVISED = 3,
    /// The event was cancelled, or is over and the machine still runs.
    SCHEDEV_SPOT_SIGNAL_WITHDRAWN = 4,
    /// The workload has stopped.
    SCHEDEV_SPOT_SIGNAL_STOPPED = 5,
    /// The machine or the program that keeps the workload has started again.
    SCHEDEV_SPOT_SIGNAL_RESTARTED = 6,
    /// The latest checkpoint is restored, if there is one.
    SCHEDEV_SPOT_SIGNAL_RECOVERED = 7,
    /// The workload is about to process again.
    SCHEDEV_SPOT_SIGNAL_RESUMED = 8,
}

/// The number of a core value: its place in core's list, from 1.
fn number<T: Copy + PartialEq>(value: T, all: &[T]) -> u32 {
    all.iter()
        .zip(1..)
        .find(|(known, _)| **known == value)
        .map_or(0, |(_, number)| number)
}

/// The core value of a number.
fn value<T: Copy>(number: u32, all: &[T]) -> Result<T> {
    let index = usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1));
    index
        .and_then(|index| all.get(index))
        .copied()
        .ok_or(SCHEDEV_ERROR_ARGUMENT)
}

/// Returns the phase of a workload after a signal. The life cycle is that of Microsoft's guidance for interruptible workloads.
///
/// @param phase   the schedev_spot_phase now.
/// @param signal  a schedev_spot_signal.
/// @param next    receives the next schedev_spot_phase.
/// @return SCHEDEV_OK; SCHEDEV_END if the signal has no meaning in this phase, which continues; SCHEDEV_ERROR_ARGUMENT for an
///         unknown phase or signal; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_spot_next_phase(
    phase: u32,
    signal: u32,
    next: *mut u32,
) -> schedev_status {
    boundary(|| {
        let output = checked!(output(next));
        let (phase, signal) = (value(phase, &Phase::ALL)?, value(signal, &Signal::ALL)?);
        output.write(number(phase.next(signal).ok_or(SCHEDEV_END)?, &Phase::ALL));
        Ok(())
    })
}

/// The words of the phases, in the order of their numbers.
const PHASES: [&CStr; 6] = [
    c"warm-up",
    c"processing",
    c"evicted",
    c"shutdown",
    c"recover",
    c"resume",
];

/// Returns a schedev_spot_phase as a word, such as "warm-up".
///
/// @param phase  a schedev_spot_phase, or any other number.
/// @return a static string; "unknown" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_spot_phase_word(phase: u32) -> *const c_char {
    value(phase, &PHASES).unwrap_or(c"unknown").as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedev_status::{SCHEDEV_ERROR_NULL, SCHEDEV_OK};

    #[test]
    fn the_numbers_and_words_are_those_of_core() {
        for (phase, word) in Phase::ALL.into_iter().zip(PHASES) {
            assert_eq!(word.to_str(), Ok(phase.word()));
        }
        assert_eq!(
            schedev_spot_phase::SCHEDEV_SPOT_WARMUP as u32,
            number(Phase::Warmup, &Phase::ALL)
        );
        assert_eq!(
            schedev_spot_phase::SCHEDEV_SPOT_PROCESSING as u32,
            number(Phase::Processing, &Phase::ALL)
        );
        assert_eq!(
            schedev_spot_phase::SCHEDEV_SPOT_EVICTED as u32,
            number(Phase::Evicted, &Phase::ALL)
        );
        assert_eq!(
            schedev_spot_phase::SCHEDEV_SPOT_SHUTDOWN as u32,
            number(Phase::Shutdown, &Phase::ALL)
        );
        assert_eq!(
            schedev_spot_phase::SCHEDEV_SPOT_RECOVER as u32,
            number(Phase::Recover, &Phase::ALL)
        );
        assert_eq!(
            schedev_spot_phase::SCHEDEV_SPOT_RESUME as u32,
            number(Phase::Resume, &Phase::ALL)
        );
        assert_eq!(Phase::ALL.len(), 6);
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_WARMED_UP as u32,
            number(Signal::WarmedUp, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_NOTICE as u32,
            number(Signal::Notice, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_ADVISED as u32,
            number(Signal::Advised, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_WITHDRAWN as u32,
            number(Signal::Withdrawn, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_STOPPED as u32,
            number(Signal::Stopped, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_RESTARTED as u32,
            number(Signal::Restarted, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_RECOVERED as u32,
            number(Signal::Recovered, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_RESUMED as u32,
            number(Signal::Resumed, &Signal::ALL)
        );
        assert_eq!(Signal::ALL.len(), 8);
    }

    #[test]
    fn every_transition_is_cores() {
        for (phase, from) in (0..=7).zip(
            core::iter::once(None)
                .chain(Phase::ALL.map(Some))
                .chain([None]),
        ) {
            for (signal, with) in (0..=9).zip(
                core::iter::once(None)
                    .chain(Signal::ALL.map(Some))
                    .chain([None]),
            ) {
                let mut next = 99;
                // SAFETY: the pointer is to a number.
                let status = unsafe { schedev_spot_next_phase(phase, signal, &raw mut next) };
                let expected = match from.zip(with).map(|(from, with)| from.next(with)) {
                    None => (SCHEDEV_ERROR_ARGUMENT, 99),
                    Some(None) => (SCHEDEV_END, 99),
                    Some(Some(to)) => (SCHEDEV_OK, number(to, &Phase::ALL)),
                };
                assert_eq!((status, next), expected, "{phase} {signal}");
            }
        }
        // SAFETY: NULL is refused.
        let status = unsafe { schedev_spot_next_phase(1, 1, core::ptr::null_mut()) };
        assert_eq!(status, SCHEDEV_ERROR_NULL);
    }
}
