//! What an answer of the metadata service means.

use core::fmt;

use super::limits::{NAMES_MAX, PROBLEMS_MAX, STALE_GRACE_MS};
use super::work::Work;
use super::{Approvals, Documents, Request, Session, Untracked};
use crate::document::{Document, Incarnation};
use crate::error::{ParseError, Position};
use crate::event::{Event, EventStatus};
use crate::hash::Hash;
use crate::names::VmNames;
use crate::time::UnixMillis;
use crate::tracker::{Flags, TrackedEvent, TrackedStatus, is_over};

/// An HTTP answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Response<'a> {
    /// The status code.
    pub status: u16,
    /// The `Retry-After` header in seconds; the host converts a date.
    pub retry_after: Option<u32>,
    /// The body.
    pub body: &'a [u8],
}

/// What an answer, or its absence, led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestOutcome {
    /// A new document was taken in.
    Document,
    /// The document is the one that was read last.
    Unchanged,
    /// A document that had been superseded came again; it is not believed unless it stays.
    Stale,
    /// The poll failed and ended nothing; the next comes later.
    PollFailed {
        /// Why.
        cause: Cause,
        /// Milliseconds until the next poll.
        retry_in_ms: u32,
    },
    /// The approval succeeded.
    Approved,
    /// The approval failed, and is repeated later as long as the event is `Scheduled`.
    ApprovalFailed {
        /// Why.
        cause: Cause,
    },
    /// No request was under way; nothing was done.
    Unexpected,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// No answer in time.
    Timeout,
    /// No connection could be made.
    Unreachable,
    /// The connection broke, or the answer is no HTTP.
    ConnectionLost,
    /// The answer is larger than the host accepts.
    TooLarge,
    /// A redirect, which is never followed.
    Redirect(u16),
    /// Another status than was hoped for.
    Status(u16),
    /// 200 with an empty body, which says nothing.
    EmptyBody,
    /// The body is no document.
    NotADocument {
        /// What is wrong.
        error: ParseError,
        /// Where.
        position: Position,
    },
}

impl Cause {
    /// The cause as a word, as records spell it, statuses left aside: `timeout`, `status`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::ConnectionLost => "connection-lost",
            Self::TooLarge => "too-large",
            Self::Redirect(_) => "redirect",
            Self::Status(_) => "status",
            Self::EmptyBody => "empty-body",
            Self::NotADocument { .. } => "not-a-document",
        }
    }

    /// Whether waiting a second will hardly help: the request itself is refused.
    const fn is_hopeless(&self) -> bool {
        matches!(self, Self::Status(400..=403 | 405..=407 | 409 | 411..=428 | 430..=499) | Self::Redirect(_))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("no answer in time"),
            Self::Unreachable => f.write_str("no connection"),
            Self::ConnectionLost => f.write_str("the connection broke off"),
            Self::TooLarge => f.write_str("the answer is too large"),
            Self::Redirect(status) => write!(f, "redirected (status {status}), which is not followed"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::EmptyBody => f.write_str("an empty answer"),
            Self::NotADocument { error, position } => {
                write!(f, "no document: line {}, column {}: {}", position.line, position.column, error.kind.message())
            }
        }
    }
}

impl<const N: usize> Session<N> {
    /// Takes the answer to the request under way.
    ///
    /// Only a document, from a 200 with a body that parses, can end an event. Every other answer to a poll is a failed
    /// poll, a 304 included: requests are never conditional.
    pub fn on_response(&mut self, response: &Response<'_>, now: UnixMillis) -> RequestOutcome {
        self.on_response_with(response, now, |_| ())
    }

    /// Does the same as [`on_response`](Self::on_response), and passes the document to `on_document` before the session
    /// applies it, so that a caller who keeps more of the events than the session does need not parse the body again.
    /// `on_document` is called if and only if the outcome is [`RequestOutcome::Document`].
    ///
    /// ```
    /// use scheduled_events_core::{Response, Session, SessionConfig, Step, UnixMillis, VmNames};
    ///
    /// let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"])))?;
    /// let now = UnixMillis(1_600_000_000_000);
    /// assert!(matches!(session.next(now), Step::Get { .. }));
    /// let body = br#"{"DocumentIncarnation":2,"Events":[{"EventId":"a","Description":"Host maintenance"}]}"#;
    /// let mut descriptions = Vec::new();
    /// session.on_response_with(&Response { status: 200, body, ..Response::default() }, now, |document| {
    ///     descriptions.extend(document.events().map(|event| event.description().map(|text| text.to_string())));
    /// });
    /// assert_eq!(descriptions, [Some("Host maintenance".to_owned())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_response_with(
        &mut self,
        response: &Response<'_>,
        now: UnixMillis,
        on_document: impl FnOnce(&Document<'_>),
    ) -> RequestOutcome {
        if let (429 | 500..=599, Some(seconds)) = (response.status, response.retry_after) {
            self.pace.pause(now, seconds);
        }
        match core::mem::replace(&mut self.request, Request::None) {
            Request::None => RequestOutcome::Unexpected,
            Request::Post(slots) => match response.status {
                200..=299 => {
                    self.pace.answered();
                    for &slot in &slots {
                        self.note_approved(slot);
                    }
                    RequestOutcome::Approved
                }
                status => self.approval_failed(&slots, cause_of(status), now),
            },
            Request::Get => match response.status {
                200 if response.body.trim_ascii().is_empty() => {
                    // The service answers, so there is no reason to back off.
                    self.pace.answered();
                    let retry_in_ms = u32::try_from(self.pace.poll_at().millis_since(now)).unwrap_or(u32::MAX);
                    RequestOutcome::PollFailed { cause: Cause::EmptyBody, retry_in_ms }
                }
                200 => self.on_body(response.body, now, on_document),
                status => self.poll_failed(cause_of(status), now),
            },
        }
    }

