//! Commands for operators: `approve` acts through the metadata service, and `install` prints files
//! to install beside the command.
//!
//! An operator runs `terminate_profile` and `simulate_eviction` outside the machine. Both only
//! print text: no network, no credentials. Comments in the text state the effect and the
//! requirements of the next line, so that the whole text can be pasted into its shell.
//! [`Name`](crate::args::Name) refuses names that Azure refuses, and quotes the others.

mod approve;
mod install;
#[cfg(windows)]
mod service;
mod simulate_eviction;
mod terminate_profile;

pub(crate) use approve::approve;
pub(crate) use install::{completions, man};
#[cfg(windows)]
pub(crate) use service::service;
pub(crate) use simulate_eviction::simulate_eviction;
pub(crate) use terminate_profile::terminate_profile;
