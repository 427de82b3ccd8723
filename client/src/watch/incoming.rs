//! What other threads send to the watcher: responses of the service, answers of the host, the machine's name and id.

use scheduled_events_core::record::CauseWord;
use scheduled_events_core::wire::ADVICE_API_VERSION;
use scheduled_events_core::{
    AnswerOutcome, Cause, GateAnswer, GatePhase, RequestOutcome, Response,
};

use super::host::{Host, Note, Poll};
use super::message::{Answer, Message};
use super::{StopReason, Watcher};
use crate::clock::Deviation;
use crate::imds::{AUTO_API_VERSION, HttpResponse, RequestFailure};
use crate::record::{EventRecord, HookOutcome, Record, event_key};
use crate::session::{EventRecords, with_approval, with_recovery};
use crate::state::Damage;

impl Watcher {
    pub(super) fn on_message(
        &mut self,
        message: Message,
        host: &mut dyn Host,
    ) -> Option<StopReason> {
        match message {
            Message::Response { answer, repeated } => {
                if repeated {
                    self.transport.repeat_answered();
                    self.session.repeat_answered();
                }
                match answer {
                    Ok(response) => self.on_response(response, host),
                    Err(failure) => self.on_failure(failure, host),
                }
            }
            Message::Name(answer) => {
                let note = self
                    .name
                    .on_answer(answer, |names| self.session.set_names(names));
                if let Some(note) = note {
                    host.note(&note);
                }
            }
            Message::MachineId(answer) => self.on_machine_id(answer, host),
            Message::Answered {
                attempt,
                event_id,
                answer,
                reason,
            } => {
                self.running.remove(&attempt);
                if let Some(reason) = reason {
                    host.note(&Note::FunctionFailed {
                        event_id: event_id.clone(),
                        reason,
                    });
                }
                match answer {
                    Answer::Prepared(outcome) => {
                        self.on_prepared(attempt, &event_id, outcome, host);
                    }
                    Answer::Recovered(outcome) => {
                        self.on_recovered(attempt, &event_id, outcome, host);
                    }
                    Answer::Gate(phase, answer) => {
                        self.on_gate(attempt, &event_id, (phase, answer), host);
                    }
                }
            }
            Message::Completed(number) => self.persistence.complete_hook(number),
            Message::Reload => self.reload(host),
            Message::Stop => return Some(StopReason::Stopped),
        }
        None
    }

    fn on_prepared(
        &mut self,
        attempt: u32,
        event_id: &str,
        outcome: HookOutcome,
        host: &mut dyn Host,
    ) {
        let answer = self.session.prepared(attempt, outcome.preparation());
        if let Some(outcome) = self.answered(answer, outcome, host) {
            let event = self.events.named(event_id, &self.session);
            self.report(
                &event,
                |event| Record::Prepare {
                    outcome,
                    attempt: Some(attempt),
                    event,
                },
                host,
            );
        }
    }

    fn on_recovered(
        &mut self,
        attempt: u32,
        event_id: &str,
        outcome: HookOutcome,
        host: &mut dyn Host,
    ) {
        let events = self.recovered_from(attempt, event_id);
        let now = self.clock.clock.now();
        let answer = self
            .session
            .recovered(attempt, outcome.has_recovered(), now);
        // Saved before it is reported, so that a recovery that was reported never runs again.
        if let Some(outcome) = self.answered(answer, outcome, host) {
            with_recovery(&events, outcome, |record| {
                self.emit(&record, host);
            });
        }
    }

    /// Takes the policy that the host has read again, if it could.
    fn reload(&mut self, host: &mut dyn Host) {
        let note = match host.reload() {
            None => return,
            Some(Ok(policy)) => {
                let rules = policy.rules().len();
                self.session.set_policy(policy);
                self.sight.reload_failed(None);
                Note::Reloaded { rules }
            }
            Some(Err(error)) => {
                let reason = error.to_string();
                self.sight.reload_failed(Some(reason.clone()));
                Note::NotReloaded(reason)
            }
        };
        host.note(&note);
    }

    /// Checks whether the restored state is this machine's.
    fn on_machine_id(&mut self, answer: Result<String, String>, host: &mut dyn Host) {
        self.machine_id.on_answer(answer.as_ref().ok());
        match answer {
            Ok(id) => {
                let checked = self.session.set_machine_id(&id);
                host.identified(checked.is_ok());
                if let Err(error) = checked {
                    self.events = EventRecords::default();
                    host.note(&self.persistence.quarantine(&Damage::Snapshot(error)));
                    self.save(host);
                }
            }
            // Said once, and only where it matters.
            Err(reason)
                if !self.events.is_empty()
                    && !std::mem::replace(&mut self.id_unknown_noted, true) =>
            {
                host.note(&Note::MachineIdUnknown(reason));
            }
            Err(_) => {}
        }
    }

    /// Saves the state after an answer of the host. Returns the outcome to report, if there is anything to report.
    fn answered(
        &mut self,
        answer: AnswerOutcome,
        outcome: HookOutcome,
        host: &mut dyn Host,
    ) -> Option<HookOutcome> {
        let outcome = outcome.to_report(answer)?;
        self.save(host);
        Some(outcome)
    }

