//! The program `scheduled-events-fleet` of a machine in a fleet: the gate that lets an event be approved only when every machine that it
//! affects is ready, the drain of its Kubernetes node, and the relay of its records to other systems.

#![forbid(unsafe_code)]

mod cli;
mod config;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
