//! What is pending for one event: the next step for it, when that may become due, and what it waits for until then.

use super::command::{Attempts, Command, GatePhase};
use super::event_progress::{EventProgress, PreparationState};
use super::last_call::LastCall;
use super::limits::LAST_CALL_ANSWER_MS;
use super::recovering::Recovering;
use super::recovery::Recovery;
use super::step::{Report, Step};
use crate::policy::Action;
use crate::time::{UnixMillis, UnixSeconds};
use crate::tracker::{TrackedEvent, TrackedStatus};

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
                events: Recovering::one(event),
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
        Some(Step::Prepare {
            event,
            by_last_call: self.by_last_call,
            attempt,
        })
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

    /// The earliest time at which the event may be prepared for or approved, on the session's clock.
    pub(super) fn act_at(&self, context: Context) -> UnixMillis {
        let from = self.decision.and_then(|decision| decision.act_from);
        from.map_or(UnixMillis(i64::MIN), |from| context.at(from))
    }

    /// Whether the preparation waits for the gate's yes: the last call has not come.
    pub(super) const fn gate_holds(&self, context: Context) -> bool {
        context.has_gate && !self.gate.lets_prepare() && !self.by_last_call
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
}
