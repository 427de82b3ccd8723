//! The command `scheduled-events`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    scheduled_events_cli::run(std::env::args_os())
}
