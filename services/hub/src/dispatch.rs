//! Passes notices on to the machines that they are about.
//!
//! `ledger` knows the progress of each event, so that a late notice changes nothing, and which events
//! are over, so that no late notice reopens one. A message of the queue is news, and a row of Resource
//! Graph is the record: that an event has started, is over, or no longer names a machine, waits for a
//! row that agrees.

mod ledger;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use scheduled_events_common::log;
use scheduled_events_common::names::Name;
use scheduled_events_core::Arrival;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::confirm::Confirmed;
use crate::machine::Machine;
use crate::message::{Done, Kept, Message};
use crate::notice::{EventKey, Notice, Notices, ended, key_of, subscription_of};
use crate::shared::Shared;
use crate::store::{Entry, MachineFacts, RegistersError, Saved, SavedEvent, StoreError};
use ledger::{ABSENT_HOURS, ASK_LAST, Claim, EventLedger, LedgerEntry, Observed, STARTED};

/// How long an event may be known from Resource Graph until the absence of a message about it means
/// that Event Grid does not fill the queue.
const QUEUED_WITHIN: Duration = Duration::from_secs(600);

/// Passes notices on.
pub struct Dispatch {
    /// The state that all machines share.
    pub shared: Rc<Shared>,
    ledger: RefCell<EventLedger>,
    /// The keys of machines and sets with the agents' tag; `None` until Resource Graph has returned
    /// them.
    agent_tagged: RefCell<Option<HashSet<String>>>,
    /// The machines with a daemon of the fleet; `None` until its registers were read.
    registered: RefCell<Option<HashSet<Name>>>,
    /// The subscriptions, in lower case, whose events this identity may not read in Resource Graph;
    /// `None` until that was checked.
    refused: RefCell<Option<HashSet<String>>>,
    /// The events that are new in Resource Graph and without a message in the queue, and since
    /// when.
    missing_from_queue: RefCell<HashMap<EventKey, Instant>>,
    /// Reports why the hub must stop.
    stop: mpsc::Sender<StateLost>,
}

/// Why the hub must stop: it may not, or cannot, keep the state of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateLost {
    /// The id of the machine.
    pub resource_id: String,
    /// The refusal.
    pub error: StoreError,
}

impl fmt::Display for StateLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource_id, error } = self;
        match error {
            StoreError::Taken => write!(
                f,
                "another hub has written the state of {resource_id}: it has taken over"
            ),
            error => write!(f, "the state of {resource_id} cannot be kept: {error}"),
        }
    }
}

impl Error for StateLost {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl Dispatch {
    /// Passes notices on to machines, which it starts. It sends a reason to stop to `stop`.
    pub fn new(shared: Rc<Shared>, stop: mpsc::Sender<StateLost>) -> Rc<Self> {
        let (ledger, agent_tagged) = (RefCell::default(), RefCell::default());
        let (registered, refused, missing_from_queue) =
            (RefCell::default(), RefCell::default(), RefCell::default());
        Rc::new(Self {
            shared,
            ledger,
            agent_tagged,
            registered,
            refused,
            missing_from_queue,
            stop,
        })
    }

