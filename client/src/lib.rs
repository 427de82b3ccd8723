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
//! * [`watch`]: the watcher, a session with all that it needs around it. Start here. [`session`]: what a host of a session of your own
//!   needs beside it; `examples/host.rs` is one.
//! * [`imds`]: HTTP requests to the metadata service.
//! * [`state`]: the state file, which survives restarts. [`hooks`]: the user's commands. [`clock`]: time.
//! * [`policy_file`]: policies in TOML. [`record`]: what a run reports, as JSON Lines. [`limits`]: all limits.
//! * [`audit`]: the audit file. [`metrics`]: the metrics file. [`files`]: what makes such files private and safe.
//! * [`Error`]: one error for all of them. [`failure_log`] and [`suggest`]: small helpers for messages. [`resource_name`]: names in texts for operators.
//!
//! The command `scheduled-events` is the package `scheduled-events-cli`, and a server that plays scenarios, for tests, is
//! `scheduled-events-replay`.
//!
//! The crate drains nothing by itself: preparing and recovering are the user's commands or functions.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod audit;
pub mod clock;
mod error;
pub mod failure_log;
pub mod files;
pub mod hooks;
pub mod imds;
pub mod limits;
pub mod metrics;
mod platform;
pub mod policy_file;
pub mod record;
pub mod resource_name;
pub mod session;
pub mod state;
pub mod suggest;
pub mod watch;

pub use error::Error;
pub use scheduled_events_core as core;

// Run the examples of the repository's README and of docs/program/rust.md as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
#[cfg(doctest)]
#[doc = include_str!("../../docs/program/rust.md")]
struct RustGuide;

#[cfg(test)]
scheduled_events_test_support::nothing_is_left_over!();
