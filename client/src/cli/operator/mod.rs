//! `terminate-profile` and `simulate-eviction`: what an operator runs outside the machine.
//!
//! Both print text and do nothing else: no network, no credentials. Comments in the text state what the next line does and what it needs,
//! so that the whole text can be pasted into the shell it is for. `names` refuses what Azure refuses as a name, and quotes the rest.

mod names;
mod simulate_eviction;
mod terminate_profile;

pub(super) use simulate_eviction::{SimulateEvictionArgs, simulate_eviction};
pub(super) use terminate_profile::{TerminateProfileArgs, terminate_profile};
