//! The daemon of one machine: it answers the watcher's questions, and keeps the common registers up
//! to date.
//!
//! `audit` reads what the watcher records, `check` reports about the daemon for people, `server` serves the Unix socket, `message` defines its
//! messages, `heartbeat` writes what others see of this machine, `members` reads what this machine
//! sees of others, `lost` finds slots of this machine that this process does not know, `upkeep`
//! does the work besides answering, `problems` holds what does not work, and
//! [`supervision`](scheduled_events_common::supervision) reports to systemd and Prometheus. While no event is open
//! and no slot is held, the daemon's only requests to the store are the write of its heartbeat and,
//! once in `return_within`, a read of the groups. Five
//! tasks run concurrently on one thread: the server, the heartbeat, the reader of the audit file,
//! the upkeep, which frees slots, and the supervision.

mod audit;
mod check;
mod heartbeat;
mod lost;
mod members;
pub mod message;
mod problems;
mod server;
#[cfg(test)]
mod tests;
mod upkeep;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use scheduled_events::limits::GATE_TIME;
use scheduled_events::record::Record;
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout_at};

use crate::config::Config;
use crate::driver::{self, GateRun, Question};
use crate::engine::{self, Engine, EngineError};
use crate::event::Event;
use crate::event::events_prefix;
use crate::group::{closed_windows, shares};
use crate::history::History;
use crate::metrics::Metrics;
use crate::protocol::{Answer, Participant, Why};
use crate::register::{EventRegister, GroupChange, MachineRegister, Stamp};
use crate::store;
use audit::AuditFile;
use heartbeat::Heartbeat;
use members::Machines;
use message::Reply;
use problems::{Problems, Subject};
use scheduled_events_common::log;
use scheduled_events_common::names::Name;
use scheduled_events_common::supervision::Supervisor;
use upkeep::{Slots, Upkeep, is_of};

/// How long an answer may take: `ask` must pass it on before the watcher stops waiting.
const ANSWER_TIME: Duration = Duration::from_secs(GATE_TIME.as_secs() - 2);

/// How often the audit file is read.
const AUDIT_INTERVAL: Duration = Duration::from_millis(250);

/// The watcher asks again after five seconds. A watcher that has not asked for this long no longer
/// waits for an approval.
const ASKED_AGAIN_WITHIN: Duration = Duration::from_secs(20);

/// How long the register of an event stays after its end, so that people can read it.
const EVENT_KEPT: Duration = Duration::from_secs(15 * 60);

/// How often problems that need an operator are checked again: registers that cannot be read, and
/// limits that differ.
const CORRECTED_WITHIN: Duration = Duration::from_secs(10 * 60);

/// How many ids of events that started without a decision are kept.
const UNGATED_KEPT: usize = 32;

/// The share of an event's waiting time for which a refusal counts, two minutes at most: free
/// places must not wait long for the events that could take them. With this, many events that wait
/// for the places of one group hardly load the store. The daemon subtracts up to one half, a
/// different amount for each event and each read, so that events that were announced together read
/// at different times, and the machines of one event at the same time.
const REFUSAL_COUNTS_FOR: u32 = 8;
const REFUSAL_COUNTS_AT_MOST: Duration = Duration::from_secs(120);

/// The daemon of one machine.
pub struct Daemon {
    config: Config,
    machine: Name,
    zone: Option<String>,
    engine: Rc<dyn Engine>,
    /// The events that were asked about, by the key of their register.
    events: RefCell<HashMap<String, Rc<PendingEvent>>>,
    /// What the records of this machine say about its events.
    history: RefCell<History>,
    source: Source,
    machines: RefCell<Machines>,
    slots: RefCell<Slots>,
    heartbeat: Mutex<Heartbeat>,
    /// Whether this process has written a heartbeat.
    has_beaten: watch::Sender<bool>,
    /// Whether this process has withdrawn the marks of an earlier one. Nobody hears of this process
    /// before that: until then they would count.
    has_adopted: watch::Sender<bool>,
    /// Whether a daemon on another computer may have this machine's name: since when.
    copy_since: Cell<Option<Instant>>,
    upkeep: Mutex<Upkeep>,
    /// Notified when this machine's register must be written before the next heartbeat.
    has_changed: Notify,
    started_at: Instant,
    /// Whether no register of an earlier version of this program has a mark of this machine.
    has_left_earlier: Cell<bool>,
    /// When this process voided a decision in a register of an earlier version: another machine may still post because of it.
    earlier_decision_at: Cell<Option<Instant>>,
    /// Events of this machine that started without a decision of the gate; `None` until its
    /// register has been read.
    forced: RefCell<Option<UngatedStarts>>,
    /// When this process has counted the last one.
    last_forced: Cell<Stamp>,
    /// When the loop that reads records last went round, also where there is no file to read.
    last_audit_read: Cell<Instant>,
    /// Since when there has been an audit file, as far as this process knows.
    has_file_since: Cell<Option<Instant>>,
    /// When the upkeep last ran.
    last_upkeep: Cell<Instant>,
    problems: Problems,
}

