//! What the hub knows about each event, and which messages about it still need a row of Resource
//! Graph.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use scheduled_events_core::limits::LEAVE_MS;
use scheduled_events_core::{Arrival, EventOrder, UnixSeconds};
use tokio::time::Instant;

use crate::message::Done;
use crate::notice::{EventKey, Notice, Notices, ended, key_of, read, with_notification};

/// How many events that are over are remembered.
const ENDED_MAX: usize = 20_000;

/// How long an event must leave out a machine that it named before, until it is over for that
/// machine, as for a session.
const LEAVE: Duration = Duration::from_millis(LEAVE_MS as u64);

/// For how long the answers of Resource Graph must lack an event, and how long ago its `NotBefore`
/// must be, until the event is over: a message was lost, and Azure no longer keeps the event's
/// history. The time is long, since a fault of Resource Graph must not put a machine back that is
/// about to go down.
pub(super) const ABSENT_HOURS: u32 = 6;

/// For how long the answers of Resource Graph must lack an event until what a message alone says
/// counts: that it is over, in another state, or names fewer machines.
const DOUBT_TIME: Duration = Duration::from_secs(60);

/// How long Resource Graph may contradict a message until that does not count. Its rows may be late.
const CONTRADICTED_TIME: Duration = Duration::from_secs(600);

/// How many events may be known by such messages only.
const DOUBTED_MAX: usize = 1_000;

/// The state of an event that has started.
pub(super) const STARTED: &str = "started";

/// The pauses between questions about a doubted event. They double up to the last one.
const ASK_FIRST: Duration = Duration::from_secs(1);
pub(super) const ASK_LAST: Duration = Duration::from_secs(30);

/// The progress of each event.
#[derive(Default)]
pub(super) struct EventLedger {
    entries: HashMap<EventKey, LedgerEntry>,
    /// The events that are over, oldest first.
    ended: VecDeque<EventKey>,
    /// The machines that an open event has named, by their keys, and since when it no longer names
    /// them.
    named: HashMap<EventKey, HashMap<String, Option<Instant>>>,
    /// The events with a doubt.
    doubted: HashSet<EventKey>,
}

/// The hub's knowledge about an event.
#[derive(Default)]
pub(super) struct LedgerEntry {
    order: EventOrder,
    /// The newest message or row about it, until it is over.
    message: Option<Rc<str>>,
    absence: Absence,
    doubt: Option<Doubt>,
    by_message: ByMessage,
    /// Whether the queue has had a message about it.
    is_in_queue: bool,
    /// Whether its row was asked for when a message announced it.
    was_asked_for: bool,
}

/// What counts of an event although only a message may have said so.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ByMessage {
    #[default]
    Nothing,
    /// It has started. Rows that contradict it for long enough undo that.
    Start,
    /// It is over. Only a row opens it again.
    End,
}

/// For how long the answers of Resource Graph have lacked an event.
#[derive(Clone, Copy, Default)]
struct Absence {
    counted: Duration,
    last: Option<Instant>,
}

/// What messages say about an event while no row agrees.
pub(super) struct Doubt {
    /// At most one of each kind, in their order.
    pub(super) claims: Vec<Claim>,
    next: Instant,
    pause: Duration,
    absence: Absence,
}

/// What a message says without a row that agrees.
pub(super) struct Claim {
    kind: ClaimKind,
    pub(super) notice: Notice,
    /// Keeps the message in the queue, if the event is known: a restart reads it again.
    pub(super) done: Option<Done>,
    since: Instant,
}

/// In the order in which they happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClaimKind {
    /// The event names fewer machines.
    Fewer,
    /// It is in another state, such as Started. It is not approved meanwhile.
    State,
    /// It is over.
    End,
}

/// What a notice means.
pub(super) struct Observed {
    pub(super) arrival: Arrival,
    /// The keys of the machines that the event has named before, but not in this notice. They must
    /// learn that, and when the event ends.
    pub(super) others: Vec<String>,
    /// The messages that said the same, which are deleted once the notice is kept.
    pub(super) messages: Vec<Done>,
}

