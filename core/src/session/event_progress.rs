//! How far the session has got with one event.

use super::command::{AnswerOutcome, Command, GatePhase, Preparation};
use super::gate::{Gate, GateAnswer};
use super::limits::{LEAVE_MS, PREPARE_RETRY_FIRST_MS, PREPARE_RETRY_MAX_MS};
use super::recovery::Recovery;
use crate::policy::{Action, Decision, Reason};
use crate::time::{UnixMillis, UnixSeconds};
use crate::tracker::{Change, Changes, Flags, TrackedEvent, TrackedStatus};

/// Everything that a session keeps about one tracked event, in addition to what the tracker keeps.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // They are independent of each other.
pub(super) struct EventProgress {
    pub(super) first_seen: UnixMillis,
    /// The time of day at which the event's `NotBefore` was first seen.
    pub(super) noticed: UnixSeconds,
    /// The changes that are not reported yet.
    pub(super) changes: Changes,
    /// The decision about the event in the newest document. `None` until the first document after a start: until then,
    /// nothing is prepared or approved.
    pub(super) decision: Option<Decision>,
    pub(super) decision_unreported: bool,
    pub(super) preparation: PreparationState,
    /// The preparations for the event as it is that failed.
    pub(super) failed: FailedPreparations,
    /// The preparation that the host runs, possibly a cancelled one.
    pub(super) command: Option<Command>,
    pub(super) gate: Gate,
    /// The question to the gate that has no answer yet. It may be cancelled. After the last call, the preparation does not wait
    /// for it.
    pub(super) question: Option<(GatePhase, Command)>,
    /// The machine prepares, or has prepared, by the last call: the gate has not answered yes since.
    pub(super) by_last_call: bool,
    /// Whether the event is this machine's: an event that names it, until it does not any more for some time.
    pub(super) own: bool,
    /// Since when an own event does not name this machine, or documents lack the event and do not end it yet: they may be outdated.
    doubtful_since: Option<UnixMillis>,
    /// Whether the newest document lacks the event.
    is_absent: bool,
    /// When the event ended, if the next recovery of this machine is also for it.
    pub(super) ended: Option<UnixMillis>,
    /// The recovery of another machine from its event.
    pub(super) recovery: Recovery,
    /// How many approvals of this event failed in a row.
    pub(super) approval_failures: u8,
    /// When the preparation or the approval that failed is tried again at the earliest: only one of them can be due.
    pub(super) retry_at: UnixMillis,
}

/// How far the preparation for an event is. The numbers are those in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreparationState {
    /// `Step::Prepare` was not issued.
    NotIssued = 0,
    /// `Step::Prepare` was issued, and the host has not reported a result.
    Running = 1,
    /// `Step::Prepare` was issued, and its result does not count: a restart interrupted the preparation, or the event is
    /// another one than the host prepared for.
    Void = 2,
    /// The host is ready.
    Ready = 3,
    /// The preparation failed, and is issued again as long as there is time.
    Failed = 4,
    /// The preparation failed for good.
    Abandoned = 5,
}

/// The preparations that failed in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FailedPreparations {
    /// How long the last one took, in milliseconds.
    pub(super) took: u32,
    pub(super) count: u8,
}

impl FailedPreparations {
    /// Counts another one, which began at `since`. Returns after how many milliseconds the next one is issued.
    fn add(&mut self, since: UnixMillis, now: UnixMillis) -> u32 {
        self.count = self.count.saturating_add(1);
        self.took = u32::try_from(now.millis_since(since)).unwrap_or(u32::MAX);
        self.delay()
    }

    /// How many milliseconds after the last one the next one is issued.
    fn delay(self) -> u32 {
        let doublings = u32::from(self.count.saturating_sub(1).min(8));
        (PREPARE_RETRY_FIRST_MS << doublings).min(PREPARE_RETRY_MAX_MS)
    }

    /// Whether one has failed, and none has succeeded since.
    pub(super) const fn is_any(self) -> bool {
        self.count > 0
    }

    /// Whether an attempt at the time `at` would end before the event starts, if it takes as long as the last one.
    fn fits_in(self, at: UnixMillis, start: Option<UnixMillis>) -> bool {
        start.is_none_or(|start| at < start && u64::from(self.took) <= start.millis_since(at))
    }

