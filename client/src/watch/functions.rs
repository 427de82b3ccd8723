//! The host of a watcher that is given functions: each call that takes time has a thread of its own.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_core::{GateAnswer, GatePhase};

use super::host::{Host, Note};
use super::reply::{GateReply, PrepareReply, RecoverReply};
use crate::record::{EventRecord, HookOutcome, TimedRecord};

type TaskFunction = Arc<dyn Fn(&Task) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync>;
type GateFunction = Arc<dyn Fn(&Task, GatePhase) -> GateAnswer + Send + Sync>;
type RecordFunction = Box<dyn FnMut(&TimedRecord<'_>) + Send>;
type NoteFunction = Box<dyn FnMut(&Note) + Send>;

/// What a function of a [`WatcherBuilder`](super::WatcherBuilder) is called for.
///
/// ```
/// use std::error::Error;
/// use std::thread::sleep;
/// use std::time::Duration;
///
/// use scheduled_events::watch::Task;
///
/// /// Waits until the connections have ended, at most for half of the time.
/// fn drain(task: &Task) -> Result<(), Box<dyn Error + Send + Sync>> {
///     println!("draining for {}, by the last call: {}", task.event().event_id, task.by_last_call());
///     let most = task.time_left().map_or(60, |left| left.as_secs() / 2);
///     for _ in 0..most {
///         if task.is_cancelled() {
///             return Err("the event is over".into());
///         }
///         sleep(Duration::from_secs(1));
///     }
///     Ok(())
/// }
///
/// fn recover(task: &Task) -> Result<(), Box<dyn Error + Send + Sync>> {
///     Ok(println!("back in service after {} events", task.events().count()))
/// }
/// # let _ = (drain, recover);
/// ```
#[derive(Debug)]
pub struct Task {
    event: EventRecord,
    others: Vec<EventRecord>,
    due: Option<Instant>,
    by_last_call: bool,
    is_cancelled: Arc<AtomicBool>,
}

impl Task {
    fn new(event: &EventRecord) -> Self {
        Self {
            event: event.clone(),
            others: Vec::new(),
            due: None,
            by_last_call: false,
            is_cancelled: Arc::default(),
        }
    }

    /// The event; for a recovery the one that ended last.
    pub fn event(&self) -> &EventRecord {
        &self.event
    }

    /// All events of a recovery, the one that ended last first; otherwise the one event.
    pub fn events(&self) -> impl Iterator<Item = &EventRecord> {
        std::iter::once(&self.event).chain(&self.others)
    }

    /// How much time is left until the event that is prepared for may start; `None` if that is unknown.
    pub fn time_left(&self) -> Option<Duration> {
        self.due
            .map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Whether this is a preparation by the last call: the gate has not answered yes.
    pub fn by_last_call(&self) -> bool {
        self.by_last_call
    }

    /// Whether the result does not count any more, since the event is over or another one than before: the function should return
    /// soon. Until it does, nothing is started in its place.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// A host that calls functions.
#[derive(Default)]
pub(super) struct Functions {
    prepare: Option<TaskFunction>,
    recover: Option<TaskFunction>,
    gate: Option<GateFunction>,
    record: Option<RecordFunction>,
    note: Option<NoteFunction>,
    /// The attempts whose functions run.
    running: HashMap<u32, Weak<AtomicBool>>,
}

impl Functions {
    pub(super) fn on_prepare(
        &mut self,
        function: impl Fn(&Task) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) {
        self.prepare = Some(Arc::new(function));
    }

    pub(super) fn on_recover(
        &mut self,
        function: impl Fn(&Task) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) {
        self.recover = Some(Arc::new(function));
    }

    pub(super) fn on_gate(
        &mut self,
        function: impl Fn(&Task, GatePhase) -> GateAnswer + Send + Sync + 'static,
    ) {
        self.gate = Some(Arc::new(function));
    }

    pub(super) fn on_record(&mut self, function: impl FnMut(&TimedRecord<'_>) + Send + 'static) {
        self.record = Some(Box::new(function));
    }

    pub(super) fn on_note(&mut self, function: impl FnMut(&Note) + Send + 'static) {
        self.note = Some(Box::new(function));
    }

    /// Calls a function on a thread of its own. If the system refuses the thread, the reply is dropped, and the attempt repeated.
    fn start(&mut self, attempt: u32, task: Task, call: impl FnOnce(&Task) + Send + 'static) {
        self.running
            .retain(|_, is_cancelled| is_cancelled.strong_count() > 0);
        self.running
            .insert(attempt, Arc::downgrade(&task.is_cancelled));
        let event_id = task.event.event_id.clone();
        let name = "scheduled-events-task".to_owned();
        let started = thread::Builder::new().name(name).spawn(move || call(&task));
        if let Err(error) = started {
            self.note(&Note::FunctionFailed {
                event_id,
                reason: error.to_string(),
            });
        }
    }
}

impl Host for Functions {
    fn record(&mut self, record: &TimedRecord<'_>) {
        if let Some(function) = &mut self.record {
            function(record);
        }
    }

    fn note(&mut self, note: &Note) {
        if let Some(function) = &mut self.note {
            function(note);
        }
    }

    fn prepare(&mut self, event: &EventRecord, reply: PrepareReply) {
        let Some(function) = self.prepare.clone() else {
            return reply.report(HookOutcome::NoCommand);
        };
        let task = Task {
            due: reply.due(),
            by_last_call: reply.by_last_call(),
            ..Task::new(event)
        };
        self.start(reply.attempt(), task, move |task| match function(task) {
            Ok(()) => reply.ready(),
            Err(error) => reply.fail(error.to_string()),
        });
    }

    fn recover(&mut self, events: &[EventRecord], reply: RecoverReply) {
        let (Some(function), Some((last, others))) = (self.recover.clone(), events.split_first())
        else {
            return reply.report(HookOutcome::NoCommand);
        };
        let task = Task {
            others: others.to_vec(),
            ..Task::new(last)
        };
        self.start(reply.attempt(), task, move |task| match function(task) {
            Ok(()) => reply.done(),
            Err(error) => reply.fail(error.to_string()),
        });
    }

    fn gate(&mut self, event: &EventRecord, reply: GateReply) {
        let Some(function) = self.gate.clone() else {
            return reply.open();
        };
        self.start(reply.attempt(), Task::new(event), move |task| {
            let answer = function(task, reply.phase());
            reply.report(answer);
        });
    }

    fn cancel(&mut self, attempt: u32) {
        if let Some(is_cancelled) = self.running.get(&attempt).and_then(Weak::upgrade) {
            is_cancelled.store(true, Ordering::Relaxed);
        }
    }
}