impl Claim {
    fn agrees_with(&self, row: &Notice) -> bool {
        match self.kind {
            ClaimKind::Fewer => !row.is_end && keys_of(row).is_subset(&keys_of(&self.notice)),
            ClaimKind::State => row.state == STARTED || row.state == self.notice.state,
            ClaimKind::End => row.is_end,
        }
    }
}

impl Absence {
    /// Counts the time since the last answer that lacked the event, unless there was none for longer
    /// than `gap`.
    fn count(&mut self, now: Instant, gap: Duration) -> Duration {
        if let Some(last) = self.last.replace(now) {
            let since = now.saturating_duration_since(last);
            if since <= gap {
                self.counted += since;
            }
        }
        self.counted
    }
}

impl LedgerEntry {
    /// An event of an earlier run.
    pub(super) fn restored(order: EventOrder, message: Rc<str>) -> Self {
        Self {
            order,
            message: Some(message),
            ..Self::default()
        }
    }

    fn is_known(&self) -> bool {
        self.order != EventOrder::default() || self.message.is_some()
    }

    /// What the newest message or row says.
    fn state(&self, event: &EventKey) -> Option<String> {
        with_notification(self.message.as_ref()?, event, |known| {
            known.state().word().to_string()
        })
    }
}

impl EventLedger {
    /// Adds an event of a machine from an earlier run.
    pub(super) fn restore(&mut self, event: EventKey, saved: LedgerEntry, machine: &str) {
        self.named
            .entry(event.clone())
            .or_default()
            .insert(machine.to_owned(), None);
        let by_message = match saved.state(&event).as_deref() {
            Some(STARTED) => ByMessage::Start,
            _ => ByMessage::Nothing,
        };
        // A crash may have come between the machines of an event: a notice that one of them missed
        // still counts as new.
        let entry = self.entries.entry(event).or_default();
        if entry.message.is_none() || entry.order.is_over() {
            *entry = LedgerEntry {
                by_message,
                ..saved
            };
        }
    }

    /// Applies a notice. `None` if it waits for a row, or names no event.
    pub(super) fn observe(
        &mut self,
        notice: &mut Notice,
        done: &Done,
        now: Instant,
    ) -> Option<Observed> {
        let event = notice.event_key();
        if !notice.is_row
            && let Some(held) = self.hold(&event, notice, done, now)
        {
            return held;
        }
        let entry = self.entries.entry(event.clone()).or_default();
        let was_over = entry.order.is_over();
        let order = &mut entry.order;
        let arrival = with_notification(&notice.message, &event, |notification| {
            order.observe(notification)
        })?;
        if notice.is_row {
            entry.absence = Absence::default();
            if entry.by_message == ByMessage::End && !entry.order.is_over() {
                self.ended.retain(|ended| *ended != event);
            }
            if entry.by_message == ByMessage::End || arrival != Arrival::Late {
                entry.by_message = ByMessage::Nothing;
            }
        }
        let is_contradicted = notice.is_row && arrival == Arrival::Late && !was_over;
        let contradicted = entry
            .message
            .clone()
            .filter(|_| is_contradicted && entry.by_message == ByMessage::Start);
        if arrival != Arrival::Late {
            entry.message = (!entry.order.is_over()).then(|| notice.message.clone());
        }
        let is_over = entry.order.is_over();
        let mut messages = Vec::new();
        if is_over {
            let claims = self
                .settle(&event)
                .into_iter()
                .flat_map(|doubt| doubt.claims);
            messages.extend(claims.filter_map(|claim| claim.done));
        } else if notice.is_row {
            let agreed = self.drop_claims(&event, |claim| claim.agrees_with(notice));
            messages.extend(agreed.into_iter().filter_map(|claim| claim.done));
        }
        if let Some(message) = contradicted
            && !self.is_approval_stopped(&event)
            && let Some(claim) = notice_of(&message, &event)
        {
            self.doubt(&event, ClaimKind::State, &claim, None, now);
        }
        if is_over && !was_over {
            self.remember_end(event.clone());
        }
        let others = if arrival == Arrival::Late {
            Vec::new()
        } else if notice.is_row || is_over {
            self.no_longer_named(&event, notice, now)
        } else {
            self.name(&event, notice, now);
            Vec::new()
        };
        Some(Observed {
            arrival,
            others,
            messages,
        })
    }

