//! Whether a machine may prepare, and whether an event may be approved.
//!
//! An approval counts for all machines of an event. So an event is approved once each of its
//! machines is ready: each has asked for the approval of the current form of the event, and repeats
//! the question every few seconds for as long as it is ready. A question counts no longer once the
//! event has changed, or its machine may prepare again: what is true by now may have been true before,
//! and not in between. The machine that is ready last approves; the others would only repeat it. With
//! a fleet, the fleet's gate decides: `fleet`, with the store of `engine`.

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
    /// the event may be approved, which is of this resource. Without a fleet, the question counts from
    /// this call on, not once its answer is awaited: a change in between withdraws it.
    pub fn ask(
        self: &Rc<Self>,
        phase: GatePhase,
        machine: &MachineFacts,
        resource_id: &str,
        event: &EventRecord,
    ) -> impl Future<Output = Asked> + use<> {
        let key = EventKey::new(resource_id, &event_key(&event.event_id));
        let answer = match (&self.fleet, phase) {
            (Some(_), _) => None,
            (None, GatePhase::Prepare) => {
                self.not_ready(&machine.name, &key);
                Some(GateAnswer::Open)
            }
            (None, GatePhase::Approve) => Some(self.ask_others(&machine.name, key, event)),
        };
        let (gates, machine, event) = (self.clone(), machine.clone(), event.clone());
        async move {
            match &gates.fleet {
                Some(fleet) => fleet.ask(phase, &machine, &event).await,
                None => Asked {
                    answer: answer.unwrap_or(GateAnswer::Closed),
                    has_agent: false,
                },
            }
        }
    }

    /// Records that an event has changed: its machines have not learned of that yet, and may have to
    /// prepare again. Those that are still ready ask again.
    pub fn changed(&self, event: &EventKey) {
        self.ready.borrow_mut().remove(event);
    }

    /// Whether what a yes to the approval of an event rests on still holds: each machine that was
    /// ready then is so.
    pub fn holds(&self, event: &EventKey) -> bool {
        let ready = self.ready.borrow();
        self.fleet.is_some()
            || ready
                .get(event)
                .is_none_or(|ready| ready.complete.is_some())
    }

    /// Records that a machine is not ready for an event, whatever the event was when it asked.
    pub fn not_ready(&self, name: &str, event: &EventKey) {
        if let Some(ready) = self.ready.borrow_mut().get_mut(event) {
            ready.asked.remove(&name.to_ascii_lowercase());
            ready.complete = None;
        }
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

    fn ask_others(&self, name: &str, key: EventKey, event: &EventRecord) -> GateAnswer {
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
        let ready = all.entry(key).or_insert_with(new);
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

    fn key() -> EventKey {
        EventKey::new("set", "1")
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        scheduled_events_common::program::block_on(future)
            .unwrap_or_else(|failure| panic!("{}", failure.message))
    }

    #[test]
    fn an_event_is_approved_once_by_the_machine_that_completes_the_others() {
        let gates = Gates::default();
        let resources = Some(vec!["a".to_owned(), "B".to_owned()]);
        let event = EventRecord {
            event_id: "1".into(),
            resources,
            ..EventRecord::default()
        };
        assert_eq!(gates.ask_others("a", key(), &event), GateAnswer::Closed);
        assert_eq!(gates.ask_others("b", key(), &event), GateAnswer::Open);
        assert_eq!(
            gates.ask_others("a", key(), &event),
            GateAnswer::AnotherApproves
        );
        // A longer interruption is another event, for which no machine is ready yet.
        let longer = EventRecord {
            duration_in_seconds: Some(600),
            ..event
        };
        assert_eq!(gates.ask_others("b", key(), &longer), GateAnswer::Closed);
        assert_eq!(gates.ask_others("A", key(), &longer), GateAnswer::Open);
    }

    /// Whatever two machines ask, in whatever order, while the event becomes another one and the former
    /// one again: it is approved only once each has asked for that since it could prepare last.
    #[test]
    fn no_question_from_before_a_machine_prepares_again_counts() {
        let form = |seconds| EventRecord {
            event_id: "1".into(),
            resources: Some(vec!["a".to_owned(), "b".to_owned()]),
            duration_in_seconds: Some(seconds),
            ..EventRecord::default()
        };
        let forms = [form(5), form(900)];
        let machines = ["a", "b"].map(|name| MachineFacts {
            name: name.into(),
            ..MachineFacts::default()
        });
        block_on(async {
            // A machine, and the form that it is ready for, or none if it prepares.
            let steps: Vec<(usize, Option<usize>)> = (0..2)
                .flat_map(|machine| [None, Some(0), Some(1)].map(|form| (machine, form)))
                .collect();
            let length = 5;
            for number in 0..steps.len().pow(length) {
                let gates = Rc::<Gates>::default();
                let mut ready_for = [None; 2];
                let taken = (0..length).map(|place| steps[number / steps.len().pow(place) % 6]);
                let taken: Vec<_> = taken.collect();
                for &(machine, form) in &taken {
                    ready_for[machine] = form;
                    let (phase, event) = match form {
                        Some(form) => (GatePhase::Approve, &forms[form]),
                        None => (GatePhase::Prepare, &forms[0]),
                    };
                    let asked = gates.ask(phase, &machines[machine], "set", event).await;
                    let may_approve =
                        phase == GatePhase::Approve && asked.answer != GateAnswer::Closed;
                    assert!(
                        !may_approve || ready_for == [form; 2],
                        "{taken:?}: {ready_for:?}"
                    );
                }
            }
        });
    }

    /// Two messages of one batch make the event another one, and the former one again.
    #[test]
    fn a_question_from_before_a_change_does_not_count_although_its_answer_comes_later() {
        let (gates, event) = (
            Rc::<Gates>::default(),
            EventRecord {
                event_id: "1".into(),
                resources: Some(vec!["a".to_owned(), "b".to_owned()]),
                ..EventRecord::default()
            },
        );
        let machine = MachineFacts {
            name: "a".into(),
            ..MachineFacts::default()
        };
        let asked = gates.ask(GatePhase::Approve, &machine, "set", &event);
        gates.changed(&key());
        block_on(asked);
        assert_eq!(gates.ask_others("b", key(), &event), GateAnswer::Closed);
    }
}
