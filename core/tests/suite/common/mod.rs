//! A host for sessions: it serves documents, performs the steps of the session and records a trace of everything.

// Not every item is used by every configuration.
#![allow(dead_code, unreachable_pub)]

mod events;
pub mod invariants;

use std::collections::HashMap;
use std::fmt;

use scheduled_events_core::{
    Action, AnswerOutcome, Cause, Change, Decision, EventId, GateAnswer, GatePhase, LastCall,
    Policy, Preparation, Report, RequestOutcome, Response, Rule, Session, SessionConfig, Step,
    UnixMillis, Untracked, VmNames,
};

pub use events::{Spec, document, event};

/// The time at which every test starts.
pub const START: UnixMillis = UnixMillis(1_700_000_000_000);

/// The name of this machine in every test.
pub const VM: &str = "vm_1";

/// The name of another machine, which starts with the name of this one.
pub const OTHER: &str = "vm_10";

/// More steps than any test needs between two polls.
const MAX_STEPS: usize = 2_000;

/// One exchange between a session and its host.
#[derive(Clone, Debug, PartialEq)]
pub enum Exchange {
    /// A document was served and accepted.
    Served(Vec<Spec>),
    /// The poll was answered in another way, or the document was not accepted.
    NotServed,
    /// A GET with this timeout.
    Get(u32),
    Change(String, Change),
    Decision(String, Decision),
    Problem(String),
    Untracked(Untracked),
    NoAdvice,
    /// The machine prepares although the gate has not answered yes.
    LastCall(String),
    Prepare(String),
    Prepared(String, Preparation),
    /// The event that ended last, and all events that the recovery is for.
    Recover(String, Vec<String>),
    /// The same for another machine.
    RecoverOther(String),
    /// A recovery ended, successfully or not.
    Recovered(String, bool),
    RecoveredOther(String, bool),
    Gate(String, GatePhase),
    GateAnswered(String, GatePhase, GateAnswer),
    /// What runs for this event was cancelled: the preparation or the question to the gate.
    Cancel(String),
    /// The recovery that this event names was cancelled.
    CancelRecovery(String),
    CancelRecoveryOther(String),
    Post(Vec<String>),
    Approved(Vec<String>),
    Refused(Vec<String>),
    Restarted,
    /// The names were set.
    Named(Vec<&'static str>),
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(id, change) => write!(f, "{id}: {change}"),
            Self::Decision(id, decision) => {
                write!(f, "{id}: {} ({})", decision.action.word(), decision.reason)
            }
            Self::Problem(kind) => write!(f, "problem: {kind}"),
            Self::Untracked(Untracked { own, others }) => {
                write!(f, "not tracked: {own} own, {others} others")
            }
            Self::LastCall(id) => write!(f, "last call {id}"),
            Self::Prepare(id) => write!(f, "prepare {id}"),
            Self::Recover(id, ids) if ids.len() > 1 => {
                write!(f, "recover {id} ({})", ids.join(" "))
            }
            Self::Recover(id, _) | Self::RecoverOther(id) => write!(f, "recover {id}"),
            Self::Gate(id, phase) => write!(f, "gate {phase} {id}"),
            Self::Cancel(id) => write!(f, "cancel {id}"),
            Self::CancelRecovery(id) | Self::CancelRecoveryOther(id) => {
                write!(f, "cancel the recovery of {id}")
            }
            Self::Post(ids) => write!(f, "post {}", ids.join(" ")),
            other => write!(f, "{other:?}"),
        }
    }
}

impl Exchange {
    /// Whether it is a step of the session other than a poll.
    pub fn is_step(&self) -> bool {
        matches!(
            self,
            Self::Change(..)
                | Self::Decision(..)
                | Self::Problem(_)
                | Self::Untracked(_)
                | Self::NoAdvice
                | Self::LastCall(_)
                | Self::Prepare(_)
                | Self::Recover(..)
                | Self::RecoverOther(_)
                | Self::Gate(..)
                | Self::Cancel(_)
                | Self::CancelRecovery(_)
                | Self::CancelRecoveryOther(_)
                | Self::Post(_)
        )
    }
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub at: UnixMillis,
    pub what: Exchange,
}