    /// The result of a message that does not count without a row, for now: `Some(None)` if it waits.
    #[allow(clippy::option_option)] // Whether it is decided, and what.
    fn hold(
        &mut self,
        event: &EventKey,
        notice: &Notice,
        done: &Done,
        now: Instant,
    ) -> Option<Option<Observed>> {
        let late = || {
            Some(Some(Observed {
                arrival: Arrival::Late,
                others: Vec::new(),
                messages: Vec::new(),
            }))
        };
        let entry = self.entries.entry(event.clone()).or_default();
        entry.is_in_queue = true;
        if entry.by_message == ByMessage::End {
            return late();
        }
        if entry.order.is_over() {
            return None;
        }
        if !notice.is_end {
            let is_news = notice.state == "scheduled"
                || match entry.state(event) {
                    Some(known) => known == STARTED || known == notice.state,
                    None => notice.state == "advisory",
                };
            if is_news {
                return None;
            }
            let is_known = entry.is_known();
            if !is_known && entry.doubt.is_none() && self.doubted.len() >= DOUBTED_MAX {
                // If it exists, its row comes.
                self.entries.remove(event);
                return late();
            }
            // Messages about events that do not exist would take the places of others in the queue.
            let done = is_known.then(|| done.clone());
            self.doubt(event, ClaimKind::State, notice, done, now);
            return Some(None);
        }
        let is_known = entry.is_known();
        if !is_known && entry.doubt.is_none() {
            // There is nothing to end. Other messages about it are late; a row is not.
            entry.by_message = ByMessage::End;
            self.remember_end(event.clone());
            return late();
        }
        let done = is_known.then(|| done.clone());
        self.doubt(event, ClaimKind::End, notice, done, now);
        Some(None)
    }

    fn doubt(
        &mut self,
        event: &EventKey,
        kind: ClaimKind,
        notice: &Notice,
        done: Option<Done>,
        now: Instant,
    ) {
        let entry = self.entries.entry(event.clone()).or_default();
        let doubt = entry.doubt.get_or_insert_with(|| Doubt {
            claims: Vec::new(),
            next: now,
            pause: ASK_FIRST,
            absence: Absence::default(),
        });
        // The last message of its kind, and no more time for being repeated. An end says more than a
        // message with fewer machines.
        let is_replaced = |claim: &mut Claim| {
            claim.kind == kind || (claim.kind, kind) == (ClaimKind::Fewer, ClaimKind::End)
        };
        let replaced = doubt.claims.extract_if(.., is_replaced).last();
        let same = replaced.as_ref().filter(|claim| claim.kind == kind);
        let since = same.map_or(now, |claim| claim.since);
        doubt.claims.push(Claim {
            kind,
            notice: notice.clone(),
            done: done.or_else(|| replaced?.done),
            since,
        });
        doubt.claims.sort_by_key(|claim| claim.kind);
        self.doubted.insert(event.clone());
    }

    /// Whether a message says that an event has started, or is in another state that no row confirms:
    /// it is not approved.
    pub(super) fn is_approval_stopped(&self, event: &EventKey) -> bool {
        let doubt = self
            .entries
            .get(event)
            .and_then(|entry| entry.doubt.as_ref());
        doubt.is_some_and(|doubt| {
            doubt
                .claims
                .iter()
                .any(|claim| claim.kind == ClaimKind::State)
        })
    }

    /// Whether a message that announces an event waits for its row first: another one says that it has
    /// started already.
    pub(super) fn waits_for_row(&self, notice: &Notice) -> bool {
        let event = notice.event_key();
        let entry = self.entries.get(&event);
        let is_first = entry.is_some_and(|entry| !entry.is_known() && !entry.was_asked_for);
        is_first && !notice.is_end && self.is_approval_stopped(&event)
    }

    /// Its row was asked for.
    pub(super) fn asked_for(&mut self, event: &EventKey) {
        if let Some(entry) = self.entries.get_mut(event) {
            entry.was_asked_for = true;
        }
    }

    /// Whether the queue has had a message about the event.
    pub(super) fn is_in_queue(&self, event: &EventKey) -> bool {
        self.entries
            .get(event)
            .is_some_and(|entry| entry.is_in_queue)
    }

