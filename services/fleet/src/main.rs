//! The command `scheduled-events-fleet`.

use std::process::ExitCode;

fn main() -> ExitCode {
    scheduled_events_fleet::cli::run(std::env::args_os())
}
