//! One machine: its session, its commands and its state. Each machine that has an open event, or is out of service, is a task of its
//! own, so that none waits for another one's command.
//!
//! The session is the one of the command: the same policy, the same decisions, the same records. It gets notifications where a
//! watcher's gets documents. `commands` has what runs for the machine, and `approval` what is approved.

mod approval;
mod commands;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use scheduled_events::hooks::CommandOutcome;
use scheduled_events::limits::COMMAND_TIME;
use scheduled_events::record::{EventRecord, HookOutcome, Record, event_key};
use scheduled_events::session::{GateAnswers, OwnedStep, with_recovery, with_report};
use scheduled_events_common::log;
use scheduled_events_core::record::EventMembers;
use scheduled_events_core::{
    AnswerOutcome, Arrival, Cause, EventOrder, GateAnswer, GatePhase, NotificationOutcome, Report,
    Session, SessionConfig, SessionConfigError, SessionSource, TrackedEvent, UnixMillis, VmNames,
    WaitsFor, WouldPrepare,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::approvals::yes_time;
use crate::config::Approve;
use crate::message::{Done, Message};
use crate::notice::{EventKey, Notice, started, with_notification};
use crate::shared::Shared;
use crate::store::{Entry, MachineFacts, RETRY, Saved, SavedEvent, StoreError};
use commands::{Cancelled, Commands, Hook, Kind};

/// How many events of one machine are tracked at a time. Azure was never seen to announce more than two.
pub const EVENTS: usize = 8;

/// The session of one machine.
type MachineSession = Session<EVENTS>;

/// A machine.
pub struct Machine {
    shared: Rc<Shared>,
    facts: MachineFacts,
    session: Box<MachineSession>,
    /// The open events, and those that the machine is not recovered from, by their keys.
    events: BTreeMap<String, Known>,
    entry: Entry,
    commands: Commands,
    /// The keys of those that were approved beside others that were refused. The session asks for all of them again.
    approved: HashSet<String>,
    /// Whether the last approval was withdrawn before it was sent, which is no failure.
    is_withdrawn: bool,
    gate_answers: GateAnswers,
    /// Whether its own watcher acts, although this hub still puts it back.
    has_watcher: bool,
    /// Notices that are not kept yet.
    pending: Vec<Done>,
    sender: mpsc::UnboundedSender<Message>,
    inbox: mpsc::UnboundedReceiver<Message>,
    is_stopping: bool,
}

/// An event of the machine.
struct Known {
    message: Rc<str>,
    event: EventRecord,
    resource_id: String,
    order: EventOrder,
    /// The names of other machines that it may affect still.
    may_be_named: Vec<String>,
    /// Whether an earlier process has seen it, and this one has no row of it yet.
    is_restored: bool,
    /// Until when the gate's last answer that it may be approved counts.
    yes_until: Option<Instant>,
}

/// A machine that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowError {
    /// The id of the machine.
    pub resource_id: String,
    /// Why it can have no session.
    pub error: SessionConfigError,
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot follow {}: {}", self.resource_id, self.error)
    }
}

impl Error for FollowError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl Machine {
    /// A machine of which something was announced.
    ///
    /// # Errors
    /// The name is none that a session can have.
    pub fn new(shared: Rc<Shared>, facts: MachineFacts) -> Result<Self, FollowError> {
        let (sender, inbox) = mpsc::unbounded_channel();
        Ok(Self {
            session: new_session(&shared, &facts, false)?,
            commands: Commands::new(shared.clone(), sender.clone()),
            shared,
            facts,
            events: BTreeMap::new(),
            entry: Entry::default(),
            approved: HashSet::new(),
            is_withdrawn: false,
            gate_answers: GateAnswers::default(),
            has_watcher: false,
            pending: Vec::new(),
            sender,
            inbox,
            is_stopping: false,
        })
    }

