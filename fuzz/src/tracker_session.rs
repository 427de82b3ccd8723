//! A session gets random documents, failures, clock jumps and restarts. The invariants are checked after every step. Its
//! capacity is small, so that documents exceed it.

use std::collections::HashMap;

use arbitrary::Unstructured;
use scheduled_events_core::record::{
    CauseWord, EventMembers, HookOutcome, Record, is_unsafe_to_print,
};
use scheduled_events_core::{
    Action, AnswerOutcome, Cause, Change, Document, Event, EventId, EventKind, EventType,
    EventTypes, GateAnswer, GatePhase, Leader, OpenFailures, Policy, Preparation, Report,
    RequestOutcome, Response, Rule, Scope, Session, SessionConfig, Step, TrackedEvent, UnixMillis,
    VmNames, WaitsFor,
};

use crate::grammar::{self, rarely};

const CAPACITY: usize = 5;
const NAMES: [&str; 1] = ["vm"];
const START: UnixMillis = UnixMillis(1_700_000_000_000);

pub fn run(data: &[u8]) {
    let _ = operate(&mut Unstructured::new(data));
}

/// The state of one event since it was last new.
#[derive(Clone, Debug, Default)]
struct EventState {
    started: bool,
    is_advice: bool,
    ended: bool,
    /// A preparation was issued, for the event with this type and this duration.
    prepared_for: Option<(String, u32)>,
    /// The preparation in progress.
    running: Option<u32>,
    /// Since the event changed, the gate has opened for the preparation, or the last call has come; the preparation is by that.
    may_prepare: bool,
    last_call: bool,
    by_last_call: bool,
    prepared: Option<Preparation>,
    /// Another machine may be still to be recovered from it, also if it has returned meanwhile.
    to_recover: bool,
    /// The recovery of another machine in progress.
    recovering: Option<u32>,
}

/// The record of a failed poll has its cause, and the message for people is one line.
fn check_failure(cause: Cause, retry_in_ms: u32) {
    let record = serde_json::to_value(Record::PollFailed {
        cause: CauseWord(cause),
        retry_in_ms,
    })
    .unwrap();
    assert!(
        record["cause"]
            .as_str()
            .is_some_and(|text| text.starts_with(cause.word())),
        "{record}"
    );
    let message = cause.to_string();
    assert!(
        !message.is_empty() && !message.chars().any(is_unsafe_to_print),
        "{message:?}"
    );
}

#[allow(clippy::struct_excessive_bools)] // They are independent of each other.
struct Host {
    policy: Policy,
    reaches_others: bool,
    session: Session<CAPACITY>,
    now: UnixMillis,
    /// The newest accepted document.
    body: String,
    incarnation: u64,
    events: HashMap<String, EventState>,
    /// The ids that were approved.
    approved: Vec<String>,
    /// A document exceeded the capacity: events may have come and gone untracked.
    exceeded: bool,
    post_status: Option<u16>,
    recovers: bool,
    /// Whether recoveries succeed, and cancelled commands end at once.
    succeeds: bool,
    cancels: bool,
    has_gate: bool,
    gate_answer: GateAnswer,
    /// The recovery of this machine in progress.
    recovering: Option<u32>,
    /// What was cancelled and still runs.
    cancelled: Vec<u32>,
    last_request: Option<UnixMillis>,
    requests: u32,
}

