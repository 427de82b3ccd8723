//! A host for sessions: it serves documents, does what the session says, and writes down everything that happened.

// Each test program uses its own part of this.
#![allow(dead_code, unreachable_pub)]

pub mod laws;

use std::fmt;

use scheduled_events_core::{
    Cause, Change, Decision, EventId, Policy, Preparation, Report, RequestOutcome, Response, Session, SessionConfig,
    Step, Text, UnixMillis, UnixSeconds, Untracked, VmNames,
};

/// When every test begins.
pub const START: UnixMillis = UnixMillis(1_700_000_000_000);

/// This machine's name in every test.
pub const VM: &str = "vm_1";

/// Another machine, whose name begins with this one's.
pub const OTHER: &str = "vm_10";

/// More steps than any story takes between two polls.
const PATIENCE: usize = 2_000;

/// An event to be written into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub id: String,
    pub event_type: Option<&'static str>,
    pub status: Option<&'static str>,
    pub resources: Vec<&'static str>,
    /// Seconds after [`START`].
    pub not_before: Option<i64>,
    pub source: Option<&'static str>,
    pub duration: Option<i64>,
    /// A member that gets a value which it cannot have.
    pub odd: Option<&'static str>,
}

/// A reboot of this machine by the platform, announced for a quarter of an hour after [`START`].
pub fn event(id: &str) -> Spec {
    Spec {
        id: id.to_owned(),
        event_type: Some("Reboot"),
        status: Some("Scheduled"),
        resources: vec![VM],
        not_before: Some(900),
        source: Some("Platform"),
        duration: None,
        odd: None,
    }
}

impl Spec {
    pub fn typed(self, event_type: &'static str) -> Self {
        Self { event_type: Some(event_type), ..self }
    }

    pub fn status(self, status: &'static str) -> Self {
        Self { status: Some(status), ..self }
    }

    pub fn started(self) -> Self {
        Self { not_before: None, ..self.status("Started") }
    }

