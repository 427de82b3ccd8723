//! Runs the real command against every known fault of the metadata service, and checks that no
//! event ends early, that the event is approved exactly once, and that failures are reported and
//! retried.
//!
//! - `row` defines a row: a fault, and the required behaviour of the client.
//! - `rows` has the rows. Each is a test, and a line of `docs/inside/faults.md`.
//! - `scenario_run` runs a row and checks it.
//! - `handwritten` has the cases that need more control over the service than the replay server
//!   gives.
//! - `page` writes `docs/inside/faults.md`.

mod handwritten;
mod page;
mod row;
mod rows;
mod scenario_run;
