//! The client of Azure Scheduled Events: it polls the metadata service, reports changes, decides, prepares, approves and
//! recovers, and does so across faults and restarts.
//!
//! ```no_run
//! use scheduled_events::Watcher;
//! use scheduled_events::core::{Action, Policy, Rule};
//!
//! Watcher::builder()
//!     .policy(Policy::new(&[Rule::new(Action::Prepare)])?)
//!     .prepare(|task| Ok(println!("drain for {}", task.event().event_id)))
//!     .recover(|_| Ok(println!("back in service")))
//!     .on_record(|record| println!("{record}"))
//!     .build()?
//!     .run();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`scheduled_events_core`] makes the decisions. This crate adds HTTP, files, clocks and processes:
//!
//! ```text
//!  metadata service ◄── imds ──┐              ┌──► functions of a program, or a Host
//!                              ├── Watcher ───┤
//!        state file ◄── state ─┘      │       └──► records: text, JSON Lines, audit file, metrics
//!                                     ▼
//!                    scheduled_events_core::Session: what to do next
//! ```
//!
//! * [`watch`]: the watcher, a session with all that it needs around it. Start here. [`session`]: what a host of a session of your own
//!   needs beside it; `examples/host.rs` is one.
//! * [`imds`]: HTTP requests to the metadata service. [`state`]: the state file, which survives restarts. [`clock`]: time.
//! * [`policy_file`]: policies in TOML. [`record`]: what a run reports, as JSON Lines. [`audit`]: the audit file. [`metrics`]: the
//!   metrics file.
//! * [`Error`]: one error for all of them, and [`error`] has those that several modules share.
//!
//! The modules that the documentation leaves out, such as `hooks`, `files` and `limits`, are for this project's own programs, and may
//! change with any version.
//!
//! The command `scheduled-events` is the package `scheduled-events-cli`, and a server that plays scenarios, for tests, is
//! `scheduled-events-replay`.
//!
//! The crate drains nothing by itself: preparing and recovering are the user's commands or functions.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod audit;
pub mod clock;
pub mod error;
#[doc(hidden)]
pub mod failure_log;
#[doc(hidden)]
pub mod files;
#[doc(hidden)]
pub mod hooks;
pub mod imds;
#[doc(hidden)]
pub mod limits;
pub mod metrics;
mod platform;
pub mod policy_file;
pub mod record;
#[doc(hidden)]
pub mod resource_name;
pub mod session;
pub mod state;
#[doc(hidden)]
pub mod suggest;
pub mod watch;

pub use error::Error;
pub use imds::Imds;
pub use scheduled_events_core as core;
pub use watch::{Host, StopReason, Watcher};

// Run the examples of the repository's README and of docs/program/rust.md as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
#[cfg(doctest)]
#[doc = include_str!("../../docs/program/rust.md")]
struct RustGuide;

#[cfg(test)]
scheduled_events_test_support::nothing_is_left_over!();