    /// Notes that the request under way got no usable answer.
    pub fn on_failure(&mut self, cause: Cause, now: UnixMillis) -> RequestOutcome {
        match core::mem::replace(&mut self.request, Request::None) {
            Request::None => RequestOutcome::Unexpected,
            Request::Post(slots) => self.approval_failed(&slots, cause, now),
            Request::Get => self.poll_failed(cause, now),
        }
    }

    fn poll_failed(&mut self, cause: Cause, now: UnixMillis) -> RequestOutcome {
        let retry_in_ms = self.pace.failed(now, cause.is_hopeless());
        RequestOutcome::PollFailed { cause, retry_in_ms }
    }

    fn approval_failed(&mut self, slots: &[u16], cause: Cause, now: UnixMillis) -> RequestOutcome {
        for &slot in slots {
            if let Some(work) = self.work.get_mut(usize::from(slot)) {
                work.approval.failures = work.approval.failures.saturating_add(1);
                let delay = self.pace.back_off(u32::from(work.approval.failures));
                work.approval.retry_at = Some(now.plus(delay));
            }
        }
        RequestOutcome::ApprovalFailed { cause }
    }

    fn note_approved(&mut self, slot: u16) {
        if let Some(event) = self.tracker.get_mut(slot) {
            event.flags.set(Flags::APPROVED, true);
        }
    }

