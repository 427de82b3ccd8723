//! Chooses the next step: reports, preparations and recoveries first, then approvals and polls.

use super::approvals::write_start_requests;
use super::limits::{TIMEOUT_MS, WAIT_MAX_MS};
use super::pending::Context;
use super::recovering::Recovering;
use super::step::{Report, Step};
use super::{Request, Session, SessionSource};
use crate::time::UnixMillis;

impl<const N: usize> Session<N> {
    /// Returns what to do now, and records that it was issued: no step is issued twice, unless it is due again. Call it after each
    /// result that is passed to the session, and when a wait is over.
    ///
    /// There is at most one request in progress: until its result is passed to the session, only other steps are
    /// returned.
    pub fn take_step(&mut self, now: UnixMillis) -> Step<'_> {
        self.set_clock(now);
        self.forget_answered();
        self.forget_finished_events();
        let context = self.context(now);
        for (slot, progress) in (0..self.tracker.slots_used()).zip(&mut self.progress) {
            if let Some(event) = self.tracker.get(slot)
                && let Some(step) =
                    progress.next_step(event, context, &mut self.attempts, &mut self.machine)
            {
                return step;
            }
        }
        if let Some(command) = self.machine.command.as_mut()
            && command.take_cancellation()
        {
            return Step::Cancel {
                attempt: command.attempt,
            };
        }
        if self.machine.may_start(now) && self.may_recover() {
            let (tracked, dropped) = (self.tracker.slots(), self.last_ended.as_ref());
            if let Some(events) = Recovering::of(tracked, &self.progress, dropped) {
                let attempt = self.attempts.next();
                self.machine.start(attempt, now);
                return Step::Recover {
                    events,
                    own: true,
                    attempt,
                };
            }
        }
        if let Some(&problem) = self.problems.get(self.problems_reported) {
            self.problems_reported = self.problems_reported.saturating_add(1);
            return Step::Report(Report::Problem(problem));
        }
        if core::mem::take(&mut self.untracked_unreported) {
            return Step::Report(Report::Untracked(self.untracked));
        }
        if self.versions.take_report() {
            return Step::Report(Report::NoAdvice);
        }
        let wake_at = self.wake_at(now);
        if self.awaits_answer() {
            return Step::Wait {
                until: wake_at.min(now.plus(TIMEOUT_MS)),
            };
        }
        let post_at = self.approve_at(now).map(|at| at.max(self.pacer.post_at()));
        let is_polling = self.source != SessionSource::Notifications;
        let poll_at = if is_polling {
            self.pacer.poll_at()
        } else {
            now.plus(WAIT_MAX_MS)
        };
        let poll_has_priority = is_polling && self.pacer.poll_has_priority(now);
        let post_is_due = post_at.is_some_and(|at| at <= now);
        if post_is_due && !poll_has_priority {
            let slots = self.due_approvals(now);
            if write_start_requests(&self.tracker, &slots, &mut self.body) {
                self.pacer.posted(now);
                self.request = Request::Post(slots);
                return Step::Post {
                    body: &self.body,
                    api_version: self.versions.of_post(),
                    timeout_ms: TIMEOUT_MS,
                };
            }
        }
        if poll_at <= now {
            let timeout_ms = self.pacer.polled(now, post_is_due);
            self.polls = self.polls.wrapping_add(1);
            self.request = Request::Get;
            self.versions.choose(self.policy.names_advice(), now);
            return Step::Get {
                api_version: self.versions.of_poll(),
                timeout_ms,
            };
        }
        let post_at = post_at.filter(|_| !poll_has_priority);
        Step::Wait {
            until: post_at.map_or(poll_at, |at| at.min(poll_at)).min(wake_at),
        }
    }

    pub(super) fn context(&self, now: UnixMillis) -> Context {
        Context {
            now,
            time_of_day: self.time_of_day(now),
            acts: self.acts(),
            has_gate: self.has_gate,
            last_call: self.last_call,
        }
    }

    /// Whether the session prepares and approves: not in a dry run, and not by decisions made for other names.
    pub(super) const fn acts(&self) -> bool {
        !self.dry_run && !self.is_undecided
    }

    fn set_clock(&mut self, now: UnixMillis) {
        self.pacer.set_clock(now);
        if core::mem::take(&mut self.is_restored) {
            for progress in &mut self.progress {
                progress.resume(now);
            }
        }
        if now < self.clock {
            self.machine.set_clock(now);
            for progress in &mut self.progress {
                progress.set_clock(now);
            }
        }
        self.clock = now;
    }

    /// The next time at which a step of an event, or the recovery of this machine, may become due by itself.
    fn wake_at(&self, now: UnixMillis) -> UnixMillis {
        let context = self.context(now);
        let events = self
            .tracked()
            .filter_map(|(_, event, progress)| progress.wake_at(event, context, &self.machine));
        let retry = self.machine.retry_at().filter(|&at| at > now);
        events.chain(retry).min().unwrap_or(UnixMillis(i64::MAX))
    }

    /// Forgets the gone events whose end was reported and which need no recovery. One that is being approved is kept for the
    /// answer.
    fn forget_finished_events(&mut self) {
        for slot in 0..self.tracker.slots_used() {
            if let (Some(event), Some(progress)) =
                (self.tracker.get(slot), self.progress.get(usize::from(slot)))
                && progress.is_finished(event)
                && !self.is_being_approved(slot)
            {
                self.forget_event(slot);
            }
        }
    }

    /// Whether nothing keeps this machine out of service. Before the first document after the start, and after the names
    /// changed, that is not known.
    pub(super) fn may_recover(&self) -> bool {
        let has_read = self.documents.has_read_one() || self.source == SessionSource::Notifications;
        let is_known = !self.is_undecided && has_read;
        is_known
            && !self
                .tracked()
                .any(|(_, event, progress)| progress.keeps_out(event))
    }
}
