//! The client of Azure Scheduled Events.
//!
//! * [`replay`]: a server that plays scenarios, for tests and demonstrations.
#![forbid(unsafe_code)]

pub mod replay;