fn operate(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let (mut policy, reaches_others) = policy(u)?;
    let has_gate = rarely(u, 3)?;
    if has_gate {
        // The gate decides which machine approves.
        policy.leader = Some(Leader::Everyone);
    }
    let mut host = Host {
        session: session(&policy, has_gate),
        policy,
        reaches_others,
        now: START,
        body: r#"{"Events":[]}"#.to_owned(),
        incarnation: 0,
        events: HashMap::new(),
        approved: Vec::new(),
        exceeded: false,
        post_status: Some(200),
        recovers: true,
        succeeds: true,
        cancels: true,
        has_gate,
        gate_answer: GateAnswer::Open,
        recovering: None,
        cancelled: Vec::new(),
        last_request: None,
        requests: 0,
    };
    for _ in 0..u.int_in_range(1..=60)? {
        if u.is_empty() {
            break;
        }
        match u.int_in_range(0..=18)? {
            0..=4 => {
                host.incarnation += 1;
                let mut specs = grammar::specs(u, 8)?;
                for spec in &mut specs {
                    // Most rules match own scheduled events.
                    if rarely(u, 2)? {
                        spec.resources = Some(vec!["vm".to_owned()]);
                        spec.status = Some("Scheduled".to_owned());
                    }
                }
                let body = grammar::document(u, Some(host.incarnation), &specs)?;
                host.serve(&body);
            }
            5 => {
                let body = host.body.clone();
                host.serve(&body);
            }
            6 => {
                // One status in the document changes.
                let words = [
                    "Scheduled",
                    "Started",
                    "Completed",
                    "Canceled",
                    "Queued",
                    "Advisory",
                ];
                let (from, to) = (*u.choose(&words)?, *u.choose(&words)?);
                host.incarnation += 1;
                let body = host.body.replacen(from, to, 1) + &" ".repeat(u.int_in_range(0..=3)?);
                host.serve(&body);
            }
            7 => {
                let status = *u.choose(&[204, 301, 304, 400, 404, 410, 429, 500, 503])?;
                let retry_after = if rarely(u, 2)? {
                    Some(u.arbitrary()?)
                } else {
                    None
                };
                host.fails(&Response {
                    status,
                    retry_after,
                    body: br#"{"Events":[]}"#,
                });
            }
            8 => {
                let body = *u.choose(&[
                    "",
                    " \r\n",
                    "<html>",
                    "{\"Events\":[",
                    "{\"Events\":{}}",
                    "[]",
                    "\u{feff}",
                ])?;
                host.fails(&Response {
                    status: 200,
                    body: body.as_bytes(),
                    ..Response::default()
                });
            }
            9 => {
                let millis = u.int_in_range(0..=200_000)?;
                host.now = host.now.plus(millis);
                host.run_steps(false);
            }
            10 | 11 => host.answer_preparation(if u.ratio(3, 4)? {
                Preparation::Ready
            } else {
                [Preparation::Failed, Preparation::Abandoned][usize::from(host.recovers)]
            }),
            12 => host.recovers = u.arbitrary()?,
            14 => (host.succeeds, host.cancels) = (u.arbitrary()?, u.arbitrary()?),
            15 => host.gate_answer = *u.choose(&GateAnswer::ALL)?,
            16 => host.end_cancelled(),
            13 => {
                host.post_status =
                    *u.choose(&[Some(200), Some(204), Some(400), Some(429), Some(500), None])?;
            }
            _ => host.restart(),
        }
    }
    host.finish();
    Ok(())
}

fn policy(u: &mut Unstructured<'_>) -> arbitrary::Result<(Policy, bool)> {
    let count = u.int_in_range(1..=3_usize)?;
    let mut rules = Vec::new();
    for _ in 0..count {
        let types = [
            EventTypes::ANY,
            EventTypes::of(&[EventKind::Freeze]),
            EventTypes::of(&[EventKind::Terminate]),
            EventTypes::of(&[EventKind::SpotRebalanceRecommendation]),
        ];
        rules.push(Rule {
            event_types: *u.choose(&types)?,
            max_duration: if rarely(u, 4)? { Some(8) } else { None },
            scope: *u.choose(&[
                Scope::Mine,
                Scope::Mine,
                Scope::Mine,
                Scope::Any,
                Scope::Others,
            ])?,
            ..Rule::new(*u.choose(&[
                Action::Approve,
                Action::Prepare,
                Action::Prepare,
                Action::Hold,
                Action::Ignore,
            ])?)
        });
    }
    let mut policy = Policy::new(&rules).unwrap();
    let leaders = [
        Leader::FirstResource,
        Leader::Everyone,
        Leader::Rank {
            take_over_after: 20,
        },
    ];
    policy.leader = if rarely(u, 3)? {
        None
    } else {
        Some(*u.choose(&leaders)?)
    };
    let reaches_others = rules.iter().any(|rule| rule.scope != Scope::Mine);
    Ok((policy, reaches_others))
}

