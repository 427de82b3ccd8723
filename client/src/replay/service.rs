//! The service behind the sockets: one playback, its faults, its clock and its records.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::fault::{Kind, RetryAfter};
use super::http::{Answer, Incoming};
use super::plan::{Plan, Planner};
use super::playback::{Change, Document, Playback, Transition};
use super::route::{self, Route};
use super::server::{MAX_RECORDED, RecordedRequest, ReplayEvent};
use super::wire::{self, Version};

/// What all connections of a server share.
pub(super) struct Service {
    vm_name: String,
    state: Mutex<State>,
    /// Told of every change that someone may wait for: the end, an approval, a connection's end.
    changed: Condvar,
}

/// How one request is answered.
pub(super) enum Outcome {
    /// The server stops; nobody waits for this answer any longer.
    Stopped,
    Reset,
    Silence,
    NotHttp,
    Answer(Box<Delivery>),
}

/// An answer and the way it is delivered.
pub(super) struct Delivery {
    pub(super) answer: Answer,
    pub(super) damage: Damage,
    pub(super) slow_headers: Duration,
    pub(super) slow_body: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    None,
    ResetMidBody,
    ShortBody,
    EndlessBody,
    HugeBody(u64),
    ManyHeaders(u32),
    LongHeader(u64),
}

struct State {
    playback: Playback,
    planner: Planner,
    /// Set by the first GET that gets a document.
    clock: Option<Clock>,
    first_request: Option<Instant>,
    requests: VecDeque<RecordedRequest>,
    observer: Option<Sender<ReplayEvent>>,
    finish_told: bool,
    stopping: bool,
    connections: usize,
}

#[derive(Clone, Copy)]
struct Clock {
    started: Instant,
    epoch: SystemTime,
}

