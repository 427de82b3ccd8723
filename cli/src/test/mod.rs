//! Commands that test a client: `replay` serves a scenario, to `clients` if there is a command,
//! `record` writes one, and `demo` plays one to a watcher in the same process. `capture` keeps what the
//! real service does, with `probe` for what a client does not ask, and `contract` judges it,
//! with `sightings` for people.

mod capture;
mod clients;
mod contract;
mod demo;
mod probe;
mod record;
mod replay;
mod sightings;
#[cfg(test)]
mod twins;

pub(crate) use capture::capture;
pub(crate) use contract::contract;
pub(crate) use demo::demo;
pub(crate) use record::record;
pub(crate) use replay::{load, replay, scenarios};
