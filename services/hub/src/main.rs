//! The command `scheduled-events-hub`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    scheduled_events_hub::cli::run(std::env::args_os())
}