/// The configuration of the session, used again after each restart.
#[derive(Clone, Debug)]
pub struct Setup {
    pub policy: Policy,
    pub names: Vec<&'static str>,
    pub dry_run: bool,
    pub gate: bool,
    pub last_call: LastCall,
    pub prepare_retries: Option<u32>,
    pub recover_all: bool,
    pub machine_id: &'static str,
    pub boot_id: &'static str,
}

impl Setup {
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            names: vec![VM],
            dry_run: false,
            gate: false,
            last_call: LastCall::Standard,
            prepare_retries: None,
            recover_all: false,
            machine_id: "this machine",
            boot_id: "first boot",
        }
    }

    pub fn session<const N: usize>(&self) -> Session<N> {
        let config = SessionConfig::new(VmNames::new(&self.names));
        Session::new(&SessionConfig {
            policy: self.policy.clone(),
            dry_run: self.dry_run,
            gate: self.gate,
            last_call: self.last_call,
            prepare_retries: self.prepare_retries,
            recover_all: self.recover_all,
            seed: 7,
            machine_id: self.machine_id,
            boot_id: self.boot_id,
            ..config
        })
        .unwrap()
    }
}

#[derive(Clone)]
pub struct Host<const N: usize> {
    pub setup: Setup,
    pub session: Session<N>,
    pub now: UnixMillis,
    /// The status of the response to a POST; `None` for no response.
    pub post_status: Option<u16>,
    /// The `Retry-After` of the response to a POST, in seconds.
    pub post_retry_after: Option<u32>,
    /// The duration of a POST, in milliseconds.
    pub post_takes_ms: u32,
    /// Whether recoveries are completed immediately.
    pub recovers: bool,
    /// The answer of the gate; `None` if [`Host::answer_gate`] gives it.
    pub gate_answer: Option<GateAnswer>,
    /// Whether a cancelled command ends immediately.
    pub cancels: bool,
    /// Whether a poll is in progress.
    pub polling: bool,
    /// Preparations and recoveries in progress.
    pub preparing: Vec<String>,
    /// Whether a recovery is of this machine is its second part.
    pub recovering: Vec<(String, bool)>,
    /// Questions to the gate in progress.
    pub asking: Vec<(String, GatePhase)>,
    /// Cancelled commands in progress.
    pub cancelled: Vec<u32>,
    /// The newest attempt to prepare for each event, to ask about it, and of the recoveries.
    attempts: HashMap<String, u32>,
    questions: HashMap<String, u32>,
    recoveries: HashMap<(String, bool), u32>,
    /// The host is killed and restarted after this many more steps.
    pub dies_after_steps: Option<usize>,
    pub trace: Vec<Entry>,
    /// The incarnation of the newest generated document.
    pub incarnation: u64,
    taken: usize,
    pub last_get: UnixMillis,
}

impl<const N: usize> Host<N> {
    pub fn new(setup: Setup) -> Self {
        Self {
            session: setup.session(),
            setup,
            now: START,
            post_status: Some(200),
            post_retry_after: None,
            post_takes_ms: 0,
            recovers: true,
            gate_answer: Some(GateAnswer::Open),
            cancels: true,
            polling: false,
            preparing: Vec::new(),
            recovering: Vec::new(),
            asking: Vec::new(),
            cancelled: Vec::new(),
            attempts: HashMap::new(),
            questions: HashMap::new(),
            recoveries: HashMap::new(),
            dies_after_steps: None,
            trace: Vec::new(),
            incarnation: 0,
            taken: 0,
            last_get: START,
        }
    }

    fn note(&mut self, what: Exchange) {
        self.trace.push(Entry { at: self.now, what });
    }

    /// Clears the trace.
    pub fn clear(&mut self) {
        self.trace.clear();
        self.taken = 0;
    }

    /// The steps since the last call, one line each.
    pub fn take_steps(&mut self) -> Vec<String> {
        let new = &self.trace[self.taken..];
        self.taken = self.trace.len();
        new.iter()
            .filter(|entry| entry.what.is_step())
            .map(|entry| entry.what.to_string())
            .collect()
    }

    /// Performs steps until a poll is in progress or the session waits for the next one.
    pub fn run(&mut self) {
        for _ in 0..MAX_STEPS {
            let Some(until) = self.step() else { continue };
            if self.polling || until > self.last_get.plus(900) {
                return;
            }
            self.now = self.now.max(until);
        }
        panic!("the session never waits");
    }

