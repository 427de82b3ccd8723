//! Updates the tracked events: this file from a new document, `notified` from notifications outside the machine.

mod notified;

pub use notified::NotificationOutcome;

use super::event_progress::{EventProgress, deadline};
use super::limits::PROBLEMS_MAX;
use super::{Session, SessionSource, Untracked};
use crate::document::Document;
use crate::event::{Event, EventStatus, Member, Problem, ProblemKind};
use crate::names::VmNames;
use crate::time::{UnixMillis, UnixSeconds};
use crate::tracker::{Flags, TrackedStatus, is_over};

impl<const N: usize> Session<N> {
    /// Applies a document: changes and ends of tracked events, then new events, problems and decisions. Problems are
    /// reported only for a document that is `new`, not for one that is applied again. One `without_advice` ends none.
    pub(in crate::session) fn apply_document(
        &mut self,
        document: &Document<'_>,
        names: VmNames<'_>,
        new: bool,
        without_advice: bool,
        now: UnixMillis,
    ) {
        let time_of_day = self.time_of_day(now);
        let is_out = self.machine.is_due();
        let progress = &mut self.progress;
        let seen = self
            .tracker
            .observe_known(document, names, |slot, difference, _| {
                if let Some(progress) = progress.get_mut(usize::from(slot)) {
                    progress.changed(
                        difference.changes,
                        difference.voids_preparation,
                        time_of_day,
                    );
                    if difference.changes.has_end() {
                        progress.gone(is_out, now);
                    }
                }
            });
        for slot in 0..self.tracker.slots_used() {
            self.end_if_absent(slot, without_advice, time_of_day, now);
        }
        if self.source == SessionSource::Both {
            self.release_notified_ends(document);
        }
        if seen.new > 0 {
            self.track_new_events(document, names, now);
        } else {
            self.set_untracked(Untracked::default());
        }
        self.open_events = seen.open;
        self.event_seen |= seen.open > 0;
        if new {
            self.problems.clear();
            self.problems_reported = 0;
            for problem in document.problems().take(PROBLEMS_MAX) {
                // The list has this capacity.
                let _ = self.problems.push(problem);
            }
        }
        self.decide(document, names, new, time_of_day, now);
        self.is_undecided = false;
    }

    /// Ends the event in this slot if the document lacks it: not advice if the document is `without_advice`, and maintenance only once
    /// the document is not outdated, which one of another version than before may be.
    fn end_if_absent(
        &mut self,
        slot: u16,
        without_advice: bool,
        time_of_day: UnixSeconds,
        now: UnixMillis,
    ) {
        let Some(event) = self.tracker.get(slot).filter(|event| !event.is_gone()) else {
            return;
        };
        let (is_present, is_advice) = (event.flags.has(Flags::PRESENT), event.is_advice());
        let is_ended = self.is_ended_by_absence(slot) && !(without_advice && is_advice);
        let Some(progress) = self.progress.get_mut(usize::from(slot)) else {
            return;
        };
        if is_present || !is_ended {
            progress.present();
            return;
        }
        // What advice says counts for less, and only documents of one version say it.
        if !is_advice {
            let since = progress.absent(now);
            if self.documents.may_be_outdated(since, now) {
                self.documents.apply_again();
                return;
            }
        }
        if let Some(change) = self.tracker.end_if_absent(slot, time_of_day) {
            progress.changes.insert(change);
            progress.gone(self.machine.is_due(), now);
        }
    }

