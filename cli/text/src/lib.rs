//! Text for people that the programs of `scheduled-events` share: the command, and the services beside it.
//!
//! [`finding`] is what a check found: `doctor` and the `check` of each service print it in the same form. It uses [`table`], which
//! fits a terminal, [`style`] for colours, and [`words`] for numbers and lengths of time.
//!
//! [`stream`] writes to standard output and standard error without waiting for a reader that hangs. Nothing else is printed here, and
//! nothing is read.

#![forbid(unsafe_code)]

pub mod finding;
pub mod stream;
pub mod style;
pub mod table;
pub mod words;

#[cfg(test)]
scheduled_events_test_support::nothing_is_left_over!();