    pub fn of(self, resources: &[&'static str]) -> Self {
        Self { resources: resources.to_vec(), ..self }
    }

    pub fn at(self, seconds: i64) -> Self {
        Self { not_before: Some(seconds), ..self }
    }

    pub fn source(self, source: &'static str) -> Self {
        Self { source: Some(source), ..self }
    }

    pub fn duration(self, seconds: i64) -> Self {
        Self { duration: Some(seconds), ..self }
    }

    pub fn odd(self, member: &'static str) -> Self {
        Self { odd: Some(member), ..self }
    }

    /// Whether `Resources` names one of these machines.
    pub fn names(&self, names: &[&str]) -> bool {
        self.odd != Some("Resources") && self.resources.iter().any(|resource| names.contains(resource))
    }

    /// Whether the document says that the event is going on or is to come.
    pub fn is_live(&self) -> bool {
        self.odd == Some("EventStatus") || !matches!(self.status, Some("Completed" | "Canceled"))
    }

    pub fn is_scheduled(&self) -> bool {
        self.odd != Some("EventStatus") && self.status == Some("Scheduled")
    }

    fn wire_id(&self) -> String {
        if self.odd == Some("EventId") { self.id.repeat(80) } else { self.id.clone() }
    }

    /// The id as the session spells it.
    pub fn kept_id(&self) -> String {
        EventId::new(&Text::plain(&self.wire_id())).as_str().to_owned()
    }

    fn json(&self) -> String {
        let mut members = vec![format!(r#""EventId":"{}""#, self.wire_id())];
        let mut member = |name: &str, value: Option<String>| {
            if self.odd == Some(name) {
                members.push(format!(r#""{name}":{{"odd":true}}"#));
            } else if let Some(value) = value {
                members.push(format!(r#""{name}":{value}"#));
            }
        };
        let quoted = |word: Option<&str>| word.map(|word| format!(r#""{word}""#));
        member("EventStatus", quoted(self.status));
        member("EventType", quoted(self.event_type));
        let names: Vec<_> = self.resources.iter().map(|name| format!(r#""{name}""#)).collect();
        member("Resources", Some(format!("[{}]", names.join(","))));
        let not_before = self.not_before.map(|seconds| UnixSeconds(START.seconds().0 + seconds).to_string());
        member("NotBefore", Some(format!(r#""{}""#, not_before.unwrap_or_default())));
        member("EventSource", quoted(self.source));
        member("DurationInSeconds", self.duration.map(|seconds| seconds.to_string()));
        format!("{{{}}}", members.join(","))
    }
}

/// A document of these events.
pub fn document(incarnation: u64, events: &[Spec]) -> String {
    let events: Vec<_> = events.iter().map(Spec::json).collect();
    format!(r#"{{"DocumentIncarnation":{incarnation},"Events":[{}]}}"#, events.join(","))
}

/// Something that happened between a session and its host.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A document was served, and believed.
    Served(Vec<Spec>),
    /// The poll was answered in another way, or a document was not believed.
    NotServed,
    /// A GET with this timeout.
    Get(u32),
    Change(String, Change),
    Decision(String, Decision),
    Problem(String),
    Untracked(Untracked),
    Prepare(String),
    Prepared(String, Preparation),
    Recover(String),
    Recovered(String),
    Post(Vec<String>),
    Approved(Vec<String>),
    Refused(Vec<String>),
    Restarted,
    /// The names were set to these.
    Named(Vec<&'static str>),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(id, change) => write!(f, "{id}: {change}"),
            Self::Decision(id, decision) => write!(f, "{id}: {} ({})", decision.action.word(), decision.reason),
            Self::Problem(kind) => write!(f, "problem: {kind}"),
            Self::Untracked(Untracked { own, others }) => write!(f, "no room for {own} own, {others} others"),
            Self::Prepare(id) => write!(f, "prepare {id}"),
            Self::Recover(id) => write!(f, "recover {id}"),
            Self::Post(ids) => write!(f, "post {}", ids.join(" ")),
            other => write!(f, "{other:?}"),
        }
    }
}

impl What {
    /// Whether the session said it, requests to poll left aside.
    pub fn is_said(&self) -> bool {
        matches!(
            self,
            Self::Change(..)
                | Self::Decision(..)
                | Self::Problem(_)
                | Self::Untracked(_)
                | Self::Prepare(_)
                | Self::Recover(_)
                | Self::Post(_)
        )
    }
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub at: UnixMillis,
    pub what: What,
}

/// How the host's session is configured, and again after each restart.
#[derive(Clone, Debug)]
pub struct Setup {
    pub policy: Policy,
    pub names: Vec<&'static str>,
    pub dry_run: bool,
}

impl Setup {
    pub fn new(policy: Policy) -> Self {
        Self { policy, names: vec![VM], dry_run: false }
    }

    pub fn session<const N: usize>(&self) -> Session<N> {
        let config = SessionConfig::new(VmNames::new(&self.names));
        Session::new(&SessionConfig { policy: self.policy.clone(), dry_run: self.dry_run, seed: 7, ..config }).unwrap()
    }
}

#[derive(Clone)]
pub struct Host<const N: usize> {
    pub setup: Setup,
    pub session: Session<N>,
    pub now: UnixMillis,
    /// What POSTs are answered with; `None` for no answer.
    pub post_status: Option<u16>,
    /// How long a POST takes, in milliseconds.
    pub post_takes: u32,
    /// Whether recoveries are confirmed as soon as they are said.
    pub recovers: bool,
    /// Whether a GET waits for its answer.
    pub polling: bool,
    /// Preparations and recoveries under way.
    pub preparing: Vec<String>,
    pub recovering: Vec<String>,
    /// After so many more things said the host dies and comes back.
    pub dies_after: Option<usize>,
    pub trace: Vec<Entry>,
    /// Of the newest document that was made up.
    pub incarnation: u64,
    heard: usize,
    pub last_get: UnixMillis,
}

impl<const N: usize> Host<N> {
    pub fn new(setup: Setup) -> Self {
        Self {
            session: setup.session(),
            setup,
            now: START,
            post_status: Some(200),
            post_takes: 0,
            recovers: true,
            polling: false,
            preparing: Vec::new(),
            recovering: Vec::new(),
            dies_after: None,
            trace: Vec::new(),
            incarnation: 0,
            heard: 0,
            last_get: START,
        }
    }

    fn note(&mut self, what: What) {
        self.trace.push(Entry { at: self.now, what });
    }

    /// Forgets what happened so far.
    pub fn clear(&mut self) {
        self.trace.clear();
        self.heard = 0;
    }

    /// What the session said since this was asked last, a line for each.
    pub fn heard(&mut self) -> Vec<String> {
        let new = &self.trace[self.heard..];
        self.heard = self.trace.len();
        new.iter().filter(|entry| entry.what.is_said()).map(|entry| entry.what.to_string()).collect()
    }

    /// Does what the session says, until a poll is under way, or the session waits for the next one.
    pub fn settle(&mut self) {
        for _ in 0..PATIENCE {
            let Some(until) = self.step() else { continue };
            if self.polling || until > self.last_get.plus(900) {
                return;
            }
            self.now = self.now.max(until);
        }
        panic!("it never waits");
    }

    /// Goes on until the session wants to poll.
    pub fn until_get(&mut self) {
        for _ in 0..PATIENCE {
            if self.polling {
                return;
            }
            if let Some(until) = self.step() {
                assert!(until > self.now, "it waits for what has passed");
                self.now = until;
            }
        }
        panic!("it never polls again");
    }

    /// Does one thing; tells until when the session waits, if it does.
    fn step(&mut self) -> Option<UnixMillis> {
        if self.dies_after == Some(0) {
            self.dies_after = None;
            self.restart();
        }
        let what = match self.session.next(self.now) {
            Step::Wait { until } => return Some(until),
            Step::Get { timeout_ms } => {
                self.polling = true;
                self.last_get = self.now;
                What::Get(timeout_ms)
            }
            Step::Post { body, .. } => {
                let body: serde_json::Value = serde_json::from_slice(body).unwrap();
                let requests = body["StartRequests"].as_array().unwrap();
                What::Post(requests.iter().map(|request| request["EventId"].as_str().unwrap().to_owned()).collect())
            }
            Step::Prepare { event } => What::Prepare(event.event_id().to_string()),
            Step::Recover { event } => What::Recover(event.event_id().to_string()),
            Step::Report(Report::Change { change, event }) => What::Change(event.event_id().to_string(), change),
            Step::Report(Report::Decision { decision, event }) => {
                What::Decision(event.event_id().to_string(), decision)
            }
            Step::Report(Report::Problem(problem)) => What::Problem(problem.kind.word().to_owned()),
            Step::Report(Report::Untracked(untracked)) => What::Untracked(untracked),
        };
        self.note(what.clone());
        self.dies_after = self.dies_after.map(|left| left - 1);
        match what {
            What::Prepare(id) => self.preparing.push(id),
            What::Recover(id) if self.recovers => self.recovered(&id),
            What::Recover(id) => self.recovering.push(id),
            What::Post(ids) => self.answer_post(ids),
            _ => {}
        }
        None
    }

    fn answer_post(&mut self, ids: Vec<String>) {
        assert!(self.session.posted().map(EventId::as_str).eq(ids.iter().map(String::as_str)));
        if self.dies_after == Some(0) {
            return; // It dies before the answer comes.
        }
        self.now = self.now.plus(self.post_takes);
        let outcome = match self.post_status {
            Some(status) => self.session.on_response(&Response { status, ..Response::default() }, self.now),
            None => self.session.on_failure(Cause::Timeout, self.now),
        };
        if outcome == RequestOutcome::Approved {
            self.note(What::Approved(ids));
        } else {
            assert!(matches!(outcome, RequestOutcome::ApprovalFailed { .. }), "{outcome:?}");
            self.note(What::Refused(ids));
        }
    }

    /// Answers the next poll with a document that was never served before.
    pub fn serve(&mut self, events: &[Spec]) -> RequestOutcome {
        self.incarnation += 1;
        let body = document(self.incarnation, events);
        self.serve_body(&body, events)
    }

    /// Answers the next poll with this body, which says the same as the events.
    pub fn serve_body(&mut self, body: &str, events: &[Spec]) -> RequestOutcome {
        self.answer(&Response { status: 200, body: body.as_bytes(), ..Response::default() }, events)
    }

    /// Answers the next poll with this status and no body.
    pub fn serve_status(&mut self, status: u16) -> RequestOutcome {
        self.answer(&Response { status, ..Response::default() }, &[])
    }

    /// Answers the next poll.
    pub fn answer(&mut self, response: &Response<'_>, events: &[Spec]) -> RequestOutcome {
        self.until_get();
        self.polling = false;
        let outcome = self.session.on_response(response, self.now);
        let believed = matches!(outcome, RequestOutcome::Document | RequestOutcome::Unchanged);
        self.note(if believed { What::Served(events.to_vec()) } else { What::NotServed });
        self.settle();
        outcome
    }

    /// Lets the next poll fail.
    pub fn fail(&mut self, cause: Cause) -> RequestOutcome {
        self.until_get();
        self.polling = false;
        let outcome = self.session.on_failure(cause, self.now);
        self.note(What::NotServed);
        self.settle();
        outcome
    }

    /// Says how a preparation went; `false` where none is under way.
    pub fn prepared(&mut self, id: &str, preparation: Preparation) -> bool {
        self.preparing.retain(|preparing| preparing != id);
        let taken = self.session.prepared(id, preparation);
        if taken {
            self.note(What::Prepared(id.to_owned(), preparation));
        }
        self.settle();
        taken
    }

    pub fn ready(&mut self, id: &str) {
        assert!(self.prepared(id, Preparation::Ready));
    }

    /// Says that a recovery is done.
    pub fn recovered(&mut self, id: &str) {
        self.recovering.retain(|recovering| recovering != id);
        assert!(self.session.recovered(id));
        self.note(What::Recovered(id.to_owned()));
    }

    pub fn pass(&mut self, seconds: u32) {
        self.now = self.now.plus(seconds * 1000);
        self.settle();
    }

    pub fn set_names(&mut self, names: &[&'static str]) {
        self.session.set_names(VmNames::new(names)).unwrap();
        self.setup.names = names.to_vec();
        self.note(What::Named(names.to_vec()));
    }

    pub fn snapshot(&self) -> Vec<u8> {
        let mut buffer = vec![0; 256 + 160 * N];
        let length = self.session.snapshot(&mut buffer).unwrap();
        buffer.truncate(length);
        buffer
    }

    /// The process ends, with all that it had under way, and a new one takes the snapshot up.
    pub fn restart(&mut self) {
        let snapshot = self.snapshot();
        self.session = self.setup.session();
        self.session.restore(&snapshot).unwrap();
        self.polling = false;
        self.preparing.clear();
        self.recovering.clear();
        self.note(What::Restarted);
    }
}