    /// Tracks the events that are new: this machine's own first, then those of other machines while there is capacity.
    fn track_new_events(&mut self, document: &Document<'_>, names: VmNames<'_>, now: UnixMillis) {
        // An own event with this deadline or a later one finds no capacity: known after the first that did not.
        let mut full_for: Option<i64> = None;
        for own in [true, false] {
            for event in document.events_for(names).filter(|event| !is_over(event)) {
                if (names.owns(&event) == Some(true)) != own {
                    continue;
                }
                match self.tracker.find_text(&event.event_id()) {
                    Some(slot) => self.renew(slot, &event, names, now),
                    None if self.tracker.len() < N || self.evict_ended() => {
                        self.track(&event, names, now);
                    }
                    None if own => {
                        let deadline = deadline(event.not_before().moment());
                        if full_for.is_some_and(|full| full <= deadline) {
                            continue;
                        }
                        if self.evict_for(&event) {
                            self.track(&event, names, now);
                        } else {
                            full_for = Some(deadline);
                        }
                    }
                    None => {}
                }
            }
        }
        let mut untracked = Untracked::default();
        // Counted last, since an event may have been evicted for a later one.
        for event in document.events_for(names).filter(|event| !is_over(event)) {
            if self.tracker.find_text(&event.event_id()).is_none() {
                let own = names.owns(&event) == Some(true);
                let count = if own {
                    &mut untracked.own
                } else {
                    &mut untracked.others
                };
                *count = count.saturating_add(1);
            }
        }
        if untracked != Untracked::default() {
            self.documents.apply_again();
        }
        self.set_untracked(untracked);
    }

    pub(in crate::session) fn track(
        &mut self,
        event: &Event<'_>,
        names: VmNames<'_>,
        now: UnixMillis,
    ) {
        let Some((slot, change)) = self.tracker.insert(event, names) else {
            return;
        };
        let mut progress = EventProgress::new(now, self.time_of_day(now));
        progress.changes.insert(change);
        self.set_progress(slot, progress);
        if let Some(event) = self.tracker.get_mut(slot)
            && self.approved_ids.contains(event.event_id.hash())
        {
            event.flags.set(Flags::APPROVED, true);
        }
    }

    /// Starts anew with a tracked event that was gone and has returned.
    fn renew(&mut self, slot: u16, event: &Event<'_>, names: VmNames<'_>, now: UnixMillis) {
        if self
            .tracker
            .get(slot)
            .is_none_or(|event| !event.is_gone() || event.flags.has(Flags::END_NOTIFIED))
        {
            return;
        }
        let time_of_day = self.time_of_day(now);
        if let Some(change) = self.tracker.renew(slot, event, names)
            && let Some(progress) = self.progress.get_mut(usize::from(slot))
        {
            progress.renew(now, time_of_day);
            progress.changes.insert(change);
        }
    }

    /// Stops tracking an event that ended: one about which nothing is left to do, else the oldest of those that would only be
    /// named by the next recovery of this machine.
    pub(in crate::session) fn evict_ended(&mut self) -> bool {
        let is_free = |slot| !self.is_being_approved(slot);
        let finished = self
            .tracked()
            .find(|(slot, known, progress)| progress.is_finished(known) && is_free(*slot));
        if let Some((slot, _, _)) = finished {
            self.evict(slot);
            return true;
        }
        let ended = self
            .tracked()
            .filter(|(_, known, progress)| {
                known.is_gone() && progress.changes.is_empty() && progress.is_at_rest()
            })
            .filter(|(slot, _, _)| is_free(*slot));
        let Some((_, slot)) = ended
            .filter_map(|(slot, _, progress)| Some((progress.ended?, slot)))
            .min()
        else {
            return false;
        };
        self.evict(slot);
        true
    }

    /// Stops tracking an event. If the next recovery names it, it still does.
    pub(in crate::session) fn evict(&mut self, slot: u16) {
        if self
            .progress
            .get(usize::from(slot))
            .is_some_and(|progress| progress.ended.is_some())
        {
            self.last_ended = self.tracker.get(slot).cloned();
        }
        self.forget_event(slot);
    }

