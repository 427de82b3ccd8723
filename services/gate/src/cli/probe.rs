//! `probe`: whether this machine's daemon works, for the liveness probe of a container.
//!
//! Its request needs no answer of the store, so a store that is down does not fail the probe: a
//! restart of the daemon would not help then.

use std::io::{ErrorKind, Read as _};
use std::net::Shutdown;
use std::path::Path;
use std::time::Duration;

use super::ask::connect_to_daemon;
use crate::config::Config;
use scheduled_events_common::failure::Failure;

/// How long the daemon may take. It does nothing that keeps it from its socket for longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the daemon whether it works.
///
/// # Errors
/// It does not answer.
pub fn probe(config: &Config) -> Result<(), Failure> {
    knock(&config.socket, PATIENCE)
}

/// Connects, sends nothing, and waits until the daemon closes the connection. For a process that is
/// stuck, the kernel accepts connections, but does not close them.
fn knock(path: &Path, patience: Duration) -> Result<(), Failure> {
    let socket = path.display();
    let mut stream = connect_to_daemon(path)?;
    let waited = stream
        .shutdown(Shutdown::Write)
        .and_then(|()| stream.set_read_timeout(Some(patience)))
        .and_then(|()| stream.read(&mut [0]));
    match waited {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::refused(if error.kind() == ErrorKind::WouldBlock {
            let seconds = patience.as_secs_f32();
            format!("the daemon at {socket} did not answer within {seconds} s")
        } else {
            format!("the daemon at {socket} does not answer: {error}")
        })),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_daemon_that_accepts_nothing_fails_and_one_that_ends_the_connection_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let knock = |milliseconds| knock(&path, Duration::from_millis(milliseconds));
        assert!(
            knock(100)
                .expect_err("nobody")
                .message
                .starts_with("no daemon listens at ")
        );
        let listener = UnixListener::bind(&path).expect("a socket");
        assert!(
            knock(200)
                .expect_err("stuck")
                .message
                .ends_with(" did not answer within 0.2 s")
        );
        let thread = std::thread::spawn(move || listener.incoming().take(2).for_each(drop));
        assert!(knock(60_000).is_ok());
        scheduled_events_test_support::wait::join(thread);
    }
}