    /// When the next one is issued, which is due at `due`: earlier if it would no longer fit in then, half-way to the last
    /// moment at which it fits, so that a later look is not too late for it. `None` if none fits in.
    pub(super) fn next_at(
        self,
        due: UnixMillis,
        start: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Option<UnixMillis> {
        let at = match start {
            Some(start) if !self.fits_in(due, Some(start)) => {
                let last = start.0.saturating_sub(i64::from(self.took));
                let failed = due.0.saturating_sub(i64::from(self.delay()));
                let spare = last.saturating_sub(failed);
                // Short ones would follow each other closer and closer.
                if spare < PREPARE_SPARE_MIN_MS && i64::from(self.took) < PREPARE_SPARE_MIN_MS {
                    return None;
                }
                UnixMillis(failed.saturating_add(spare.max(0) / 2))
            }
            _ => due,
        };
        let at = at.max(now);
        self.fits_in(at, start).then_some(at)
    }
}

/// With less time to spare, a preparation that fails as fast is not tried once more before the start.
const PREPARE_SPARE_MIN_MS: i64 = 1_000;

/// Nothing has to be waited for, as after a restart.
const AT_ONCE: UnixMillis = UnixMillis(i64::MIN);

impl EventProgress {
    pub(super) fn new(first_seen: UnixMillis, noticed: UnixSeconds) -> Self {
        Self {
            first_seen,
            noticed,
            changes: Changes::default(),
            decision: None,
            decision_unreported: false,
            preparation: PreparationState::NotIssued,
            failed: FailedPreparations::default(),
            command: None,
            gate: Gate::default(),
            question: None,
            by_last_call: false,
            own: false,
            doubtful_since: None,
            is_absent: false,
            ended: None,
            recovery: Recovery::default(),
            approval_failures: 0,
            retry_at: AT_ONCE,
        }
    }

    /// Starts anew for a gone event that has returned under its id. What the host still runs for it is cancelled, and a
    /// recovery that is due remains due.
    pub(super) fn renew(&mut self, first_seen: UnixMillis, noticed: UnixSeconds) {
        self.cancel_command();
        if let Some(recovery) = &mut self.recovery.command {
            recovery.cancel();
        }
        *self = Self {
            command: self.command,
            question: self.question,
            ended: self.ended,
            recovery: self.recovery.clone(),
            ..Self::new(first_seen, noticed)
        };
    }

    /// Records the decision about the event in the newest document.
    pub(super) fn decide(&mut self, decision: Decision) {
        if !self.decision.is_some_and(|known| known.same_as(&decision)) {
            // The change `started` already reports why a known event is now held.
            let known_started =
                self.decision.is_some() && decision.reason == Reason::AlreadyStarted;
            // After a restart. It was reported before, and nothing will be prepared.
            let is_abandoned = self.decision.is_none()
                && decision.action == Action::Prepare
                && self.preparation == PreparationState::Abandoned;
            self.decision_unreported |= !known_started && !is_abandoned;
        }
        self.decision = Some(decision);
    }

    /// Applies what a document or a notification changed about the event. One may come before the changes of the other are
    /// reported.
    pub(super) fn changed(
        &mut self,
        changes: Changes,
        voids_preparation: bool,
        time_of_day: UnixSeconds,
    ) {
        self.changes.extend(changes);
        if changes.iter().any(|change| change == Change::Rescheduled) {
            self.noticed = time_of_day;
        }
        self.gate = Gate::default();
        if let Some((_, question)) = &mut self.question {
            question.cancel();
        }
        if voids_preparation {
            self.void_preparation();
        }
        // A preparation that has not begun is for the event as it is now.
        self.by_last_call &= !matches!(
            self.preparation,
            PreparationState::NotIssued | PreparationState::Void
        );
    }

    /// Records that the result of the preparation does not count, if there is one.
    pub(super) fn void_preparation(&mut self) {
        self.cancel_command();
        if self.prepare_was_issued() {
            self.forget_failures();
            self.preparation = PreparationState::Void;
            self.by_last_call = false;
        }
    }

    /// Forgets the preparations that failed, since the next one is for something else.
    fn forget_failures(&mut self) {
        self.failed = FailedPreparations::default();
        if self.preparation == PreparationState::Failed {
            self.retry_at = AT_ONCE;
        }
    }

    /// Records whether the document names this machine, `None` if that is unknown. Returns whether that has to be looked at
    /// again although the document does not change. An event that does not name this machine any more is over for it;
    /// `is_out` is whether the machine is out of service.
    pub(super) fn named(&mut self, mine: Option<bool>, is_out: bool, now: UnixMillis) -> bool {
        match mine {
            Some(true) => (self.own, self.doubtful_since) = (true, None),
            Some(false) if self.own => {
                let since = *self.doubtful_since.get_or_insert(now);
                // A clock that was set back must not delay this.
                self.doubtful_since = Some(since.min(now));
                if now.millis_since(since) < u64::from(LEAVE_MS) {
                    return true;
                }
                (self.own, self.doubtful_since) = (false, None);
                if is_out {
                    self.release(now);
                }
            }
            _ => {}
        }
        false
    }

