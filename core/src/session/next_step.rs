//! Chooses the next step: reports, preparations and recoveries first, then approvals and polls.

use super::approvals::write_start_requests;
use super::event_progress::EventProgress;
use super::limits::TIMEOUT_MS;
use super::step::{Report, Step};
use super::{Request, Session};
use crate::time::UnixMillis;
use crate::tracker::Tracker;

impl<const N: usize> Session<N> {
    /// Returns what to do now. Call it after each result that is passed to the session, and when a wait is over.
    ///
    /// There is at most one request in progress: until its result is passed to the session, only other steps are
    /// returned.
    pub fn next(&mut self, now: UnixMillis) -> Step<'_> {
        self.pacer.set_clock(now);
        self.forget_finished_events();
        let acts = self.acts();
        if let Some(step) = next_event_step(&self.tracker, &mut self.progress, &mut self.first_active_slot, acts) {
            return step;
        }
        if let Some(&problem) = self.problems.get(self.problems_reported) {
            self.problems_reported = self.problems_reported.saturating_add(1);
            return Step::Report(Report::Problem(problem));
        }
        if core::mem::take(&mut self.untracked_unreported) {
            return Step::Report(Report::Untracked(self.untracked));
        }
        if self.awaits_answer() {
            return Step::Wait { until: now.plus(TIMEOUT_MS) };
        }
        let post_at = self.approve_at().map(|at| at.max(self.pacer.request_at()));
        let poll_at = self.pacer.poll_at();
        // Approvals come first, but they alternate with polls: otherwise approvals that keep failing would block polling.
        let poll_has_priority = poll_at <= now && self.pacer.posted_last();
        if post_at.is_some_and(|at| at <= now) && !poll_has_priority {
            let slots = self.due_approvals(now);
            if write_start_requests(&self.tracker, &slots, &mut self.body) {
                self.pacer.posted(now);
                self.request = Request::Post(slots);
                return Step::Post { body: &self.body, timeout_ms: TIMEOUT_MS };
            }
        }
        if poll_at <= now {
            self.pacer.polled(now);
            self.request = Request::Get;
            return Step::Get { timeout_ms: self.pacer.timeout_ms() };
        }
        Step::Wait { until: post_at.map_or(poll_at, |at| at.min(poll_at)) }
    }

    /// Whether the session prepares and approves: not in a dry run, and not by decisions made for other names.
    pub(super) const fn acts(&self) -> bool {
        !self.dry_run && !self.renamed
    }

    /// Forgets the gone events whose end was reported and which need no recovery.
    fn forget_finished_events(&mut self) {
        for slot in self.first_active_slot..self.tracker.slots_used() {
            if let (Some(event), Some(progress)) = (self.tracker.get(slot), self.progress.get(usize::from(slot)))
                && progress.is_finished(event)
            {
                self.forget_event(slot);
            }
        }
    }
}

/// The next step of the first event that has one. Steps of one event are issued in the order in which they happened.
///
/// The parts of the session are separate parameters since the step borrows the tracker only.
fn next_event_step<'s, const N: usize>(
    tracker: &'s Tracker<N>,
    progress: &mut [EventProgress],
    first_active_slot: &mut u16,
    acts: bool,
) -> Option<Step<'s>> {
    for slot in *first_active_slot..tracker.slots_used() {
        *first_active_slot = slot;
        if let (Some(event), Some(progress)) = (tracker.get(slot), progress.get_mut(usize::from(slot)))
            && let Some(step) = progress.next_step(event, acts)
        {
            return Some(step);
        }
    }
    *first_active_slot = tracker.slots_used();
    None
}