    /// Performs steps and advances the time until a poll is in progress.
    pub fn advance_to_poll(&mut self) {
        for _ in 0..MAX_STEPS {
            if self.polling {
                return;
            }
            if let Some(until) = self.step() {
                assert!(until > self.now, "the session waits for a time in the past");
                self.now = until;
            }
        }
        panic!("the session never polls again");
    }

    /// Performs one step. Returns until when the session waits, if it does.
    fn step(&mut self) -> Option<UnixMillis> {
        if self.dies_after_steps == Some(0) {
            self.dies_after_steps = None;
            self.restart();
        }
        let what = match self.session.take_step(self.now) {
            Step::Wait { until } => return Some(until),
            Step::Get { timeout_ms, .. } => {
                self.polling = true;
                self.last_get = self.now;
                Exchange::Get(timeout_ms)
            }
            Step::Post { body, .. } => {
                let body: serde_json::Value = serde_json::from_slice(body).unwrap();
                let requests = body["StartRequests"].as_array().unwrap();
                Exchange::Post(
                    requests
                        .iter()
                        .map(|request| request["EventId"].as_str().unwrap().to_owned())
                        .collect(),
                )
            }
            Step::Prepare {
                event,
                by_last_call,
                attempt,
            } => {
                assert!(!by_last_call || self.setup.gate);
                let id = event.event_id().to_string();
                self.attempts.insert(id.clone(), attempt);
                Exchange::Prepare(id)
            }
            Step::Recover {
                events,
                own,
                attempt,
            } => {
                let id = events.last().event_id().to_string();
                self.recoveries.insert((id.clone(), own), attempt);
                let mut ids: Vec<_> = events
                    .iter()
                    .map(|event| event.event_id().to_string())
                    .collect();
                assert_eq!(ids.first(), Some(&id));
                ids.sort();
                if own {
                    Exchange::Recover(id, ids)
                } else {
                    Exchange::RecoverOther(id)
                }
            }
            Step::Gate {
                event,
                phase,
                attempt,
            } => {
                let id = event.event_id().to_string();
                self.questions.insert(id.clone(), attempt);
                Exchange::Gate(id, phase)
            }
            Step::Cancel { attempt } => {
                self.cancelled.push(attempt);
                match self.recoveries.iter().find(|(_, known)| **known == attempt) {
                    Some(((id, true), _)) => Exchange::CancelRecovery(id.clone()),
                    Some(((id, false), _)) => Exchange::CancelRecoveryOther(id.clone()),
                    None => {
                        let found = self
                            .attempts
                            .iter()
                            .chain(&self.questions)
                            .find(|(_, known)| **known == attempt);
                        Exchange::Cancel(found.expect("an attempt in progress").0.clone())
                    }
                }
            }
            Step::Report(Report::Change { change, event }) => {
                Exchange::Change(event.event_id().to_string(), change)
            }
            Step::Report(Report::Decision { decision, event }) => {
                Exchange::Decision(event.event_id().to_string(), decision)
            }
            Step::Report(Report::LastCall { event }) => {
                Exchange::LastCall(event.event_id().to_string())
            }
            Step::Report(Report::Problem(problem)) => {
                Exchange::Problem(problem.kind.word().to_owned())
            }
            Step::Report(Report::Untracked(untracked)) => Exchange::Untracked(untracked),
            Step::Report(Report::NoAdvice) => Exchange::NoAdvice,
        };
        self.note(what.clone());
        self.dies_after_steps = self.dies_after_steps.map(|left| left - 1);
        match what {
            Exchange::Prepare(id) => self.preparing.push(id),
            Exchange::Recover(id, _) => self.recovery_started(&id, true),
            Exchange::RecoverOther(id) => self.recovery_started(&id, false),
            Exchange::Gate(id, phase) => {
                self.asking.push((id, phase));
                if let Some(answer) = self.gate_answer {
                    assert!(self.answer_question(self.asking.len() - 1, answer));
                }
            }
            Exchange::Cancel(_)
            | Exchange::CancelRecovery(_)
            | Exchange::CancelRecoveryOther(_)
                if self.cancels =>
            {
                self.end_cancelled();
            }
            Exchange::Post(ids) => self.answer_post(ids),
            _ => {}
        }
        None
    }

