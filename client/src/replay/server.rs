//! The server: a scenario, its faults and a port.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use super::connection;
use super::fault::Fault;
use super::plan::Planner;
use super::playback::{Change, Playback};
use super::scenario::Scenario;
use super::service::Service;

/// The most connections served at once; more wait in the kernel's queue.
pub const MAX_CONNECTIONS: usize = 256;

/// The most requests remembered; then the oldest is forgotten.
pub const MAX_RECORDED: usize = 10_000;

/// What to serve, where and how badly.
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
    /// What is played.
    pub scenario: Scenario,
    /// Where to listen; port 0 takes a free one. By default `127.0.0.1:0`.
    pub listen: SocketAddr,
    /// How many times faster than life; 60 turns minutes into seconds. By default 1.
    pub speed: f64,
    /// The VM under test. By default `WestNO_0`.
    pub vm_name: String,
    /// What goes wrong, the first one that decides an answer winning.
    pub faults: Vec<Fault>,
    /// Makes the `EventIds` the same in every run. By default they differ.
    pub seed: Option<u64>,
    /// Told of everything that happens, as long as its receiver lives.
    pub observer: Option<Sender<ReplayEvent>>,
}

/// A running replay server. Dropping it closes its connections, frees its port and ends its threads.
///
/// The scenario's time begins with the first GET for events that is answered with a document, so
/// that neither a slow start of the client nor an outage at the beginning hides an event.
pub struct Server {
    address: SocketAddr,
    service: Arc<Service>,
    connections: Arc<Mutex<Vec<Connection>>>,
    threads: Vec<JoinHandle<()>>,
}

/// A request as the server got it.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// The method; empty for something that was no HTTP request or beyond a limit.
    pub method: String,
    /// Path and query as they were sent.
    pub target: String,
    /// Header fields in their order.
    pub headers: Vec<(String, String)>,
    /// The body, chunks joined.
    pub body: Vec<u8>,
    /// When the request was complete.
    pub arrived: Instant,
    /// The status of the answer; nothing if a fault withheld it.
    pub status: Option<u16>,
}

/// Something that happened in a replay, with a `Display` for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayEvent {
    /// A request was answered, or left without an answer by a fault.
    Answered {
        /// The method.
        method: String,
        /// Path and query.
        target: String,
        /// The status; nothing if a fault withheld the answer.
        status: Option<u16>,
        /// The faults that hit it, as they are written.
        faults: Vec<String>,
    },
    /// The first document was asked for: the scenario's time begins.
    PlaybackStarted,
    /// An event appeared, was approved, moved on or went.
    Event {
        /// What happened.
        change: Change,
        /// `EventId`.
        event_id: String,
        /// `EventType`.
        event_type: String,
        /// `Resources`.
        resources: Vec<String>,
        /// Whether it is, or when it went was, Started.
        started: bool,
        /// `NotBefore`, unless Started.
        not_before: Option<SystemTime>,
        /// The incarnation of the document that shows this first.
        incarnation: u64,
    },
    /// The document counter was set anew.
    IncarnationReset {
        /// Its new value.
        incarnation: u64,
    },
    /// Every event of the scenario has appeared and gone.
    Finished,
}

struct Connection {
    /// Weak, so that the socket closes, or resets, with its thread.
    stream: Weak<TcpStream>,
    thread: JoinHandle<()>,
}

impl ServerConfig {
    /// The defaults for a scenario.
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

    /// Adds one to the [`faults`](Self::faults).
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
    /// `InvalidInput` for a speed that is not a positive number or an empty VM name, and whatever the
    /// system says about the address.
    pub fn start(config: ServerConfig) -> io::Result<Self> {
        if !(config.speed.is_finite() && config.speed > 0.0) {
            return Err(invalid("the speed must be a number above 0, such as 60"));
        }
        if config.vm_name.is_empty() || config.vm_name.chars().any(char::is_control) {
            return Err(invalid("the VM name must be one line of text"));
        }
        let listener = TcpListener::bind(config.listen)?;
        let address = listener.local_addr()?;
        let seed = config.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let playback = Playback::new(&config.scenario, &config.vm_name, config.speed, seed);
        let watched = config.observer.is_some();
        let planner = Planner::new(config.faults);
        let service = Arc::new(Service::new(config.vm_name, playback, planner, config.observer));
        let connections = Arc::default();
        let mut server = Self { address, service, connections, threads: Vec::new() };
        server.spawn({
            let (service, connections) = (server.service.clone(), server.connections.clone());
            move || accept(&listener, &service, &connections)
        })?;
        if watched {
            let service = server.service.clone();
            server.spawn(move || service.run_clock())?;
        }
        Ok(server)
    }

    /// The address listened on, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The endpoint to give to a client, such as `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Whether every event of the scenario has appeared and gone.
    pub fn finished(&self) -> bool {
        self.service.finished()
    }

