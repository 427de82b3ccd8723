//! The differences between systems in the server's sockets.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Waits for connections. Returns the indices of the listeners that may have one.
#[cfg(unix)]
pub(crate) fn wait_for_connections(listeners: &[TcpListener], timeout: Duration) -> Vec<usize> {
    use rustix::event::{PollFd, PollFlags, poll};

    let mut polled: Vec<_> = listeners
        .iter()
        .map(|listener| PollFd::new(listener, PollFlags::IN))
        .collect();
    let timeout = timeout.try_into().ok();
    if poll(&mut polled, timeout.as_ref()).is_err() {
        return Vec::new();
    }
    polled
        .iter()
        .enumerate()
        .filter(|(_, listener)| !listener.revents().is_empty())
        .map(|(index, _)| index)
        .collect()
}

/// Waits for connections. Returns the indices of the listeners that may have one.
#[cfg(windows)]
pub(crate) fn wait_for_connections(listeners: &[TcpListener], _timeout: Duration) -> Vec<usize> {
    std::thread::sleep(Duration::from_millis(5));
    (0..listeners.len()).collect()
}

/// Lets this process open this many files, if its limit is lower, or as many as the system's upper
/// limit allows. Programs that it starts inherit the limit.
#[cfg(unix)]
pub(crate) fn allow_open_files(count: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    // No limit is `None`.
    if limit.current.is_some_and(|current| current < count) {
        let current = Some(limit.maximum.map_or(count, |maximum| maximum.min(count)));
        // Connections without a file descriptor wait, so a refusal is no error.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current,
                maximum: limit.maximum,
            },
        );
    }
}

/// Windows has no such limit.
#[cfg(windows)]
pub(crate) fn allow_open_files(_count: u64) {}

/// The standard library already keeps connections from processes that this one starts.
#[cfg(unix)]
pub(crate) fn keep_from_children(_stream: &TcpStream) {}

/// Keeps an accepted connection from processes that this one starts, which would delay its end.
#[cfg(windows)]
pub(crate) fn keep_from_children(stream: &TcpStream) {
    let _ = scheduled_events_windows::forbid_inheritance(stream);
}