fn session(policy: &Policy, gate: bool) -> Session<CAPACITY> {
    let config = SessionConfig {
        policy: policy.clone(),
        gate,
        seed: 9,
        ..SessionConfig::new(VmNames::new(&NAMES))
    };
    Session::new(&config).unwrap()
}

/// The record of a report is JSON that any reader accepts, with its kind and its time. The line for people names the event.
fn check_record(report: &Report<&TrackedEvent>, body: &str, now: UnixMillis) {
    let members = report.map(EventMembers::from_tracked);
    let record = Record::from_report(&members, Some(body.as_bytes())).at(now.seconds());
    let value = serde_json::to_value(record).unwrap();
    assert!(
        value["record"].is_string() && value["time"] == now.seconds().to_string().as_str(),
        "{value}"
    );
    let line = report.to_string();
    match report {
        Report::Change { event, .. }
        | Report::Decision { event, .. }
        | Report::LastCall { event } => {
            assert!(line.starts_with(event.event_id().as_str()), "{line}");
        }
        Report::Problem(problem) => assert!(
            line.ends_with(&format!("at byte {}", problem.offset)),
            "{line}"
        ),
        Report::Untracked(untracked) => {
            assert!(line.contains(&format!("{} own", untracked.own)), "{line}");
        }
        Report::NoAdvice => assert!(line.contains("2024-07-09"), "{line}"),
    }
}

fn key(id: &EventId) -> String {
    id.as_str().to_ascii_lowercase()
}

/// A snapshot without what it says of the versions of the API, which any document may change, and without its checksum.
fn without_versions(snapshot: &[u8]) -> Vec<u8> {
    const SINCE_AND_MISSES: std::ops::Range<usize> = 47..56;
    let mut kept = snapshot[..snapshot.len() - 8].to_vec();
    kept.drain(SINCE_AND_MISSES);
    kept
}

fn is_over(event: &Event<'_>) -> bool {
    let status = event.event_status().map(|status| status.to_string());
    matches!(status.as_deref(), Some("Completed" | "Canceled"))
}

impl Host {
    fn snapshot(&self) -> Vec<u8> {
        let mut snapshot = vec![0; 4096];
        let length = self.session.snapshot(&mut snapshot).unwrap();
        snapshot.truncate(length);
        snapshot
    }

    /// Kills the process and starts a new one from the snapshot.
    fn restart(&mut self) {
        let (snapshot, open) = (self.snapshot(), self.session.open_failures());
        self.session = session(&self.policy, self.has_gate);
        assert_eq!(self.session.restore(&snapshot), Ok(()));
        // A last call may be forgotten, and so may the failed recovery of another machine.
        let after = self.session.open_failures();
        let failed = |open: OpenFailures| (open.preparations, open.approvals);
        assert_eq!(failed(after), failed(open), "a restart forgets some");
        assert!(after.last_calls <= open.last_calls);
        assert!(after.recoveries <= open.recoveries);
        assert!(after.recoveries == open.recoveries || self.reaches_others);
        // The same policy again: nothing else changes.
        self.session.set_policy(self.policy.clone());
        assert_eq!(self.snapshot().len(), snapshot.len());
        for event in self.events.values_mut() {
            // Everything in progress is lost and issued again.
            event.running = None;
            event.recovering = None;
            (event.may_prepare, event.last_call) = (false, false);
        }
        self.recovering = None;
        self.cancelled.clear();
        self.last_request = None;
        self.run_steps(false);
    }

