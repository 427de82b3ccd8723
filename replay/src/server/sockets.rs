//! What differs between systems about the server's sockets.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Waits for connections. Returns the indices of the listeners that may have one.
#[cfg(unix)]
pub(crate) fn wait_for_connections(listeners: &[TcpListener], timeout: Duration) -> Vec<usize> {
    use rustix::event::{PollFd, PollFlags, poll};

    let mut polled: Vec<_> = listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
    let timeout = timeout.try_into().ok();
    if poll(&mut polled, timeout.as_ref()).is_err() {
        return Vec::new();
    }
    polled.iter().enumerate().filter(|(_, listener)| !listener.revents().is_empty()).map(|(index, _)| index).collect()
}

/// Waits for connections. Returns the indices of the listeners that may have one.
#[cfg(windows)]
pub(crate) fn wait_for_connections(listeners: &[TcpListener], _timeout: Duration) -> Vec<usize> {
    std::thread::sleep(Duration::from_millis(5));
    (0..listeners.len()).collect()
}

/// The standard library keeps connections from processes that this one starts.
#[cfg(unix)]
pub(crate) fn keep_from_children(_stream: &TcpStream) {}

/// Keeps an accepted connection from processes that this one starts. Without it, the connection would be closed later.
#[cfg(windows)]
pub(crate) fn keep_from_children(stream: &TcpStream) {
    let _ = scheduled_events_windows::forbid_inheritance(stream);
}
