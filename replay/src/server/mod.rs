//! The server: its configuration, its port and its threads.
//! With [`control`] a person or a test changes a scenario while it plays.

// `address` and `sockets` define where it listens. A thread of `accept` passes each connection to
// one of `connection`, which asks the service for the answer. `outside` adds Azure's services
// outside the machines.

mod accept;
mod address;
mod connection;
pub mod control;
mod outside;
mod sockets;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use scheduled_events_core::record::Printable;

use crate::control_plane::queue::QueueAddress;
use crate::fault::Fault;
use crate::http::wire::ApiVersion;
use crate::report::{RecordedRequest, ReplayEvent};
use crate::scenario::Scenario;
use crate::scenario::names::peer;
use crate::service::{Outside, Service};
use crate::timeline::Timeline;
use crate::verdict::{ClientExit, Verdict};
use accept::{Connection, accept, most_connections, thread_builder};
use address::{address_of, reachable};
use sockets::allow_open_files;

pub use crate::service::MAX_RECORDED;
pub use accept::{IDLE_CONNECTION, MAX_CONNECTIONS};
pub use outside::ControlPlane;

/// How many files the rest of a process may have open beside a server's sockets.
const OTHER_FILES: usize = 512;

/// The most machines of a server: as many as a placement group has (`docs/inside/wire.md`, section 2).
pub const MAX_MACHINES: u32 = 1000;

/// The configuration of a [`Server`].
///
/// ```
/// use scheduled_events_replay::{ServerConfig, Scenario};
///
/// let scenario = Scenario::builtin("preempt").expect("a built-in name");
/// let config = ServerConfig::new(scenario).vm_name("spot_3").speed(30.0).seed(1);
/// assert_eq!(config.listen.to_string(), "127.0.0.1:0");
/// ```
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The scenario to play.
    pub scenario: Scenario,
    /// The address to listen on; port 0 takes a free port. By default `127.0.0.1:0`. Each further
    /// machine has the next port, or a free one.
    pub listen: SocketAddr,
    /// How much faster than real time the scenario plays; 60 turns minutes into seconds. By default
    /// 1.
    pub speed: f64,
    /// The name of the VM under test. By default `WestNO_0`.
    pub vm_name: String,
    /// The number of machines, by default 1. They share the documents, and each has an address of
    /// its own that serves its name: that of the VM under test, and those of its neighbours,
    /// `{peer:1}` and so on.
    pub machines: u32,
    /// The faults, in the order of precedence. Each machine counts its own requests.
    pub faults: Vec<Fault>,
    /// A seed for the `EventIds`. By default they differ in every run.
    pub seed: Option<u64>,
    /// Receives all reports, until the receiver is dropped.
    pub observer: Option<Sender<ReplayEvent>>,
    /// Whether the observer also receives each finding about a client, as [`ReplayEvent::Finding`].
    /// By default it does not.
    pub findings: bool,
    /// The services outside the machines. By default none.
    pub control_plane: Option<ControlPlane>,
    /// The newest `api-version` that the service has; a request for a newer one is refused. By default
    /// `2020-07-01`. Documents show advice from [`ADVICE_API_VERSION`](crate::ADVICE_API_VERSION) on.
    pub newest_api_version: String,
    /// Whether clients are tested, by default true: a server that is dropped although nobody asked for
    /// the verdict on its client then says so.
    pub tests_clients: bool,
}