    /// A machine as an earlier process left it.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn restore(shared: Rc<Shared>, saved: Saved, entry: Entry) -> Result<Self, FollowError> {
        let mut machine = Self::new(shared, saved.machine)?;
        let mut is_out = false;
        let snapshot = BASE64_STANDARD.decode(&saved.session).unwrap_or_default();
        if let Err(error) = machine.session.restore(&snapshot) {
            let id = &machine.facts.resource_id;
            log::printable(&format!(
                "error: the state of {id} cannot be used: {error}; its events are taken for new ones"
            ));
            // It may have been prepared: its end must put it back, even if that comes before it is prepared again.
            machine.session = new_session(&machine.shared, &machine.facts, true)?;
            is_out = saved.out_of_service_since.is_some();
        }
        for SavedEvent {
            key,
            message,
            resource_id,
            order,
        } in saved.events
        {
            let event = with_notification(
                &message,
                &EventKey::new(&resource_id, &key),
                |notification| {
                    EventRecord::new(notification.event(), VmNames::new(&[&machine.facts.name]))
                },
            );
            if let Some(event) = event {
                let message = message.into();
                machine.events.insert(
                    key,
                    Known {
                        message,
                        event,
                        resource_id,
                        order,
                        may_be_named: Vec::new(),
                        is_restored: true,
                        yes_until: None,
                    },
                );
            } else if !message.is_empty() {
                log::printable(&format!(
                    "error: a message that is kept does not name its event {key}"
                ));
            }
        }
        if is_out {
            machine.set_out();
        }
        machine.show_events();
        machine.entry = entry;
        Ok(machine)
    }

    /// Through which messages reach it.
    pub const fn sender(&self) -> &mpsc::UnboundedSender<Message> {
        &self.sender
    }

    /// Records in a new session that the machine is out of service, which its events do not show.
    fn set_out(&mut self) {
        let now = self.set_time();
        self.session.set_out_of_service(now);
        // The end of an event that it does not have would be passed over.
        let over = self.events.iter();
        for (key, known) in over.filter(|(_, known)| known.order.is_over()) {
            let event = EventKey::new(&known.resource_id, key);
            repeat(
                &mut self.session,
                &started(&known.message, &event),
                &event,
                now,
            );
        }
    }

    /// Shows the session the events that are known, as after each start.
    fn show_events(&mut self) {
        let now = self.set_time();
        for (key, known) in &self.events {
            let event = EventKey::new(&known.resource_id, key);
            repeat(&mut self.session, &known.message, &event, now);
        }
    }

    /// The events for which this machine is out of service: those that keep it out, and those that it is to be recovered from.
    fn out_for(&self) -> Vec<EventRecord> {
        let session = &self.session;
        let events = session.keeping_out().chain(session.recovering());
        let is_out = session.out_of_service_since().is_some();
        events
            .filter(|_| is_out)
            .map(|event| event_of(&self.events, event))
            .collect()
    }

    /// Does what there is to do until the machine is in service and has no open event. When the hub stops, this ends with the process.
    ///
    /// # Errors
    /// Another hub has taken over.
    pub async fn run(&mut self) -> Result<(), StoreError> {
        // Of an earlier process. A hub that worked before is fenced, if it still runs.
        if !self.entry.is_new() {
            self.save().await?;
            if self.shared.config.approve == Approve::Arm && !self.facts.has_agent {
                let out_for = self.out_for();
                self.shared.gates.join(&self.facts, &out_for).await;
            }
        }
        loop {
            let until = self.act().await?;
            let mut failures = self.session.open_failures();
            if self.is_withdrawn {
                failures.approvals = 0;
            }
            self.shared.set_failures(&self.facts.resource_id, failures);
            let mut is_kept = self.save().await?;
            if is_kept {
                self.pending.clear();
            }
            if self.is_over() {
                let id = &self.facts.resource_id;
                // Its state is kept until then: the next process gives its place back, should this one end before.
                is_kept = self.shared.gates.has_left(&self.facts).await
                    && self.shared.store.remove(&mut self.entry, id).await?;
                // What was sent meanwhile is done next. What is sent from now on starts another task for this machine.
                if let Ok(message) = self.inbox.try_recv() {
                    self.on_message(message).await?;
                    continue;
                }
                if is_kept {
                    self.shared.forget(&self.facts.resource_id);
                    return Ok(());
                }
            }
            if self.is_stopping && self.commands.is_empty() {
                self.wait_for_end().await;
            }
            let wait = Duration::from_millis(until.millis_since(self.shared.clock.now()));
            let wait = if is_kept { wait } else { wait.min(RETRY) };
            tokio::select! {
                Some(message) = self.inbox.recv() => self.on_message(message).await?,
                () = sleep(wait) => {}
            }
        }
    }

    /// Does nothing any more, and ends with the process: what could not be kept must not count as kept, whose messages would be deleted.
    pub async fn wait_for_end(&mut self) {
        if self.is_stopping {
            self.inbox.close();
        }
        let mut unkept = Vec::new();
        while let Some(message) = self.inbox.recv().await {
            if matches!(message, Message::Stop) {
                self.inbox.close();
            }
            unkept.push(message);
        }
        std::future::pending::<()>().await;
    }

    fn is_over(&self) -> bool {
        self.commands.is_empty()
            && self.session.is_idle()
            && !self.session.awaits_answer()
            && self.events.values().all(|known| known.order.is_over())
    }

    /// Does what the session says until it has nothing to do. Returns when it has again.
    async fn act(&mut self) -> Result<UnixMillis, StoreError> {
        loop {
            self.shared.journal.capacity().await;
            // A machine that asks whether an event may be approved has read all that was sent to it.
            while let Ok(message) = self.inbox.try_recv() {
                self.on_message(message).await?;
            }
            let now = self.set_time();
            let events = &self.events;
            let step = OwnedStep::new(self.session.take_step(now), |event| event_of(events, event));
            let is_begun = matches!(
                step,
                OwnedStep::Prepare { .. } | OwnedStep::Recover { .. } | OwnedStep::Post { .. }
            );
            match &step {
                OwnedStep::Wait { until } => return Ok(*until),
                // What an earlier process began is not begun again by one that stops.
                _ if is_begun && self.is_stopping => return Ok(now.plus(1000)),
                // What a state knows is not recorded again.
                OwnedStep::Prepare { event, attempt, .. } => {
                    self.report(event, |event| Record::Prepare {
                        outcome: HookOutcome::Begun,
                        attempt: Some(*attempt),
                        event,
                    });
                }
                _ => {}
            }
            // A machine that is out of service is known to be so, whatever ends the hub meanwhile.
            if step.is_stored_first() {
                self.save().await?;
            }
            self.perform(step, now).await?;
        }
    }

    /// Does what the session says, which is kept already.
    async fn perform(&mut self, step: OwnedStep, now: UnixMillis) -> Result<(), StoreError> {
        match step {
            // The one is done already, and the other is not asked for: the session's source is notifications alone.
            OwnedStep::Wait { .. } => {}
            OwnedStep::Get { .. } => drop(self.session.on_failure(Cause::Unreachable, now)),
            OwnedStep::Report(report) => {
                if let Report::Change { change, .. } = &report {
                    self.shared.metrics.changed(*change);
                }
                with_report(&report, None, |record| self.record(record));
            }
            OwnedStep::Prepare {
                event,
                by_last_call,
                attempt,
            } => {
                let unknown = if event.not_before.is_some() {
                    None
                } else {
                    Some(COMMAND_TIME)
                };
                let hook = Hook {
                    kind: Kind::Prepare { by_last_call },
                    events: vec![event],
                    deadline: self.shared.config.hooks.prepare_timeout.or(unknown),
                };
                self.start(hook, attempt).await?;
            }
            OwnedStep::Recover {
                events, attempt, ..
            } => {
                let hook = Hook {
                    kind: Kind::Recover,
                    events,
                    deadline: Some(COMMAND_TIME),
                };
                self.start(hook, attempt).await?;
            }
            OwnedStep::Gate {
                mut event,
                phase,
                attempt,
            } => {
                let known = self.events.get(&event_key(&event.event_id));
                if let (Some(known), Some(names)) = (known, &mut event.resources) {
                    names.extend(known.may_be_named.iter().cloned());
                }
                let resource_id = known
                    .map(|known| known.resource_id.as_str())
                    .unwrap_or_default();
                let key = EventKey::new(resource_id, &event_key(&event.event_id));
                let approvals = &self.shared.approvals;
                let is_closed = match phase {
                    GatePhase::Prepare => approvals.was_just_stopped(&key),
                    GatePhase::Approve => {
                        self.has_watcher
                            || self.may_have_changed(&event)
                            || approvals.is_stopped(&key)
                    }
                };
                if is_closed {
                    let _ = self.session.gate_answered(attempt, GateAnswer::Closed, now);
                } else {
                    self.commands
                        .ask(phase, event, resource_id, attempt, &self.facts);
                }
            }
            OwnedStep::Cancel { attempt } => match self.commands.cancel(attempt) {
                Some(Cancelled::Hook(hook)) => {
                    self.ended(attempt, &hook, &CommandOutcome::Cancelled, now)
                        .await?;
                }
                Some(Cancelled::Question) => {
                    let _ = self.session.gate_answered(attempt, GateAnswer::Closed, now);
                }
                None => {}
            },
            OwnedStep::Post { .. } => {
                let posted = self.session.posted().map(ToString::to_string).collect();
                let _ = self.shared.journal.sync().await;
                self.post(posted).await?;
            }
        }
        Ok(())
    }

    /// Whether the event may be another one by now: it was seen before the start, and Resource Graph has returned no row of it since.
    /// To prepare for it does no harm.
    fn may_have_changed(&self, event: &EventRecord) -> bool {
        let known = self.events.get(&event_key(&event.event_id));
        known.is_none_or(|known| known.is_restored)
    }

    async fn on_message(&mut self, message: Message) -> Result<(), StoreError> {
        self.shared.journal.capacity().await;
        let now = self.set_time();
        match message {
            Message::Notice {
                notice,
                arrival,
                done,
            } => {
                self.on_notice(&notice, arrival, now);
                self.pending.extend(done);
            }
            Message::Permit { attempt, permit } => {
                self.commands.on_permit(attempt, permit, &self.facts);
            }
            Message::Ended { attempt, ended } => {
                if let Some(hook) = self.commands.ended(attempt) {
                    self.ended(attempt, &hook, &ended, now).await?;
                }
            }
            Message::Gate { attempt, answer } => self.on_gate(attempt, answer).await?,
            Message::Approved(results) => self.on_approval(results, now).await?,
            Message::Agent(has_agent) => self.set_agent(has_agent),
            Message::Stop => {
                self.is_stopping = true;
                self.commands.stop();
            }
        }
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice, arrival: Arrival, now: UnixMillis) {
        for (text, known) in [
            (&mut self.facts.location, &notice.location),
            (&mut self.facts.zone, &notice.zone),
        ] {
            if !known.is_empty() {
                text.clone_from(known);
            }
        }
        let before = self.events.get(&notice.key);
        let order = before.map(|known| known.order);
        let was_restored = before.is_some_and(|known| known.is_restored);
        let yes_until = before.and_then(|known| known.yes_until);
        let observed = with_notification(&notice.message, &notice.event_key(), |notification| {
            let mut order = order.unwrap_or_default();
            order.observe(notification);
            let event = EventRecord::new(notification.event(), VmNames::new(&[&self.facts.name]));
            (
                self.session.on_notification(notification, arrival, now),
                order,
                event,
            )
        });
        let Some((outcome, order, event)) = observed else {
            return;
        };
        match outcome {
            NotificationOutcome::Applied => {
                let (message, resource_id) = (notice.message.clone(), notice.resource_id.clone());
                let may_be_named = notice.may_be_named.clone();
                let known = Known {
                    message,
                    event,
                    resource_id,
                    order,
                    may_be_named,
                    is_restored: was_restored && !notice.is_row,
                    yes_until,
                };
                self.events.insert(notice.key.clone(), known);
            }
            // The session may have given its place to another event, and this one may be over now.
            NotificationOutcome::Ignored => {
                if let Some(known) = self.events.get_mut(&notice.key) {
                    known.order = order;
                }
            }
            NotificationOutcome::Untracked => log::printable(&format!(
                "error: {} has more than {EVENTS} open events; {} is not followed until one of them is over",
                self.facts.resource_id, notice.event.event_id
            )),
        }
    }

    fn set_agent(&mut self, has_agent: bool) {
        let is_new = has_agent && !self.facts.has_agent && !self.has_watcher;
        self.has_watcher = has_agent;
        if is_new {
            // Its watcher may prepare now, and be ready later.
            for (key, known) in &self.events {
                let event = EventKey::new(&known.resource_id, key);
                self.shared.gates.not_ready(&self.facts.name, &event);
                self.shared.approvals.withdraw(&event);
            }
        }
        if self.facts.has_agent == has_agent {
            return;
        }
        // What this hub has prepared for it still recovers from: only a machine that is in service changes hands.
        if self.session.out_of_service_since().is_some() || !self.commands.is_empty() {
            if is_new {
                log::printable(&format!(
                    "warning: {} has a watcher of its own now: its events are not approved, and it is put back if this hub \
                     has prepared it",
                    self.facts.resource_id
                ));
            }
            return;
        }
        let facts = MachineFacts {
            has_agent,
            ..self.facts.clone()
        };
        if let Ok(session) = new_session(&self.shared, &facts, false) {
            (self.session, self.facts) = (session, facts);
            self.show_events();
        }
    }

    /// Starts a command, if there is one for this.
    async fn start(&mut self, hook: Hook, attempt: u32) -> Result<(), StoreError> {
        if self.commands.has(hook.kind) {
            self.commands.start(hook, attempt);
            return Ok(());
        }
        let now = self.shared.clock.now();
        self.answered(attempt, HookOutcome::NoCommand, &hook, now)
            .await
    }

    async fn ended(
        &mut self,
        attempt: u32,
        hook: &Hook,
        ended: &CommandOutcome,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let success = if hook.kind == Kind::Recover {
            HookOutcome::Done
        } else {
            HookOutcome::Ready
        };
        // The next process runs it again.
        if self.is_stopping {
            return Ok(());
        }
        self.answered(attempt, ended.for_record(success), hook, now)
            .await
    }

    /// Passes the end of a command on to the session, reports it and keeps it.
    async fn answered(
        &mut self,
        attempt: u32,
        outcome: HookOutcome,
        hook: &Hook,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let answer = match hook.kind {
            Kind::Recover => self
                .session
                .recovered(attempt, outcome.has_recovered(), now),
            Kind::Prepare { .. } => self.session.prepared(attempt, outcome.preparation()),
        };
        let Some(outcome) = outcome.to_report(answer) else {
            return Ok(());
        };
        self.shared
            .metrics
            .command(hook.kind == Kind::Recover, outcome);
        if hook.kind == Kind::Recover {
            with_recovery(&hook.events, outcome, |record| self.record(record));
        } else {
            self.report(&hook.events[0], |event| Record::Prepare {
                outcome,
                attempt: Some(attempt),
                event,
            });
        }
        self.save().await.map(drop)
    }

    async fn on_gate(&mut self, attempt: u32, mut answer: GateAnswer) -> Result<(), StoreError> {
        let Some((phase, event, asked_at)) = self.commands.answered(attempt) else {
            return Ok(());
        };
        let now = self.set_time();
        // A restart would forget a preparation that no state has, and its machine would stay out of service. So the state that has it is
        // kept first. The last call does not wait.
        if (phase, answer) == (GatePhase::Prepare, GateAnswer::Open) {
            let state = self.state(self.session.would_prepare(attempt, now));
            if !self.write(state).await? {
                answer = GateAnswer::Closed;
            }
        }
        let now = self.set_time();
        if self.session.gate_answered(attempt, answer, now) != AnswerOutcome::Accepted {
            return Ok(());
        }
        if (phase, answer) == (GatePhase::Approve, GateAnswer::Open)
            && let Some(known) = self.events.get_mut(&event_key(&event.event_id))
        {
            known.yes_until = Some(asked_at + yes_time(&event));
        }
        if self.gate_answers.is_new(&event.event_id, phase, answer) {
            self.report(&event, |event| Record::Gate {
                phase,
                outcome: answer.into(),
                event,
            });
        }
        Ok(())
    }

    /// Keeps a record about an event.
    fn report(
        &self,
        event: &EventRecord,
        record: impl for<'a> FnOnce(EventMembers<'a>) -> Record<'a>,
    ) {
        let names = event.resource_names();
        self.record(record(event.members(names.as_deref())));
    }

    /// Keeps a record.
    #[allow(clippy::large_types_passed_by_value)] // As the session makes it.
    fn record(&self, record: Record<'_>) {
        self.shared.record(&self.facts.resource_id, record);
    }

    fn set_time(&mut self) -> UnixMillis {
        let now = self.shared.clock.now();
        self.session
            .set_time_of_day_ahead(self.shared.time_of_day().0.saturating_sub(now.0));
        now
    }

    /// Keeps the state, if it has changed. Returns whether it is kept.
    async fn save(&mut self) -> Result<bool, StoreError> {
        let tracked: Vec<String> = {
            let tracked = self.session.events().chain(self.session.recovering());
            tracked
                .map(|event| event_key(event.event_id().as_str()))
                .collect()
        };
        self.events
            .retain(|key, known| !known.order.is_over() || tracked.contains(key));
        if self.events.is_empty() && self.entry.is_new() {
            return Ok(true);
        }
        let state = self.state(None);
        if self.entry.has(&state) {
            Ok(true)
        } else {
            self.write(state).await
        }
    }

    /// Keeps a state. What it knows is not recorded again, so that is recorded first: a crash between the two repeats a record.
    async fn write(&mut self, state: Saved) -> Result<bool, StoreError> {
        let _ = self.shared.journal.sync().await;
        self.shared.store.save(&mut self.entry, state).await
    }

    /// The state as it is, or as it would be.
    fn state(&self, ahead: Option<WouldPrepare<'_, EVENTS>>) -> Saved {
        let session = &self.session;
        let mut snapshot = vec![0; MachineSession::SNAPSHOT_MAX];
        let length = match &ahead {
            Some(ahead) => ahead.snapshot(&mut snapshot),
            None => session.snapshot(&mut snapshot),
        };
        let out_of_service_since = match &ahead {
            Some(ahead) => ahead.out_of_service_since(),
            None => session.out_of_service_since(),
        };
        let key = |event: &TrackedEvent| event_key(event.event_id().as_str());
        let waiting = session.waiting(self.shared.clock.now());
        let mut waiting: HashMap<String, &str> = waiting
            .map(|(event, waiting)| (key(event), waiting.waits_for.word()))
            .collect();
        waiting.extend(ahead.map(|ahead| (key(ahead.event()), WaitsFor::Preparation.word())));
        let waits_for = |key: &String| waiting.get(key).copied().unwrap_or_default().to_owned();
        Saved {
            writer: String::new(),
            machine: self.facts.clone(),
            session: BASE64_STANDARD.encode(&snapshot[..length.unwrap_or_default()]),
            events: self.events.values().map(Known::saved).collect(),
            waits_for: self.events.keys().map(waits_for).collect(),
            out_of_service_since: out_of_service_since.map(|since| since.seconds().0),
        }
    }
}

