//! Commands for operators: `approve` acts through the metadata service, and `install` prints what is installed beside the
//! command.
//!
//! `terminate_profile` and `simulate_eviction` are what an operator runs outside the machine. Both print text and do nothing else:
//! no network, no credentials. Comments in the text state what the next line does and what it needs, so that the whole text can be
//! pasted into the shell it is for. [`Name`](crate::args::Name) refuses what Azure refuses as a name, and quotes the rest.

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