/// A running replay server. Dropping it closes its connections, frees its port and ends its
/// threads.
///
/// The scenario starts with the first GET for events that is answered with a document, or with the
/// first query of Resource Graph. A client that starts late, or a fault at the beginning, misses no
/// event. With a queue it starts at once.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let config = ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?).vm_name("spot_3");
/// let server = Server::start(config)?;
/// assert_eq!(server.url(), format!("http://{}", server.addr()));
/// assert_eq!(server.machines()[0].name, "spot_3");
/// let events = format!("{}/metadata/scheduledevents?api-version=2020-07-01", server.url());
/// ureq::get(&events).header("Metadata", "true").call()?;
/// assert_eq!(server.requests().len(), 1);
/// assert!(!server.finished());
/// assert_eq!(server.verdict(0).polls().count, 1); // so far
/// server.client_ended(0); // as `finish` notes of all machines
/// assert_eq!(server.finish().polls().count, 1);
/// assert!(server.started().elapsed() < Duration::from_secs(600));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A person or a test can control the scenario while it plays: see also [`control`].
///
/// ```
/// use scheduled_events_replay::document::ApprovalResult;
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let scenario = Scenario::builtin("preempt").ok_or("a built-in name")?;
/// let server = Server::start(ServerConfig::new(scenario.clone()))?;
/// let events = format!("{}/metadata/scheduledevents?api-version=2020-07-01", server.url());
/// ureq::get(&events).header("Metadata", "true").call()?;
/// server.pause();
/// assert!(server.status().is_paused);
/// // The event that would appear in ten seconds appears now.
/// assert!(server.step());
/// let document = server.document();
/// let id = &document.events[0].facts.event_id;
/// assert_eq!(server.event(id).ok_or("an event")?.event_type, "Preempt");
/// assert_eq!(server.approve(id), ApprovalResult::Accepted);
///
/// server.add_event(Scenario::builtin("user-reboot").ok_or("a built-in name")?.events[0].clone())?;
/// assert_eq!(server.played(&scenario).events.len(), 2);
/// server.inject_fault(0, "status:503@1".parse()?)?;
/// assert_eq!(server.faults(0).len(), 1);
/// server.clear_faults(0);
/// server.set_speed(60.0)?;
/// server.resume();
/// server.begin_again(ServerConfig::new(scenario))?;
/// assert!(!server.status().has_started);
/// server.stop();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    machines: Vec<Machine>,
    control_plane: Option<SocketAddr>,
    queue: Option<QueueAddress>,
    pub(crate) service: Arc<Service>,
    connections: Arc<Mutex<Vec<Connection>>>,
    threads: Vec<JoinHandle<()>>,
    /// Whether somebody asked for a verdict, or nobody will.
    is_judged: AtomicBool,
}

/// A machine that a server imitates the service for.
///
/// ```
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("terminate-pair").ok_or("a built-in name")?).machines(2))?;
/// for machine in server.machines() {
///     // Start a client for this machine.
///     assert!(machine.url().starts_with("http://127.0.0.1:"));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name in the `Resources` of events.
    pub name: String,
    /// The address that its client sends requests to.
    pub addr: SocketAddr,
}

