//! Commands that test a client: `replay` serves a scenario, to `clients` if there is a command,
//! `record` writes one, and `demo` plays one to a watcher in the same process.

mod clients;
mod demo;
mod record;
mod replay;

pub(crate) use demo::demo;
pub(crate) use record::record;
pub(crate) use replay::{load, replay, scenarios};
