//! The client of Azure Scheduled Events: it polls the metadata service, reports changes, decides, prepares, approves and
//! recovers, and does so across faults and restarts.
//!
//! [`scheduled_events_core`] makes the decisions. This crate adds HTTP, files, clocks and processes:
//!
//! ```text
//!  metadata service ◄── imds ──┐                        ┌──► hooks: --prepare, --recover, --gate, --on
//!                              ├── watch: Watcher ── Host ──► record: text, JSON Lines, audit file, metrics
//!        state file ◄── state ─┘        │               └──► functions of a program
//!                                       ▼
//!                    scheduled_events_core::Session: what to do next
//! ```
//!
//! * [`watch`]: the watcher, a session with all that it needs around it. Start here.
//! * [`imds`]: HTTP requests to the metadata service.
//! * [`state`]: the state file, which survives restarts. [`hooks`]: the user's commands. [`clock`]: time.
//! * [`policy_file`]: policies in TOML. [`record`]: what a run reports, as JSON Lines. [`limits`]: all limits.
//! * [`replay`]: a server that plays scenarios, for tests and demonstrations.
//! * [`cli`]: the command `scheduled-events`.
//!
//! The crate drains nothing by itself: preparing and recovering are the user's commands or functions.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod api_version;
mod audit;
pub mod cli;
pub mod clock;
mod discover;
mod failure_log;
pub mod hooks;
pub mod imds;
pub mod limits;
mod markup;
mod metrics;
mod picture;
mod platform;
pub mod policy_file;
pub mod record;
pub mod replay;
#[cfg(unix)]
mod run;
pub mod state;
mod suggest;
pub mod watch;

pub use scheduled_events_core as core;

// Run the examples of the repository's README and of docs/rust.md as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
struct RustGuide;