    fn serve(&mut self, body: &str) {
        self.run_steps(true);
        let response = Response {
            status: 200,
            retry_after: None,
            body: body.as_bytes(),
        };
        let before = self.snapshot();
        match self.session.on_response(&response, self.now) {
            RequestOutcome::Document => {
                body.clone_into(&mut self.body);
                let document = Document::parse(body.as_bytes()).unwrap();
                self.exceeded |= document.events().filter(|event| !is_over(event)).count()
                    + self.session.events().count()
                    > CAPACITY;
            }
            RequestOutcome::Unchanged | RequestOutcome::Stale => {
                assert_eq!(
                    without_versions(&self.snapshot()),
                    without_versions(&before)
                );
            }
            other => panic!("{other:?} for {body}"),
        }
        self.run_steps(false);
        if !self.untracked_own_events().is_empty() {
            // Gone events keep their slots until their end is reported; the next poll uses them.
            self.run_steps(true);
            let body = self.body.clone();
            self.session.on_response(
                &Response {
                    body: body.as_bytes(),
                    ..response
                },
                self.now,
            );
            self.run_steps(false);
            assert_eq!(
                self.untracked_own_events(),
                [""; 0],
                "own events that are not tracked"
            );
        }
    }

    /// Invariant 6: a failed poll changes nothing.
    fn fails(&mut self, response: &Response<'_>) {
        self.run_steps(true);
        let before = self.snapshot();
        let outcome = if response.status == 503 {
            self.session.on_failure(Cause::Timeout, self.now)
        } else {
            self.session.on_response(response, self.now)
        };
        let RequestOutcome::PollFailed { cause, retry_in_ms } = outcome else {
            panic!("{outcome:?}")
        };
        check_failure(cause, retry_in_ms);
        assert_eq!(self.snapshot(), before, "{outcome:?} changed something");
        self.run_steps(false);
    }

    fn answer_preparation(&mut self, preparation: Preparation) {
        let running = self
            .events
            .values_mut()
            .find(|event| event.running.is_some());
        let Some(event) = running.filter(|event| {
            !event
                .running
                .is_some_and(|attempt| self.cancelled.contains(&attempt))
        }) else {
            return;
        };
        let attempt = event.running.take().unwrap();
        event.prepared = Some(preparation);
        let hook = match preparation {
            Preparation::Ready => HookOutcome::Ready,
            Preparation::Failed => HookOutcome::Failed,
            Preparation::Abandoned => HookOutcome::Abandoned,
        };
        // What a host reports of it: once, and as it is.
        let mut report = || hook.to_report(self.session.prepared(attempt, preparation));
        assert_eq!((report(), report()), (Some(hook), None));
        assert!(!hook.has_recovered());
        self.run_steps(false);
    }

    /// Ends what was cancelled. Its results do not count.
    fn end_cancelled(&mut self) {
        for attempt in std::mem::take(&mut self.cancelled) {
            let outcomes = [
                self.session.prepared(attempt, Preparation::Ready),
                self.session.recovered(attempt, true, self.now),
                self.session
                    .gate_answered(attempt, GateAnswer::Open, self.now),
            ];
            let count = outcomes
                .iter()
                .filter(|outcome| **outcome == AnswerOutcome::Cancelled)
                .count();
            assert!(
                count == 1 && !outcomes.contains(&AnswerOutcome::Accepted),
                "{outcomes:?}"
            );
            if self.recovering == Some(attempt) {
                self.recovering = None;
            }
            for event in self.events.values_mut() {
                event.running = event.running.filter(|running| *running != attempt);
                event.recovering = event.recovering.filter(|running| *running != attempt);
            }
        }
        self.run_steps(false);
    }

    /// Whether the newest document names this machine in the event.
    fn is_own(&self, id: &str) -> Option<bool> {
        let document = Document::parse(self.body.as_bytes()).unwrap();
        let event = document
            .events()
            .find(|event| key(&EventId::new(&event.event_id())) == id)?;
        VmNames::new(&NAMES).owns(&event)
    }