/// Where the records of this machine come from.
enum Source {
    /// The audit file of its watcher.
    File(RefCell<AuditFile>),
    /// The hub, which acts for this machine and makes them.
    Hub,
}

/// Events that started without a decision of the gate: their number, and the last ids.
#[derive(Clone, Default)]
struct UngatedStarts {
    count: u64,
    events: Vec<String>,
}

/// An event that the watcher asked about.
struct PendingEvent {
    /// In lower case.
    event_id: String,
    written_id: String,
    run: Mutex<GateRun>,
    questioned_at: Cell<Instant>,
    /// Since when the questions name the same machines.
    named_since: Cell<Instant>,
    /// The last answer, or why there was none: the store does not answer, or a register cannot be
    /// read.
    answer: RefCell<Option<Result<Answer, AnswerError>>>,
    /// Whether the last question was about the preparation: the machine is not ready, also if the
    /// question did not reach the store.
    may_prepare: Cell<bool>,
    /// Whether this machine may hold a slot that `run` does not know: one by a last call.
    may_be_late: Cell<bool>,
    /// The refusal because an earlier event waits.
    refusal: RefCell<Option<Refusal>>,
}

/// The last refusal of an event that is not next in line for places: how many refusals there were,
/// since when, and until when this one counts.
struct Refusal {
    count: u32,
    since: Instant,
    until: Instant,
    event: Event,
    answer: Answer,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerError {
    /// The event does not affect this machine.
    NotAffected(Name),
    /// Another machine has this machine's name: a sentence.
    SameName(String),
    /// The engine did not answer in time.
    Late,
    /// The engine does not answer, or holds an invalid register.
    Engine(EngineError),
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAffected(machine) => write!(f, "the event does not affect {machine}"),
            Self::SameName(why) => f.write_str(why),
            Self::Late => {
                let seconds = ANSWER_TIME.as_secs();
                write!(f, "the engine did not answer within {seconds} s")
            }
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl Error for AnswerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Engine(error) => error.source(),
            _ => None,
        }
    }
}

impl From<Elapsed> for AnswerError {
    fn from(_: Elapsed) -> Self {
        Self::Late
    }
}

impl From<EngineError> for AnswerError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl Daemon {
    /// A daemon for this machine.
    pub fn new(
        config: Config,
        machine: Name,
        zone: Option<String>,
        engine: Box<dyn Engine>,
    ) -> Rc<Self> {
        let source = Source::File(RefCell::new(AuditFile::new(&config.audit)));
        Self::with(
            config,
            machine,
            zone,
            engine.into(),
            source,
            History::default(),
        )
    }

    /// A daemon in the hub, for a machine without an agent that has this history, of which the [past
    /// has ended](History::end_past). The hub passes it the machine's [records](Self::record).
    pub fn in_hub(
        config: Config,
        machine: Name,
        zone: Option<String>,
        engine: Rc<dyn Engine>,
        history: History,
    ) -> Rc<Self> {
        Self::with(config, machine, zone, engine, Source::Hub, history)
    }

    fn with(
        config: Config,
        machine: Name,
        zone: Option<String>,
        engine: Rc<dyn Engine>,
        source: Source,
        history: History,
    ) -> Rc<Self> {
        Rc::new(Self {
            machines: RefCell::new(Machines::new(config.heartbeat)),
            config,
            machine,
            zone,
            engine,
            events: RefCell::default(),
            history: RefCell::new(history),
            source,
            slots: RefCell::new(Slots::new()),
            heartbeat: Mutex::default(),
            has_beaten: watch::Sender::default(),
            has_adopted: watch::Sender::default(),
            copy_since: Cell::default(),
            upkeep: Mutex::new(Upkeep::new()),
            has_changed: Notify::new(),
            started_at: Instant::now(),
            has_left_earlier: Cell::default(),
            earlier_decision_at: Cell::default(),
            forced: RefCell::default(),
            last_forced: Cell::default(),
            last_audit_read: Cell::new(Instant::now()),
            has_file_since: Cell::default(),
            last_upkeep: Cell::new(Instant::now()),
            problems: Problems::default(),
        })
    }

