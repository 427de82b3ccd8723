//! How far the session has got with one event.

use super::command::{AnswerOutcome, Attempts, Command, GatePhase};
use super::gate::{Gate, GateAnswer};
use super::last_call::LastCall;
use super::limits::{LAST_CALL_ANSWER_MS, LEAVE_MS};
use super::recovery::Recovery;
use super::step::{Preparation, Report, Step};
use crate::policy::{Action, Decision, Reason};
use crate::time::{UnixMillis, UnixSeconds};
use crate::tracker::{Change, Changes, Flags, TrackedEvent, TrackedStatus};

/// Everything that a session keeps about one tracked event, in addition to what the tracker keeps.
#[derive(Clone, Debug)]
pub(super) struct EventProgress {
    pub(super) first_seen: UnixMillis,
    /// The time of day at which the event's `NotBefore` was first seen.
    pub(super) noticed: UnixSeconds,
    /// The changes that are not reported yet.
    pub(super) changes: Changes,
    /// The decision about the event in the newest document. `None` until the first document after a start: until then,
    /// nothing is prepared or approved.
    pub(super) decision: Option<Decision>,
    decision_unreported: bool,
    pub(super) preparation: PreparationState,
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
    /// Since when an own event does not name this machine.
    unnamed_since: Option<UnixMillis>,
    /// When the event ended, if the next recovery of this machine is also for it.
    pub(super) ended: Option<UnixMillis>,
    /// The recovery of another machine from its event.
    pub(super) recovery: Recovery,
    /// How many approvals of this event failed in a row.
    pub(super) approval_failures: u8,
    approval_retry_at: Option<UnixMillis>,
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
    /// The preparation failed.
    Failed = 4,
}

/// What the steps of all events depend on.
#[derive(Clone, Copy)]
pub(super) struct Context {
    pub(super) now: UnixMillis,
    pub(super) time_of_day: UnixSeconds,
    /// Whether the session prepares, not only reports.
    pub(super) acts: bool,
    pub(super) has_gate: bool,
    pub(super) last_call: LastCall,
}

impl Context {
    /// This time of day on the session's clock; `now` if it has passed.
    fn at(self, time: UnixSeconds) -> UnixMillis {
        let left = time.since(self.time_of_day);
        if left <= 0 {
            self.now
        } else {
            UnixMillis(self.now.0.saturating_add(left.saturating_mul(1000)))
        }
    }
}

impl EventProgress {
    pub(super) fn new(first_seen: UnixMillis, noticed: UnixSeconds) -> Self {
        Self {
            first_seen,
            noticed,
            changes: Changes::default(),
            decision: None,
            decision_unreported: false,
            preparation: PreparationState::NotIssued,
            command: None,
            gate: Gate::default(),
            question: None,
            by_last_call: false,
            own: false,
            unnamed_since: None,
            ended: None,
            recovery: Recovery::default(),
            approval_failures: 0,
            approval_retry_at: None,
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

    /// Takes the next step for the event and records that it was issued. `machine` is the recovery of this machine.
    pub(super) fn next_step<'s>(
        &mut self,
        event: &'s TrackedEvent,
        context: Context,
        attempts: &mut Attempts,
        machine: &mut Recovery,
    ) -> Option<Step<'s>> {
        if let Some(change) = self.changes.take_first() {
            return Some(Step::Report(Report::Change { change, event }));
        }
        if core::mem::take(&mut self.decision_unreported)
            && let Some(decision) = self.decision
        {
            return Some(Step::Report(Report::Decision { decision, event }));
        }
        if let Some((_, question)) = &mut self.question
            && question.take_cancellation()
        {
            return Some(Step::Cancel {
                attempt: question.attempt,
            });
        }
        // What the gate answers after the last call counts as usual.
        if self.lacks_yes() && self.may_ask(event, GatePhase::Prepare, context) {
            return Some(self.ask_gate(event, GatePhase::Prepare, attempts, context.now));
        }
        let is_preparation_due =
            context.acts && self.needs_preparation(event) && self.act_at(context) <= context.now;
        if let Some(recovery) = self
            .recovery
            .command
            .as_mut()
            .filter(|_| is_preparation_due)
        {
            recovery.cancel();
        }
        if let Some(command) = self.command.as_mut().or(self.recovery.command.as_mut()) {
            let attempt = command.attempt;
            return command
                .take_cancellation()
                .then_some(Step::Cancel { attempt });
        }
        if is_preparation_due {
            return self.prepare(event, context, attempts, machine);
        }
        if self.recovery.may_start(context.now) && (event.is_gone() || !self.prepare_was_issued()) {
            let attempt = attempts.next();
            self.recovery.start(attempt, context.now);
            return Some(Step::Recover {
                event,
                own: false,
                attempt,
            });
        }
        let is_approval_due = !self.lacks_yes()
            && self
                .may_approve_at(event, machine)
                .is_some_and(|at| at <= context.now)
            && self.act_at(context) <= context.now;
        if is_approval_due && self.may_ask(event, GatePhase::Approve, context) {
            return Some(self.ask_gate(event, GatePhase::Approve, attempts, context.now));
        }
        None
    }

