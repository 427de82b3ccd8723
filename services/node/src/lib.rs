//! The Kubernetes node of a machine: out of service before an event, and back afterwards.
//!
//! The decisions need no I/O: [`pods`] classifies the pods of the node, [`plan`] is the course of a
//! drain, [`record`] has the changes of the Node object, and [`conditions`] those of its conditions.
//! [`event`] reads a hook's input, and [`name`] finds the node. [`api`] sends requests, and [`reporter`] those that people see;
//! [`drain`] and [`uncordon`] are the two commands, and [`announce`] shows events for which nothing
//! is drained. [`check`] is for the time before an event.

pub mod announce;
pub mod api;
pub mod check;
pub mod conditions;
pub mod config;
pub mod drain;
pub mod event;
pub mod name;
pub mod plan;
pub mod pods;
pub mod record;
pub mod reporter;
pub mod uncordon;

/// Prints a line for the log of the watcher that runs this command. A log that cannot be written
/// stops nothing.
fn print(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The id of the machine's current boot. A container sees its host's.
fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

#[cfg(test)]
scheduled_events_test_support::nothing_is_left_over!();