    /// Performs steps until the session waits, or until it polls if `to_poll`.
    fn run_steps(&mut self, to_poll: bool) {
        if self.session.awaits_answer() {
            // A poll is in progress already.
            if to_poll {
                return;
            }
        }
        for _ in 0..3_000 {
            self.check_waiting();
            let step = self.session.take_step(self.now);
            if let Step::Report(report) = &step {
                check_record(report, &self.body, self.now);
                let shown = report.as_ref().event().map(|event| event.event_id());
                assert_eq!(shown, report.event().map(|event| event.event_id()));
            }
            match step {
                Step::Wait { until } => {
                    assert!(until > self.now, "the session waits for a time in the past");
                    if !to_poll {
                        return;
                    }
                    self.now = until;
                }
                Step::Get { .. } => {
                    self.requested();
                    if to_poll {
                        return;
                    }
                    // This operation needs no poll, so it fails.
                    let outcome = self.session.on_failure(Cause::Unreachable, self.now);
                    assert!(matches!(outcome, RequestOutcome::PollFailed { .. }));
                }
                Step::Post { body, .. } => {
                    let body: serde_json::Value = serde_json::from_slice(body).unwrap();
                    let ids: Vec<_> = self.session.posted().cloned().collect();
                    let written = body["StartRequests"].as_array().unwrap();
                    assert!(
                        written
                            .iter()
                            .map(|id| id["EventId"].as_str().unwrap())
                            .eq(ids.iter().map(EventId::as_str))
                    );
                    self.posted(&ids);
                }
                Step::Prepare {
                    event,
                    by_last_call,
                    attempt,
                } => {
                    let id = key(event.event_id());
                    let is_own = event.mine() == Some(true);
                    let what = (
                        event.event_type().to_owned(),
                        event.duration_in_seconds().unwrap_or(u32::MAX),
                    );
                    let event = self.events.entry(id.clone()).or_default();
                    assert_eq!(event.running, None, "{id} is prepared for twice");
                    assert!(
                        !self.has_gate || event.may_prepare || event.last_call,
                        "{id} is prepared for without the gate"
                    );
                    event.by_last_call = !event.may_prepare;
                    assert_eq!(by_last_call, self.has_gate && event.by_last_call);
                    assert!(!event.ended, "{id} is prepared for after its end");
                    assert!(
                        !is_own || self.recovering.is_none(),
                        "{id} is prepared for during the recovery"
                    );
                    (event.running, event.prepared) = (Some(attempt), None);
                    event.prepared_for = Some(what);
                    event.to_recover = true;
                    assert!(!is_own || self.session.out_of_service_since().is_some());
                }
                Step::Gate {
                    event,
                    phase,
                    attempt,
                } => {
                    let id = key(event.event_id());
                    let event = self.events.entry(id.clone()).or_default();
                    assert!(self.has_gate && !event.ended, "{id}: {event:?}");
                    assert!(
                        event.running.is_none() || event.by_last_call,
                        "{id}: {event:?}"
                    );
                    event.may_prepare |=
                        (phase, self.gate_answer) == (GatePhase::Prepare, GateAnswer::Open);
                    self.check_would_prepare(attempt);
                    let outcome = self
                        .session
                        .gate_answered(attempt, self.gate_answer, self.now);
                    assert_eq!(outcome, AnswerOutcome::Accepted);
                }
                Step::Cancel { attempt } => {
                    assert!(!self.cancelled.contains(&attempt), "cancelled twice");
                    self.cancelled.push(attempt);
                    if self.cancels {
                        self.end_cancelled();
                    }
                }
                Step::Recover {
                    events,
                    own,
                    attempt,
                } => {
                    let id = key(events.last().event_id());
                    let ids: Vec<_> = events.iter().map(|event| key(event.event_id())).collect();
                    if own {
                        assert!(
                            self.session
                                .recovering()
                                .map(|event| key(event.event_id()))
                                .eq(ids)
                        );
                        self.recovers_machine(attempt);
                    } else {
                        assert_eq!(ids, std::slice::from_ref(&id));
                        let event = self.events.get_mut(&id).expect("known");
                        assert!(event.recovering.is_none(), "{id}: {event:?}");
                        event.recovering = Some(attempt);
                        if self.recovers {
                            event.recovering = None;
                            event.to_recover &= !self.succeeds;
                            let outcome = self.session.recovered(attempt, self.succeeds, self.now);
                            assert_eq!(outcome, AnswerOutcome::Accepted);
                        }
                    }
                }
                Step::Report(Report::Change { change, event }) => {
                    let id = key(event.event_id());
                    self.changed(id, change);
                }
                Step::Report(Report::Decision { .. }) => {}
                Step::Report(Report::LastCall { event }) => {
                    assert!(self.has_gate);
                    self.events
                        .entry(key(event.event_id()))
                        .or_default()
                        .last_call = true;
                }
                Step::Report(Report::Untracked(_)) => assert!(self.exceeded),
                Step::Report(Report::NoAdvice) => assert!(self.policy.names_advice()),
                Step::Report(Report::Problem(problem)) => assert!(problem.offset < self.body.len()),
            }
        }
        panic!("the session never waits");
    }

