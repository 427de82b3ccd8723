//! Updates the tracked events from notifications: what Event Grid and Resource Graph say outside the machine.
//!
//! They feed the same events, decisions and steps as documents do. Two things differ: the end of an event is reported, and an
//! event that is not mentioned is not over. With both sources, the document decides what an event is, since it is newer than
//! any notification, and the first of the two says that it is over.

use crate::document::Document;
use crate::event::Event;
use crate::names::VmNames;
use crate::notification::{Arrival, Notification, NotificationState};
use crate::session::{Session, SessionSource};
use crate::time::UnixMillis;
use crate::tracker::{Change, Flags, TrackedStatus};
use crate::words::words;

/// What a session made of a notification.
///
/// ```
/// use scheduled_events_core::{
///     NotificationOrder, NotificationOutcome, Notifications, Session, SessionConfig, SessionSource, UnixMillis, VmNames,
/// };
///
/// let config = SessionConfig { source: SessionSource::Notifications, ..SessionConfig::new(VmNames::new(&["vm"])) };
/// let mut session = Session::<16>::new(&config)?;
/// let mut order = NotificationOrder::<64>::new();
/// // An event that is over before it was known.
/// let body = br#"{"type":"microsoft.maintenance/scheduledevents","properties":{"EventId":"a","EventStatus":"Completed"}}"#;
/// let notification = Notifications::parse(body)?.iter().next().unwrap();
/// let outcome = session.on_notification(&notification, order.observe(&notification), UnixMillis(0));
/// assert_eq!(outcome, NotificationOutcome::Ignored);
/// assert_eq!(outcome.word(), "ignored");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum NotificationOutcome {
    /// The event is tracked, and is as the notification says. If it is over, its end is reported next.
    Applied,
    /// The notification is late, its event is over or was never tracked, a document says more about it, or the session's
    /// source is documents alone.
    Ignored,
    /// The session tracks as many events as it can. Pass the notification again when one of them is over.
    Untracked,
}

words!(NotificationOutcome {
    Applied => "applied",
    Ignored => "ignored",
    Untracked => "untracked",
});

