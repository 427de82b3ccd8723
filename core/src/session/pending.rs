//! What is pending for one event: the next step for it, when one becomes due, and what people see follow from that.

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

/// What has to happen next for an event, whatever the host works on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    /// The recovery, if one is due: the event is over.
    Recovery,
    /// The end of the event, which has started.
    End,
    /// The withdrawal of the advice, or the eviction.
    Withdrawal,
    /// The start of the event, which is approved.
    Start,
    /// The first document since the start, or for the present names: it decides.
    Decision,
    /// The time before which the rule neither prepares nor approves.
    DueTime(UnixMillis),
    /// The gate's yes to the preparation, or the last call.
    GateToPrepare {
        /// When the gate is asked.
        ask_at: UnixMillis,
        /// When the preparation does not wait for the gate any longer; `None` for never.
        last_call_at: Option<UnixMillis>,
    },
    /// The end of this machine's recovery, which gives way to the preparation.
    RecoveryGivesWay(Command),
    /// The preparation.
    Preparation,
    /// The next attempt to prepare, from this time on.
    Retry(UnixMillis),
    /// The start of the event, whose preparation failed.
    StartUnprepared,
    /// The end of this machine's recovery: the machine was prepared, and is taken back into service before it could approve.
    RecoveryOfPrepared(Command),
    /// The start of the event, which is not approved.
    StartUnapproved,
    /// The gate's yes to a preparation that was made by the last call. The gate is asked at this time.
    LateYes(UnixMillis),
    /// The gate's yes to the approval. The gate is asked at this time.
    GateToApprove(UnixMillis),
    /// A poll that shows the event as it was when the gate opened, or that shows it at all.
    Confirmation,
    /// The approval, from this time on.
    Approval(UnixMillis),
}

/// When the event starts at the earliest, if that is known. Advice never starts.
fn starts_at(event: &TrackedEvent) -> Option<UnixSeconds> {
    event.not_before().filter(|_| !event.is_advice())
}

impl EventProgress {
    /// What has to happen next. `machine` is the recovery of this machine.
    #[inline(never)] // It is called in several places.
    pub(super) fn pending(
        &self,
        event: &TrackedEvent,
        context: Context,
        machine: &Recovery,
    ) -> Pending {
        if event.is_gone() {
            return Pending::Recovery;
        }
        if event.status == TrackedStatus::Started {
            return Pending::End;
        }
        let retry_at = self.retry_at(event, context);
        let is_retry_due = retry_at.is_some_and(|at| at <= context.now);
        let needs_preparation = context.acts && (self.needs_preparation(event) || is_retry_due);
        if event.is_approved() && !needs_preparation {
            return if event.is_advice() {
                Pending::Withdrawal
            } else {
                Pending::Start
            };
        }
        let Some(decision) = self.decision.filter(|_| context.acts) else {
            return Pending::Decision;
        };
        let act_at = self.act_at(context);
        let is_early = act_at > context.now;
        if needs_preparation {
            return match machine.command {
                _ if is_early => Pending::DueTime(act_at),
                _ if self.gate_holds(context) => Pending::GateToPrepare {
                    ask_at: self.gate.ask_at(GatePhase::Prepare).unwrap_or(context.now),
                    last_call_at: self.last_call_at(event, context),
                },
                Some(command) if self.own => Pending::RecoveryGivesWay(command),
                _ => Pending::Preparation,
            };
        }
        if let Some(at) = retry_at {
            return Pending::Retry(at);
        }
        if event.is_advice() {
            return Pending::Withdrawal;
        }
        if self.has_failed() && matches!(decision.action, Action::Approve | Action::Prepare) {
            return Pending::StartUnprepared;
        }
        let Some(approve_at) = self.may_approve_at(event, machine) else {
            let was_prepared =
                self.preparation == PreparationState::Ready && decision.approve_after.is_some();
            return match machine.command {
                Some(command) if was_prepared => Pending::RecoveryOfPrepared(command),
                _ => Pending::StartUnapproved,
            };
        };
        if is_early {
            return Pending::DueTime(act_at);
        }
        if self.is_absent() {
            return Pending::Confirmation;
        }
        if !context.has_gate {
            return Pending::Approval(approve_at);
        }
        let ask_at = self.gate.ask_at(GatePhase::Approve);
        let may_start = event
            .not_before()
            .is_some_and(|start| start <= context.time_of_day);
        match ask_at {
            // No gate is asked any more.
            _ if may_start && (self.lacks_yes() || ask_at.is_some()) => Pending::StartUnapproved,
            _ if self.lacks_yes() => {
                let ask_at = self.gate.ask_at(GatePhase::Prepare);
                Pending::LateYes(ask_at.unwrap_or(context.now))
            }
            Some(ask_at) => Pending::GateToApprove(ask_at.max(approve_at)),
            None if !self.gate.lets_approve() => Pending::Confirmation,
            None => Pending::Approval(approve_at),
        }
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
        let pending = self.pending(event, context, machine);
        let is_preparation_due = matches!(
            pending,
            Pending::GateToPrepare { .. } | Pending::RecoveryGivesWay(_) | Pending::Preparation
        );
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
        match pending {
            Pending::GateToPrepare { last_call_at, .. } => {
                if self.may_ask(event, GatePhase::Prepare, context) {
                    return Some(self.ask_gate(event, GatePhase::Prepare, attempts, context.now));
                }
                let is_last_call = last_call_at.is_some_and(|at| at <= context.now);
                self.by_last_call |= is_last_call;
                is_last_call.then_some(Step::Report(Report::LastCall { event }))
            }
            Pending::RecoveryGivesWay(_) => {
                if let Some(recovery) = &mut machine.command {
                    recovery.cancel();
                }
                None
            }
            Pending::Preparation => Some(self.prepare(event, context, attempts, machine)),
            _ if self.recovery.may_start(context.now)
                && (event.is_gone() || !self.prepare_was_issued()) =>
            {
                let attempt = attempts.next();
                self.recovery.start(attempt, context.now);
                Some(Step::Recover {
                    events: Recovering::one(event),
                    own: false,
                    attempt,
                })
            }
            Pending::GateToApprove(at)
                if at <= context.now && self.may_ask(event, GatePhase::Approve, context) =>
            {
                Some(self.ask_gate(event, GatePhase::Approve, attempts, context.now))
            }
            _ => None,
        }
    }