    fn answer_post(&mut self, ids: Vec<String>) {
        assert!(
            self.session
                .posted()
                .map(EventId::as_str)
                .eq(ids.iter().map(String::as_str))
        );
        if self.dies_after_steps == Some(0) {
            return; // The host is killed before the response arrives.
        }
        self.now = self.now.plus(self.post_takes_ms);
        let outcome = match self.post_status {
            Some(status) => {
                let response = Response {
                    status,
                    retry_after: self.post_retry_after,
                    ..Response::default()
                };
                self.session.on_response(&response, self.now)
            }
            None => self.session.on_failure(Cause::Timeout, self.now),
        };
        assert!(self.session.posted().map(EventId::as_str).eq(&ids));
        if outcome == RequestOutcome::Approved {
            self.note(Exchange::Approved(ids));
        } else {
            assert!(
                matches!(outcome, RequestOutcome::ApprovalFailed { .. }),
                "{outcome:?}"
            );
            self.note(Exchange::Refused(ids));
        }
    }

    /// Answers the next poll with a new document.
    pub fn serve(&mut self, events: &[Spec]) -> RequestOutcome {
        self.incarnation += 1;
        let body = document(self.incarnation, events);
        self.serve_body(&body, events)
    }

    /// Answers the next poll with this body, which contains these events.
    pub fn serve_body(&mut self, body: &str, events: &[Spec]) -> RequestOutcome {
        self.answer(
            &Response {
                status: 200,
                body: body.as_bytes(),
                ..Response::default()
            },
            events,
        )
    }

    /// Answers the next poll with this status and no body.
    pub fn serve_status(&mut self, status: u16) -> RequestOutcome {
        self.answer(
            &Response {
                status,
                ..Response::default()
            },
            &[],
        )
    }

    /// Answers the next poll.
    pub fn answer(&mut self, response: &Response<'_>, events: &[Spec]) -> RequestOutcome {
        self.advance_to_poll();
        self.polling = false;
        let outcome = self.session.on_response(response, self.now);
        let accepted = matches!(
            outcome,
            RequestOutcome::Document | RequestOutcome::Unchanged
        );
        self.note(if accepted {
            Exchange::Served(events.to_vec())
        } else {
            Exchange::NotServed
        });
        self.run();
        outcome
    }

    /// Makes the next poll fail.
    pub fn fail(&mut self, cause: Cause) -> RequestOutcome {
        self.advance_to_poll();
        self.polling = false;
        let outcome = self.session.on_failure(cause, self.now);
        self.note(Exchange::NotServed);
        self.run();
        outcome
    }

    /// Reports the result of a preparation. Returns `false` if none is in progress.
    pub fn prepared(&mut self, id: &str, preparation: Preparation) -> bool {
        self.preparing.retain(|preparing| preparing != id);
        let attempt = self.attempts.get(id).copied().unwrap_or(u32::MAX);
        let outcome = self.session.prepared(attempt, preparation);
        if outcome == AnswerOutcome::Accepted {
            self.note(Exchange::Prepared(id.to_owned(), preparation));
        }
        self.run();
        outcome == AnswerOutcome::Accepted
    }

    pub fn ready(&mut self, id: &str) {
        assert!(self.prepared(id, Preparation::Ready));
    }

    fn recovery_started(&mut self, id: &str, own: bool) {
        self.recovering.push((id.to_owned(), own));
        if self.recovers {
            self.recovery_ended(id, own, true);
        }
    }

    /// Reports that the recovery that this event names is done.
    pub fn recovered(&mut self, id: &str) {
        let (_, own) = *self
            .recovering
            .iter()
            .find(|(known, _)| known == id)
            .expect("a recovery in progress");
        self.recovery_ended(id, own, true);
    }

    /// Reports that a recovery ended.
    pub fn recovery_ended(&mut self, id: &str, own: bool, done: bool) {
        let key = (id.to_owned(), own);
        self.recovering.retain(|known| *known != key);
        let outcome = self
            .session
            .recovered(self.recoveries[&key], done, self.now);
        assert_eq!(outcome, AnswerOutcome::Accepted);
        self.note(if own {
            Exchange::Recovered(key.0, done)
        } else {
            Exchange::RecoveredOther(key.0, done)
        });
    }