    /// Starts the machines whose state an earlier process has saved. A state that cannot be read is
    /// logged and left as it is.
    pub fn restore(self: &Rc<Self>, kept: Vec<(Saved, Entry)>) {
        for (saved, entry) in kept {
            let id = saved.machine.resource_id.clone();
            if !self.is_configured(subscription_of(&id)) {
                let service = if saved.out_of_service_since.is_some() {
                    "out of service"
                } else {
                    "in service"
                };
                log::printable(&format!(
                    "error: {id} has {} events of an earlier run and is {service}, but `subscriptions` does not have its \
                     subscription any more: nothing is done for it, and its state is left as it is; add the subscription again \
                     until `status` does not show the machine",
                    saved.events.len()
                ));
                continue;
            }
            let machine_key = key_of(&id);
            let entry_of = |event: &SavedEvent| {
                let message = match event.message.as_str() {
                    "" => too_long(event, &saved.machine.name).into(),
                    message => message.into(),
                };
                (
                    EventKey::new(&event.resource_id, &event.key),
                    LedgerEntry::restored(event.order, message),
                )
            };
            let events: BTreeMap<_, _> = saved.events.iter().map(entry_of).collect();
            match Machine::restore(self.shared.clone(), saved, entry) {
                Ok(machine) => {
                    let mut ledger = self.ledger.borrow_mut();
                    for (key, saved) in events {
                        ledger.restore(key, saved, &machine_key);
                    }
                    drop(ledger);
                    if self.knows_agents() || self.has_agent(&machine_key) {
                        let _ = machine
                            .sender()
                            .send(Message::Agent(self.has_agent(&machine_key)));
                    }
                    self.start(&id, machine);
                }
                Err(why) => {
                    log::printable(&format!(
                        "error: the state of {id} cannot be used: {why}; it is left as it is"
                    ));
                }
            }
        }
    }

    /// Passes notices on, at once and in their order. Returns a value that waits until the machines
    /// have kept them.
    pub fn deliver(self: &Rc<Self>, notices: Notices) -> Kept {
        let metrics = &self.shared.metrics;
        for problem in &notices.problems {
            metrics.notice("invalid");
            log::printable(&format!("warning: {problem}"));
        }
        // Each machine drops its sender once it has kept the notice.
        let (done, kept) = Kept::new();
        for mut notice in notices.notices {
            if !self.is_ours(&notice) {
                metrics.notice("other-subscription");
                continue;
            }
            notice.is_row = !notices.is_queued;
            let event = notice.event_key();
            if notices.is_queued && self.ledger.borrow().waits_for_row(&notice) {
                self.deliver_after_row(notice, done.clone());
                continue;
            }
            // What is completed has started; what is cancelled has not.
            if notice.is_row && notice.state == "completed" {
                let start = self.ledger.borrow_mut().take_start(&event);
                if let Some(start) = start {
                    drop(self.deliver_one(start));
                }
            }
            let observed = self
                .ledger
                .borrow_mut()
                .observe(&mut notice, &done, Instant::now());
            self.stop_approval(&event);
            if notices.is_queued {
                self.missing_from_queue.borrow_mut().remove(&event);
            }
            let Some(Observed {
                arrival,
                others,
                messages,
            }) = observed
            else {
                continue;
            };
            metrics.notice(match arrival {
                Arrival::New | Arrival::Changed => "news",
                Arrival::Repeated => "repeated",
                Arrival::Late => "late",
            });
            if !notices.is_queued
                && self.shared.config.queue.is_some()
                && arrival == Arrival::New
                && self.shared.reconciled_at.get() != 0
                && !self.ledger.borrow().is_in_queue(&event)
            {
                self.missing_from_queue
                    .borrow_mut()
                    .insert(event.clone(), Instant::now());
            }
            if arrival == Arrival::Late {
                continue;
            }
            if notice.machines.is_empty() && arrival != Arrival::Repeated {
                let why = format!(
                    "event {} of {} names no machine that can be followed",
                    notice.key, notice.resource_id
                );
                log::printable(&format!("warning: {why}"));
                let time = self.shared.clock.time_of_day().seconds();
                self.shared
                    .journal
                    .set_aside(&why, notice.message.as_bytes(), time);
            }
            if arrival == Arrival::New && notices.is_queued {
                // The message may be old, and the event over. Its row is passed on.
                self.ask_for(event.clone());
            }
            if arrival == Arrival::Changed {
                self.shared.approvals.withdraw(&event);
                self.shared.gates.changed(&event);
            }
            let notice = Rc::new(notice);
            let others = others.iter().filter_map(|key| self.shared.machine(key));
            let named = notice
                .machines
                .iter()
                .filter_map(|(id, name)| self.machine(id, name, &notice));
            for sender in named.chain(others) {
                let message = Message::Notice {
                    notice: notice.clone(),
                    arrival,
                    done: [&done].into_iter().chain(&messages).cloned().collect(),
                };
                let _ = sender.send(message);
            }
        }
        kept
    }