    fn on_body(&mut self, body: &[u8], now: UnixMillis, on_document: impl FnOnce(&Document<'_>)) -> RequestOutcome {
        let hash = Hash::of(body);
        if self.documents.is_known(hash) {
            self.pace.answered();
            return RequestOutcome::Unchanged;
        }
        let document = match Document::parse(body) {
            Ok(document) => document,
            Err(error) => {
                let position = error.position(body);
                return self.poll_failed(Cause::NotADocument { error, position }, now);
            }
        };
        self.pace.answered();
        match self.documents.judge(hash, document.incarnation(), now) {
            RequestOutcome::Document => {}
            other => return other,
        }
        on_document(&document);
        let names = core::mem::take(&mut self.names);
        let mut list = [""; NAMES_MAX];
        for (place, name) in list.iter_mut().zip(&names) {
            *place = name;
        }
        let known = VmNames::new(list.get(..names.len()).unwrap_or_default());
        self.take_in(&document, if self.underscored { known.underscored() } else { known }, now);
        self.names = names;
        RequestOutcome::Document
    }

    /// Takes a document in: changes, new events, decisions, problems.
    fn take_in(&mut self, document: &Document<'_>, names: VmNames<'_>, now: UnixMillis) {
        let today = UnixMillis(now.0.saturating_add(self.time_of_day_ahead_ms)).seconds();
        let work = &mut self.work;
        let seen = self.tracker.observe_known(document, names, |slot, change, _| {
            if let Some(work) = work.get_mut(usize::from(slot)) {
                work.change = Some(change);
            }
        });
        for slot in 0..self.tracker.slots_used() {
            if let Some(change) = self.tracker.end_if_absent(slot, today)
                && let Some(work) = self.work.get_mut(usize::from(slot))
            {
                work.change = Some(change);
            }
        }
        if seen.new > 0 {
            self.take_in_new(document, names, now);
        } else {
            self.note_untracked(Untracked::default());
        }

        self.documents.events = seen.open;
        self.event_seen |= self.documents.events > 0;
        for event in document.events() {
            let Some(slot) = self.tracker.find_text(&event.event_id()) else { continue };
            let Some(work) = self.work.get_mut(usize::from(slot)) else { continue };
            let Some(tracked) = self.tracker.get_mut(slot).filter(|tracked| !tracked.is_gone()) else { continue };
            // Of two events with one id, the first decides.
            if !tracked.flags.has(Flags::PRESENT) {
                continue;
            }
            tracked.flags.set(Flags::PRESENT, false);
            // A clock that was set back across a restart must not make it wait again.
            work.first_seen = work.first_seen.min(now);
            let unstarted =
                tracked.status == TrackedStatus::Started && event.event_status() != Some(EventStatus::Started);
            if !unstarted {
                work.decide(self.policy.decide(&event, names, today));
            }
        }
        self.renamed = false;
        if self.documents.fresh {
            self.problems.clear();
            self.problems_told = 0;
            for problem in document.problems().take(PROBLEMS_MAX) {
                // There is room for as many.
                let _ = self.problems.push(problem);
            }
        }
        self.quiet_before = 0;
    }

    /// Takes in the events that are not tracked yet: this machine's own first, then others as far as there is room.
    fn take_in_new(&mut self, document: &Document<'_>, names: VmNames<'_>, now: UnixMillis) {
        let mut waits_for_room = false;
        for own in [true, false] {
            for event in document.events().filter(|event| !is_over(event)) {
                if (names.owns(&event) == Some(true)) != own {
                    continue;
                }
                if let Some(slot) = self.tracker.find_text(&event.event_id()) {
                    // It came back before its end was dealt with: read it again when that is done.
                    waits_for_room |= self.tracker.get(slot).is_some_and(TrackedEvent::is_gone);
                    continue;
                }
                if self.tracker.len() >= N && !(own && self.make_room_for(&event)) {
                    continue;
                }
                if let Some((slot, change)) = self.tracker.insert(&event, names) {
                    let mut work = Work::new(now);
                    work.change = Some(change);
                    self.put_work(slot, work);
                    if let Some(event) = self.tracker.get_mut(slot)
                        && self.approvals.contains(event.event_id.hash())
                    {
                        event.flags.set(Flags::APPROVED, true);
                    }
                }
            }
        }
        let mut untracked = Untracked::default();
        // Counted at the end, since an event may have lost its place to a later one.
        for event in document.events().filter(|event| !is_over(event)) {
            if self.tracker.find_text(&event.event_id()).is_none() {
                let own = names.owns(&event) == Some(true);
                let count = if own { &mut untracked.own } else { &mut untracked.others };
                *count = count.saturating_add(1);
            }
        }
        if waits_for_room || untracked != Untracked::default() {
            self.documents.reread();
        }
        self.note_untracked(untracked);
    }

    fn note_untracked(&mut self, untracked: Untracked) {
        self.untracked_unreported |= untracked != self.untracked;
        self.untracked = untracked;
    }

    /// Drops an event of another machine for one of this machine's; among own ones, that with the latest deadline for
    /// one with an earlier one. What the host was told to prepare for is never dropped, nor what is gone and unreported.
    fn make_room_for(&mut self, event: &Event<'_>) -> bool {
        let deadline = |at: Option<i64>| at.unwrap_or(i64::MAX);
        let mut victim: Option<(u16, (bool, bool, i64))> = None;
        for (slot, work) in (0..self.tracker.slots_used()).zip(&self.work) {
            let Some(known) = self.tracker.get(slot) else { continue };
            if work.prepare_was_said() || known.is_gone() {
                continue;
            }
            let foreign = known.mine() != Some(true);
            let rank = (foreign, !known.is_approved(), deadline(known.not_before().map(|moment| moment.0)));
            if victim.is_none_or(|(_, highest)| rank > highest) {
                victim = Some((slot, rank));
            }
        }
        let new_deadline = deadline(event.not_before().moment().map(|moment| moment.0));
        match victim {
            Some((slot, (foreign, _, latest))) if foreign || new_deadline < latest => {
                self.drop_event(slot);
                true
            }
            _ => false,
        }
    }
}

fn cause_of(status: u16) -> Cause {
    if let 300..=303 | 305..=399 = status { Cause::Redirect(status) } else { Cause::Status(status) }
}

impl Documents {
    /// Whether the body of this hash is that of the document which was read last, and says nothing new.
    fn is_known(&mut self, hash: u64) -> bool {
        let known = self.newest == Some(hash) && !self.reread;
        if known {
            self.seen_again();
        }
        known
    }

    fn seen_again(&mut self) {
        self.fresh = false;
        self.stale_since = None;
    }

    /// Tells a new document from the one that is known and from one that was superseded.
    fn judge(&mut self, hash: u64, incarnation: Incarnation<'_>, now: UnixMillis) -> RequestOutcome {
        let reread = core::mem::take(&mut self.reread);
        if self.newest == Some(hash) {
            self.seen_again();
            // The same document is judged only where it is to be read again.
            return RequestOutcome::Document;
        }
        self.fresh = true;
        if incarnation != Incarnation::Absent && self.newest.is_some() && self.superseded.contains(&hash) {
            let since = *self.stale_since.get_or_insert(now);
            if now.millis_since(since) < u64::from(STALE_GRACE_MS) {
                self.reread = reread;
                return RequestOutcome::Stale;
            }
        }
        self.stale_since = None;
        if let Some(newest) = self.newest.replace(hash)
            && let Some(place) = self.superseded.get_mut(self.next)
        {
            *place = newest;
            self.next = self.next.saturating_add(1) % 4;
        }
        RequestOutcome::Document
    }

    /// Forgets which document was read last, so that the next poll is read in full.
    pub(super) fn reread(&mut self) {
        self.reread = true;
    }
}

impl Approvals {
    pub(super) fn push(&mut self, hash: u64) {
        if self.contains(hash) {
            return;
        }
        if let Some(place) = self.hashes.get_mut(usize::from(self.next)) {
            *place = hash;
        }
        self.next = self.next.saturating_add(1) % 16;
    }

    fn contains(&self, hash: u64) -> bool {
        self.hashes.contains(&hash)
    }
}
