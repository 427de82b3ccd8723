//! The command `scheduled-events-hub`.

use std::process::ExitCode;

fn main() -> ExitCode {
    scheduled_events_hub::cli::run(std::env::args_os())
}
