//! The command `scheduled-events-hub`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::SUCCESS
}
