//! Accepts connections, each served by a thread of its own, up to a limit.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::connection::{self, Idle};
use super::sockets::{keep_from_children, wait_for_connections};
use crate::http::ClientStream;
use crate::service::Service;

/// The most connections served at the same time, and four more for each machine beyond the first.
/// Others wait in the kernel's queue. While one waits, the server closes the connection that has
/// been idle longest, once it has been idle for [`IDLE_CONNECTION`].
pub const MAX_CONNECTIONS: usize = 256;

/// How long a connection is kept without a request while others wait for it.
pub const IDLE_CONNECTION: Duration = Duration::from_secs(5);

/// How often the accepting thread checks for its other tasks.
const TICK: Duration = Duration::from_millis(250);

pub(super) struct Connection {
    /// Weak, so that the socket is closed or reset when its thread ends.
    pub(super) stream: Weak<ClientStream>,
    idle: Arc<Idle>,
    pub(super) thread: JoinHandle<()>,
}

pub(super) fn accept(
    listeners: &[TcpListener],
    service: &Arc<Service>,
    connections: &Mutex<Vec<Connection>>,
) {
    let most = most_connections(listeners.len());
    for listener in listeners {
        // A connection that has ended since must not block the thread.
        let _ = listener.set_nonblocking(true);
    }
    while !service.is_stopping() {
        for machine in wait_for_connections(listeners, TICK) {
            if !service.enter(most, TICK) {
                close_idle(connections);
                break;
            }
            let slot = ConnectionSlot(service.clone());
            let stream = match listeners[machine].accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => {
                    // For example, no file descriptor is left. Try again later.
                    service.pause(Duration::from_millis(20));
                    continue;
                }
            };
            keep_from_children(&stream);
            // On some systems a connection inherits this from the listener.
            if stream.set_nonblocking(false).is_err() || service.is_stopping() {
                continue;
            }
            let address = stream
                .local_addr()
                .unwrap_or_else(|_| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
            let (stream, idle) = (
                Arc::new(ClientStream::new(stream)),
                Arc::new(Idle::default()),
            );
            let (weak, shared) = (Arc::downgrade(&stream), Arc::clone(&idle));
            let serve = move || connection::serve(&slot.0, machine, &stream, &shared);
            let spawned = thread_builder(address).spawn(serve);
            let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
            connections.retain(|connection| !connection.thread.is_finished());
            if let Ok(thread) = spawned {
                connections.push(Connection {
                    stream: weak,
                    idle,
                    thread,
                });
            }
        }
    }
}

/// Closes the connection that has been idle longest, for one that waits.
fn close_idle(connections: &Mutex<Vec<Connection>>) {
    let connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
    let longest = connections
        .iter()
        .max_by_key(|connection| connection.idle.time());
    if let Some(connection) = longest.filter(|connection| connection.idle.time() >= IDLE_CONNECTION)
        && let Some(stream) = connection.stream.upgrade()
    {
        stream.shut_down();
    }
}

/// One of [`MAX_CONNECTIONS`], released even if the connection's thread panics.
struct ConnectionSlot(Arc<Service>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The name of a thread has the port, to distinguish the servers of a process.
pub(super) fn thread_builder(address: SocketAddr) -> thread::Builder {
    thread::Builder::new().name(format!("replay-{}", address.port()))
}

/// The most connections for this many machines.
pub(super) fn most_connections(machines: usize) -> usize {
    MAX_CONNECTIONS + 4 * machines.saturating_sub(1)
}
