//! Scheduled Events outside the machine: one program sees the announced events of the machines of
//! whole subscriptions, drains machines that have no agent, and approves.
//!
//! [`config`] reads the file that `--config` names, and [`azure`] has the requests to Azure.

#![forbid(unsafe_code)]

pub mod approvals;
pub mod azure;
pub mod cli;
pub mod config;
pub mod confirm;
pub mod dispatch;
pub mod gates;
pub mod hooks;
pub mod journal;
pub mod machine;
pub mod message;
pub mod metrics;
pub mod notice;
pub mod run;
pub mod shared;
pub mod source;
pub mod store;

#[cfg(test)]
scheduled_events_test_support::nothing_is_left_over!();