    /// Records that the event of another machine, which was prepared for, names this machine now, if it does: this machine is
    /// then out of service for it.
    pub(super) fn adopt(&mut self, mine: Option<bool>, machine: &mut Recovery, now: UnixMillis) {
        if mine != Some(true) || self.own || !self.recovery.is_due() {
            return;
        }
        // A recovery that was cancelled may still run.
        self.recovery.due_since = None;
        machine.require(now);
        if !self.prepare_was_issued() {
            // It has returned, and is still to be recovered from.
            self.ended = Some(now);
        } else if let Some(recovery) = &mut machine.command {
            // It may have undone what the preparation did.
            recovery.cancel();
            if !self.has_failed() {
                self.void_preparation();
            }
        }
    }

    /// Records that a document lacks the event. Returns since when.
    pub(super) fn absent(&mut self, now: UnixMillis) -> UnixMillis {
        if !self.is_absent {
            (self.is_absent, self.doubtful_since) = (true, None);
        }
        // A clock that was set back must not delay the end.
        let since = self.doubtful_since.map_or(now, |since| since.min(now));
        *self.doubtful_since.insert(since)
    }

    /// Records that a document has the event, or may leave it out.
    pub(super) fn present(&mut self) {
        if self.is_absent {
            (self.is_absent, self.doubtful_since) = (false, None);
        }
    }

    /// Whether the newest document lacks the event, which is not over yet.
    pub(super) const fn is_absent(&self) -> bool {
        self.is_absent
    }

    /// Records that the event is gone; `is_out` is whether this machine is out of service.
    pub(super) fn gone(&mut self, is_out: bool, now: UnixMillis) {
        self.cancel_command();
        if self.own && is_out {
            self.ended = Some(now);
        }
    }

    /// Withdraws the preparation: the machine need not be out of service for the event any more, or not yet.
    pub(super) fn release(&mut self, now: UnixMillis) {
        self.cancel_command();
        self.gate = Gate::default();
        self.by_last_call = false;
        self.forget_failures();
        self.preparation = PreparationState::NotIssued;
        // The event of another machine has a recovery of its own.
        if !self.recovery.is_due() {
            self.ended = Some(now);
        }
    }

    /// Cancels what the host does for the event: its command, and a question to the gate.
    fn cancel_command(&mut self) {
        let question = self.question.as_mut().map(|(_, question)| question);
        for command in [self.command.as_mut(), question].into_iter().flatten() {
            command.cancel();
        }
    }

    /// Whether the decision says that it is too early to be prepared.
    pub(super) fn is_too_early(&self, time_of_day: UnixSeconds) -> bool {
        self.decision.is_some_and(|decision| {
            decision.action == Action::Prepare
                && decision.act_from.is_some_and(|from| time_of_day < from)
        })
    }

    pub(super) fn needs_preparation(&self, event: &TrackedEvent) -> bool {
        !event.is_gone()
            && matches!(
                self.preparation,
                PreparationState::NotIssued | PreparationState::Void
            )
            && self
                .decision
                .is_some_and(|decision| decision.action == Action::Prepare)
    }

    /// Whether the last preparation failed.
    pub(super) const fn has_failed(&self) -> bool {
        matches!(
            self.preparation,
            PreparationState::Failed | PreparationState::Abandoned
        )
    }

    /// Whether `Step::Prepare` was issued, so that `Step::Recover` must follow.
    pub(super) fn prepare_was_issued(&self) -> bool {
        self.preparation != PreparationState::NotIssued
    }

    /// Whether the machine has gone out of service by the last call, and the gate's yes to that is still missing.
    pub(super) fn lacks_yes(&self) -> bool {
        self.by_last_call && self.prepare_was_issued()
    }

    /// Whether the host runs nothing for the event, and no recovery of another machine is left to do.
    pub(super) const fn is_at_rest(&self) -> bool {
        self.command.is_none() && self.question.is_none() && self.recovery.is_over()
    }

    /// Whether the event keeps this machine out of service.
    pub(super) fn keeps_out(&self, event: &TrackedEvent) -> bool {
        let is_open = !event.is_gone()
            && (self.prepare_was_issued() || event.status == TrackedStatus::Started);
        // A preparation that was cancelled may still run. The one for another machine has a recovery of its own.
        let is_preparing = self.command.is_some() && !self.recovery.is_due();
        self.own && is_open || is_preparing
    }