impl<const N: usize> Session<N> {
    /// Applies a notification, if the session's [`source`](crate::SessionConfig::source) includes notifications. Then call
    /// [`take_step`](Self::take_step), as after each result.
    ///
    /// `arrival` is what a [`NotificationOrder`](crate::NotificationOrder) or an [`EventOrder`](crate::EventOrder) returned:
    /// one that is late changes nothing. Repeated ones may be passed, and have to be after a restart: as with documents,
    /// nothing is approved before its event was seen again.
    ///
    /// A session compares the names in `Resources` alone, and machines of two resource groups can have the same name: pass the
    /// notifications of this machine only, as [`Notification::machines`] has it.
    ///
    /// ```
    /// use scheduled_events_core::{
    ///     Action, NotificationOrder, NotificationOutcome, Notifications, Policy, Preparation, Response, Rule, Session, SessionConfig,
    ///     SessionSource, Step, UnixMillis, VmNames,
    /// };
    ///
    /// // A machine without an agent: it is drained, approved and taken back into service from outside.
    /// let policy = Policy::new(&[Rule::new(Action::Prepare)])?;
    /// let source = SessionSource::Notifications;
    /// let mut session = Session::<16>::new(&SessionConfig { policy, source, ..SessionConfig::new(VmNames::new(&["db-1"])) })?;
    /// let mut order = NotificationOrder::<64>::new();
    /// let (now, mut done) = (UnixMillis(1_600_000_000_000), Vec::new());
    /// for status in ["Scheduled", "Started", "Completed"] {
    ///     let body = format!(r#"{{"type":"microsoft.maintenance/scheduledevents","properties":{{"EventId":"a",
    ///         "EventStatus":"{status}","EventType":"Reboot","Resources":["db-1"]}}}}"#);
    ///     for notification in &Notifications::parse(body.as_bytes())? {
    ///         let arrival = order.observe(&notification);
    ///         assert_eq!(session.on_notification(&notification, arrival, now), NotificationOutcome::Applied);
    ///     }
    ///     loop {
    ///         match session.take_step(now) {
    ///             Step::Report(report) => done.push(report.to_string()),
    ///             Step::Prepare { attempt, .. } => drop(session.prepared(attempt, Preparation::Ready)),
    ///             Step::Post { .. } => {
    ///                 // Send what `approval::acknowledge` writes for these ids.
    ///                 done.push(format!("approve {}", session.posted().next().unwrap()));
    ///                 session.on_response(&Response { status: 200, ..Response::default() }, now);
    ///             }
    ///             Step::Recover { attempt, .. } => drop(session.recovered(attempt, true, now)),
    ///             Step::Wait { .. } => break, // there is nothing to poll
    ///             step => unreachable!("{step:?}"),
    ///         }
    ///     }
    /// }
    /// assert_eq!(done, ["a: scheduled", "a: prepare (a rule matches)", "approve a", "a: started", "a: completed"]);
    /// assert!(session.is_idle() && session.in_service_since() == Some(now));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_notification(
        &mut self,
        notification: &Notification<'_>,
        arrival: Arrival,
        now: UnixMillis,
    ) -> NotificationOutcome {
        self.forget_answered();
        if self.source == SessionSource::Documents || arrival == Arrival::Late {
            return NotificationOutcome::Ignored;
        }
        let slot = self.tracker.find_text(&notification.event().event_id());
        let known = slot.and_then(|slot| Some((slot, self.tracker.get(slot)?)));
        match known {
            // Events do not return outside.
            Some((_, event)) if event.is_gone() => NotificationOutcome::Ignored,
            Some((slot, _)) if notification.state().is_end() => {
                self.end_notified(slot, notification.state(), now);
                NotificationOutcome::Applied
            }
            Some((_, event))
                if self.source == SessionSource::Both && !event.flags.has(Flags::NOTIFIED) =>
            {
                NotificationOutcome::Ignored
            }
            None if notification.state().is_end() => NotificationOutcome::Ignored,
            known => {
                let slot = known.map(|(slot, _)| slot);
                self.with_names(|session, names| {
                    session.apply_notified(slot, notification.event(), names, now)
                })
            }
        }
    }

    /// Updates or starts to track an event that is not over.
    fn apply_notified(
        &mut self,
        slot: Option<u16>,
        event: &Event<'_>,
        names: VmNames<'_>,
        now: UnixMillis,
    ) -> NotificationOutcome {
        let time_of_day = self.time_of_day(now);
        if let Some(slot) = slot {
            if let Some(tracked) = self.tracker.get_mut(slot)
                && let Some(progress) = self.progress.get_mut(usize::from(slot))
            {
                let difference = tracked.seen_again(event, names);
                if !difference.changes.is_empty() || difference.voids_preparation {
                    progress.changed(
                        difference.changes,
                        difference.voids_preparation,
                        time_of_day,
                    );
                }
            }
        } else {
            let is_own = names.owns(event) == Some(true);
            if self.tracker.len() >= N && !self.evict_ended() {
                if !(is_own && self.evict_for(event)) {
                    return NotificationOutcome::Untracked;
                }
                // An unchanged document, too, may have the event that was dropped, and counts it then.
                self.documents.apply_again();
            }
            self.track(event, names, now);
        }
        self.event_seen = true;
        let was_out = self.machine.is_due();
        if let Some(slot) = self.tracker.find_text(&event.event_id()) {
            self.decide_about(slot, event, names, was_out, time_of_day, now);
            if let Some(tracked) = self.tracker.get_mut(slot) {
                tracked.flags.set(Flags::PRESENT, false);
                tracked.flags.set(Flags::NOTIFIED, true);
            }
        }
        NotificationOutcome::Applied
    }

    /// Records the end of the event in this slot.
    fn end_notified(&mut self, slot: u16, state: NotificationState<'_>, now: UnixMillis) {
        let is_out = self.machine.is_due();
        let may_return = self.source == SessionSource::Both;
        if let Some(event) = self.tracker.get_mut(slot)
            && let Some(progress) = self.progress.get_mut(usize::from(slot))
        {
            let is_canceled =
                state == NotificationState::Canceled && event.status != TrackedStatus::Started;
            let end = if event.is_advice() {
                Change::AdviceWithdrawn
            } else if is_canceled {
                Change::Cancelled
            } else {
                Change::Completed
            };
            event.flags.set(Flags::GONE, true);
            event.flags.set(Flags::END_NOTIFIED, may_return);
            progress.changes.insert(end);
            progress.gone(is_out, now);
            // An unchanged document, too, may not have the event.
            self.documents.apply_again();
        }
    }

    /// Whether the document's silence about the event in this slot ends it: not if only notifications have shown it.
    pub(super) fn is_ended_by_absence(&self, slot: u16) -> bool {
        self.source != SessionSource::Both
            || self
                .tracker
                .get(slot)
                .is_some_and(|event| !event.flags.has(Flags::NOTIFIED))
    }

    /// Lets go of the events whose end was reported, once the document does not have them any more: it may still show them for a
    /// while, and they have not returned then.
    #[cold]
    pub(super) fn release_notified_ends(&mut self, document: &Document<'_>) {
        for event in document.events() {
            if let Some(slot) = self.tracker.find_text(&event.event_id())
                && let Some(known) = self
                    .tracker
                    .get_mut(slot)
                    .filter(|known| known.flags.has(Flags::END_NOTIFIED))
            {
                known.flags.set(Flags::PRESENT, true);
            }
        }
        for slot in 0..self.tracker.slots_used() {
            if let Some(known) = self
                .tracker
                .get_mut(slot)
                .filter(|known| known.flags.has(Flags::END_NOTIFIED))
            {
                let is_present = known.flags.has(Flags::PRESENT);
                known.flags.set(Flags::END_NOTIFIED, is_present);
                known.flags.set(Flags::PRESENT, false);
            }
        }
    }
}
