//! The server: its configuration, its port and its threads.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::connection::{self, Idle};
use super::fault::Fault;
use super::fault_plan::FaultPlanner;
use super::report::{RecordedRequest, ReplayEvent};
use super::scenario::Scenario;
use super::service::Service;
use super::timeline::Timeline;
use crate::platform;

pub use super::service::MAX_RECORDED;

/// The most connections served at the same time. More wait in the kernel's queue. If one waits, the connection that has been idle
/// longest is closed, once it has been for [`IDLE_CONNECTION`].
pub const MAX_CONNECTIONS: usize = 256;

/// How long a connection is kept without a request while others wait for it.
pub const IDLE_CONNECTION: Duration = Duration::from_secs(5);

/// How often the accepting thread looks for what else it has to do.
const TICK: Duration = Duration::from_millis(250);

/// The configuration of a [`Server`].
///
/// ```
/// use scheduled_events::replay::{ServerConfig, Scenario};
///
/// let scenario = Scenario::builtin("preempt").expect("a built-in name");
/// let config = ServerConfig::new(scenario).vm_name("spot_3").speed(30.0).seed(1);
/// assert_eq!(config.listen.to_string(), "127.0.0.1:0");
/// ```
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The scenario to play.
    pub scenario: Scenario,
    /// The address to listen on; port 0 takes a free port. By default `127.0.0.1:0`.
    pub listen: SocketAddr,
    /// How much faster than real time the scenario plays; 60 turns minutes into seconds. By default 1.
    pub speed: f64,
    /// The name of the VM under test. By default `WestNO_0`.
    pub vm_name: String,
    /// The faults, in the order of precedence.
    pub faults: Vec<Fault>,
    /// A seed for the `EventIds`. By default they differ in every run.
    pub seed: Option<u64>,
    /// Receives everything that happens, until the receiver is dropped.
    pub observer: Option<Sender<ReplayEvent>>,
}

/// A running replay server. Dropping it closes its connections, frees its port and ends its threads.
///
/// The scenario starts with the first GET for events that is answered with a document. A client that starts late, or
/// a fault at the beginning, misses no event.
pub struct Server {
    address: SocketAddr,
    service: Arc<Service>,
    connections: Arc<Mutex<Vec<Connection>>>,
    threads: Vec<JoinHandle<()>>,
}

struct Connection {
    /// Weak, so that the socket is closed or reset when its thread ends.
    stream: Weak<TcpStream>,
    idle: Arc<Idle>,
    thread: JoinHandle<()>,
}

impl ServerConfig {
    /// The default configuration for a scenario.
    pub fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            speed: 1.0,
            vm_name: "WestNO_0".to_owned(),
            faults: Vec::new(),
            seed: None,
            observer: None,
        }
    }

    /// Sets [`listen`](Self::listen).
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Sets [`speed`](Self::speed).
    #[must_use]
    pub fn speed(mut self, speed: f64) -> Self {
        self.speed = speed;
        self
    }

    /// Sets [`vm_name`](Self::vm_name).
    #[must_use]
    pub fn vm_name(mut self, name: impl Into<String>) -> Self {
        self.vm_name = name.into();
        self
    }

    /// Adds a fault to [`faults`](Self::faults).
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Sets [`seed`](Self::seed).
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets [`observer`](Self::observer).
    #[must_use]
    pub fn observer(mut self, observer: Sender<ReplayEvent>) -> Self {
        self.observer = Some(observer);
        self
    }
}

impl Server {
    /// Starts listening and serving.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a speed that is not a positive number, and for a VM name that is empty or has control
    /// characters. Otherwise the error of the operating system for the address.
    pub fn start(config: ServerConfig) -> io::Result<Self> {
        if !(config.speed.is_finite() && config.speed > 0.0) {
            return Err(invalid("the speed must be a number greater than 0, such as 60"));
        }
        if config.vm_name.is_empty() || config.vm_name.chars().any(char::is_control) {
            return Err(invalid("the VM name must not be empty or contain control characters"));
        }
        let listener = TcpListener::bind(config.listen)?;
        let address = listener.local_addr()?;
        let seed = config.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let timeline = Timeline::new(&config.scenario, &config.vm_name, config.speed, seed);
        let observed = config.observer.is_some();
        let planner = FaultPlanner::new(config.faults);
        let service = Arc::new(Service::new(config.vm_name, timeline, planner, config.observer));
        let connections = Arc::default();
        let mut server = Self { address, service, connections, threads: Vec::new() };
        server.spawn({
            let (service, connections) = (server.service.clone(), server.connections.clone());
            move || accept(&listener, &service, &connections)
        })?;
        if observed {
            let service = server.service.clone();
            server.spawn(move || service.run_clock())?;
        }
        Ok(server)
    }