    /// How dispensable the event is if there are too many to track: events of other machines are most of all, then own ones
    /// with the latest deadlines; approved ones are least. `None` if something was prepared or runs for it, if it keeps this
    /// machine out of service, and if an own one is named by a recovery.
    pub(super) fn dispensability(&self, event: &TrackedEvent) -> Option<(bool, bool, i64)> {
        let is_foreign = event.mine() != Some(true);
        let is_named = self.ended.is_some() && !is_foreign;
        let is_needed =
            self.prepare_was_issued() || self.keeps_out(event) || is_named || !self.is_at_rest();
        (!is_needed).then(|| {
            (
                is_foreign,
                !event.is_approved(),
                deadline(event.not_before()),
            )
        })
    }

    /// Whether nothing is left to do about the event, so that it can be forgotten.
    pub(super) fn is_finished(&self, event: &TrackedEvent) -> bool {
        self.is_over(event) && !event.flags.has(Flags::END_NOTIFIED)
    }

    /// Whether nothing is left to do about the event, though a document may still have it.
    pub(super) fn is_over(&self, event: &TrackedEvent) -> bool {
        event.is_gone()
            && self.changes.is_empty()
            && !self.decision_unreported
            && self.ended.is_none()
            && self.is_at_rest()
    }

    /// Records the result of the preparation with this attempt number, if it is the one in progress. A failed one is tried again
    /// so many times.
    pub(super) fn prepared(
        &mut self,
        attempt: u32,
        result: Preparation,
        retries: Option<u32>,
        now: UnixMillis,
    ) -> AnswerOutcome {
        match self.command.take_if(|command| command.attempt == attempt) {
            None => AnswerOutcome::Unexpected,
            Some(command) if command.is_cancelled() => AnswerOutcome::Cancelled,
            Some(command) => {
                self.preparation = match result {
                    Preparation::Ready => {
                        // The time was that of the attempt which succeeded now, and the approval does not wait for it.
                        if self.failed.is_any() {
                            self.retry_at = AT_ONCE;
                        }
                        self.failed = FailedPreparations::default();
                        PreparationState::Ready
                    }
                    Preparation::Failed
                        if retries.is_none_or(|most| u32::from(self.failed.count) < most) =>
                    {
                        self.retry_at = now.plus(self.failed.add(command.since, now));
                        // The next one is for the event as it is then.
                        self.by_last_call = false;
                        PreparationState::Failed
                    }
                    Preparation::Failed | Preparation::Abandoned => PreparationState::Abandoned,
                };
                AnswerOutcome::Accepted
            }
        }
    }

    /// Records the answer of the gate to the question with this attempt number, if it is the one in progress.
    pub(super) fn gate_answered(
        &mut self,
        attempt: u32,
        answer: GateAnswer,
        polls: u32,
        now: UnixMillis,
    ) -> AnswerOutcome {
        match self
            .question
            .take_if(|(_, question)| question.attempt == attempt)
        {
            None => AnswerOutcome::Unexpected,
            Some((_, question)) if question.is_cancelled() => AnswerOutcome::Cancelled,
            Some((phase, _)) => {
                self.gate.answer(phase, answer, polls, now);
                self.by_last_call &= !self.gate.lets_prepare();
                AnswerOutcome::Accepted
            }
        }
    }

    /// Whether the gate opened for the approval, and no poll has confirmed the event since.
    pub(super) fn awaits_confirmation(&self) -> bool {
        self.gate.awaits_confirmation()
    }

    /// Records that the answer to this poll shows the event as it was.
    pub(super) fn confirm(&mut self, poll: u32) {
        self.gate.confirm(poll);
    }

    /// Records a failed approval; `back_off` returns the delay in milliseconds after so many failures.
    pub(super) fn approval_failed(&mut self, now: UnixMillis, back_off: impl FnOnce(u32) -> u32) {
        self.approval_failures = self.approval_failures.saturating_add(1);
        self.retry_at = now.plus(back_off(u32::from(self.approval_failures)));
        self.gate.approval_failed();
    }

    /// Continues after a restart: what failed before it is tried again after the same delay, counted from now, so that a process
    /// that ends again and again does not run it each time, and that its clock does not matter.
    pub(super) fn resume(&mut self, now: UnixMillis) {
        if self.preparation == PreparationState::Failed && self.failed.count > 0 {
            self.retry_at = now.plus(self.failed.delay());
        }
    }

    /// Limits the delays, so that a clock that was set back does not extend them.
    pub(super) fn set_clock(&mut self, now: UnixMillis) {
        self.recovery.set_clock(now);
        self.gate.set_clock(now);
        self.retry_at = self.retry_at.min(now.plus(PREPARE_RETRY_MAX_MS));
        if let Some((_, question)) = &mut self.question {
            question.since = question.since.min(now);
        }
    }
}

/// The order of deadlines; an unknown one is the latest.
pub(super) fn deadline(not_before: Option<UnixSeconds>) -> i64 {
    not_before.map_or(i64::MAX, |at| at.0)
}
