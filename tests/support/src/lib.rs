//! What the tests of all crates share: [servers](TestServer) and processes that end with their test, [waits](wait) with a limit,
//! [ports](port) that stay free, [clocks](clock) that a test sets, and a check at the
//! end of each test program that [nothing is left](left_over).
//!
//! A test program uses it with [`nothing_is_left_over!`](crate::nothing_is_left_over), once.

pub mod clock;
pub mod left_over;
pub mod port;
#[cfg(unix)]
pub mod process;
mod server;
pub mod wait;

/// Reports that the test which calls this cannot run on this machine, and why. The test then returns.
///
/// The harness counts it as passed and keeps what passed tests print, so this writes to standard error itself: a line
/// `NOT RUN NAME: REASON`, which `tests/run` lists in its totals and counts as not passed.
pub fn not_run(reason: &str) {
    use std::io::Write as _;

    let thread = std::thread::current();
    let line = format!("NOT RUN {}: {reason}\n", thread.name().unwrap_or("a test"));
    // Only the macros are captured. There is no other place to report that standard error cannot be written.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// A text as one word of a shell's command line, or of a hook's: a checkout may lie in a folder with spaces and quotes.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

pub use server::{Connection, TestServer};