impl Known {
    fn saved(&self) -> SavedEvent {
        let (message, resource_id) = (self.message.to_string(), self.resource_id.clone());
        SavedEvent {
            key: event_key(&self.event.event_id),
            message,
            resource_id,
            order: self.order,
        }
    }
}

/// The record of a tracked event: what its newest message says, and what the session knows better.
fn event_of(events: &BTreeMap<String, Known>, event: &TrackedEvent) -> EventRecord {
    let known = events.get(&event_key(event.event_id().as_str()));
    known.map_or_else(
        || EventRecord::of_tracked(event),
        |known| known.event.with_tracked(event),
    )
}

fn new_session(
    shared: &Shared,
    facts: &MachineFacts,
    recover_all: bool,
) -> Result<Box<MachineSession>, FollowError> {
    let names = [facts.name.as_str()];
    let config = SessionConfig {
        policy: shared.policy.clone(),
        source: SessionSource::Notifications,
        dry_run: shared.config.approve == Approve::Never || facts.has_agent,
        // An event may affect several machines, which are all ready before one request approves it.
        gate: true,
        recover_all,
        seed: scheduled_events::watch::seed(),
        machine_id: &facts.resource_id,
        ..SessionConfig::new(VmNames::new(&names))
    };
    let session = Session::new(&config).map(Box::new);
    session.map_err(|error| FollowError {
        resource_id: facts.resource_id.clone(),
        error,
    })
}

/// Shows a session an event that it may have seen before.
fn repeat(session: &mut MachineSession, message: &str, event: &EventKey, now: UnixMillis) {
    with_notification(message, event, |notification| {
        let _ = session.on_notification(notification, Arrival::Repeated, now);
    });
}
