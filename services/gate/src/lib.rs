//! The gate: an event is approved once every machine that it affects is ready, and at most so many machines of a group are out
//! of service together.
//!
//! An approval counts for all machines of an event, and Azure accepts it from any of them, at any time: no lock can stop a late
//! one. So the decision is durable and made once, and posting it is repeatable: after the decision any machine may post, and
//! a duplicate does no harm.
//!
//! Read [`event`] for what is known of an event, [`register`] for what the machines have in common and how it changes, [`store`] for how that is written,
//! [`group`] for who counts together, [`members`] for who runs, [`protocol`] for who may do what, and [`driver`] for how that is carried out on an
//! [`engine`], which keeps the registers. [`daemon`] answers the watcher's questions, and [`cli`] has the commands for people. [`config`] is the file
//! that all of them read. [`history`] is what the records of a machine say about its events. `tests/model` checks the protocol with every interleaving of three machines.

#![forbid(unsafe_code)]

pub mod cli;
pub mod config;
pub mod daemon;
pub mod driver;
pub mod engine;
pub mod event;
pub mod group;
pub mod history;
pub mod members;
mod metrics;
pub mod protocol;
pub mod register;
pub mod store;

#[cfg(test)]
scheduled_events_test_support::nothing_is_left_over!();