    /// The events that a recovery is for, now that it has ended: the one that it began with, and for this machine those that
    /// have ended since.
    fn recovered_from(&self, attempt: u32, event_id: &str) -> Vec<EventRecord> {
        let mut events = vec![self.events.named(event_id, &self.session)];
        if self.recovery == Some(attempt) {
            let others = self.session.recovering();
            let others =
                others.filter(|other| event_key(other.event_id().as_str()) != event_key(event_id));
            events.extend(others.map(|event| self.events.of(event)));
        }
        events
    }

    /// Reports the gate's answer unless it is the same as before: a closed gate is asked every few seconds.
    fn on_gate(
        &mut self,
        attempt: u32,
        event_id: &str,
        (phase, answer): (GatePhase, GateAnswer),
        host: &mut dyn Host,
    ) {
        let now = self.clock.clock.now();
        if self.session.gate_answered(attempt, answer, now) != AnswerOutcome::Accepted {
            return;
        }
        let events = &self.events;
        self.gate_answers.retain(|key| events.get(key).is_some());
        if self.gate_answers.is_new(event_id, phase, answer) {
            let event = self.events.named(event_id, &self.session);
            self.report(
                &event,
                |event| Record::Gate {
                    phase,
                    outcome: answer.into(),
                    event,
                },
                host,
            );
        }
    }

    fn on_response(&mut self, http: HttpResponse, host: &mut dyn Host) {
        let took = self.transport.idle_time();
        let deviation = http
            .date
            .and_then(|date| self.clock.on_service_time(date, took));
        if let Some(deviation) = deviation {
            host.note(&match deviation {
                Deviation::Lags(time) => Note::ClockLags(time),
                Deviation::Ahead(time) => Note::ClockIsAhead(time),
            });
        }
        let now = self.set_time();
        let response = Response {
            status: http.status,
            retry_after: http.retry_after,
            body: &http.body,
        };
        let (name, events) = (&self.name, &mut self.events);
        let outcome = self.session.on_response_with(&response, now, |document| {
            name.with_names(|names| events.apply(document, names));
        });
        let detail = http.refusal();
        let status = http.status;
        if outcome == RequestOutcome::Document {
            self.body = http.body;
            self.stale.succeeded();
            // Saved before anything is reported: an event that was reported stays known, even if it ends before the restart after
            // a crash.
            self.save(host);
        }
        self.on_outcome(outcome, Some(status), detail, host);
    }

    fn on_failure(&mut self, failure: RequestFailure, host: &mut dyn Host) {
        let now = self.set_time();
        let outcome = self.session.on_failure(failure.cause, now);
        self.on_outcome(outcome, None, Some(failure.detail), host);
    }

    /// Reports what a request led to.
    fn on_outcome(
        &mut self,
        outcome: RequestOutcome,
        status: Option<u16>,
        detail: Option<String>,
        host: &mut dyn Host,
    ) {
        self.report_poll(outcome, host);
        match outcome {
            RequestOutcome::Document | RequestOutcome::Unchanged => {
                self.polls.answered = true;
                self.polls.failure = None;
                if let Some(note) = self.sight.on_document() {
                    host.note(&note);
                }
            }
            // Old answers may come at each second poll, for as long as two servers share the address.
            RequestOutcome::Stale if self.stale.reports("stale") => host.note(&Note::StaleDocument),
            // The session asks for an older version at once, and reports it.
            RequestOutcome::PollFailed {
                cause: Cause::Status(400 | 404),
                ..
            } if self.transport.version() == ADVICE_API_VERSION
                && self.options.api_version == AUTO_API_VERSION => {}
            RequestOutcome::PollFailed { cause, retry_in_ms } => {
                let reason = describe(cause, detail);
                self.sight.on_failure();
                host.note(&Note::PollFailed(reason.clone()));
                self.polls.failure = Some(reason);
                let record = Record::PollFailed {
                    cause: CauseWord(cause),
                    retry_in_ms,
                };
                self.emit(&record, host);
            }
            RequestOutcome::Approved | RequestOutcome::ApprovalFailed { .. } => {
                if let RequestOutcome::ApprovalFailed { cause } = outcome {
                    host.note(&Note::ApprovalFailed(describe(cause, detail)));
                }
                self.save(host);
                let posted = self.session.posted();
                let events: Vec<_> = posted
                    .map(|id| self.events.named(id.as_str(), &self.session))
                    .collect();
                with_approval(&events, status, |record| {
                    self.emit(&record, host);
                });
            }
            _ => {}
        }
    }

    fn report_poll(&self, outcome: RequestOutcome, host: &mut dyn Host) {
        let is_poll = matches!(
            outcome,
            RequestOutcome::Document
                | RequestOutcome::Unchanged
                | RequestOutcome::Stale
                | RequestOutcome::PollFailed { .. }
        );
        if is_poll {
            let (duration, time) = (self.transport.idle_time(), self.time_of_day());
            host.polled(&Poll {
                outcome,
                duration,
                time,
                session: &self.session,
            });
        }
    }
}

fn describe(cause: Cause, detail: Option<String>) -> String {
    match detail {
        Some(detail) => format!("{cause} ({detail})"),
        None => cause.to_string(),
    }
}
