//! Whether a machine may prepare, and whether an event may be approved.
//!
//! An approval counts for all machines of an event. So an event is approved once each of its
//! machines is ready: each has asked for the approval of the current form of the event, and repeats
//! the question every few seconds for as long as it is ready. The machine that is ready last
//! approves; the others would only repeat it. With a fleet, the fleet's gate decides: `fleet`, with
//! the store of `engine`.

mod engine;
mod fleet;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use scheduled_events::record::{EventRecord, Record, event_key};
use scheduled_events_common::names::Name;
use scheduled_events_common::toml_file::LoadError;
use scheduled_events_core::{GateAnswer, GatePhase};
use tokio::time::Instant;

use crate::config::Config;
use crate::notice::EventKey;
use crate::store::{MachineFacts, RegistersError};
use fleet::Fleet;

/// A machine that is ready asks again after five seconds. One that has not asked for this long is
/// no longer ready.
const READY_FOR: Duration = Duration::from_secs(15);

/// The machine that is ready last approves. If the event still waits after this long, any machine
/// does.
const TAKE_OVER_AFTER: Duration = Duration::from_secs(20);

/// The gates of all events.
#[derive(Default)]
pub struct Gates {
    ready: RefCell<HashMap<EventKey, Ready>>,
    fleet: Option<Fleet>,
}

/// The machines that are ready for the current form of an event.
#[derive(Debug)]
struct Ready {
    /// The form of the event: another type, another duration or other machines make it another
    /// event.
    what: (Option<String>, Option<u32>, Vec<String>),
    /// When each machine asked last, by name in lower case.
    asked: HashMap<String, Instant>,
    /// When all were ready, and which machine was the last.
    complete: Option<(Instant, String)>,
}

/// How a question was answered.
pub struct Asked {
    /// The answer.
    pub answer: GateAnswer,
    /// Whether it was not asked for this machine, because the machine's own daemon takes part.
    pub has_agent: bool,
}

/// Why a fleet's gate cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum GateError {
    /// The configuration of the fleet cannot be used.
    Config(LoadError),
    /// The hub's audit file cannot be read.
    Audit {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Audit { path, error } => write!(f, "cannot read {}: {error}", path.display()),
        }
    }
}

impl Error for GateError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Config(error) => error.source(),
            Self::Audit { error, .. } => Some(error),
        }
    }
}

impl Gates {
    /// The gates of a configuration.
    ///
    /// # Errors
    /// The fleet's configuration is invalid, or the audit file cannot be read.
    pub fn new(config: &Config) -> Result<Rc<Self>, GateError> {
        let open = |file: &PathBuf| Fleet::open(file, &config.audit);
        let fleet = config.gate.as_ref().map(open).transpose()?;
        Ok(Rc::new(Self {
            ready: RefCell::default(),
            fleet,
        }))
    }

    /// Whether a machine may prepare for an event, or whether, as far as this machine is concerned,
    /// the event may be approved, which is of this resource.
    pub async fn ask(
        &self,
        phase: GatePhase,
        machine: &MachineFacts,
        resource_id: &str,
        event: &EventRecord,
    ) -> Asked {
        let answer = match (&self.fleet, phase) {
            (Some(fleet), _) => return fleet.ask(phase, machine, event).await,
            (None, GatePhase::Prepare) => GateAnswer::Open,
            (None, GatePhase::Approve) => self.ask_others(&machine.name, resource_id, event),
        };
        let has_agent = false;
        Asked { answer, has_agent }
    }

    /// The machines that have a daemon of the fleet; `None` without a fleet.
    ///
    /// # Errors
    /// The fleet's registers cannot be read.
    pub async fn agents(&self) -> Option<Result<HashSet<Name>, RegistersError>> {
        match &self.fleet {
            Some(fleet) => Some(fleet.agents().await),
            None => None,
        }
    }

    /// Applies a record of a machine.
    pub fn record(&self, resource_id: &str, record: &Record<'_>) {
        if let Some(fleet) = &self.fleet {
            fleet.record(resource_id, record);
        }
    }

    /// Adds a machine that has an event from an earlier run. If it is out of service, it may be so
    /// for each of the events in `out_for`.
    pub async fn join(&self, machine: &MachineFacts, out_for: &[EventRecord]) {
        if let Some(fleet) = &self.fleet {
            fleet.join(machine, out_for).await;
        }
    }

    /// Whether a machine that has no event and is in service has left the gate.
    pub async fn has_left(&self, machine: &MachineFacts) -> bool {
        match &self.fleet {
            Some(fleet) => fleet.has_left(machine).await,
            None => true,
        }
    }

    fn ask_others(&self, name: &str, resource_id: &str, event: &EventRecord) -> GateAnswer {
        let (now, name) = (Instant::now(), name.to_ascii_lowercase());
        let lower = |name: &String| name.to_ascii_lowercase();
        let mut machines: Vec<String> = event.resources.iter().flatten().map(lower).collect();
        machines.sort();
        machines.dedup();
        let what = (
            event.event_type.clone(),
            event.duration_in_seconds,
            machines,
        );
        let mut all = self.ready.borrow_mut();
        // Entries of events that are over.
        all.retain(|_, ready| ready.asked.values().any(|at| now - *at < READY_FOR));
        let new = || Ready {
            what: what.clone(),
            asked: HashMap::new(),
            complete: None,
        };
        let ready = all
            .entry(EventKey::new(resource_id, &event_key(&event.event_id)))
            .or_insert_with(new);
        if ready.what != what {
            *ready = new();
        }
        ready.asked.insert(name.clone(), now);
        ready.asked.retain(|_, at| now - *at < READY_FOR);
        if !ready
            .what
            .2
            .iter()
            .all(|machine| ready.asked.contains_key(machine))
        {
            ready.complete = None;
            return GateAnswer::Closed;
        }
        let (since, last) = ready.complete.get_or_insert((now, name.clone()));
        if *last == name || now - *since >= TAKE_OVER_AFTER {
            GateAnswer::Open
        } else {
            GateAnswer::AnotherApproves
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_approved_once_by_the_machine_that_completes_the_others() {
        let gates = Gates::default();
        let resources = Some(vec!["a".to_owned(), "B".to_owned()]);
        let event = EventRecord {
            event_id: "1".into(),
            resources,
            ..EventRecord::default()
        };
        assert_eq!(gates.ask_others("a", "set", &event), GateAnswer::Closed);
        assert_eq!(gates.ask_others("b", "set", &event), GateAnswer::Open);
        assert_eq!(
            gates.ask_others("a", "set", &event),
            GateAnswer::AnotherApproves
        );
        // A longer interruption is another event, for which no machine is ready yet.
        let longer = EventRecord {
            duration_in_seconds: Some(600),
            ..event
        };
        assert_eq!(gates.ask_others("b", "set", &longer), GateAnswer::Closed);
        assert_eq!(gates.ask_others("A", "set", &longer), GateAnswer::Open);
    }
}