    /// The requests so far, oldest first, at most [`MAX_RECORDED`]. One is recorded before its answer is sent.
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
        // Wakes the acceptor. If the queue is full instead, it is awake already.
        let _ = TcpStream::connect_timeout(&reachable(self.address), Duration::from_secs(1));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // The acceptor is gone, so no connection comes in any more.
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

impl fmt::Display for ReplayEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { method, target, status, faults } => {
                match (method.is_empty(), status) {
                    (true, _) => f.write_str("something that is no request")?,
                    (false, _) => write!(f, "{method} {target}")?,
                }
                match status {
                    Some(status) => write!(f, " -> {status}")?,
                    None => f.write_str(" -> no answer")?,
                }
                if !faults.is_empty() {
                    write!(f, " (fault: {})", faults.join(", "))?;
                }
                Ok(())
            }
            Self::PlaybackStarted => f.write_str("the scenario begins"),
            Self::Event { change, event_id, event_type, resources, started, not_before, .. } => {
                write!(f, "{event_type} {event_id} of {} ", names(resources))?;
                f.write_str(match change {
                    Change::Appeared if *started => "appears, Started without notice",
                    Change::Appeared => "appears, Scheduled",
                    Change::Approved => "is approved",
                    Change::Rescheduled => "is rescheduled",
                    Change::Started => "is Started",
                    Change::Cancelled => "is cancelled",
                    Change::Gone => "is over and gone",
                    Change::IncarnationReset => "sees the incarnation start again",
                })?;
                match (change, not_before) {
                    (Change::Appeared | Change::Rescheduled, Some(time)) => {
                        write!(f, ", not before {}", httpdate::fmt_http_date(*time))
                    }
                    _ => Ok(()),
                }
            }
            Self::IncarnationReset { incarnation } => {
                write!(f, "the incarnation starts again at {incarnation}")
            }
            Self::Finished => f.write_str("the scenario is over: every event has come and gone"),
        }
    }
}

/// A few names, and how many more.
fn names(resources: &[String]) -> String {
    match resources {
        [] => "no VM".to_owned(),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [one, rest @ ..] => format!("{one} and {} more", rest.len()),
    }
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Threads carry the port in their name, which tells the servers of one process apart.
fn thread_builder(address: SocketAddr) -> thread::Builder {
    thread::Builder::new().name(format!("replay-{}", address.port()))
}

/// An address to connect to for a listener that may listen on all of them.
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
    loop {
        if !service.enter(MAX_CONNECTIONS) {
            return;
        }
        let place = Place(service.clone());
        let stream = match listener.accept() {
            Ok((stream, _)) => Arc::new(stream),
            // No descriptors left, say: waiting is all that can help.
            Err(_) if !service.pause(Duration::from_millis(20)) => continue,
            Err(_) => return,
        };
        if service.is_stopping() {
            return;
        }
        let weak = Arc::downgrade(&stream);
        let spawned = thread_builder(address).spawn(move || connection::serve(&place.0, &stream));
        let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| !connection.thread.is_finished());
        if let Ok(thread) = spawned {
            connections.push(Connection { stream: weak, thread });
        }
    }
}

/// A connection's place among [`MAX_CONNECTIONS`], given back even when its thread panics.
struct Place(Arc<Service>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_read_like_sentences() {
        let event = ReplayEvent::Event {
            change: Change::Appeared,
            event_id: "ID".into(),
            event_type: "Freeze".into(),
            resources: vec!["a".into(), "b".into()],
            started: false,
            not_before: Some(SystemTime::UNIX_EPOCH),
            incarnation: 2,
        };
        assert_eq!(
            event.to_string(),
            "Freeze ID of a and b appears, Scheduled, not before Thu, 01 Jan 1970 00:00:00 GMT"
        );
        let answered = ReplayEvent::Answered {
            method: "GET".into(),
            target: "/x".into(),
            status: None,
            faults: vec!["reset".into()],
        };
        assert_eq!(answered.to_string(), "GET /x -> no answer (fault: reset)");
    }

    #[test]
    fn unusable_settings_are_refused() {
        let config = || ServerConfig::new(Scenario::builtin("preempt").expect("known"));
        for bad in [config().speed(0.0), config().speed(f64::NAN), config().vm_name(""), config().vm_name("a\nb")] {
            let error = Server::start(bad).expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn all_addresses_are_reached_through_loopback() {
        assert_eq!(reachable("0.0.0.0:80".parse().expect("address")).to_string(), "127.0.0.1:80");
        assert_eq!(reachable("[::]:80".parse().expect("address")).to_string(), "[::1]:80");
        assert_eq!(reachable("10.1.2.3:80".parse().expect("address")).to_string(), "10.1.2.3:80");
    }
}
