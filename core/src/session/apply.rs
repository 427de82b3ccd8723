//! Updates the tracked events from a new document.

use super::event_progress::EventProgress;
use super::limits::PROBLEMS_MAX;
use super::{Session, Untracked};
use crate::document::Document;
use crate::event::{Event, EventStatus, Member, Problem, ProblemKind};
use crate::names::VmNames;
use crate::time::{UnixMillis, UnixSeconds};
use crate::tracker::{Flags, TrackedEvent, TrackedStatus, is_over};

impl<const N: usize> Session<N> {
    /// Applies a document: changes and ends of tracked events, then new events, problems and decisions. Problems are
    /// reported only for a document that is `new`, not for one that is applied again.
    pub(super) fn apply_document(&mut self, document: &Document<'_>, names: VmNames<'_>, new: bool, now: UnixMillis) {
        let time_of_day = UnixMillis(now.0.saturating_add(self.time_of_day_ahead_ms)).seconds();
        let progress = &mut self.progress;
        let seen = self.tracker.observe_known(document, names, |slot, change, _| {
            if let Some(progress) = progress.get_mut(usize::from(slot)) {
                progress.change = Some(change);
            }
        });
        for slot in 0..self.tracker.slots_used() {
            if let Some(change) = self.tracker.end_if_absent(slot, time_of_day)
                && let Some(progress) = self.progress.get_mut(usize::from(slot))
            {
                progress.change = Some(change);
            }
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
        self.renamed = false;
        self.first_active_slot = 0;
    }

    /// Tracks the events that are new: this machine's own first, then those of other machines while there is capacity.
    fn track_new_events(&mut self, document: &Document<'_>, names: VmNames<'_>, now: UnixMillis) {
        let mut returned = false;
        for own in [true, false] {
            for event in document.events().filter(|event| !is_over(event)) {
                if (names.owns(&event) == Some(true)) != own {
                    continue;
                }
                if let Some(slot) = self.tracker.find_text(&event.event_id()) {
                    // A gone event that returned before it was forgotten is tracked by the next poll after that.
                    returned |= self.tracker.get(slot).is_some_and(TrackedEvent::is_gone);
                    continue;
                }
                if self.tracker.len() < N || own && self.evict_for(&event) {
                    self.track(&event, names, now);
                }
            }
        }
        let mut untracked = Untracked::default();
        // Counted last, since an event may have been evicted for a later one.
        for event in document.events().filter(|event| !is_over(event)) {
            if self.tracker.find_text(&event.event_id()).is_none() {
                let own = names.owns(&event) == Some(true);
                let count = if own { &mut untracked.own } else { &mut untracked.others };
                *count = count.saturating_add(1);
            }
        }
        if returned || untracked != Untracked::default() {
            self.documents.apply_again();
        }
        self.set_untracked(untracked);
    }

    fn track(&mut self, event: &Event<'_>, names: VmNames<'_>, now: UnixMillis) {
        let Some((slot, change)) = self.tracker.insert(event, names) else { return };
        let mut progress = EventProgress::new(now);
        progress.change = Some(change);
        self.set_progress(slot, progress);
        if let Some(event) = self.tracker.get_mut(slot)
            && self.approved_ids.contains(event.event_id.hash())
        {
            event.flags.set(Flags::APPROVED, true);
        }
    }

    /// Stops tracking an event in favour of this machine's `event`: one of another machine, else the own event with the
    /// latest deadline if that is later than the deadline of `event`. Approved events are evicted last. Events for which
    /// a preparation was issued and gone events that are still to be reported are never evicted.
    fn evict_for(&mut self, event: &Event<'_>) -> bool {
        let deadline = |at: Option<UnixSeconds>| at.map_or(i64::MAX, |at| at.0);
        let candidates =
            self.tracked().filter(|(_, known, progress)| !progress.prepare_was_issued() && !known.is_gone());
        let mut victim: Option<(u16, (bool, bool, i64))> = None;
        for (slot, known, _) in candidates {
            let foreign = known.mine() != Some(true);
            let rank = (foreign, !known.is_approved(), deadline(known.not_before()));
            if victim.is_none_or(|(_, highest)| rank > highest) {
                victim = Some((slot, rank));
            }
        }
        match victim {
            Some((slot, (foreign, _, latest))) if foreign || deadline(event.not_before().moment()) < latest => {
                self.forget_event(slot);
                true
            }
            _ => false,
        }
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
        for event in document.events() {
            let Some(slot) = self.tracker.find_text(&event.event_id()) else { continue };
            let Some(progress) = self.progress.get_mut(usize::from(slot)) else { continue };
            let Some(tracked) = self.tracker.get_mut(slot).filter(|tracked| !tracked.is_gone()) else { continue };
            if is_over(&event) || !tracked.flags.has(Flags::PRESENT) {
                if new {
                    // Beyond the capacity, further problems are not reported.
                    let _ = self.problems.push(repeated(&event));
                }
                continue;
            }
            tracked.flags.set(Flags::PRESENT, false);
            // The clock may have been set back during a restart.
            progress.first_seen = progress.first_seen.min(now);
            let has_unstarted =
                tracked.status == TrackedStatus::Started && event.event_status() != Some(EventStatus::Started);
            if !has_unstarted {
                progress.decide(self.policy.decide(&event, names, time_of_day));
            }
        }
    }
}

/// The problem of an event whose id an earlier event of the document has.
fn repeated(event: &Event<'_>) -> Problem {
    let (event, offset) = (Some(event.index()), event.id_offset());
    Problem { event, member: Some(Member::EventId), offset, kind: ProblemKind::Repeated }
}
