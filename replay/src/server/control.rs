//! Control of a server while it plays, for a person or a test: pause, step, speed, more events,
//! faults and approvals.
//!
//! ```
//! use scheduled_events_replay::{Scenario, Server, ServerConfig};
//!
//! let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").expect("a built-in name")))?;
//! server.inject_fault(0, "status:503@1".parse()?)?;
//! server.pause();
//! assert!(server.status().is_paused);
//! // Nothing can be due before the first document.
//! assert!(!server.step());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The command uses none of this.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fault::{Fault, FaultScope};
use crate::scenario::{EventScript, MAX_EVENTS, Scenario};
use crate::server::{ConfigError, Server, ServerConfig, check_speed};
use crate::service::ServiceState;
use crate::timeline::document::{ApprovalResult, EventFacts, ReplayDocument};

/// The progress of a server's scenario.
///
/// ```
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").expect("a built-in name")))?;
/// let status = server.status();
/// // It waits for the first request.
/// assert!(!status.has_started && !status.is_paused && !status.is_finished);
/// assert_eq!((status.speed, status.next_change), (1.0, None));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlayStatus {
    /// Whether a document was requested, which starts the scenario.
    pub has_started: bool,
    /// Whether the scenario's time is stopped.
    pub is_paused: bool,
    /// Whether every event has ended.
    pub is_finished: bool,
    /// How much faster than real time the scenario plays.
    pub speed: f64,
    /// The scenario's time: real time times the speed, without pauses.
    pub scenario_time: Duration,
    /// The real time until the next change, if the scenario plays and no event is approved before.
    pub next_change: Option<Duration>,
}

/// Why a server refuses a control: what was found, and what to do instead.
///
/// ```
/// use scheduled_events_replay::{ConfigError, ControlError, Scenario, Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").expect("a built-in name")))?;
/// let error = server.set_speed(0.0).expect_err("a speed of 0");
/// assert_eq!(error, ControlError::Config(ConfigError::Speed));
/// assert!(error.to_string().contains("speed"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlError {
    /// A server cannot play with this setting.
    Config(ConfigError),
    /// There would be more than [`MAX_EVENTS`].
    TooManyEvents,
    /// `first-call-delay`, after the first request.
    FirstCallOver,
    /// A fault of the control plane, which the server does not have.
    NoControlPlane,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::TooManyEvents => write!(
                f,
                "there are at most {MAX_EVENTS} events: begin again to add others"
            ),
            Self::FirstCallOver => f.write_str(
                "found first-call-delay after the first request: delay the next one with slow-headers:SECONDS@1",
            ),
            Self::NoControlPlane => {
                f.write_str("found a fault of the control plane, and the server has none")
            }
        }
    }
}

impl std::error::Error for ControlError {}

impl From<ConfigError> for ControlError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// Control while a scenario plays.
impl Server {
    /// The progress of the server's scenario.
    pub fn status(&self) -> PlayStatus {
        self.control(|state, now| PlayStatus {
            has_started: state.clock.is_some(),
            is_paused: state.timeline.is_paused(),
            is_finished: state.clock.is_some() && state.timeline.finished(),
            speed: state.timeline.speed(),
            scenario_time: state.timeline.scenario_time(),
            next_change: state
                .clock
                .and(state.timeline.next_due())
                .map(|due| due.saturating_sub(now)),
        })
    }

    /// Stops the scenario's time. Requests are still answered, and approvals accepted.
    pub fn pause(&self) {
        self.control(|state, now| state.timeline.pause(now));
    }

    /// Continues the scenario's time. Each Scheduled event is rescheduled by the length of the
    /// pause.
    pub fn resume(&self) {
        self.control(|state, now| state.timeline.resume(now));
    }

    /// Changes the speed. Each Scheduled event is rescheduled.
    ///
    /// # Errors
    /// The speed is not a positive number.
    pub fn set_speed(&self, speed: f64) -> Result<(), ControlError> {
        check_speed(speed)?;
        self.control(|state, now| state.timeline.set_speed(speed, now));
        Ok(())
    }

    /// Applies the next change now, paused or not. Returns false before the first document, and if
    /// no change is left.
    pub fn step(&self) -> bool {
        self.control(|state, now| state.clock.is_some() && state.timeline.step(now))
    }

