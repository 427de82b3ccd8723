//! Waiting for conditions.

use std::thread;
use std::time::{Duration, Instant};

/// The timeout of all waits: longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// How often conditions are checked.
pub const INTERVAL: Duration = Duration::from_millis(20);

/// Waits until the condition returns something.
///
/// # Panics
/// When it does not within [`PATIENCE`].
pub fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not happen");
        thread::sleep(INTERVAL);
    }
}
