//! The client of Azure Scheduled Events: it watches the metadata service, tells what changed, decides, prepares,
//! approves and recovers, and survives faults and restarts while it does.
//!
//! The decisions are those of [`scheduled_events_core`]; this crate carries bytes, keeps files and runs commands:
//!
//! * [`imds`]: HTTP to the metadata service, bounded in every way.
//! * [`watch`]: the main job, around core's session.
//! * [`hooks`]: commands run for an event. [`state`]: what a restart must not forget. [`policy_file`]: policies in TOML.
//! * [`record`]: what a run has to say, as typed records and JSON Lines.
//! * [`replay`]: a server that plays scenarios, for tests and demonstrations.
//! * [`cli`]: the command `scheduled-events`.
//!
//! It does not discover the endpoint of machines outside a virtual network (give `--endpoint`), and it drains nothing by
//! itself: preparing and recovering are commands or functions of the user's.
#![forbid(unsafe_code)]

pub mod cli;
pub mod clock;
pub mod hooks;
pub mod imds;
mod platform;
pub mod policy_file;
pub mod record;
pub mod replay;
pub mod state;
pub mod watch;

pub use scheduled_events_core as core;