    /// What a message says of the start of an event, of whose end there is a row now.
    pub(super) fn take_start(&mut self, event: &EventKey) -> Option<Notice> {
        let is_start =
            |claim: &Claim| claim.kind == ClaimKind::State && claim.notice.state == STARTED;
        let start = self.drop_claims(event, is_start);
        start.into_iter().next().map(|claim| claim.notice)
    }

    /// Drops what messages say about an event, and the doubt with the last of it.
    fn drop_claims(&mut self, event: &EventKey, which: impl Fn(&Claim) -> bool) -> Vec<Claim> {
        let entry = self.entries.get_mut(event);
        let Some(doubt) = entry.and_then(|entry| entry.doubt.as_mut()) else {
            return Vec::new();
        };
        let dropped = doubt.claims.extract_if(.., |claim| which(claim)).collect();
        if doubt.claims.is_empty() {
            self.settle(event);
        }
        dropped
    }

    /// The doubt about an event is over.
    fn settle(&mut self, event: &EventKey) -> Option<Doubt> {
        self.doubted.remove(event);
        self.entries.get_mut(event)?.doubt.take()
    }

    /// The doubted events that it is time to ask for.
    pub(super) fn doubted(&mut self, now: Instant) -> Vec<EventKey> {
        let entries = &mut self.entries;
        let is_due = |event: &&EventKey| {
            let doubt = entries
                .get_mut(event)
                .and_then(|entry| entry.doubt.as_mut());
            doubt.is_some_and(|doubt| {
                let is_due = doubt.next <= now;
                if is_due {
                    doubt.next = now + doubt.pause;
                    doubt.pause = (doubt.pause * 2).min(ASK_LAST);
                }
                is_due
            })
        };
        self.doubted.iter().filter(is_due).cloned().collect()
    }

    /// What an answer has resolved: the messages that count, and those that it contradicts for too long.
    pub(super) fn doubts_answered(
        &mut self,
        asked: &[EventKey],
        absent: &[EventKey],
        now: Instant,
    ) -> (Vec<Claim>, Vec<Claim>) {
        let (mut confirmed, mut contradicted) = (Vec::new(), Vec::new());
        for event in asked {
            let Some(entry) = self.entries.get_mut(event) else {
                continue;
            };
            let Some(doubt) = &mut entry.doubt else {
                continue;
            };
            if absent.contains(event) {
                if doubt.absence.count(now, ASK_LAST * 2) >= DOUBT_TIME {
                    // What it no longer names has left for as long as the doubt lasted.
                    let long_ago = now.checked_sub(LEAVE).unwrap_or(now);
                    let named = self.named.entry(event.clone()).or_default();
                    let last = doubt.claims.last();
                    let keys = last.map_or_else(HashSet::new, |claim| keys_of(&claim.notice));
                    for (_, since) in named.iter_mut().filter(|(key, _)| !keys.contains(*key)) {
                        since.get_or_insert(long_ago);
                    }
                    confirmed.extend(
                        self.settle(event)
                            .into_iter()
                            .flat_map(|doubt| doubt.claims),
                    );
                }
                continue;
            }
            doubt.absence = Absence::default();
            let is_contradicted =
                |claim: &Claim| now.saturating_duration_since(claim.since) >= CONTRADICTED_TIME;
            contradicted.extend(self.drop_claims(event, is_contradicted));
        }
        (confirmed, contradicted)
    }

    /// A row or an end: the machines that the event has named before, but not in this notice. A row
    /// may be older than a message: until a later notice agrees, the event is not approved without
    /// them.
    fn no_longer_named(
        &mut self,
        event: &EventKey,
        notice: &mut Notice,
        now: Instant,
    ) -> Vec<String> {
        let all = self.named.entry(event.clone()).or_default();
        for since in all.values_mut() {
            since.get_or_insert(now);
        }
        all.extend(keys_of(notice).into_iter().map(|key| (key, None)));
        let others: Vec<_> = all
            .iter()
            .filter_map(|(key, since)| Some((key.clone(), (*since)?)))
            .collect();
        let may_be_named = others
            .iter()
            .filter(|(_, since)| now.saturating_duration_since(*since) < LEAVE);
        notice.may_be_named = may_be_named.map(|(key, _)| name_of(key)).collect();
        if notice.is_end {
            self.named.remove(event);
        }
        others.into_iter().map(|(key, _)| key).collect()
    }

