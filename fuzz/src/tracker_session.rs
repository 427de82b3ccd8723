//! A session gets random documents, failures, clock jumps and restarts. The invariants are checked after every step. Its
//! capacity is small, so that documents exceed it.

use std::collections::HashMap;

use arbitrary::Unstructured;
use scheduled_events_core::{
    Action, Cause, Change, Document, Event, EventId, EventKind, EventType, EventTypes, Leader, Policy, Preparation,
    Report, RequestOutcome, Response, Rule, Scope, Session, SessionConfig, Step, UnixMillis, VmNames,
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
#[allow(clippy::struct_excessive_bools)] // They are independent of each other.
struct EventState {
    started: bool,
    ended: bool,
    /// A preparation was issued and not recovered from.
    prepare_issued: bool,
    preparing: bool,
    prepared: Option<Preparation>,
    recovering: bool,
}

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
    last_request: Option<UnixMillis>,
    requests: u32,
}

fn operate(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let (policy, reaches_others) = policy(u)?;
    let mut host = Host {
        session: session(&policy),
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
        last_request: None,
        requests: 0,
    };
    for _ in 0..u.int_in_range(1..=60)? {
        if u.is_empty() {
            break;
        }
        match u.int_in_range(0..=15)? {
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
                let words = ["Scheduled", "Started", "Completed", "Canceled", "Queued"];
                let (from, to) = (*u.choose(&words)?, *u.choose(&words)?);
                host.incarnation += 1;
                let body = host.body.replacen(from, to, 1) + &" ".repeat(u.int_in_range(0..=3)?);
                host.serve(&body);
            }
            7 => {
                let status = *u.choose(&[204, 301, 304, 400, 404, 410, 429, 500, 503])?;
                let retry_after = if rarely(u, 2)? { Some(u.arbitrary()?) } else { None };
                host.fails(&Response { status, retry_after, body: br#"{"Events":[]}"# });
            }
            8 => {
                let body = *u.choose(&["", " \r\n", "<html>", "{\"Events\":[", "{\"Events\":{}}", "[]", "\u{feff}"])?;
                host.fails(&Response { status: 200, body: body.as_bytes(), ..Response::default() });
            }
            9 => {
                let millis = u.int_in_range(0..=200_000)?;
                host.now = host.now.plus(millis);
                host.run_steps(false);
            }
            10 | 11 => host.answer_preparation(if u.ratio(3, 4)? { Preparation::Ready } else { Preparation::Failed }),
            12 => host.recovers = u.arbitrary()?,
            13 => host.post_status = *u.choose(&[Some(200), Some(204), Some(400), Some(429), Some(500), None])?,
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
        let types = [EventTypes::ANY, EventTypes::of(&[EventKind::Freeze]), EventTypes::of(&[EventKind::Terminate])];
        rules.push(Rule {
            event_types: *u.choose(&types)?,
            max_duration: if rarely(u, 4)? { Some(8) } else { None },
            scope: *u.choose(&[Scope::Mine, Scope::Mine, Scope::Mine, Scope::Any, Scope::Others])?,
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
    policy.leader = *u.choose(&[Leader::FirstResource, Leader::Everyone, Leader::Rank { take_over_after: 20 }])?;
    let reaches_others = rules.iter().any(|rule| rule.scope != Scope::Mine);
    Ok((policy, reaches_others))
}

fn session(policy: &Policy) -> Session<CAPACITY> {
    let config = SessionConfig { policy: policy.clone(), seed: 9, ..SessionConfig::new(VmNames::new(&NAMES)) };
    Session::new(&config).unwrap()
}

fn key(id: &EventId) -> String {
    id.as_str().to_ascii_lowercase()
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
        let snapshot = self.snapshot();
        self.session = session(&self.policy);
        assert_eq!(self.session.restore(&snapshot), Ok(()));
        assert_eq!(self.snapshot().len(), snapshot.len());
        for event in self.events.values_mut() {
            // Everything in progress is lost and issued again.
            event.preparing = false;
            event.recovering = false;
        }
        self.last_request = None;
        self.run_steps(false);
    }

    fn serve(&mut self, body: &str) {
        self.run_steps(true);
        let response = Response { status: 200, retry_after: None, body: body.as_bytes() };
        let before = self.snapshot();
        match self.session.on_response(&response, self.now) {
            RequestOutcome::Document => {
                body.clone_into(&mut self.body);
                let document = Document::parse(body.as_bytes()).unwrap();
                self.exceeded |= document.events().filter(|event| !is_over(event)).count()
                    + self.session.events().count()
                    > CAPACITY;
            }
            RequestOutcome::Unchanged | RequestOutcome::Stale => assert_eq!(self.snapshot(), before),
            other => panic!("{other:?} for {body}"),
        }
        self.run_steps(false);
        if !self.untracked_own_events().is_empty() {
            // Gone events keep their slots until their end is reported; the next poll uses them.
            self.run_steps(true);
            let body = self.body.clone();
            self.session.on_response(&Response { body: body.as_bytes(), ..response }, self.now);
            self.run_steps(false);
            assert_eq!(self.untracked_own_events(), [""; 0], "own events that are not tracked");
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
        assert!(matches!(outcome, RequestOutcome::PollFailed { .. }), "{outcome:?}");
        assert_eq!(self.snapshot(), before, "{outcome:?} changed something");
        self.run_steps(false);
    }

    fn answer_preparation(&mut self, preparation: Preparation) {
        let Some((id, event)) = self.events.iter_mut().find(|(_, event)| event.preparing) else { return };
        event.preparing = false;
        event.prepared = Some(preparation);
        // Ids are compared without case.
        assert!(self.session.prepared(&id.to_ascii_uppercase(), preparation));
        self.run_steps(false);
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
            match self.session.next(self.now) {
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
                        written.iter().map(|id| id["EventId"].as_str().unwrap()).eq(ids.iter().map(EventId::as_str))
                    );
                    self.posted(&ids);
                }
                Step::Prepare { event } => {
                    let id = key(event.event_id());
                    let event = self.events.entry(id.clone()).or_default();
                    assert!(!event.preparing && event.prepared.is_none(), "{id} is prepared for twice");
                    assert!(!event.ended, "{id} is prepared for after its end");
                    event.preparing = true;
                    event.prepare_issued = true;
                }
                Step::Recover { event } => {
                    let id = event.event_id().clone();
                    let event = self.events.get_mut(&key(&id)).expect("known");
                    assert!(event.prepare_issued && event.ended && !event.recovering, "{id}: {event:?}");
                    event.recovering = true;
                    if self.recovers {
                        self.recovered(&id);
                    }
                }
                Step::Report(Report::Change { change, event }) => {
                    let id = key(event.event_id());
                    self.changed(id, change);
                }
                Step::Report(Report::Decision { decision, event }) => {
                    let _ = (decision.reason.to_string(), event.event_id().as_str());
                }
                Step::Report(Report::Untracked(_)) => assert!(self.exceeded),
                Step::Report(Report::Problem(problem)) => assert!(problem.offset < self.body.len()),
            }
        }
        panic!("the session never waits");
    }

    /// At most five requests per second.
    fn requested(&mut self) {
        self.requests += 1;
        if let Some(last) = self.last_request {
            assert!(self.now.millis_since(last) >= 200, "two requests in less than 200 ms");
        }
        self.last_request = Some(self.now);
    }

    /// Invariants 1 to 5.
    fn posted(&mut self, ids: &[EventId]) {
        self.requested();
        assert!(!ids.is_empty());
        let document = Document::parse(self.body.as_bytes()).unwrap();
        for id in ids {
            let event = document.events().find(|event| EventId::new(&event.event_id()) == *id);
            let event = event.unwrap_or_else(|| panic!("{id} is approved, but not in the document"));
            let status = event.event_status().map(|status| status.to_string());
            assert_eq!(status.as_deref(), Some("Scheduled"), "{id}");
            let names = VmNames::new(&NAMES);
            let mine = names.owns(&event).unwrap();
            assert!(mine || self.reaches_others, "{id} is another machine's");
            assert!(mine || event.event_type() != Some(EventType::Terminate), "another machine's Terminate");
            assert_eq!(event.unreliable_member(), None, "{id}");
            let approved = self.approved.contains(&key(id));
            assert!(!approved || self.approved.len() > 16, "{id} is approved twice");
            match self.policy.decide(&event, names, self.now.seconds()).action {
                Action::Approve => {}
                Action::Prepare => assert_eq!(self.events[&key(id)].prepared, Some(Preparation::Ready), "{id}"),
                other => panic!("{id} is approved, but its action is {other:?}"),
            }
        }
        let outcome = match self.post_status {
            Some(status) => self.session.on_response(&Response { status, ..Response::default() }, self.now),
            None => self.session.on_failure(Cause::Timeout, self.now),
        };
        if outcome == RequestOutcome::Approved {
            self.approved.extend(ids.iter().map(key));
        } else {
            assert!(matches!(outcome, RequestOutcome::ApprovalFailed { .. }), "{outcome:?}");
        }
    }

    /// Invariant 7.
    fn changed(&mut self, id: String, change: Change) {
        let exceeded = self.exceeded;
        let known = self.events.get(&id).filter(|event| !event.ended).cloned();
        match (change, known) {
            (Change::Scheduled | Change::StartedWithoutNotice, None) => {
                let before = self
                    .events
                    .insert(id, EventState { started: change != Change::Scheduled, ..EventState::default() });
                assert!(before.is_none_or(|event| !event.prepare_issued), "new before the recovery");
            }
            (Change::Scheduled, Some(event)) => {
                assert!(exceeded, "{id} is new twice");
                assert!(!event.prepare_issued, "{id} was evicted after a preparation was issued");
                self.events.insert(id, EventState::default());
            }
            (Change::Started | Change::StartedWithoutNotice, Some(event)) => {
                assert!(!event.started || exceeded, "{id} starts twice");
                self.events.get_mut(&id).unwrap().started = true;
            }
            (Change::Updated | Change::Rescheduled, Some(event)) => {
                assert!(change == Change::Updated || !event.started || exceeded, "{id} has started and is rescheduled");
            }
            (Change::Completed | Change::Cancelled | Change::Ended, Some(event)) => {
                assert!((change == Change::Completed) >= event.started || exceeded, "{id}: {change} after it started");
                self.events.get_mut(&id).unwrap().ended = true;
            }
            (change, None) => panic!("{id}: {change}, but it was never reported as new"),
        }
    }

    /// Invariant 8, first part: a recovery is completed once.
    fn recovered(&mut self, id: &EventId) {
        let event = self.events.get_mut(&key(id)).unwrap();
        event.prepare_issued = false;
        event.recovering = false;
        assert!(self.session.recovered(id.as_str()));
        assert!(!self.session.recovered(id.as_str()), "a second result must be refused");
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
        let tracked: Vec<_> = self.session.events().map(|event| key(event.event_id())).collect();
        let lingering = tracked.iter().filter(|id| !own.contains(id)).filter(|id| self.events[*id].prepare_issued);
        if own.len() + lingering.count() > CAPACITY {
            return Vec::new();
        }
        own.retain(|id| !tracked.contains(id));
        own
    }

    /// Invariant 8, second part: finally, each preparation has been recovered from.
    fn finish(&mut self) {
        self.recovers = true;
        self.restart();
        for _ in 0..6 {
            self.incarnation += 1;
            self.serve(&format!(r#"{{"DocumentIncarnation":{},"Events":[]}}"#, self.incarnation));
            while self.events.values().any(|event| event.preparing) {
                self.answer_preparation(Preparation::Ready);
            }
        }
        for (id, event) in &self.events {
            assert!(!event.prepare_issued, "{id} was never recovered from: {event:?}");
            assert!(event.ended || self.exceeded, "{id} never ended: {event:?}");
        }
        assert!(self.session.is_idle());
        assert!(self.requests > 0);
    }
}