    /// Issues the preparation, or what precedes it.
    fn prepare<'s>(
        &mut self,
        event: &'s TrackedEvent,
        context: Context,
        attempts: &mut Attempts,
        machine: &mut Recovery,
    ) -> Option<Step<'s>> {
        if self.gate_holds(context) {
            if self.may_ask(event, GatePhase::Prepare, context) {
                return Some(self.ask_gate(event, GatePhase::Prepare, attempts, context.now));
            }
            if self
                .last_call_at(event, context)
                .is_none_or(|at| at > context.now)
            {
                return None;
            }
            self.by_last_call = true;
            return Some(Step::Report(Report::LastCall { event }));
        }
        if self.own {
            if let Some(recovery) = &mut machine.command {
                recovery.cancel();
                return None;
            }
            machine.require(context.now);
        } else {
            self.recovery.require(context.now);
        }
        let attempt = attempts.next();
        self.command = Some(Command::new(attempt, context.now));
        self.preparation = PreparationState::Running;
        Some(Step::Prepare { event, attempt })
    }

    fn ask_gate<'s>(
        &mut self,
        event: &'s TrackedEvent,
        phase: GatePhase,
        attempts: &mut Attempts,
        now: UnixMillis,
    ) -> Step<'s> {
        let attempt = attempts.next();
        self.question = Some((phase, Command::new(attempt, now)));
        Step::Gate {
            event,
            phase,
            attempt,
        }
    }

    /// Whether the gate is to be asked now: it is not open, no question waits for an answer, and the event has not started.
    fn may_ask(&self, event: &TrackedEvent, phase: GatePhase, context: Context) -> bool {
        let has_started = event.is_gone()
            || event.status == TrackedStatus::Started
            || event
                .not_before()
                .is_some_and(|start| start <= context.time_of_day);
        let is_due = self.gate.ask_at(phase).is_some_and(|at| at <= context.now);
        context.acts && context.has_gate && self.question.is_none() && !has_started && is_due
    }

    /// When the event is prepared for although the gate has not answered yes; `None` for never.
    fn last_call_at(&self, event: &TrackedEvent, context: Context) -> Option<UnixMillis> {
        let at = context.at(context.last_call.from(
            event.event_type(),
            self.noticed,
            event.not_before(),
        )?);
        let first_answer = self
            .question
            .filter(|_| !self.gate.has_refused_to_prepare());
        Some(first_answer.map_or(at, |(_, question)| {
            at.max(question.since.plus(LAST_CALL_ANSWER_MS))
        }))
    }

    /// The next time at which a step may become due by itself.
    pub(super) fn wake_at(
        &self,
        event: &TrackedEvent,
        context: Context,
        machine: &Recovery,
    ) -> Option<UnixMillis> {
        let gate = self
            .gate
            .ask_at(GatePhase::Prepare)
            .or(self.gate.ask_at(GatePhase::Approve));
        let gate = gate.filter(|_| context.has_gate);
        let approval = self.may_approve_at(event, machine);
        let waits_for_gate = self.gate_holds(context) && self.needs_preparation(event);
        let last_call = if waits_for_gate {
            self.last_call_at(event, context)
        } else {
            None
        };
        let times = [
            Some(self.act_at(context)),
            gate,
            last_call,
            approval,
            self.recovery.retry_at(),
        ];
        times
            .into_iter()
            .flatten()
            .filter(|&at| at > context.now)
            .min()
    }

    /// Records the decision about the event in the newest document.
    pub(super) fn decide(&mut self, decision: Decision) {
        if !self.decision.is_some_and(|known| known.same_as(&decision)) {
            // The change `started` already reports why a known event is now held.
            let known_started =
                self.decision.is_some() && decision.reason == Reason::AlreadyStarted;
            self.decision_unreported |= !known_started;
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
            self.preparation = PreparationState::Void;
            self.by_last_call = false;
        }
    }

    /// Records whether the document names this machine, `None` if that is unknown. Returns whether that has to be looked at
    /// again although the document does not change. An event that does not name this machine any more is over for it;
    /// `is_out` is whether the machine is out of service.
    pub(super) fn named(&mut self, mine: Option<bool>, is_out: bool, now: UnixMillis) -> bool {
        match mine {
            Some(true) => (self.own, self.unnamed_since) = (true, None),
            Some(false) if self.own => {
                let since = *self.unnamed_since.get_or_insert(now);
                // A clock that was set back must not delay this.
                self.unnamed_since = Some(since.min(now));
                if now.millis_since(since) < u64::from(LEAVE_MS) {
                    return true;
                }
                (self.own, self.unnamed_since) = (false, None);
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
            if self.preparation != PreparationState::Failed {
                self.void_preparation();
            }
        }
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

    /// The earliest time at which the event may be prepared for or approved, on the session's clock.
    pub(super) fn act_at(&self, context: Context) -> UnixMillis {
        let from = self.decision.and_then(|decision| decision.act_from);
        from.map_or(UnixMillis(i64::MIN), |from| context.at(from))
    }

    /// Whether `Step::Prepare` was issued, so that `Step::Recover` must follow.
    pub(super) fn prepare_was_issued(&self) -> bool {
        self.preparation != PreparationState::NotIssued
    }

    /// Whether the preparation waits for the gate's yes: the last call has not come.
    pub(super) const fn gate_holds(&self, context: Context) -> bool {
        context.has_gate && !self.gate.lets_prepare() && !self.by_last_call
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

    /// The earliest time at which the event may be approved; `None` if it may not be, or not yet.
    pub(super) fn approve_at(
        &self,
        event: &TrackedEvent,
        context: Context,
        machine: &Recovery,
    ) -> Option<UnixMillis> {
        if context.has_gate && (self.lacks_yes() || !self.gate.lets_approve()) {
            return None;
        }
        Some(
            self.may_approve_at(event, machine)?
                .max(self.act_at(context)),
        )
    }

    /// The same, whatever the gate says.
    pub(super) fn may_approve_at(
        &self,
        event: &TrackedEvent,
        machine: &Recovery,
    ) -> Option<UnixMillis> {
        let decision = self.decision?;
        let allowed = match decision.action {
            // The event may have required a preparation before it changed.
            Action::Approve => {
                self.command.is_none() && self.preparation != PreparationState::Failed
            }
            Action::Prepare => {
                let is_out = !self.own || machine.is_due() && machine.command.is_none();
                self.preparation == PreparationState::Ready && is_out
            }
            Action::Hold | Action::Ignore => false,
        };
        if !allowed
            || event.is_approved()
            || event.is_gone()
            || event.status != TrackedStatus::Scheduled
        {
            return None;
        }
        let turn = self
            .first_seen
            .plus(decision.approve_after?.saturating_mul(1000));
        Some(self.approval_retry_at.map_or(turn, |retry| retry.max(turn)))
    }

    /// Records the result of the preparation with this attempt number, if it is the one in progress.
    pub(super) fn prepared(&mut self, attempt: u32, result: Preparation) -> AnswerOutcome {
        match self.command.take_if(|command| command.attempt == attempt) {
            None => AnswerOutcome::Unexpected,
            Some(command) if command.is_cancelled() => AnswerOutcome::Cancelled,
            Some(_) => {
                self.preparation = match result {
                    Preparation::Ready => PreparationState::Ready,
                    Preparation::Failed => PreparationState::Failed,
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
        self.approval_retry_at = Some(now.plus(back_off(u32::from(self.approval_failures))));
        self.gate.approval_failed();
    }

    /// Limits the delays, so that a clock that was set back does not extend them.
    pub(super) fn set_clock(&mut self, now: UnixMillis) {
        self.recovery.set_clock(now);
        self.gate.set_clock(now);
        if let Some((_, question)) = &mut self.question {
            question.since = question.since.min(now);
        }
    }
}

/// The order of deadlines; an unknown one is the latest.
pub(super) fn deadline(not_before: Option<UnixSeconds>) -> i64 {
    not_before.map_or(i64::MAX, |at| at.0)
}