    /// What the gate's yes would lead to is what it leads to, with the same snapshot.
    fn check_would_prepare(&self, attempt: u32) {
        let mut yes = self.session.clone();
        let _ = yes.gate_answered(attempt, GateAnswer::Open, self.now);
        let prepares = matches!(yes.take_step(self.now), Step::Prepare { .. });
        match self.session.would_prepare(attempt, self.now) {
            Some(ahead) if prepares => {
                let (mut expected, mut found) = (
                    vec![0; Session::<CAPACITY>::SNAPSHOT_MAX],
                    vec![0; Session::<CAPACITY>::SNAPSHOT_MAX],
                );
                assert_eq!(ahead.snapshot(&mut found), yes.snapshot(&mut expected));
                assert!(found == expected, "another snapshot");
                assert_eq!(ahead.out_of_service_since(), yes.out_of_service_since());
                assert!(
                    yes.events()
                        .any(|event| event.event_id() == ahead.event().event_id())
                );
            }
            // Another step comes first.
            Some(_) => {}
            None => assert!(!prepares),
        }
    }

    /// What the session waits for agrees with what the host knows.
    fn check_waiting(&self) {
        let waiting: Vec<_> = self.session.waiting(self.now).collect();
        assert_eq!(waiting.len(), self.session.events().count());
        for (event, waiting) in waiting {
            let id = key(event.event_id());
            let _ = waiting.reason().map(|reason| reason.to_string());
            if let Some(attempt) = waiting.attempt {
                let runs =
                    |event: &EventState| [event.running, event.recovering].contains(&Some(attempt));
                let runs = self.recovering == Some(attempt) || self.events.values().any(runs);
                assert!(
                    runs || self.cancelled.contains(&attempt),
                    "{id}: attempt {attempt} does not run"
                );
            }
            assert!(
                waiting.waits_for != WaitsFor::Start
                    || self.approved.contains(&id)
                    || self.exceeded,
                "{id}"
            );
        }
        let open = self.session.open_failures();
        let most = open.preparations.max(open.approvals).max(open.last_calls);
        assert!(most <= self.session.events().count(), "{open:?}");
        let recovery = self.session.recovery();
        assert_eq!(
            recovery.is_some(),
            self.session.out_of_service_since().is_some()
        );
    }

    /// At most five requests per second.
    fn requested(&mut self) {
        self.requests += 1;
        if let Some(last) = self.last_request {
            assert!(
                self.now.millis_since(last) >= 200,
                "two requests in less than 200 ms"
            );
        }
        self.last_request = Some(self.now);
    }