    /// Adds an event, which appears its `appears` from now on, or from the first document on.
    ///
    /// # Errors
    /// There would be more than [`MAX_EVENTS`].
    pub fn add_event(&self, script: EventScript) -> Result<(), ControlError> {
        let is_added = self.control(|state, now| {
            let is_added = state.timeline.add(script, now);
            state.finished = state.finished.filter(|_| !is_added);
            is_added
        });
        is_added.then_some(()).ok_or(ControlError::TooManyEvents)
    }

    /// Approves an event in place of a client.
    pub fn approve(&self, event_id: &str) -> ApprovalResult {
        self.control(|state, now| state.timeline.approve_manually(event_id, now))
    }

    /// Adds a fault of a machine with precedence over its others, or of the control plane, whatever
    /// the machine. The fault's window counts from now on: `post.status:503@1` is the next
    /// approval.
    ///
    /// # Errors
    /// `first-call-delay` after the first request, and a fault of a control plane that the server
    /// does not have.
    ///
    /// # Panics
    /// When there is no machine with this number.
    pub fn inject_fault(&self, machine: usize, fault: Fault) -> Result<(), ControlError> {
        let since = |first: Option<Instant>| first.map_or(Duration::ZERO, |first| first.elapsed());
        let is_injected = self.control(|state, now| {
            if !fault.is_outside() {
                let lane = &mut state.lanes[machine];
                return Some(lane.planner.inject(fault, since(lane.first_request)));
            }
            let outside = state.outside.as_mut()?;
            // The time of messages counts from the start of the scenario.
            let since = if fault.scope == FaultScope::Message {
                now
            } else {
                since(outside.first_request)
            };
            Some(outside.planner.inject(fault, since))
        });
        match is_injected {
            Some(true) => Ok(()),
            Some(false) => Err(ControlError::FirstCallOver),
            None => Err(ControlError::NoControlPlane),
        }
    }

    /// Removes all faults of a machine.
    ///
    /// # Panics
    /// When there is no machine with this number.
    pub fn clear_faults(&self, machine: usize) {
        self.control(|state, _| state.lanes[machine].planner.clear());
    }

    /// The faults of a machine in their order of precedence, with windows that count from the first
    /// request.
    ///
    /// # Panics
    /// When there is no machine with this number.
    pub fn faults(&self, machine: usize) -> Vec<Fault> {
        self.control(|state, _| state.lanes[machine].planner.faults().to_vec())
    }

    /// The current document.
    pub fn document(&self) -> Arc<ReplayDocument> {
        self.control(|state, _| state.timeline.document())
    }

    /// The members of an event that never change, if it has appeared.
    pub fn event(&self, event_id: &str) -> Option<Arc<EventFacts>> {
        self.control(|state, _| state.timeline.facts(event_id))
    }

    /// The scenario as played so far and as planned from now on. `scenario` is the one that the
    /// server was started with.
    pub fn played(&self, scenario: &Scenario) -> Scenario {
        self.control(|state, _| state.timeline.played(scenario))
    }

    /// Begins again with another scenario, speed, seed and faults. Addresses, machines and open
    /// connections stay as they are: it ignores `listen`, `vm_name` and `machines` of the config,
    /// which needs an observer if the first one had one.
    ///
    /// # Errors
    /// The speed is not a positive number, or no service has the version.
    pub fn begin_again(&self, config: ServerConfig) -> Result<(), ControlError> {
        check_speed(config.speed)?;
        let newest = config.newest()?;
        let config = config.vm_name(&self.machines()[0].name);
        let timeline = config.timeline();
        let (names, faults) = (&self.service.names, config.faults);
        let mut state = self.service.lock();
        state.newest = newest;
        state.begin_again(names, timeline, faults, config.observer, config.findings);
        drop(state);
        self.service.changed.notify_all();
        Ok(())
    }

    /// Changes the state at the present, and reports the results.
    fn control<T>(&self, change: impl FnOnce(&mut ServiceState, Duration) -> T) -> T {
        let mut state = self.service.lock();
        let now = state.advance();
        let result = change(&mut state, now);
        if let Some(clock) = state.clock {
            state.report_transitions(clock);
        }
        drop(state);
        self.service.changed.notify_all();
        result
    }
}