    /// Passes on what a message says as if it were the record.
    fn deliver_one(self: &Rc<Self>, notice: Notice) -> Kept {
        self.deliver(Notices {
            notices: vec![notice],
            ..Notices::default()
        })
    }

    /// Asks for the row of an event, which is passed on.
    fn ask_for(&self, event: EventKey) {
        let confirmations = self.shared.approvals.confirmations.clone();
        tokio::task::spawn_local(async move { confirmations.confirm(event).await });
    }

    /// Asks for the row of an event again and again: while a machine still recovers from it, it follows
    /// no event of that id.
    fn ask_again_for(&self, event: EventKey) {
        let (confirmations, until) = (
            self.shared.approvals.confirmations.clone(),
            Instant::now() + self.shared.config.reconcile,
        );
        tokio::task::spawn_local(async move {
            while Instant::now() < until {
                confirmations.confirm(event.clone()).await;
                tokio::time::sleep(ASK_LAST).await;
            }
        });
    }

    /// Passes on a message unless the event has a row, which says more.
    fn deliver_after_row(self: &Rc<Self>, notice: Notice, done: Done) {
        let (dispatch, event) = (self.clone(), notice.event_key());
        tokio::task::spawn_local(async move {
            let confirmations = dispatch.shared.approvals.confirmations.clone();
            if matches!(confirmations.confirm(event.clone()).await, Confirmed::Row) {
                return;
            }
            dispatch.ledger.borrow_mut().asked_for(&event);
            let message = Notices {
                notices: vec![notice],
                is_queued: true,
                ..Notices::default()
            };
            dispatch.deliver(message).wait().await;
            drop(done);
        });
    }

    /// Stops the approval of an event while a message says that it is not Scheduled any more, and no
    /// row does.
    fn stop_approval(&self, event: &EventKey) {
        let is_stopped = self.ledger.borrow().is_approval_stopped(event);
        self.shared.approvals.stop(event, is_stopped);
    }

    /// The machine that an event affects. It is started if it is not followed yet, unless the event
    /// is over.
    fn machine(
        self: &Rc<Self>,
        id: &str,
        name: &str,
        notice: &Notice,
    ) -> Option<mpsc::UnboundedSender<Message>> {
        let key = key_of(id);
        if let Some(sender) = self.shared.machine(&key) {
            return Some(sender);
        }
        if notice.is_end {
            return None;
        }
        let facts = MachineFacts {
            resource_id: id.to_owned(),
            name: name.to_owned(),
            has_agent: self.has_agent(&key),
            ..MachineFacts::default()
        };
        match Machine::new(self.shared.clone(), facts) {
            Ok(machine) => Some(self.start(id, machine)),
            Err(why) => {
                log::printable(&format!("error: {why}"));
                None
            }
        }
    }

    /// Follows a machine, and returns the channel through which messages reach it.
    fn start(self: &Rc<Self>, id: &str, mut machine: Machine) -> mpsc::UnboundedSender<Message> {
        let sender = machine.sender().clone();
        self.shared.remember(id, sender.clone());
        let dispatch = self.clone();
        let id = id.to_owned();
        tokio::task::spawn_local(async move {
            if let Err(error) = machine.run().await {
                let _ = dispatch.stop.try_send(StateLost {
                    resource_id: id,
                    error,
                });
                machine.wait_for_end().await;
            }
        });
        sender
    }

    /// Whether the event belongs to a subscription of the configuration.
    fn is_ours(&self, notice: &Notice) -> bool {
        self.is_configured(subscription_of(&notice.resource_id))
    }

    fn is_configured(&self, found: &str) -> bool {
        self.shared
            .config
            .subscriptions
            .iter()
            .any(|subscription| subscription.eq_ignore_ascii_case(found))
    }