    /// The path of the daemon's socket.
    pub fn socket(&self) -> &Path {
        &self.config.socket
    }

    /// Raises the heartbeat, reads the audit file and keeps the common registers up to date,
    /// without end: everything that [`Self::run`] does besides serving the socket.
    pub async fn maintain(&self) {
        tokio::select! {
            () = self.run_heartbeat() => {}
            () = self.run_records() => {}
            () = self.run_upkeep() => {}
        }
    }

    /// Answers a question, two seconds before the watcher stops waiting at the latest. In the hub,
    /// an approval waits for the first heartbeat, so [maintain](Self::maintain) the daemon
    /// meanwhile.
    ///
    /// # Errors
    /// The event does not affect this machine, another machine has its name, or the engine does not
    /// answer.
    pub async fn answer(&self, question: Question, event: Event) -> Result<Answer, AnswerError> {
        if !event.resources.contains(&self.machine) {
            return Err(AnswerError::NotAffected(self.machine.clone()));
        }
        let end = Instant::now() + ANSWER_TIME;
        let known = self.events.borrow().get(&event.key()).cloned();
        if let Some(pending) = known {
            pending.may_prepare.set(question == Question::Prepare);
        }
        // The machine's own daemon knows that nobody else acts for it. The hub knows it by its first
        // heartbeat, since an urgent event asks nobody else.
        if question == Question::Approve && matches!(self.source, Source::Hub) {
            let mut has_beaten = self.has_beaten.subscribe();
            // The sender is in this daemon, so it is not closed.
            let _ = timeout_at(end, has_beaten.wait_for(|has_beaten| *has_beaten)).await?;
        }
        // The mark of one machine would count for the other.
        if let Some(why) = self.problems.of(Subject::MachineName) {
            return Err(AnswerError::SameName(why));
        }
        let mut members = self.recent_members();
        let is_zoned = |group: &crate::config::GroupConfig| {
            group.per_zone && event.resources.iter().any(|name| group.has(name))
        };
        if members.is_none() && !event.is_urgent && self.config.groups.iter().any(is_zoned) {
            // The machines' zones determine which registers are concerned.
            members = Some(timeout_at(end, self.look_at_machines()).await??);
        }
        let (shares, health): (Vec<_>, Vec<_>) =
            shares(&self.config.groups, &event, members.as_deref())
                .into_iter()
                .unzip();
        let mut participant = Participant::new(
            self.machine.clone(),
            event,
            shares,
            self.config.take_over_after,
        );
        let key = participant.event.key();
        // The watcher records before it asks. The task that reads the file reports one that cannot
        // be read.
        let _ = self.read_records();
        if self.history.borrow().has_returned(&participant.event.id) {
            timeout_at(end, self.forget_decision(&participant.event.id, &key)).await??;
        }
        let pending = self
            .events
            .borrow_mut()
            .entry(key)
            .or_insert_with(|| PendingEvent::new(participant.clone()))
            .clone();
        pending.questioned_at.set(Instant::now());
        pending.may_prepare.set(question == Question::Prepare);
        if question == Question::Approve {
            self.history.borrow_mut().forget_call(&pending.event_id);
        }
        if let Some(answer) = pending.last_refusal(question, &participant.event) {
            return Ok(answer);
        }
        let answer = timeout_at(end, async {
            if !participant.is_alone_and_urgent() {
                if self.may_be_copy().await? {
                    return Ok(Answer::Closed(Why::MayBeCopy));
                }
                self.leave_earlier_registers().await?;
            }
            // The store has answered by now, so that its clock is known.
            let time = engine::time(&*self.engine);
            participant.closed = closed_windows(&self.config.groups, &participant.event, time);
            let mut run = pending.run.lock().await;
            if run.participant().event.resources != participant.event.resources {
                pending.named_since.set(Instant::now());
            }
            run.set_shares(&participant);
            run.recall_members(members.is_some().then_some(health));
            let mut answer = run.ask(&*self.engine, self, question).await?;
            let may_be_posted = self.earlier_decision_at.get().is_some_and(|at| {
                at.elapsed() < driver::POST_TIME && !participant.is_alone_and_urgent()
            });
            if may_be_posted && (question, &answer) == (Question::Prepare, &Answer::Open) {
                answer = Answer::Closed(Why::MayBePosted);
            }
            if run.has_slots() || matches!(answer, Answer::Closed(Why::NoSlot { .. })) {
                self.has_claimed();
            }
            if (question, &answer) == (Question::Prepare, &Answer::Open) {
                self.history
                    .borrow_mut()
                    .expect_preparation(&pending.event_id);
            }
            pending.keep_refusal(question, &participant.event, &answer, run.is_next());
            Ok(answer)
        });
        let answer = answer.await.unwrap_or(Err(AnswerError::Late));
        *pending.answer.borrow_mut() = Some(answer.clone());
        answer
    }

