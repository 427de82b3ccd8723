//! The command `scheduled-events-page`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    scheduled_events_page::run(std::env::args_os())
}