impl Machine {
    /// The endpoint for the machine's client, such as `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

impl ServerConfig {
    /// The default configuration for a scenario.
    pub fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            speed: 1.0,
            vm_name: "WestNO_0".to_owned(),
            machines: 1,
            faults: Vec::new(),
            seed: None,
            observer: None,
            findings: false,
            control_plane: None,
            newest_api_version: ApiVersion::STABLE.text().to_owned(),
            tests_clients: true,
        }
    }

    /// Sets [`listen`](Self::listen).
    ///
    /// ```
    /// use scheduled_events_replay::{Scenario, ServerConfig};
    ///
    /// let config = ServerConfig::new(Scenario::builtin("preempt").unwrap()).listen(([127, 0, 0, 1], 8080).into());
    /// assert_eq!(config.listen.port(), 8080);
    /// ```
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

    /// Sets [`machines`](Self::machines).
    ///
    /// ```
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let scenario = Scenario::builtin("terminate-pair").ok_or("a built-in name")?;
    /// let server = Server::start(ServerConfig::new(scenario).vm_name("web_0").machines(2))?;
    /// assert_eq!(server.machines().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn machines(mut self, number: u32) -> Self {
        self.machines = number;
        self
    }

    /// Adds a fault to [`faults`](Self::faults).
    ///
    /// ```
    /// use scheduled_events_replay::{Scenario, ServerConfig};
    ///
    /// let config = ServerConfig::new(Scenario::builtin("preempt").unwrap());
    /// let config = config.fault("status:429@1".parse()?).fault("slow-body:2".parse()?);
    /// assert_eq!(config.faults.len(), 2);
    /// # Ok::<(), scheduled_events_replay::FaultError>(())
    /// ```
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
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use scheduled_events_replay::{Scenario, ServerConfig};
    ///
    /// let (sender, _events) = mpsc::channel();
    /// let config = ServerConfig::new(Scenario::builtin("preempt").unwrap()).observer(sender);
    /// assert!(config.observer.is_some());
    /// ```
    #[must_use]
    pub fn observer(mut self, observer: Sender<ReplayEvent>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Sets [`findings`](Self::findings).
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use scheduled_events_replay::{Scenario, ServerConfig};
    ///
    /// let (sender, _events) = mpsc::channel();
    /// let config = ServerConfig::new(Scenario::builtin("preempt").unwrap()).observer(sender).findings(true);
    /// assert!(config.findings);
    /// ```
    #[must_use]
    pub fn findings(mut self, findings: bool) -> Self {
        self.findings = findings;
        self
    }

    /// Sets [`control_plane`](Self::control_plane).
    ///
    /// ```
    /// use scheduled_events_replay::{ControlPlane, Scenario, Server, ServerConfig};
    ///
    /// let config = ServerConfig::new(Scenario::builtin("preempt").expect("a built-in name"));
    /// let server = Server::start(config.control_plane(ControlPlane::default()))?;
    /// assert!(server.control_plane().expect("an address").starts_with("http://127.0.0.1:"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn control_plane(mut self, control_plane: ControlPlane) -> Self {
        self.control_plane = Some(control_plane);
        self
    }

    /// Sets [`newest_api_version`](Self::newest_api_version).
    ///
    /// ```
    /// use scheduled_events_replay::{ADVICE_API_VERSION, Scenario, Server, ServerConfig};
    ///
    /// let config = ServerConfig::new(Scenario::builtin("rebalance").ok_or("a built-in name")?);
    /// let server = Server::start(config.clone().newest_api_version(ADVICE_API_VERSION))?;
    /// # let events = format!("{}/metadata/scheduledevents?api-version=2024-07-09", server.url());
    /// # ureq::get(&events).header("Metadata", "true").call()?;
    /// server.step();
    /// assert!(server.document().events[0].facts.is_advice());
    /// assert!(config.newest_api_version("2020-07-02").check().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn newest_api_version(mut self, version: impl Into<String>) -> Self {
        self.newest_api_version = version.into();
        self
    }

    /// Unsets [`tests_clients`](Self::tests_clients): this server only imitates the service, and
    /// nobody asks for a verdict.
    ///
    /// ```
    /// use scheduled_events_replay::{Scenario, ServerConfig};
    ///
    /// let config = ServerConfig::new(Scenario::builtin("preempt").unwrap()).without_verdict();
    /// assert!(!config.tests_clients);
    /// ```
    #[must_use]
    pub fn without_verdict(mut self) -> Self {
        self.tests_clients = false;
        self
    }

    /// Lets Azure approve the events of the scenario that have this `EventType` and that a user
    /// started: `Reboot` and `Redeploy` have such a switch in the property `scheduledEventsPolicy`.
    /// These events are never Scheduled: they appear as Started, inside and outside.
    ///
    /// ```
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let scenario = Scenario::builtin("user-reboot").ok_or("a built-in name")?;
    /// let server = Server::start(ServerConfig::new(scenario).automatically_approved("Reboot"))?;
    /// # let events = format!("{}/metadata/scheduledevents?api-version=2020-07-01", server.url());
    /// # ureq::get(&events).header("Metadata", "true").call()?;
    /// server.step();
    /// assert!(server.document().events[0].started);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn automatically_approved(mut self, event_type: &str) -> Self {
        for event in self
            .scenario
            .events
            .iter_mut()
            .filter(|event| event.event_source == "User")
        {
            event.without_notice |= event.event_type == event_type;
        }
        self
    }

    /// Checks the configuration as [`Server::start`] does, before another server is stopped for
    /// this one.
    ///
    /// # Errors
    /// [`ConfigError`]: the speed is not a positive number, the VM name is empty or has control
    /// characters, the number of machines is not from 1 to [`MAX_MACHINES`], or no service has the
    /// version.
    ///
    /// ```
    /// use scheduled_events_replay::{Scenario, ServerConfig};
    ///
    /// let config = ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?);
    /// config.check()?;
    /// assert!(config.machines(0).check().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self) -> Result<(), ConfigError> {
        check_speed(self.speed)?;
        if self.vm_name.is_empty() || self.vm_name.chars().any(char::is_control) {
            return Err(ConfigError::VmName);
        }
        if !(1..=MAX_MACHINES).contains(&self.machines) {
            return Err(ConfigError::Machines);
        }
        self.newest().map(drop)
    }

    pub(crate) fn newest(&self) -> Result<ApiVersion, ConfigError> {
        ApiVersion::parse(&self.newest_api_version).ok_or(ConfigError::ApiVersion)
    }

    pub(crate) fn timeline(&self) -> Timeline {
        let seed = self.seed.unwrap_or_else(random);
        Timeline::new(&self.scenario, &self.vm_name, self.speed, seed)
    }
}