    /// The address that the server listens on, with the actual port.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The endpoint for a client, such as `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Whether every event of the scenario has ended.
    pub fn finished(&self) -> bool {
        self.service.finished()
    }

    /// The last [`MAX_RECORDED`] requests, oldest first. A request is recorded before its response is sent.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.service.requests()
    }

    fn spawn(&mut self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(thread_builder(self.address).spawn(work)?);
        Ok(())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.service.stop();
        // Wakes the accepting thread. If the queue is full, the thread is awake.
        let _ = TcpStream::connect_timeout(&reachable(self.address), Duration::from_secs(1));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // The accepting thread has ended, so there are no new connections.
        let connections = std::mem::take(&mut *self.connections.lock().unwrap_or_else(PoisonError::into_inner));
        for connection in &connections {
            if let Some(stream) = connection.stream.upgrade() {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        for connection in connections {
            let _ = connection.thread.join();
        }
    }
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// The name of a thread has the port, to distinguish the servers of a process.
fn thread_builder(address: SocketAddr) -> thread::Builder {
    thread::Builder::new().name(format!("replay-{}", address.port()))
}

/// The address to connect to for a listener that may listen on all addresses.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn accept(listener: &TcpListener, service: &Arc<Service>, connections: &Mutex<Vec<Connection>>) {
    let address = listener.local_addr().unwrap_or_else(|_| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    // An accepted connection that has gone again must not block the thread.
    let _ = listener.set_nonblocking(true);
    while !service.is_stopping() {
        if !platform::wait_for_connection(listener, TICK) {
            continue;
        }
        if !service.enter(MAX_CONNECTIONS, TICK) {
            close_idle(connections);
            continue;
        }
        let slot = ConnectionSlot(service.clone());
        let Ok((stream, _)) = listener.accept() else {
            // For example, no file descriptor is left. Try again later.
            service.pause(Duration::from_millis(20));
            continue;
        };
        // Some systems pass this on from the listener.
        if stream.set_nonblocking(false).is_err() || service.is_stopping() {
            continue;
        }
        let (stream, idle) = (Arc::new(stream), Arc::new(Idle::default()));
        let (weak, shared) = (Arc::downgrade(&stream), Arc::clone(&idle));
        let spawned = thread_builder(address).spawn(move || connection::serve(&slot.0, &stream, &shared));
        let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| !connection.thread.is_finished());
        if let Ok(thread) = spawned {
            connections.push(Connection { stream: weak, idle, thread });
        }
    }
}

/// Closes the connection that has been idle longest, for one that waits.
fn close_idle(connections: &Mutex<Vec<Connection>>) {
    let connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
    let longest = connections.iter().max_by_key(|connection| connection.idle.time());
    if let Some(connection) = longest.filter(|connection| connection.idle.time() >= IDLE_CONNECTION)
        && let Some(stream) = connection.stream.upgrade()
    {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// One of [`MAX_CONNECTIONS`], released even if the connection's thread panics.
struct ConnectionSlot(Arc<Service>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused() {
        let config = || ServerConfig::new(Scenario::builtin("preempt").expect("known"));
        for bad in [config().speed(0.0), config().speed(f64::NAN), config().vm_name(""), config().vm_name("a\nb")] {
            let error = Server::start(bad).expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_listener_on_all_addresses_is_reached_through_loopback() {
        assert_eq!(reachable("0.0.0.0:80".parse().expect("address")).to_string(), "127.0.0.1:80");
        assert_eq!(reachable("[::]:80".parse().expect("address")).to_string(), "[::1]:80");
        assert_eq!(reachable("10.1.2.3:80".parse().expect("address")).to_string(), "10.1.2.3:80");
    }
}