    /// Whether this machine holds no slot, so that it may [leave](Self::leave).
    pub fn may_leave(&self) -> bool {
        self.slots.borrow().are_free()
    }

    /// Deletes this machine's register: it is no longer a member of the fleet. Returns whether that
    /// was done. Stop [`Self::maintain`] first, which would write the register again. This also
    /// deletes events whose machines are all gone: nobody else does.
    ///
    /// # Errors
    /// The engine does not answer, or the register cannot be read and is left as it is.
    pub async fn leave(&self) -> Result<bool, EngineError> {
        let own = machine_key(&self.machine);
        let (_, revision) = store::read::<MachineRegister>(&*self.engine, &own).await?;
        if let Some(revision) = revision
            && !self.engine.delete(&own, &revision).await?
        {
            return Ok(false);
        }
        let mut keys: BTreeSet<_> = self.events.borrow().keys().cloned().collect();
        keys.extend(self.past_events().await?);
        for key in keys {
            // A register that cannot be read stays.
            let Some(found) = self.engine.read(&key).await? else {
                continue;
            };
            let Ok(event) = store::decode::<EventRegister>(&key, &found.value) else {
                continue;
            };
            if !self.is_any_member(&event.resources).await? {
                self.delete_event(&key, &found.revision).await?;
            }
        }
        Ok(true)
    }

    /// The registers of events that are over, and that an earlier process was asked about.
    async fn past_events(&self) -> Result<Vec<String>, EngineError> {
        let past: HashSet<_> = {
            let (history, events) = (self.history.borrow(), self.events.borrow());
            let is_known = |id: &str| events.values().any(|pending| pending.event_id == id);
            let past = history.over_for(Duration::ZERO);
            past.filter(|id| !is_known(id)).map(events_prefix).collect()
        };
        if past.is_empty() {
            return Ok(Vec::new());
        }
        let all = self.engine.list("events/").await?.into_iter();
        let keys = all.map(|(key, _)| key);
        Ok(keys.filter(|key| is_of(key, &past)).collect())
    }