    /// Issues the preparation.
    fn prepare<'s>(
        &mut self,
        event: &'s TrackedEvent,
        context: Context,
        attempts: &mut Attempts,
        machine: &mut Recovery,
    ) -> Step<'s> {
        let recovery = if self.own {
            machine
        } else {
            &mut self.recovery
        };
        recovery.require(context.now);
        let attempt = attempts.next();
        self.command = Some(Command::new(attempt, context.now));
        self.preparation = PreparationState::Running;
        Step::Prepare {
            event,
            by_last_call: self.by_last_call,
            attempt,
        }
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
            || starts_at(event).is_some_and(|start| start <= context.time_of_day);
        let is_due = self.gate.ask_at(phase).is_some_and(|at| at <= context.now);
        context.acts && context.has_gate && self.question.is_none() && !has_started && is_due
    }

    /// When the event is prepared for although the gate has not answered yes; `None` for never, as for advice: the machine may
    /// never be taken down, and if it is, that event has a last call of its own.
    fn last_call_at(&self, event: &TrackedEvent, context: Context) -> Option<UnixMillis> {
        if event.is_advice() {
            return None;
        }
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
        let (at, last_call_at) = match self.pending(event, context, machine) {
            Pending::DueTime(at)
            | Pending::Retry(at)
            | Pending::GateToApprove(at)
            | Pending::Approval(at) => (Some(at), None),
            Pending::GateToPrepare {
                ask_at,
                last_call_at,
            } => (Some(ask_at), last_call_at),
            _ => (None, None),
        };
        // The gate is asked while the preparation by the last call runs, too.
        let late_yes = self.gate.ask_at(GatePhase::Prepare);
        let late_yes = late_yes.filter(|_| context.has_gate && self.lacks_yes());
        let times = [at, last_call_at, late_yes, self.recovery.retry_at()];
        times
            .into_iter()
            .flatten()
            .filter(|&at| at > context.now)
            .min()
    }

    /// When a preparation that failed is tried again; `None` if it did not fail, or is not tried again.
    fn retry_at(&self, event: &TrackedEvent, context: Context) -> Option<UnixMillis> {
        let is_wanted = self.decision?.action == Action::Prepare;
        if self.preparation != PreparationState::Failed || !is_wanted || event.is_approved() {
            return None;
        }
        let start = starts_at(event).map(|start| context.at(start));
        self.failed.next_at(self.retry_at, start, context.now)
    }

    /// The earliest time at which the event may be prepared for or approved, on the session's clock.
    fn act_at(&self, context: Context) -> UnixMillis {
        let from = self.decision.and_then(|decision| decision.act_from);
        from.map_or(UnixMillis(i64::MIN), |from| context.at(from))
    }

    /// Whether the preparation waits for the gate's yes: the last call has not come.
    const fn gate_holds(&self, context: Context) -> bool {
        context.has_gate && !self.gate.lets_prepare() && !self.by_last_call
    }

    /// The earliest time at which the event may be approved; `None` if it may not be, or not yet.
    pub(super) fn approve_at(
        &self,
        event: &TrackedEvent,
        context: Context,
        machine: &Recovery,
    ) -> Option<UnixMillis> {
        match self.pending(event, context, machine) {
            Pending::Approval(at) => Some(at),
            _ => None,
        }
    }

    /// The earliest time at which the event may be approved, as far as the decision and the preparation say.
    fn may_approve_at(&self, event: &TrackedEvent, machine: &Recovery) -> Option<UnixMillis> {
        let decision = self.decision?;
        let allowed = match decision.action {
            // The event may have required a preparation before it changed.
            Action::Approve => self.command.is_none() && !self.has_failed(),
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
        Some(turn.max(self.retry_at))
    }
}
