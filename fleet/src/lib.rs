//! What a fleet of machines needs beyond one machine's watcher: the gate that lets an event be
//! approved only when every machine that it affects is ready.
//!
//! [`config`] reads the file that `--config` names, and [`metadata`] reads this machine's name.
//! [`gate`] is the protocol, without I/O, and [`names`] compares machines' names. [`engine`]
//! implements the stores of the common registers, and [`daemon`] answers the watcher's questions,
//! with [`supervision`] by systemd and Prometheus. [`http`] creates the client that everything here
//! uses, with the one TLS provider of the process. [`kubernetes`] does so for the Kubernetes API,
//! and [`node`] takes the node out of service and puts it back. [`relay`] forwards records to other
//! systems, [`secret`] holds what is never printed, [`toml_file`] reads configuration files, and
//! [`cli`] is the command, which ends with a [`failure`] if it fails.

pub mod address;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod engine;
pub mod failure;
pub mod gate;
pub mod hexadecimal;
pub mod http;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod log;
pub mod metadata;
pub mod names;
#[cfg(feature = "kubernetes")]
pub mod node;
mod random;
pub mod relay;
pub mod secret;
pub mod supervision;
mod temporary;
pub mod toml_file;

#[cfg(test)]
scheduled_events_test_support::nothing_is_left_over!();
