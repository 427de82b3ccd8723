//! Passes notices on to the machines that they are about.
//!
//! It knows the progress of each event, so that a late notice changes nothing, and which events are
//! over, so that no late notice reopens one.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::error::Error;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use scheduled_events_common::log;
use scheduled_events_common::names::Name;
use scheduled_events_core::limits::LEAVE_MS;
use scheduled_events_core::{Arrival, EventOrder, UnixSeconds};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::machine::Machine;
use crate::message::{Kept, Message};
use crate::notice::{Notice, Notices, ended, key_of, subscription_of, with_notification};
use crate::shared::Shared;
use crate::store::{Entry, MachineFacts, RegistersError, Saved, SavedEvent, StoreError};

/// How many events that are over are remembered.
const ENDED_MAX: usize = 20_000;

/// How long an event must leave out a machine that it named before, until it is over for that
/// machine, as for a session.
const LEAVE: Duration = Duration::from_millis(LEAVE_MS as u64);

/// How long Resource Graph must lack an event, and how long ago its `NotBefore` must be, until the
/// event is over: a message was lost, and Azure no longer keeps the event's history. The time is
/// long, since a fault of Resource Graph must not put a machine back that is about to go down.
const ABSENT_HOURS: u32 = 6;

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
    missing_from_queue: RefCell<HashMap<String, Instant>>,
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

/// The progress of each event, by its key.
#[derive(Debug, Default)]
struct EventLedger {
    entries: HashMap<String, LedgerEntry>,
    /// The keys of the events that are over, oldest first.
    ended: VecDeque<String>,
    /// The machines that an open event has named, by their keys, and since when it no longer names
    /// them.
    named: HashMap<String, HashMap<String, Option<Instant>>>,
}

/// The hub's knowledge about an event.
#[derive(Debug, Default)]
struct LedgerEntry {
    order: EventOrder,
    /// The newest message or row about it, until it is over.
    message: Option<Rc<str>>,
    resource_id: Rc<str>,
    /// Since when Resource Graph lacks it.
    absent_since: Option<Instant>,
}

impl EventLedger {
    fn observe(&mut self, notice: &Notice) -> Option<Arrival> {
        let entry = self.entries.entry(notice.key.clone()).or_default();
        let was_over = entry.order.is_over();
        let observed = with_notification(&notice.message, &notice.key, |notification| {
            entry.order.observe(notification)
        });
        let arrival = observed?;
        entry.absent_since = None;
        entry.resource_id = notice.resource_id.as_str().into();
        if arrival != Arrival::Late {
            entry.message = (!entry.order.is_over()).then(|| notice.message.clone());
        }
        if entry.order.is_over() && !was_over {
            self.ended.push_back(notice.key.clone());
            if self.ended.len() > ENDED_MAX
                && let Some(oldest) = self.ended.pop_front()
            {
                self.entries.remove(&oldest);
            }
        }
        Some(arrival)
    }

    /// The notices that end an event that Resource Graph lacks, if it has lacked it for long
    /// enough.
    fn end_absent(&mut self, key: &str, now: Instant, time_of_day: UnixSeconds) -> Option<Notices> {
        let entry = self
            .entries
            .get_mut(key)
            .filter(|entry| !entry.order.is_over())?;
        let since = *entry.absent_since.get_or_insert(now);
        let seconds = ABSENT_HOURS * 3600;
        let message = entry
            .message
            .as_ref()
            .filter(|_| now - since >= Duration::from_secs(seconds.into()))?;
        let begin = with_notification(message, key, |notification| {
            notification.event().not_before().moment()
        })?;
        let is_past = begin.is_none_or(|begin| time_of_day.since(begin) >= seconds.into());
        is_past.then(|| ended(message, key))
    }

    fn forget(&mut self, key: &str) {
        self.entries.remove(key);
        self.ended.retain(|ended| ended != key);
    }