    /// Whether the own watcher of the machine with this key acts: the configuration names the
    /// machine, it has a register in the fleet, or it or its scale set has the tag.
    fn has_agent(&self, key: &str) -> bool {
        let name = Name::from(key.rsplit('/').next().unwrap_or_default());
        let is_listed = self
            .shared
            .config
            .agents
            .machines
            .iter()
            .any(|pattern| name.matches(pattern));
        let (set, number) = key.rsplit_once('_').unwrap_or_default();
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let is_in = |tagged: &HashSet<String>| {
            tagged.contains(key) || is_number && tagged.contains(&format!("{set}/"))
        };
        let may_have_tag = || {
            self.shared.config.agents.tag.is_some()
                && self.is_refused(key.split('/').next().unwrap_or_default())
        };
        is_listed
            || self.agent_tagged.borrow().as_ref().is_some_and(is_in)
            || self
                .registered
                .borrow()
                .as_ref()
                .is_some_and(|registered| registered.contains(&name))
            || may_have_tag()
    }

    /// Whether Resource Graph returns nothing about this subscription.
    fn is_refused(&self, subscription: &str) -> bool {
        let subscription = subscription.to_ascii_lowercase();
        self.refused
            .borrow()
            .as_ref()
            .is_some_and(|refused| refused.contains(&subscription))
    }

    /// Whether it is known which machines' own watchers act.
    pub fn knows_agents(&self) -> bool {
        let config = &self.shared.config;
        (config.agents.tag.is_none() || self.knows_tags() && self.refused.borrow().is_some())
            && (config.gate.is_none() || self.registered.borrow().is_some())
    }

    /// Whether it is known which machines have the agents' tag.
    pub fn knows_tags(&self) -> bool {
        self.agent_tagged.borrow().is_some()
    }

    /// Sets the machines that now have the agents' tag.
    pub fn set_agents(&self, ids: &[String]) {
        self.agent_tagged
            .borrow_mut()
            .replace(ids.iter().map(|id| key_of(id)).collect());
        self.pass_agents();
    }

    /// Sets the machines that now have a daemon of the fleet. If that is unknown, nothing changes,
    /// and the reason is logged.
    pub fn set_registered(&self, found: Result<HashSet<Name>, RegistersError>) {
        match found {
            Ok(names) => drop(self.registered.replace(Some(names))),
            Err(why) => {
                log::printable(&format!(
                    "warning: cannot read the registers of the fleet: {why}"
                ));
                self.registered.borrow_mut().get_or_insert_default();
            }
        }
        self.pass_agents();
    }

    /// Sets the subscriptions, in lower case, whose events this identity may not read in Resource
    /// Graph now.
    pub fn set_refused(&self, subscriptions: HashSet<String>) {
        self.refused.borrow_mut().replace(subscriptions);
        self.pass_agents();
    }

    /// Sets whether this identity may read the events of a subscription in Resource Graph, once all
    /// were checked.
    pub fn set_readable(&self, subscription: &str, is_readable: bool) {
        let key = subscription.to_ascii_lowercase();
        let has_changed = self.refused.borrow_mut().as_mut().is_some_and(|refused| {
            if is_readable {
                refused.remove(&key)
            } else {
                refused.insert(key)
            }
        });
        if has_changed && !is_readable {
            log::printable(&format!(
                "warning: subscription {subscription} cannot be read any more: its machines count as ones with a watcher"
            ));
        }
    }

    fn pass_agents(&self) {
        for (key, sender) in &*self.shared.machines.borrow() {
            let has_agent = self.has_agent(key);
            // Until all is known, that one has none is the knowledge of an earlier process.
            if has_agent || self.knows_agents() {
                let _ = sender.send(Message::Agent(has_agent));
            }
        }
    }

    /// The events that are not over.
    pub fn open_events(&self) -> Vec<EventKey> {
        self.ledger.borrow().open()
    }

    /// The events of which a message says what no row has confirmed, and whose rows it is time to ask
    /// for.
    pub fn doubted(&self, now: Instant) -> Vec<EventKey> {
        self.ledger.borrow_mut().doubted(now)
    }

