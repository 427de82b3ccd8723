//! What the programs beyond one machine's watcher have in common.
//!
//! [`http`] makes the client that everything uses, with the one TLS provider of the process, `kubernetes` does so for the
//! Kubernetes API, whose `rights` it checks, and [`metadata`] asks the metadata service. [`toml_file`] reads configurations, and [`config`] the keys that several have;
//! [`names`] are those of machines, [`address`] are those of stores, and [`secret`] is what is never printed. [`program`] runs a command
//! that prints with [`output`] and [`table`], logs with [`log`], ends with a [`failure`] if it fails, and is supervised by systemd with
//! [`supervision`].

#![forbid(unsafe_code)]

pub mod address;
pub mod config;
pub mod failure;
pub mod hexadecimal;
pub mod http;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod log;
pub mod metadata;
pub mod names;
pub mod output;
pub mod program;
pub mod random;
#[cfg(feature = "kubernetes")]
pub mod rights;
pub mod secret;
pub mod supervision;
pub mod table;
pub mod toml_file;

#[cfg(test)]
scheduled_events_test_support::nothing_is_left_over!();