    /// Answers the oldest question to the gate. Returns `false` if the answer does not count any more.
    pub fn answer_gate(&mut self, answer: GateAnswer) -> bool {
        self.answer_question(0, answer)
    }

    fn answer_question(&mut self, index: usize, answer: GateAnswer) -> bool {
        let (id, phase) = self.asking.remove(index);
        self.check_would_prepare(self.questions[&id]);
        let outcome = self
            .session
            .gate_answered(self.questions[&id], answer, self.now);
        if outcome == AnswerOutcome::Accepted {
            self.note(Exchange::GateAnswered(id, phase, answer));
        }
        outcome == AnswerOutcome::Accepted
    }

    /// What the gate's yes would lead to is what it leads to, with the same snapshot.
    fn check_would_prepare(&self, attempt: u32) {
        let mut yes = self.session.clone();
        let _ = yes.gate_answered(attempt, GateAnswer::Open, self.now);
        let prepares = matches!(yes.take_step(self.now), Step::Prepare { .. });
        match self.session.would_prepare(attempt, self.now) {
            Some(ahead) if prepares => {
                let (mut expected, mut found) = (vec![0; 1 << 16], vec![0; 1 << 16]);
                assert_eq!(ahead.snapshot(&mut found), yes.snapshot(&mut expected));
                assert!(found == expected, "another snapshot");
                assert_eq!(ahead.out_of_service_since(), yes.out_of_service_since());
            }
            // Another step comes first.
            Some(_) => {}
            None => assert!(!prepares),
        }
    }

    /// Ends everything that was cancelled, with results that do not count.
    pub fn end_cancelled(&mut self) {
        for attempt in std::mem::take(&mut self.cancelled) {
            self.preparing
                .retain(|id| self.attempts.get(id) != Some(&attempt));
            self.asking
                .retain(|(id, _)| self.questions.get(id) != Some(&attempt));
            self.recovering
                .retain(|key| self.recoveries.get(key) != Some(&attempt));
            let outcomes = [
                self.session.prepared(attempt, Preparation::Ready),
                self.session.recovered(attempt, true, self.now),
                self.session
                    .gate_answered(attempt, GateAnswer::Open, self.now),
            ];
            let expected = |outcome: &&AnswerOutcome| **outcome == AnswerOutcome::Cancelled;
            assert_eq!(outcomes.iter().filter(expected).count(), 1, "{outcomes:?}");
            assert!(!outcomes.contains(&AnswerOutcome::Accepted), "{outcomes:?}");
        }
    }

    pub fn advance(&mut self, seconds: u32) {
        self.now = self.now.plus(seconds * 1000);
        self.run();
    }

    pub fn set_names(&mut self, names: &[&'static str]) {
        self.session.set_names(VmNames::new(names)).unwrap();
        self.setup.names = names.to_vec();
        self.note(Exchange::Named(names.to_vec()));
    }

    pub fn snapshot(&self) -> Vec<u8> {
        let mut buffer = vec![0; 256 + 192 * N];
        let length = self.session.snapshot(&mut buffer).unwrap();
        buffer.truncate(length);
        buffer
    }

    /// Kills the process with everything in progress, and restores the snapshot in a new one.
    pub fn restart(&mut self) {
        let snapshot = self.snapshot();
        self.session = self.setup.session();
        self.session.restore(&snapshot).unwrap();
        self.polling = false;
        self.preparing.clear();
        self.recovering.clear();
        self.asking.clear();
        self.cancelled.clear();
        self.note(Exchange::Restarted);
    }
}

/// A configuration with one rule, which matches every event of this machine.
pub fn setup(action: Action) -> Setup {
    Setup::new(Policy::new(&[Rule::new(action)]).unwrap())
}

/// A host of a session with one rule, which matches every event of this machine.
pub fn host<const N: usize>(action: Action) -> Host<N> {
    Host::new(setup(action))
}

/// Serves these events and returns the steps that follow.
pub fn steps_after<const N: usize>(host: &mut Host<N>, events: &[Spec]) -> Vec<String> {
    host.serve(events);
    host.take_steps()
}

/// What [`Host::take_steps`] returns if there were none.
pub fn no_steps() -> Vec<String> {
    Vec::new()
}