/// How long the end of a run waits for what clients have sent.
const SETTLE_MAX: Duration = Duration::from_secs(2);

impl Server {
    /// Starts listening and serving. A server of more than some fifty machines may need more than
    /// 1,024 open files, the limit that most systems set; the process's limit is then raised as far
    /// as the system allows.
    ///
    /// # Errors
    ///
    /// `Other` for a queue that cannot be reached or refuses. `InvalidInput` for a speed that is
    /// not a positive number, for a VM name that is empty or has control characters, for a number of
    /// machines that is not from 1 to [`MAX_MACHINES`], and for a version that no service has.
    /// Otherwise the error of the
    /// operating system for the addresses.
    pub fn start(config: ServerConfig) -> io::Result<Self> {
        config
            .check()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        // One more, for the control plane.
        let sockets = 1 + config.machines as usize + most_connections(config.machines as usize);
        allow_open_files((sockets + OTHER_FILES) as u64);
        let mut listeners = Vec::new();
        let mut machines = Vec::new();
        for number in 0..config.machines {
            let listener = TcpListener::bind(address_of(config.listen, number)?)?;
            machines.push(Machine {
                name: peer(&config.vm_name, number),
                addr: listener.local_addr()?,
            });
            listeners.push(listener);
        }
        let mut control_plane = None;
        if config.control_plane.is_some() {
            let listener = TcpListener::bind(address_of(config.listen, config.machines)?)?;
            control_plane = Some(listener.local_addr()?);
            listeners.push(listener);
        }
        let queue = config
            .control_plane
            .as_ref()
            .and_then(|control_plane| control_plane.queue.clone());
        if let Some(queue) = &queue {
            let advice = |error| {
                io::Error::other(format!("{error}; start Azurite first: npx azurite-queue"))
            };
            queue.create().map_err(advice)?;
        }
        let newest = config.newest().unwrap_or(ApiVersion::STABLE);
        let timeline = config.timeline();
        let observed = config.observer.is_some();
        let names = machines
            .iter()
            .map(|machine| machine.name.clone())
            .collect();
        let outside = control_plane.map(|_| {
            Outside::new(
                &config.faults,
                config.seed.map_or_else(random, |seed| !seed),
                queue.is_some(),
            )
        });
        let service = Arc::new(Service::new(
            names,
            timeline,
            config.faults,
            config.observer,
            config.findings,
        ));
        {
            let mut state = service.lock();
            state.outside = outside;
            state.newest = newest;
            state.start_for_queue();
        }
        let connections = Arc::default();
        let mut server = Self {
            machines,
            control_plane,
            queue,
            service,
            connections,
            threads: Vec::new(),
            is_judged: AtomicBool::new(!config.tests_clients),
        };
        server.spawn({
            let (service, connections) = (server.service.clone(), server.connections.clone());
            move || accept(&listeners, &service, &connections)
        })?;
        if observed || server.queue.is_some() {
            let service = server.service.clone();
            server.spawn(move || service.run_clock())?;
        }
        if let Some(queue) = server.queue.clone() {
            let service = server.service.clone();
            server.spawn(move || outside::deliver(&queue, &service))?;
        }
        Ok(server)
    }