    async fn is_any_member(&self, machines: &BTreeSet<Name>) -> Result<bool, EngineError> {
        for machine in machines {
            if self.engine.read(&machine_key(machine)).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Voids the decision about an event that was over and came back under its id: machines have
    /// recovered since. Somebody may still post.
    async fn forget_decision(&self, id: &str, key: &str) -> Result<(), EngineError> {
        let (register, _) = store::read::<EventRegister>(&*self.engine, key).await?;
        if register.go.is_some() {
            self.ask_at(key, register.event(id), Question::Unready)
                .await?;
        }
        self.events
            .borrow_mut()
            .retain(|_, pending| pending.event_id != id);
        self.history.borrow_mut().forget_return(id);
        Ok(())
    }

    async fn run_records(&self) {
        loop {
            if let Source::File(file) = &self.source {
                let result = self.read_records();
                let since = self.has_file_since.get().unwrap_or_else(Instant::now);
                self.has_file_since
                    .set(file.borrow().exists().then_some(since));
                let result = match result {
                    Ok(()) if !file.borrow().exists() => {
                        Err("it does not exist yet: no slot is freed".to_owned())
                    }
                    result => result.map_err(|error| error.to_string()),
                };
                let name = self.config.audit.display();
                self.problems.report(
                    Subject::AuditFile,
                    result.map_err(|why| format!("{name}: {why}")),
                );
            }
            if self.problems.is_due(Subject::ForcedEvents) {
                self.problems
                    .report(Subject::ForcedEvents, self.count_forced().await);
            }
            self.last_audit_read.set(Instant::now());
            sleep(AUDIT_INTERVAL).await;
        }
    }

    /// Applies what the watcher has recorded since the last call.
    fn read_records(&self) -> io::Result<()> {
        let Source::File(file) = &self.source else {
            return Ok(());
        };
        self.change_history(|history| file.borrow_mut().read_new(history, Instant::now()))
    }

    /// Applies a record that the hub makes for this machine.
    pub fn record(&self, record: &Record<'_>) {
        self.change_history(|history| history.apply(record, Instant::now()));
    }

    /// Changes the history, and writes at once if this machine is about to leave now, or no longer:
    /// it may have no later chance.
    fn change_history<T>(&self, change: impl FnOnce(&mut History) -> T) -> T {
        let mut history = self.history.borrow_mut();
        let was_leaving = history.is_leaving();
        let result = change(&mut history);
        if history.is_leaving() != was_leaving {
            self.has_changed.notify_one();
        }
        result
    }

    /// Counts the events of this machine that Azure started before the gate decided: one in each
    /// round, since the store may be slow and the audit file long.
    async fn count_forced(&self) -> Result<(), EngineError> {
        let Some(id) = self.history.borrow().started.front().cloned() else {
            return Ok(());
        };
        if self.forced.borrow().is_none() {
            let (found, _) =
                store::read::<MachineRegister>(&*self.engine, &machine_key(&self.machine)).await?;
            self.forced
                .borrow_mut()
                .get_or_insert_with(|| UngatedStarts::of(&found));
        }
        let (registers, problems) =
            store::list::<EventRegister>(&*self.engine, &events_prefix(&id)).await?;
        let is_over = self.history.borrow().over_since(&id).is_some();
        if let Some(problem) = problems.into_iter().next().filter(|_| !is_over) {
            return Err(problem);
        }
        // A decision precedes the start. Registers of events that are over are deleted: nothing is
        // known about those.
        let events: Vec<_> = self.events.borrow().values().cloned().collect();
        let mut known = events.iter().filter(|pending| pending.event_id == id);
        // Of one that is asked about at the moment, or not known, nobody can say when it was void.
        let is_void = known.any(|pending| {
            let run = pending.run.try_lock();
            run.is_ok_and(|run| run.is_void_for_long())
        });
        let is_decided = registers
            .iter()
            .any(|(_, register)| register.go.is_some() || register.was_decided && !is_void);
        let is_unknown = registers.is_empty() && is_over;
        let is_new = !is_decided && !is_unknown;
        let written_id = self.history.borrow().written_id(&id).to_owned();
        if is_new
            && self
                .forced
                .borrow_mut()
                .as_mut()
                .is_some_and(|forced| forced.add(&written_id))
        {
            self.last_forced.set(driver::now());
            let id = written_id.escape_debug();
            log::line(&format!(
                "warning: {id} was started without a decision of the gate; `status` counts it as forced"
            ));
        }
        self.history.borrow_mut().started.pop_front();
        Ok(())
    }

    /// Reports to systemd and writes the metrics file.
    async fn run_supervision(&self) {
        let mut supervisor = Supervisor::new();
        let mut written: Option<(Metrics, Instant)> = None;
        loop {
            supervisor.show(&self.summary());
            let oldest = self.last_audit_read.get().min(self.last_upkeep.get());
            supervisor.keep_alive(oldest.elapsed());
            let metrics = self.metrics();
            // An unchanged file is written again: its time shows that the daemon runs.
            let is_due = |(before, at): &(Metrics, Instant)| {
                *before != metrics || at.elapsed() >= self.config.heartbeat
            };
            if let Some(path) = &self.config.metrics_file
                && written.as_ref().is_none_or(is_due)
            {
                written = Some((metrics, Instant::now()));
                let result = metrics.write(path);
                self.problems.report(
                    Subject::MetricsFile,
                    result.map_err(|why| format!("{}: {why}", path.display())),
                );
            }
            sleep(supervisor.interval()).await;
        }
    }

    /// The open events that the watcher asked about, each with the last answer.
    fn open_events(&self) -> Vec<(String, String)> {
        let events = self.events.borrow();
        let open = events.values().filter(|pending| {
            self.history
                .borrow()
                .over_since(&pending.event_id)
                .is_none()
        });
        let text = |pending: &PendingEvent| {
            let answer = pending.answer.borrow();
            answer
                .as_ref()
                .map_or_else(String::new, |answer| Reply::of(answer).to_string())
        };
        open.map(|pending| (pending.written_id.clone(), text(pending)))
            .collect()
    }

    /// Whether a question about an open event could not be answered.
    fn has_event_without_answer(&self) -> bool {
        let events = self.events.borrow();
        events.values().any(|pending| {
            matches!(*pending.answer.borrow(), Some(Err(_)))
                && self
                    .history
                    .borrow()
                    .over_since(&pending.event_id)
                    .is_none()
        })
    }

    /// The change with the event's id as the service wrote it, for the log.
    fn written(&self, change: &GroupChange) -> GroupChange {
        let history = self.history.borrow();
        change.with_id(|id| history.written_id(id).to_owned())
    }

    /// The daemon's state in one line.
    fn summary(&self) -> String {
        let open = self.open_events();
        let events = match open.len() {
            0 => "no events".to_owned(),
            1 => "1 event".to_owned(),
            count => format!("{count} events"),
        };
        let answers = open
            .iter()
            .map(|(id, answer)| format!("{}: {answer}", id.escape_debug()));
        let texts: Vec<_> = std::iter::once(events)
            .chain(self.problems.texts(|what| self.counts(what)))
            .chain(answers)
            .collect();
        texts.join("; ")
    }

    /// Whether a problem of this subject is one now: that of the audit file is, once the watcher has asked.
    fn counts(&self, what: Subject) -> bool {
        what != Subject::AuditFile || !self.events.borrow().is_empty()
    }

    fn metrics(&self) -> Metrics {
        Metrics {
            forced: self
                .forced
                .borrow()
                .as_ref()
                .map_or(0, |forced| forced.count),
            last_forced: self.last_forced.get().try_into().unwrap_or_default(),
            events: self.open_events().len(),
            engine_up: !self.problems.are_of_the_store() && !self.has_event_without_answer(),
            limits_differ: self.machines.borrow().differing,
            forgotten: self.machines.borrow().forgotten,
            freed: self.slots.borrow().freed,
        }
    }
}

impl UngatedStarts {
    /// From a machine's register.
    fn of(register: &MachineRegister) -> Self {
        Self {
            count: register.forced,
            events: register.forced_events.clone(),
        }
    }

    /// Counts an event, unless it was counted before.
    fn add(&mut self, id: &str) -> bool {
        if self
            .events
            .iter()
            .any(|counted| counted.eq_ignore_ascii_case(id))
        {
            return false;
        }
        self.count += 1;
        self.events.push(id.to_owned());
        let surplus = self.events.len().saturating_sub(UNGATED_KEPT);
        self.events.drain(..surplus);
        true
    }
}

impl PendingEvent {
    fn new(participant: Participant) -> Rc<Self> {
        Rc::new(Self {
            event_id: participant.event.id.clone(),
            written_id: participant.event.written_id.clone(),
            run: Mutex::new(GateRun::new(participant)),
            questioned_at: Cell::new(Instant::now()),
            named_since: Cell::new(Instant::now()),
            answer: RefCell::default(),
            may_prepare: Cell::new(false),
            may_be_late: Cell::new(true),
            refusal: RefCell::default(),
        })
    }

    /// Whether the watcher waits for an answer, as far as its questions show.
    fn is_waiting(&self) -> bool {
        self.questioned_at.get().elapsed() < ASKED_AGAIN_WITHIN
    }

    /// The last answer, without a request to the store, if it still counts.
    fn last_refusal(&self, question: Question, event: &Event) -> Option<Answer> {
        let refusal = self.refusal.borrow();
        let refusal = refusal
            .as_ref()
            .filter(|refusal| question == Question::Prepare && refusal.event == *event)?;
        (Instant::now() < refusal.until).then(|| refusal.answer.clone())
    }

    fn keep_refusal(&self, question: Question, event: &Event, answer: &Answer, is_next: bool) {
        let waits = matches!(
            answer,
            Answer::Closed(Why::NoSlot { .. } | Why::Reserved { .. })
        ) && !is_next;
        let last = self.refusal.take();
        if question == Question::Prepare && waits {
            let now = Instant::now();
            let (count, since) =
                last.map_or((0, now), |last| (last.count.wrapping_add(1), last.since));
            let longest =
                (now.duration_since(since) / REFUSAL_COUNTS_FOR).min(REFUSAL_COUNTS_AT_MOST);
            let mut hash = DefaultHasher::new();
            (event.key(), count).hash(&mut hash);
            let until =
                now + longest - longest / 2 * u32::from(hash.finish().to_le_bytes()[0]) / 256;
            let (event, answer) = (event.clone(), answer.clone());
            *self.refusal.borrow_mut() = Some(Refusal {
                count,
                since,
                until,
                event,
                answer,
            });
        }
    }
}

/// The key of a machine's register.
pub fn machine_key(machine: &Name) -> String {
    format!("machines/{}", machine.key())
}