    /// The machines that the event has named before, but not in this notice. They must learn that,
    /// and when the event ends. A row may be older than a message: until a later notice agrees, the
    /// event is not approved without them.
    fn no_longer_named(&mut self, notice: &mut Notice) -> Vec<String> {
        let now = Instant::now();
        let all = self.named.entry(notice.key.clone()).or_default();
        for since in all.values_mut() {
            since.get_or_insert(now);
        }
        all.extend(notice.machines.iter().map(|(id, _)| (key_of(id), None)));
        let others: Vec<_> = all
            .iter()
            .filter_map(|(key, since)| Some((key.clone(), (*since)?)))
            .collect();
        let may_be_named = others.iter().filter(|(_, since)| now - *since < LEAVE);
        let name = |key: &String| key.rsplit('/').next().unwrap_or_default().to_owned();
        notice.may_be_named = may_be_named.map(|(key, _)| name(key)).collect();
        if notice.is_end {
            self.named.remove(&notice.key);
        }
        others.into_iter().map(|(key, _)| key).collect()
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
            let machine_key = key_of(&id);
            let entry_of = |event: &SavedEvent| {
                let message = match event.message.as_str() {
                    "" => too_long(event, &saved.machine.name).into(),
                    message => message.into(),
                };
                let (message, resource_id) = (Some(message), event.resource_id.as_str().into());
                (
                    event.key.clone(),
                    LedgerEntry {
                        order: event.order,
                        message,
                        resource_id,
                        absent_since: None,
                    },
                )
            };
            let events: BTreeMap<_, _> = saved.events.iter().map(entry_of).collect();
            match Machine::restore(self.shared.clone(), saved, entry) {
                Ok(machine) => {
                    let mut ledger = self.ledger.borrow_mut();
                    for (key, saved) in events {
                        ledger
                            .named
                            .entry(key.clone())
                            .or_default()
                            .insert(machine_key.clone(), None);
                        // A crash may have come between the machines of an event: a notice that one
                        // of them missed still counts as new.
                        let entry = ledger.entries.entry(key).or_default();
                        if entry.message.is_none() || entry.order.is_over() {
                            *entry = saved;
                        }
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
            let Some(arrival) = self.ledger.borrow_mut().observe(&notice) else {
                continue;
            };
            metrics.notice(match arrival {
                Arrival::New | Arrival::Changed => "news",
                Arrival::Repeated => "repeated",
                Arrival::Late => "late",
            });
            if notices.is_queued {
                self.missing_from_queue.borrow_mut().remove(&notice.key);
            } else if self.shared.config.queue.is_some()
                && arrival == Arrival::New
                && self.shared.reconciled_at.get() != 0
            {
                self.missing_from_queue
                    .borrow_mut()
                    .insert(notice.key.clone(), Instant::now());
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
            if arrival == Arrival::Changed {
                self.shared.approvals.withdraw(&notice.key);
            }
            let others = self.ledger.borrow_mut().no_longer_named(&mut notice);
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
                    done: Some(done.clone()),
                };
                let _ = sender.send(message);
            }
        }
        kept
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
        let found = subscription_of(&notice.resource_id);
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

    fn pass_agents(&self) {
        // Until then, the knowledge of an earlier process counts.
        if !self.knows_agents() {
            return;
        }
        for (key, sender) in &*self.shared.machines.borrow() {
            let _ = sender.send(Message::Agent(self.has_agent(key)));
        }
    }

    /// The keys of the events that are not over.
    pub fn open_events(&self) -> Vec<String> {
        let ledger = self.ledger.borrow();
        ledger
            .entries
            .iter()
            .filter(|(_, entry)| !entry.order.is_over())
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Records that Resource Graph returned none of these open events when it was queried for them.
    pub fn absent(self: &Rc<Self>, keys: &[String], now: Instant) {
        let time_of_day = self.shared.time_of_day().seconds();
        for key in keys {
            let resource_id = self
                .ledger
                .borrow()
                .entries
                .get(key)
                .map(|entry| entry.resource_id.clone());
            if self.is_refused(subscription_of(resource_id.as_deref().unwrap_or_default())) {
                // An event that cannot be read is not absent.
                self.ledger
                    .borrow_mut()
                    .entries
                    .entry(key.clone())
                    .and_modify(|entry| entry.absent_since = None);
                continue;
            }
            let Some(end) = self.ledger.borrow_mut().end_absent(key, now, time_of_day) else {
                continue;
            };
            log::printable(&format!(
                "warning: Resource Graph has not had event {key} for {ABSENT_HOURS} h; it is over"
            ));
            drop(self.deliver(end));
            // It is followed again if it appears.
            self.ledger.borrow_mut().forget(key);
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
pub(crate) mod tests;