    /// Invariants 1 to 5.
    fn posted(&mut self, ids: &[EventId]) {
        self.requested();
        assert!(!ids.is_empty());
        let document = Document::parse(self.body.as_bytes()).unwrap();
        for id in ids {
            let event = document
                .events()
                .find(|event| EventId::new(&event.event_id()) == *id);
            let event =
                event.unwrap_or_else(|| panic!("{id} is approved, but not in the document"));
            let status = event.event_status().map(|status| status.to_string());
            assert_eq!(status.as_deref(), Some("Scheduled"), "{id}");
            assert!(!event.is_advice(), "{id}: advice is approved");
            let names = VmNames::new(&NAMES);
            let mine = names.owns(&event).unwrap();
            assert!(mine || self.reaches_others, "{id} is another machine's");
            assert!(
                mine || event.event_type() != Some(EventType::Terminate),
                "another machine's Terminate"
            );
            assert_eq!(event.unreliable_member(), None, "{id}");
            let approved = self.approved.contains(&key(id));
            assert!(
                !approved || self.approved.len() > CAPACITY,
                "{id} is approved twice"
            );
            match self.policy.decide(&event, names, self.now.seconds()).action {
                Action::Approve => {}
                Action::Prepare => {
                    let state = &self.events[&key(id)];
                    assert_eq!(state.prepared, Some(Preparation::Ready), "{id}");
                    let (event_type, duration) = state.prepared_for.as_ref().expect("prepared for");
                    let now = event
                        .event_type()
                        .map(|word| word.to_string())
                        .unwrap_or_default();
                    assert!(
                        now.starts_with(event_type.as_str()),
                        "{id} was {event_type} and is {now}"
                    );
                    assert!(
                        event.duration_in_seconds().unwrap_or(u32::MAX) <= *duration,
                        "{id} lasts longer"
                    );
                    assert!(
                        !mine || self.session.out_of_service_since().is_some(),
                        "{id}: in service"
                    );
                }
                other => panic!("{id} is approved, but its action is {other:?}"),
            }
        }
        let outcome = match self.post_status {
            Some(status) => self.session.on_response(
                &Response {
                    status,
                    ..Response::default()
                },
                self.now,
            ),
            None => self.session.on_failure(Cause::Timeout, self.now),
        };
        if outcome == RequestOutcome::Approved {
            self.approved.extend(ids.iter().map(key));
        } else {
            assert!(
                matches!(outcome, RequestOutcome::ApprovalFailed { .. }),
                "{outcome:?}"
            );
        }
    }

    /// Invariant 7.
    fn changed(&mut self, id: String, change: Change) {
        let exceeded = self.exceeded;
        self.events
            .entry(id.clone())
            .and_modify(|event| (event.may_prepare, event.last_call) = (false, false));
        let known = self.events.get(&id).filter(|event| !event.ended).cloned();
        match (change, known) {
            (Change::Scheduled | Change::Advised | Change::StartedWithoutNotice, None) => {
                // It may have been here before: what still runs for it is not forgotten.
                let before = self.events.remove(&id).unwrap_or_default();
                let state = EventState {
                    started: change == Change::StartedWithoutNotice,
                    is_advice: change == Change::Advised,
                    prepared_for: None,
                    prepared: None,
                    ended: false,
                    ..before
                };
                self.events.insert(id, state);
            }
            // It becomes advice, or maintenance again.
            (Change::Advised, Some(event)) if !event.is_advice && !event.started => {
                self.events.get_mut(&id).unwrap().is_advice = true;
            }
            (Change::Scheduled, Some(event)) if event.is_advice => {
                self.events.get_mut(&id).unwrap().is_advice = false;
            }
            (Change::Scheduled | Change::Advised, Some(event)) => {
                assert!(exceeded, "{id} is new twice");
                assert_eq!(
                    event.running, None,
                    "{id} was evicted while a command ran for it"
                );
                let is_advice = change == Change::Advised;
                let state = EventState {
                    is_advice,
                    ..EventState::default()
                };
                self.events.insert(id, state);
            }
            (Change::Started | Change::StartedWithoutNotice, Some(event)) => {
                assert!(!event.started || exceeded, "{id} starts twice");
                let is_noticed = !event.is_advice || change == Change::StartedWithoutNotice;
                assert!(is_noticed || exceeded, "{id}: advice starts");
                let event = self.events.get_mut(&id).unwrap();
                (event.started, event.is_advice) = (true, false);
            }
            (Change::Updated | Change::Rescheduled, Some(event)) => {
                assert!(
                    change == Change::Updated || !event.started || exceeded,
                    "{id} has started and is rescheduled"
                );
            }
            (Change::AdviceWithdrawn, Some(event)) => {
                assert!(event.is_advice || exceeded, "{id}: {event:?}");
                self.events.get_mut(&id).unwrap().ended = true;
            }
            (Change::Completed | Change::Cancelled | Change::Ended, Some(event)) => {
                assert!(!event.is_advice || exceeded, "{id}: {change} of advice");
                assert!(
                    (change == Change::Completed) >= event.started || exceeded,
                    "{id}: {change} after it started"
                );
                self.events.get_mut(&id).unwrap().ended = true;
            }
            (change, None) => panic!("{id}: {change}, but it was never reported as new"),
        }
    }