    /// Stops tracking an event in favour of this machine's `event`: one of another machine, open ones first, else the own event with
    /// the latest deadline if that is later than the deadline of `event`. Own events that are gone are not evicted, nor are those
    /// that are being approved.
    pub(in crate::session) fn evict_for(&mut self, event: &Event<'_>) -> bool {
        let candidates = || {
            self.tracked()
                .filter(|(slot, _, _)| !self.is_being_approved(*slot))
        };
        let open = candidates().filter(|(_, known, _)| !known.is_gone());
        let ranked = open
            .filter_map(|(slot, known, progress)| Some((progress.dispensability(known)?, slot)));
        let dispensable = ranked.max_by_key(|(rank, slot)| (*rank, core::cmp::Reverse(*slot)));
        // A document may still have it, and it is not new then unless there is capacity.
        let end = candidates()
            .find(|(_, known, progress)| known.mine() != Some(true) && progress.is_over(known));
        let slot = match (dispensable, end) {
            (Some(((true, ..), slot)), _) | (_, Some((slot, ..))) => Some(slot),
            (Some(((_, _, latest), slot)), None)
                if deadline(event.not_before().moment()) < latest =>
            {
                Some(slot)
            }
            _ => None,
        };
        if let Some(slot) = slot {
            self.evict(slot);
        }
        slot.is_some()
    }

    fn set_untracked(&mut self, untracked: Untracked) {
        self.untracked_unreported |= untracked != self.untracked;
        self.untracked = untracked;
    }

    /// Decides about each tracked event of the document. If an id is repeated, the first event with it counts, and each
    /// further one is a problem.
    fn decide(
        &mut self,
        document: &Document<'_>,
        names: VmNames<'_>,
        new: bool,
        time_of_day: UnixSeconds,
        now: UnixMillis,
    ) {
        let mut apply_again = false;
        // Whatever the order of the events.
        let was_out = self.machine.is_due();
        for event in document.events_for(names) {
            let Some(slot) = self.tracker.find_text(&event.event_id()) else {
                continue;
            };
            let Some(tracked) = self
                .tracker
                .get_mut(slot)
                .filter(|tracked| !tracked.is_gone())
            else {
                continue;
            };
            if is_over(&event) || !tracked.flags.has(Flags::PRESENT) {
                if new {
                    // Beyond the capacity, further problems are not reported.
                    let _ = self.problems.push(repeated(&event));
                }
                continue;
            }
            tracked.flags.set(Flags::PRESENT, false);
            tracked.flags.set(Flags::NOTIFIED, false);
            apply_again |= self.decide_about(slot, &event, names, was_out, time_of_day, now);
        }
        if apply_again {
            self.documents.apply_again();
        }
    }

    /// Decides about a tracked event. Returns whether that has to be done again although the document does not change.
    /// `was_out` is whether this machine was out of service before.
    pub(in crate::session) fn decide_about(
        &mut self,
        slot: u16,
        event: &Event<'_>,
        names: VmNames<'_>,
        was_out: bool,
        time_of_day: UnixSeconds,
        now: UnixMillis,
    ) -> bool {
        let Some(progress) = self.progress.get_mut(usize::from(slot)) else {
            return false;
        };
        let Some(tracked) = self.tracker.get(slot) else {
            return false;
        };
        // The clock may have been set back during a restart.
        progress.first_seen = progress.first_seen.min(now);
        progress.noticed = progress.noticed.min(time_of_day);
        // An event whose `Resources` cannot be read, or are empty, may still affect this machine.
        let is_unclear =
            event.has_problem(Member::Resources) || event.resources().into_iter().next().is_none();
        let mine = names.owns(event).filter(|mine| *mine || !is_unclear);
        progress.adopt(mine, &mut self.machine, now);
        let apply_again = progress.named(mine, was_out, now);
        let has_started = tracked.status == TrackedStatus::Started;
        if progress.own
            && has_started
            && self.recover_all
            && !self.dry_run
            && !self.machine.is_due()
        {
            self.machine.require(now);
        }
        if !has_started || event.event_status() == Some(EventStatus::Started) {
            let decision = self
                .policy
                .decide_noticed(event, names, time_of_day, progress.noticed);
            progress.decide(decision);
        }
        if progress.is_too_early(time_of_day)
            && progress.prepare_was_issued()
            && !tracked.is_approved()
        {
            progress.release(now);
        }
        apply_again
    }
}

/// The problem of an event whose id an earlier event of the document has.
fn repeated(event: &Event<'_>) -> Problem {
    let (event, offset) = (Some(event.index()), event.id_offset());
    Problem {
        event,
        member: Some(Member::EventId),
        offset,
        kind: ProblemKind::Repeated,
    }
}