    /// Records the answer of Resource Graph about doubted events: which of them it lacks.
    pub fn doubts_answered(self: &Rc<Self>, asked: &[EventKey], absent: &[EventKey], now: Instant) {
        let (confirmed, contradicted) =
            self.ledger.borrow_mut().doubts_answered(asked, absent, now);
        for Claim { notice, done, .. } in contradicted {
            let event = notice.event_key();
            let why = format!(
                "a message says that event {event} is {}, or names fewer machines, and Resource Graph contradicts it: the message does \
                 not count; who may write to the queue?",
                notice.state
            );
            log::printable(&format!("warning: {why}"));
            let time = self.shared.clock.time_of_day().seconds();
            self.shared
                .journal
                .set_aside(&why, notice.message.as_bytes(), time);
            drop(done);
            self.stop_approval(&event);
            if self.ledger.borrow().is_started_by_message(&event) {
                // It is followed anew with its next row.
                drop(self.deliver(ended(&notice.message, &event)));
                self.ledger.borrow_mut().forget(&event);
                self.ask_again_for(event);
            }
        }
        for Claim { notice, done, .. } in confirmed {
            let (event, is_end) = (notice.event_key(), notice.is_end);
            let is_start = notice.state == STARTED;
            log::printable(&format!(
                "note: Resource Graph does not have event {event}: what a message says about it counts"
            ));
            let kept = self.deliver_one(notice);
            let mut ledger = self.ledger.borrow_mut();
            if is_end {
                // It is followed again if its row appears.
                ledger.over_by_message(&event);
            } else if is_start {
                ledger.started_by_message(&event);
            }
            drop(ledger);
            // The message is deleted once its end is kept.
            tokio::task::spawn_local(async move {
                kept.wait().await;
                drop(done);
            });
        }
    }

    /// Records that Resource Graph returned none of these open events when it was queried for them.
    pub fn absent(self: &Rc<Self>, events: &[EventKey], now: Instant) {
        let time_of_day = self.shared.time_of_day().seconds();
        // An answer that is missing interrupts the time.
        let gap = self.shared.config.reconcile * 2 + Duration::from_secs(60);
        for event in events {
            if self.is_refused(event.subscription()) {
                // An event that cannot be read is not absent.
                self.ledger.borrow_mut().is_not_absent(event);
                continue;
            }
            let end = self
                .ledger
                .borrow_mut()
                .end_absent(event, now, gap, time_of_day);
            let Some(end) = end else {
                continue;
            };
            log::printable(&format!(
                "warning: Resource Graph has not had event {event} for {ABSENT_HOURS} h; it is over"
            ));
            drop(self.deliver(end));
            // It is followed again if it appears.
            self.ledger.borrow_mut().forget(event);
        }
    }

    /// Records that Resource Graph has answered. An event that it had first is soon in the queue,
    /// too, unless the queue is not filled.
    pub fn reconciled(&self, now: Instant) {
        let mut missing_from_queue = self.missing_from_queue.borrow_mut();
        for (key, _) in missing_from_queue.extract_if(|_, since| now - *since >= QUEUED_WITHIN) {
            self.shared.metrics.message("missing");
            log::printable(&format!(
                "warning: the queue has had no message about event {key}, which Resource Graph had {} minutes ago; does a \
                 system topic fill the queue? events-policy prints how to make one",
                QUEUED_WITHIN.as_secs() / 60
            ));
        }
        self.shared
            .reconciled_at
            .set(self.shared.clock.time_of_day().seconds().0);
    }
}

/// A message about an event whose own message was too long for its machine's register: enough to
/// end the event.
fn too_long(event: &SavedEvent, machine: &str) -> String {
    let SavedEvent {
        key, resource_id, ..
    } = event;
    let id = format!("{resource_id}/providers/microsoft.maintenance/scheduledevents/{key}");
    let kind = "microsoft.maintenance/scheduledevents";
    json!({"id": id, "type": kind, "properties": {"EventId": key, "Resources": [machine]}})
        .to_string()
}

#[cfg(test)]
mod claims;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod together;