    /// Invariant 8, first part: nothing keeps this machine out of service when it is recovered.
    fn recovers_machine(&mut self, attempt: u32) {
        assert!(self.session.out_of_service_since().is_some() && self.recovering.is_none());
        for (id, event) in &self.events {
            let is_open = !event.ended && self.is_own(id) == Some(true);
            assert!(
                !is_open || event.prepared_for.is_none() || self.exceeded,
                "{id} was prepared for: {event:?}"
            );
            assert!(
                !is_open || !event.started || self.exceeded,
                "{id} has started: {event:?}"
            );
        }
        self.recovering = Some(attempt);
        if self.recovers {
            self.recovering = None;
            assert_eq!(
                self.session.recovered(attempt, self.succeeds, self.now),
                AnswerOutcome::Accepted
            );
            let second = self.session.recovered(attempt, true, self.now);
            assert_eq!(
                second,
                AnswerOutcome::Unexpected,
                "a second result must be refused"
            );
            assert_eq!(self.session.out_of_service_since().is_none(), self.succeeds);
        }
    }

    /// This machine's events that are not tracked although all of them fit.
    fn untracked_own_events(&self) -> Vec<String> {
        let document = Document::parse(self.body.as_bytes()).unwrap();
        let names = VmNames::new(&NAMES);
        let mut own: Vec<_> = document
            .events()
            .filter(|event| !is_over(event) && names.owns(event) == Some(true))
            .map(|event| key(&EventId::new(&event.event_id())))
            .collect();
        own.sort_unstable();
        own.dedup();
        let tracked: Vec<_> = self
            .session
            .events()
            .map(|event| key(event.event_id()))
            .collect();
        let lingering = tracked.iter().filter(|id| !own.contains(id)).filter(|id| {
            let event = &self.events[*id];
            // An own event is followed although an earlier entry of the document has its id.
            let is_own = |known: &&TrackedEvent| key(known.event_id()) == **id;
            let known = self.session.events().find(is_own);
            if known.is_some_and(|known| known.mine() == Some(true)) {
                return true;
            }
            // One that has started stays this machine's while its `Resources` are empty or cannot be read.
            let may_be_own = event.started && !event.ended;
            may_be_own
                || event.to_recover
                || event.prepared_for.is_some()
                || event.running.is_some()
                || event.recovering.is_some()
        });
        if own.len() + lingering.count() > CAPACITY {
            return Vec::new();
        }
        own.retain(|id| !tracked.contains(id));
        own
    }

    /// Invariant 8, second part: finally, the machine is in service.
    fn finish(&mut self) {
        (self.recovers, self.succeeds, self.cancels) = (true, true, true);
        self.restart();
        // For so long that the documents cannot be older than those of another version before the restart.
        for _ in 0..16 {
            self.incarnation += 1;
            self.serve(&format!(
                r#"{{"DocumentIncarnation":{},"Events":[]}}"#,
                self.incarnation
            ));
        }
        for (id, event) in &self.events {
            assert!(event.ended || self.exceeded, "{id} never ended: {event:?}");
        }
        assert_eq!(self.session.out_of_service_since(), None);
        assert!(self.session.is_idle());
        assert!(self.requests > 0);
    }
}