    /// The address that the server listens on, with the actual port: that of the first machine.
    pub fn addr(&self) -> SocketAddr {
        self.machines[0].addr
    }

    /// The endpoint for the first machine's client, such as `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        self.machines[0].url()
    }

    /// The machines; the first one is the VM under test.
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// The address of the control plane, such as `http://127.0.0.1:40124`, if there is one.
    ///
    /// ```
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").expect("a built-in name")))?;
    /// assert_eq!(server.control_plane(), None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn control_plane(&self) -> Option<String> {
        self.control_plane
            .map(|address| format!("http://{address}"))
    }

    /// The queue that the control plane fills, if there is one.
    ///
    /// ```
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").expect("a built-in name")))?;
    /// assert!(server.queue().is_none());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn queue(&self) -> Option<&QueueAddress> {
        self.queue.as_ref()
    }

    /// All addresses, one on each line, as `scheduled-events replay` prints them. Names are
    /// escaped.
    ///
    /// ```
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").expect("a built-in name")).machines(2))?;
    /// let [first, second] = server.machines() else { panic!("two machines") };
    /// assert_eq!(server.addresses(), format!("listening on {}\nlistening on {} as WestNO_1\n", first.url(), second.url()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn addresses(&self) -> String {
        let line = |(number, machine): (usize, &Machine)| match number {
            0 => format!("listening on {}\n", machine.url()),
            _ => format!(
                "listening on {} as {}\n",
                machine.url(),
                Printable(&machine.name)
            ),
        };
        let control_plane = self
            .control_plane()
            .map(|url| format!("control plane at {url}\n"));
        let queue = self.queue().map(|queue| format!("queue at {queue}\n"));
        self.machines
            .iter()
            .enumerate()
            .map(line)
            .chain(control_plane)
            .chain(queue)
            .collect()
    }

    /// Whether every event of the scenario has ended.
    pub fn finished(&self) -> bool {
        self.service.finished()
    }

    /// The last [`MAX_RECORDED`] requests, oldest first. A request is recorded before its response
    /// is sent.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.service.requests()
    }

    /// Ends a test: the clients send no more requests, and this is the verdict. With several machines
    /// it is the first verdict that is not clean, if there is one; [`verdict`](Self::verdict) then
    /// returns each.
    ///
    /// A client that ends while an event of its machine is open did not poll to the event's end, and
    /// its verdict is not clean. To test one that runs on, wait for [`finished`](Self::finished)
    /// first.
    ///
    /// ```no_run
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// # fn my_client(_endpoint: &str) {}
    /// let scenario = Scenario::builtin("user-reboot").ok_or("a built-in name")?;
    /// let server = Server::start(ServerConfig::new(scenario).speed(60.0))?;
    /// my_client(&server.url()); // the front page of this crate has one
    /// server.finish().assert_clean();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "a test ends with `server.finish().assert_clean()`"]
    pub fn finish(&self) -> Verdict {
        self.is_judged.store(true, Ordering::Relaxed);
        let mut verdicts = self.service.finish();
        let worst = verdicts
            .iter()
            .position(|verdict| !verdict.is_clean())
            .unwrap_or(0);
        // There is at least one machine.
        verdicts.swap_remove(worst)
    }

    /// The verdict on a machine's client so far, or after its end if it has ended, by the machine's
    /// number.
    ///
    /// # Panics
    ///
    /// When there is no machine with this number.
    pub fn verdict(&self, machine: usize) -> Verdict {
        self.is_judged.store(true, Ordering::Relaxed);
        self.service.verdict(machine)
    }

    /// Notes that a machine's client has ended: it sends no more requests.
    pub fn client_ended(&self, machine: usize) {
        self.service.client_ended(machine);
    }

    /// Notes how the process of a machine's client ended: a status other than success makes its
    /// verdict not clean.
    ///
    /// ```
    /// use scheduled_events_replay::verdict::ClientExit;
    /// use scheduled_events_replay::{Scenario, Server, ServerConfig};
    ///
    /// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
    /// let status = std::process::Command::new("false").env("ENDPOINT", server.url()).status()?;
    /// server.client_exited(0, ClientExit::ByItself(status));
    /// assert!(!server.finish().is_clean());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn client_exited(&self, machine: usize, exit: ClientExit) {
        self.service.client_exited(machine, exit);
    }

    /// When the server started, from which the times of a verdict count.
    pub fn started(&self) -> Instant {
        self.service.origin()
    }

    /// Waits until what clients have sent that have ended is recorded: at most two seconds for those whose
    /// answers are delayed.
    #[doc(hidden)]
    pub fn settle(&self) {
        // Connections are accepted in their order: once this one has been served, all earlier ones
        // were accepted.
        for machine in &self.machines {
            let address = reachable(machine.addr);
            if let Ok(mut stream) = TcpStream::connect_timeout(&address, SETTLE_MAX) {
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.set_read_timeout(Some(SETTLE_MAX));
                let _ = stream.read(&mut [0]);
            }
        }
        let deadline = Instant::now() + SETTLE_MAX;
        while self.service.connections() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether a client waits for its first response.
    #[doc(hidden)]
    pub fn is_answering(&self) -> bool {
        self.service.is_answering()
    }

    /// Stops serving and frees the ports, which takes a moment. Dropping the server does this too,
    /// and waits until it is done.
    pub fn stop(&self) {
        self.service.stop();
        // Wakes the accepting thread. If the queue is full, the thread is awake.
        let _ = TcpStream::connect_timeout(&reachable(self.addr()), Duration::from_secs(1));
    }

    fn spawn(&mut self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(thread_builder(self.addr()).spawn(work)?);
        Ok(())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("machines", &self.machines)
            .finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // The accepting thread has ended, so there are no new connections.
        let connections = std::mem::take(
            &mut *self
                .connections
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        for connection in &connections {
            if let Some(stream) = connection.stream.upgrade() {
                stream.shut_down();
            }
        }
        for connection in connections {
            let _ = connection.thread.join();
        }
        let requests = self.service.unwatched_requests();
        let is_judged = self.is_judged.load(Ordering::Relaxed);
        if requests > 0 && !is_judged && !std::thread::panicking() {
            // A closed stderr is no reason to panic.
            let _ = writeln!(
                io::stderr(),
                "scheduled-events-replay: {requests} request{} of a client, and no verdict: end the test with \
                 server.finish().assert_clean(), or start the server with ServerConfig::without_verdict",
                if requests == 1 { "" } else { "s" }
            );
        }
    }
}

/// Why a server cannot play with a setting.
///
/// ```
/// use scheduled_events_replay::{ConfigError, Scenario, ServerConfig};
///
/// let config = ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?);
/// assert_eq!(config.vm_name("").check(), Err(ConfigError::VmName));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The speed is not a positive number.
    Speed,
    /// The name of the VM is empty or has control characters.
    VmName,
    /// The number of machines is not from 1 to [`MAX_MACHINES`].
    Machines,
    /// No service has this version.
    ApiVersion,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Speed => write!(f, "the speed must be a number greater than 0, such as 60"),
            Self::VmName => write!(
                f,
                "the VM name must not be empty or contain control characters"
            ),
            Self::Machines => write!(f, "the number of machines must be from 1 to {MAX_MACHINES}"),
            Self::ApiVersion => write!(
                f,
                "no service has this api-version; the versions are {}",
                ApiVersion::list()
            ),
        }
    }
}

impl std::error::Error for ConfigError {}

pub(crate) fn check_speed(speed: f64) -> Result<(), ConfigError> {
    let is_valid = speed.is_finite() && speed > 0.0;
    is_valid.then_some(()).ok_or(ConfigError::Speed)
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused() {
        let config = || ServerConfig::new(Scenario::builtin("preempt").expect("known"));
        for bad in [
            config().speed(0.0),
            config().speed(f64::NAN),
            config().vm_name(""),
            config().vm_name("a\nb"),
            config().machines(0),
            config().newest_api_version("2020-07-02"),
        ] {
            let error = Server::start(bad).expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
