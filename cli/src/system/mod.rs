//! What the command has to do with the system that runs it: systemd or the service manager, threads and signals.

pub(crate) mod startup;
pub(crate) mod systemd;