    /// A message: the event names its machines, and those that it has named before. If it does not
    /// name one of these any more, a row decides.
    fn name(&mut self, event: &EventKey, notice: &mut Notice, now: Instant) {
        let (own, all) = (
            keys_of(notice),
            self.named.entry(event.clone()).or_default(),
        );
        all.extend(own.iter().map(|key| (key.clone(), None)));
        let others = all.iter().filter(|(key, since)| {
            let has_left = since.is_some_and(|since| now.saturating_duration_since(since) >= LEAVE);
            !own.contains(*key) && !has_left
        });
        notice.may_be_named = others.map(|(key, _)| name_of(key)).collect();
        let narrows = all
            .iter()
            .any(|(key, since)| since.is_none() && !own.contains(key));
        if narrows {
            self.doubt(event, ClaimKind::Fewer, notice, None, now);
        }
    }

    fn remember_end(&mut self, event: EventKey) {
        self.ended.push_back(event);
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    /// The notices that end an event that Resource Graph lacks, if it has lacked it for long enough.
    /// A time without answers, which is longer than `gap`, does not count.
    pub(super) fn end_absent(
        &mut self,
        event: &EventKey,
        now: Instant,
        gap: Duration,
        time_of_day: UnixSeconds,
    ) -> Option<Notices> {
        let entry = self
            .entries
            .get_mut(event)
            .filter(|entry| !entry.order.is_over())?;
        let seconds = ABSENT_HOURS * 3600;
        let absent = entry.absence.count(now, gap);
        let message = entry
            .message
            .as_ref()
            .filter(|_| absent >= Duration::from_secs(seconds.into()))?;
        let begin = with_notification(message, event, |found| found.event().not_before().moment())?;
        let is_past = begin.is_none_or(|begin| time_of_day.since(begin) >= seconds.into());
        is_past.then(|| ended(message, event))
    }

    /// An event that cannot be read is not absent.
    pub(super) fn is_not_absent(&mut self, event: &EventKey) {
        if let Some(entry) = self.entries.get_mut(event) {
            entry.absence = Absence::default();
        }
    }

    /// The events that are not over.
    pub(super) fn open(&self) -> Vec<EventKey> {
        let is_open =
            |entry: &LedgerEntry| !entry.order.is_over() && entry.by_message != ByMessage::End;
        self.entries
            .iter()
            .filter(|(_, entry)| is_open(entry))
            .map(|(event, _)| event.clone())
            .collect()
    }

    /// Forgets an event, which is followed again if it appears.
    pub(super) fn forget(&mut self, event: &EventKey) {
        self.entries.remove(event);
        self.doubted.remove(event);
        self.ended.retain(|ended| ended != event);
    }

    /// An event whose end only a message has reported: it is followed again if its row appears.
    pub(super) fn over_by_message(&mut self, event: &EventKey) {
        let is_in_queue = self.is_in_queue(event);
        self.forget(event);
        let entry = self.entries.entry(event.clone()).or_default();
        (entry.by_message, entry.is_in_queue) = (ByMessage::End, is_in_queue);
        self.remember_end(event.clone());
    }

    /// An event whose start only a message has reported.
    pub(super) fn started_by_message(&mut self, event: &EventKey) {
        if let Some(entry) = self.entries.get_mut(event) {
            entry.by_message = ByMessage::Start;
        }
    }

    /// Whether only a message may have reported the start of the event.
    pub(super) fn is_started_by_message(&self, event: &EventKey) -> bool {
        let entry = self.entries.get(event);
        entry.is_some_and(|entry| entry.by_message == ByMessage::Start && !entry.order.is_over())
    }
}

/// A message's content about an event, as a message of the queue has it.
fn notice_of(message: &str, event: &EventKey) -> Option<Notice> {
    let notices = read(message.as_bytes()).ok()?.notices.into_iter();
    notices.filter(|notice| notice.event_key() == *event).last()
}

/// The keys of the machines that a notice names.
fn keys_of(notice: &Notice) -> HashSet<String> {
    notice.machines.iter().map(|(id, _)| key_of(id)).collect()
}

/// The name in the key of a machine.
fn name_of(key: &str) -> String {
    key.rsplit('/').next().unwrap_or_default().to_owned()
}