impl Service {
    pub(super) fn new(
        vm_name: String,
        playback: Playback,
        planner: Planner,
        observer: Option<Sender<ReplayEvent>>,
    ) -> Self {
        let state = State {
            playback,
            planner,
            clock: None,
            first_request: None,
            requests: VecDeque::new(),
            observer,
            finish_told: false,
            stopping: false,
            connections: 0,
        };
        Self { vm_name, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Decides on a request, waiting as long as its faults say, and records it.
    pub(super) fn handle(&self, request: &Incoming) -> Outcome {
        let arrived = Instant::now();
        let (plan, outcome) = match route::route(request) {
            Err(refusal) => (Plan::default(), Outcome::plain(refusal)),
            Ok(route) => {
                let plan = self.plan(route, arrived);
                if self.pause(plan.delay) {
                    return Outcome::Stopped;
                }
                let outcome = self.decide(route, request, &plan);
                (plan, outcome)
            }
        };
        self.record(request, arrived, &outcome, plan.names);
        outcome
    }

    /// Waits, unless the server stops first, which is answered with true.
    pub(super) fn pause(&self, span: Duration) -> bool {
        if span.is_zero() {
            return false;
        }
        let state = self.lock();
        let waiting = self.changed.wait_timeout_while(state, span, |state| !state.stopping);
        waiting.unwrap_or_else(PoisonError::into_inner).0.stopping
    }

    /// Records a request that was refused before it could be understood.
    pub(super) fn record_refusal(&self, status: u16) {
        let request = Incoming::default();
        let outcome = Outcome::plain(Answer::new(status));
        self.record(&request, Instant::now(), &outcome, Vec::new());
    }

    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.lock().requests.iter().cloned().collect()
    }

    pub(super) fn finished(&self) -> bool {
        let mut state = self.lock();
        state.advance();
        state.clock.is_some() && state.playback.finished()
    }

    /// Reports transitions as they fall due until the server stops.
    pub(super) fn run_clock(&self) {
        let mut state = self.lock();
        while !state.stopping {
            let now = state.advance();
            state = match state.clock.and(state.playback.next_due()) {
                Some(due) => {
                    let left = due.saturating_sub(now);
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.lock().stopping
    }

    /// Waits for a free place among `most` connections; false if the server stops.
    pub(super) fn enter(&self, most: usize) -> bool {
        let full = |state: &mut State| !state.stopping && state.connections >= most;
        let waiting = self.changed.wait_while(self.lock(), full);
        let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
        state.connections += 1;
        !state.stopping
    }

    pub(super) fn leave(&self) {
        let mut state = self.lock();
        state.connections = state.connections.saturating_sub(1);
        drop(state);
        self.changed.notify_all();
    }

    fn plan(&self, route: Route, arrived: Instant) -> Plan {
        let mut state = self.lock();
        let first = *state.first_request.get_or_insert(arrived);
        state.planner.plan(route.target(), arrived.saturating_duration_since(first))
    }

    fn decide(&self, route: Route, request: &Incoming, plan: &Plan) -> Outcome {
        let damage = match &plan.verdict {
            Some(Kind::Reset) => return Outcome::Reset,
            Some(Kind::Silence) => return Outcome::Silence,
            Some(Kind::NotHttp) => return Outcome::NotHttp,
            Some(Kind::Status(code)) => return Outcome::slowed(status_answer(*code), plan),
            Some(Kind::RetryAfter(value)) => {
                return Outcome::slowed(status_answer(429).with("Retry-After", retry_after(value)), plan);
            }
            Some(Kind::Redirect(code, location)) => {
                return Outcome::slowed(Answer::new(*code).with("Location", location), plan);
            }
            // These two say nothing about events, so they do not set the scenario in motion either.
            Some(Kind::Empty) if matches!(route, Route::EventsGet(_)) => {
                return Outcome::slowed(Answer::json(200, ""), plan);
            }
            Some(Kind::NotJson) if matches!(route, Route::EventsGet(_)) => {
                return Outcome::slowed(Answer::json(200, "not json"), plan);
            }
            Some(Kind::ResetMidBody) => Damage::ResetMidBody,
            Some(Kind::ShortBody) => Damage::ShortBody,
            Some(Kind::EndlessBody) => Damage::EndlessBody,
            Some(Kind::HugeBody(bytes)) => Damage::HugeBody(*bytes),
            Some(Kind::ManyHeaders(count)) => Damage::ManyHeaders(*count),
            Some(Kind::LongHeader(bytes)) => Damage::LongHeader(*bytes),
            _ => Damage::None,
        };
        let mut answer = match route {
            Route::EventsGet(version) => self.document(version, request, plan),
            Route::EventsPost => self.approve(request),
            Route::Name => Answer::text(200, self.vm_name.as_bytes()),
        };
        if answer.status == 200 {
            let needs_body = damage != Damage::None || !plan.slow_body.is_zero();
            if answer.body.is_empty() && (needs_body || matches!(plan.verdict, Some(Kind::HalfDocument | Kind::Gzip))) {
                answer = Answer::json(200, STAND_IN);
            }
            answer = match plan.verdict {
                Some(Kind::Empty) => answer.body(""),
                Some(Kind::NotJson) => Answer::json(200, "not json"),
                Some(Kind::HalfDocument) => {
                    let half = answer.body.len() / 2;
                    answer.body.truncate(half);
                    answer
                }
                Some(Kind::Gzip) => {
                    let packed = gzip(&answer.body);
                    answer.with("Content-Encoding", "gzip").body(packed)
                }
                _ => answer,
            };
        }
        Outcome::damaged(answer, damage, plan)
    }

    fn document(&self, version: Version, request: &Incoming, plan: &Plan) -> Answer {
        let mut state = self.lock();
        let begins = state.clock.is_none();
        let clock = *state.clock.get_or_insert_with(|| Clock { started: Instant::now(), epoch: SystemTime::now() });
        if begins {
            state.tell(ReplayEvent::PlaybackStarted);
        }
        let now = state.advance();
        let document = match now.checked_sub(plan.stale) {
            Some(then) => state.playback.document_at(then),
            None => state.playback.first_document(),
        };
        drop(state);
        if begins {
            self.changed.notify_all();
        }
        let altered = Document {
            incarnation: document.incarnation.saturating_sub(plan.incarnation_back),
            events: if plan.vanish {
                Vec::new()
            } else {
                document.events.iter().filter(|event| event.started || !plan.started_only).cloned().collect()
            },
        };
        // Another content under the same incarnation needs another tag, or a client that asks with
        // If-None-Match would be told that nothing has changed and never meet the fault.
        let mark = if altered.events.len() == document.events.len() { "" } else { "-altered" };
        let etag = format!("\"{}{mark}\"", altered.incarnation);
        let conditional = plan.verdict.is_none() && plan.slow_body.is_zero();
        if conditional && request.header("If-None-Match").any(|value| matches_etag(value, &etag)) {
            return Answer::new(304).with("ETag", etag);
        }
        Answer::json(200, wire::render(&altered, version, clock.epoch)).with("ETag", etag)
    }

    fn approve(&self, request: &Incoming) -> Answer {
        let ids = match route::start_requests(&request.body) {
            Ok(ids) => ids,
            Err(refusal) => return refusal,
        };
        let mut state = self.lock();
        let now = state.advance();
        // All or nothing: a request with one unknown EventId approves none.
        if let Some(unknown) = ids.iter().find(|id| !state.playback.knows(id)) {
            return route::bad_request(&format!("There is no event {unknown}"));
        }
        for id in &ids {
            state.playback.approve(id, now);
        }
        state.advance();
        drop(state);
        self.changed.notify_all();
        Answer::new(200)
    }

    fn record(&self, request: &Incoming, arrived: Instant, outcome: &Outcome, faults: Vec<String>) {
        let status = match outcome {
            Outcome::Answer(delivery) => Some(delivery.answer.status),
            _ => None,
        };
        let mut state = self.lock();
        if state.requests.len() >= MAX_RECORDED {
            state.requests.pop_front();
        }
        state.requests.push_back(RecordedRequest {
            method: request.method.clone(),
            target: request.target.clone(),
            headers: request.headers.clone(),
            body: request.body.clone(),
            arrived,
            status,
        });
        state.tell(ReplayEvent::Answered {
            method: request.method.clone(),
            target: request.target.clone(),
            status,
            faults,
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // State is whole after every statement that could panic, so a poisoned one is still good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Brings the playback up to the present and reports what has happened. Zero before the start.
    fn advance(&mut self) -> Duration {
        let Some(clock) = self.clock else {
            return Duration::ZERO;
        };
        let now = clock.started.elapsed();
        self.playback.advance(now);
        for transition in self.playback.take_transitions() {
            self.tell(report(&transition, clock.epoch));
        }
        if self.playback.finished() && !self.finish_told {
            self.finish_told = true;
            self.tell(ReplayEvent::Finished);
        }
        now
    }

    fn tell(&mut self, event: ReplayEvent) {
        if let Some(observer) = &self.observer
            && observer.send(event).is_err()
        {
            self.observer = None;
        }
    }
}

impl Outcome {
    fn plain(answer: Answer) -> Self {
        Self::damaged(answer, Damage::None, &Plan::default())
    }

    fn slowed(answer: Answer, plan: &Plan) -> Self {
        Self::damaged(answer, Damage::None, plan)
    }

    fn damaged(mut answer: Answer, damage: Damage, plan: &Plan) -> Self {
        if let Some(content_type) = &plan.content_type {
            answer = answer.with("Content-Type", content_type);
        }
        Self::Answer(Box::new(Delivery { answer, damage, slow_headers: plan.slow_headers, slow_body: plan.slow_body }))
    }
}

/// Stands in where an answer has no body and a fault needs one to work on.
const STAND_IN: &str = r#"{"note":"an approval has no body, this one is here to be damaged"}"#;

fn report(transition: &Transition, epoch: SystemTime) -> ReplayEvent {
    let Some(event) = transition.event.as_ref().filter(|_| transition.change != Change::IncarnationReset) else {
        return ReplayEvent::IncarnationReset { incarnation: transition.incarnation };
    };
    ReplayEvent::Event {
        change: transition.change,
        event_id: event.facts.event_id.clone(),
        event_type: event.facts.event_type.clone(),
        resources: event.facts.resources.clone(),
        started: event.started,
        not_before: event.not_before.map(|offset| wire::wall_time(epoch, offset)),
        incarnation: transition.incarnation,
    }
}

/// The body of a status that the service sends on its own account.
fn status_answer(status: u16) -> Answer {
    match status {
        204 | 304 => Answer::new(status),
        // As captured from a throttled POST.
        429 => Answer::text(429, "Throttle Result: Too Many Requests"),
        200..=399 => Answer::json(status, "{}"),
        _ => Answer::json(status, wire::error_body(super::http::reason(status))),
    }
}

fn retry_after(value: &RetryAfter) -> String {
    match value {
        RetryAfter::Text(text) => text.clone(),
        RetryAfter::DateIn(span) => httpdate::fmt_http_date(wire::wall_time(SystemTime::now(), *span)),
    }
}

fn matches_etag(header: &str, etag: &str) -> bool {
    header.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

/// A valid gzip file that stores instead of compressing.
fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for block in data.chunks(usize::from(u16::MAX)) {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
    out.extend_from_slice(&crc32fast::hash(data).to_le_bytes());
    // The format takes the length modulo 2^32.
    #[allow(clippy::cast_possible_truncation)]
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_compare_weakly_and_in_lists() {
        for header in ["\"2\"", "W/\"2\"", "\"1\", \"2\"", "*"] {
            assert!(matches_etag(header, "\"2\""), "{header}");
        }
        for header in ["2", "\"22\"", "", "\"2-altered\""] {
            assert!(!matches_etag(header, "\"2\""), "{header}");
        }
    }

    #[test]
    fn statuses_look_like_the_service() {
        assert_eq!(status_answer(429).body, b"Throttle Result: Too Many Requests");
        assert_eq!(status_answer(410).body, br#"{"error":"Gone"}"#);
        assert!(status_answer(204).body.is_empty());
        assert_eq!(retry_after(&RetryAfter::Text("7".into())), "7");
        assert!(httpdate::parse_http_date(&retry_after(&RetryAfter::DateIn(Duration::from_secs(5)))).is_ok());
    }

    #[test]
    fn gzip_stores_the_data() {
        // The whole file was accepted by `curl --compressed`.
        let packed = gzip(b"ab");
        assert_eq!(packed[10..17], [0, 2, 0, 0xfd, 0xff, b'a', b'b']);
        assert_eq!(packed.len(), 10 + 7 + 5 + 8);
        assert_eq!(packed[packed.len() - 4..], [2, 0, 0, 0]);
    }
}
