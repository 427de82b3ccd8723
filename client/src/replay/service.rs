//! The service without its sockets: a timeline, its faults, its clock and its records.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use super::document::{ReplayDocument, Transition};
use super::fault_kind::RetryTime;
use super::fault_plan::{AnswerFault, Damage, FaultPlan, FaultPlanner};
use super::http::{ReplayRequest, ReplayResponse};
use super::instance::{compute, vm_id};
use super::report::{RecordedRequest, ReplayEvent};
use super::route::{self, Route};
use super::timeline::Timeline;
use super::wire::{self, ApiVersion};

/// The most requests remembered. The oldest is dropped first.
pub const MAX_RECORDED: usize = 10_000;

/// What all connections of a server share.
pub(super) struct Service {
    vm_name: String,
    state: Mutex<ServiceState>,
    /// Notified when the server stops, an event is approved, or a connection ends.
    changed: Condvar,
}

/// What to do with a request.
pub(super) enum ServiceAction {
    /// Close the connection: the server is stopping.
    Stop,
    Reset,
    Silence,
    NotHttp,
    Respond(Box<Delivery>),
}

/// A response and how to send it.
pub(super) struct Delivery {
    pub(super) response: ReplayResponse,
    pub(super) damage: Option<Damage>,
    pub(super) slow_headers: Duration,
    pub(super) slow_body: Duration,
}

struct ServiceState {
    timeline: Timeline,
    planner: FaultPlanner,
    /// Set by the first GET that is answered with a document.
    clock: Option<ServiceClock>,
    first_request: Option<Instant>,
    requests: VecDeque<RecordedRequest>,
    observer: Option<Sender<ReplayEvent>>,
    finish_reported: bool,
    stopping: bool,
    connections: usize,
}

/// When the scenario started.
#[derive(Clone, Copy)]
struct ServiceClock {
    started: Instant,
    epoch: SystemTime,
}

impl Service {
    pub(super) fn new(
        vm_name: String,
        timeline: Timeline,
        planner: FaultPlanner,
        observer: Option<Sender<ReplayEvent>>,
    ) -> Self {
        let state = ServiceState {
            timeline,
            planner,
            clock: None,
            first_request: None,
            requests: VecDeque::new(),
            observer,
            finish_reported: false,
            stopping: false,
            connections: 0,
        };
        Self { vm_name, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Processes a request, with the delay that its faults demand, and records it.
    pub(super) fn handle(&self, request: &ReplayRequest) -> ServiceAction {
        let arrived = Instant::now();
        let (plan, action) = match route::route(request) {
            Err(refusal) => (FaultPlan::default(), ServiceAction::respond(refusal, &FaultPlan::default())),
            Ok(route) => {
                let plan = self.plan(route, arrived);
                if self.pause(plan.delay) {
                    return ServiceAction::Stop;
                }
                let action = self.decide(route, request, &plan);
                (plan, action)
            }
        };
        self.record(request, arrived, &action, plan.names);
        action
    }

    /// Waits for a time. Returns true if the server stops before.
    pub(super) fn pause(&self, span: Duration) -> bool {
        if span.is_zero() {
            return false;
        }
        let state = self.lock();
        let waiting = self.changed.wait_timeout_while(state, span, |state| !state.stopping);
        waiting.unwrap_or_else(PoisonError::into_inner).0.stopping
    }

    /// Records a request that could not be parsed.
    pub(super) fn record_refusal(&self, status: u16) {
        let request = ReplayRequest::default();
        let action = ServiceAction::respond(ReplayResponse::new(status), &FaultPlan::default());
        self.record(&request, Instant::now(), &action, Vec::new());
    }

    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.lock().requests.iter().cloned().collect()
    }

    pub(super) fn finished(&self) -> bool {
        let mut state = self.lock();
        state.advance();
        state.clock.is_some() && state.timeline.finished()
    }

    /// Reports transitions when they are due, until the server stops.
    pub(super) fn run_clock(&self) {
        let mut state = self.lock();
        while !state.stopping {
            let now = state.advance();
            state = match state.clock.and(state.timeline.next_due()) {
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

    /// Counts a new connection if fewer than `most` are open, and waits up to `span` for that. Returns whether it is counted.
    pub(super) fn enter(&self, most: usize, span: Duration) -> bool {
        let full = |state: &mut ServiceState| !state.stopping && state.connections >= most;
        let waiting = self.changed.wait_timeout_while(self.lock(), span, full);
        let (mut state, timeout) = waiting.unwrap_or_else(PoisonError::into_inner);
        let enters = !timeout.timed_out() && !state.stopping;
        state.connections += usize::from(enters);
        enters
    }

    pub(super) fn leave(&self) {
        let mut state = self.lock();
        state.connections = state.connections.saturating_sub(1);
        drop(state);
        self.changed.notify_all();
    }

    fn plan(&self, route: Route, arrived: Instant) -> FaultPlan {
        let mut state = self.lock();
        let first = *state.first_request.get_or_insert(arrived);
        state.planner.plan(route.kind(), arrived.saturating_duration_since(first))
    }

    fn decide(&self, route: Route, request: &ReplayRequest, plan: &FaultPlan) -> ServiceAction {
        let is_get = matches!(route, Route::EventsGet(_));
        match &plan.answer {
            Some(AnswerFault::Reset) => return ServiceAction::Reset,
            Some(AnswerFault::Silence) => return ServiceAction::Silence,
            Some(AnswerFault::NotHttp) => return ServiceAction::NotHttp,
            Some(AnswerFault::Status(code)) => return ServiceAction::respond(status_response(*code), plan),
            Some(AnswerFault::RetryAfter(value)) => {
                return ServiceAction::respond(status_response(429).with("Retry-After", retry_after(value)), plan);
            }
            Some(AnswerFault::Redirect(code, location)) => {
                return ServiceAction::respond(ReplayResponse::new(*code).with("Location", location), plan);
            }
            // These two have no document, so they do not start the scenario.
            Some(AnswerFault::Empty) if is_get => return ServiceAction::respond(ReplayResponse::json(200, ""), plan),
            Some(AnswerFault::NotJson) if is_get => {
                return ServiceAction::respond(ReplayResponse::json(200, "not json"), plan);
            }
            _ => {}
        }
        let mut response = match route {
            Route::EventsGet(version) => self.document(version, request, plan),
            Route::EventsPost => self.approve(request),
            Route::Name => ReplayResponse::text(200, self.vm_name.as_bytes()),
            Route::VmId => ReplayResponse::text(200, vm_id(&self.vm_name).as_bytes()),
            Route::Instance(version) => {
                let instance = json!({"compute": compute(&self.vm_name, version)});
                ReplayResponse::json(200, instance.to_string())
            }
            Route::Compute(version) => ReplayResponse::json(200, compute(&self.vm_name, version).to_string()),
        };
        if response.status != 200 {
            return ServiceAction::respond(response, plan);
        }
        let needs_body = !plan.slow_body.is_zero()
            || matches!(plan.answer, Some(AnswerFault::Damage(_) | AnswerFault::HalfDocument | AnswerFault::Gzip));
        if response.body.is_empty() && needs_body {
            response = ReplayResponse::json(200, PLACEHOLDER_BODY);
        }
        let response = match plan.answer {
            Some(AnswerFault::Empty) => response.body(""),
            Some(AnswerFault::NotJson) => ReplayResponse::json(200, "not json"),
            Some(AnswerFault::HalfDocument) => {
                let half = response.body.len() / 2;
                response.body.truncate(half);
                response
            }
            Some(AnswerFault::Gzip) => {
                let packed = gzip(&response.body);
                response.with("Content-Encoding", "gzip").body(packed)
            }
            _ => response,
        };
        ServiceAction::respond(response, plan)
    }

    fn document(&self, version: ApiVersion, request: &ReplayRequest, plan: &FaultPlan) -> ReplayResponse {
        let mut state = self.lock();
        let begins = state.clock.is_none();
        let clock =
            *state.clock.get_or_insert_with(|| ServiceClock { started: Instant::now(), epoch: SystemTime::now() });
        if begins {
            state.report(ReplayEvent::ScenarioStarted);
        }
        let now = state.advance();
        let document = match now.checked_sub(plan.stale) {
            Some(then) => state.timeline.document_at(then),
            None => state.timeline.first_document(),
        };
        drop(state);
        if begins {
            self.changed.notify_all();
        }
        let altered = ReplayDocument {
            incarnation: document.incarnation.saturating_sub(plan.incarnation_back),
            events: if plan.vanish {
                Vec::new()
            } else {
                document.events.iter().filter(|event| event.started || !plan.started_only).cloned().collect()
            },
        };
        // Altered content needs a different tag, or a client that sends If-None-Match would get a 304 instead.
        let mark = if altered.events.len() == document.events.len() { "" } else { "-altered" };
        let etag = format!("\"{}{mark}\"", altered.incarnation);
        let conditional = plan.answer.is_none() && plan.slow_body.is_zero();
        if conditional && request.header("If-None-Match").any(|value| matches_etag(value, &etag)) {
            return ReplayResponse::new(304).with("ETag", etag);
        }
        ReplayResponse::json(200, wire::render(&altered, version, clock.epoch)).with("ETag", etag)
    }

    fn approve(&self, request: &ReplayRequest) -> ReplayResponse {
        let ids = match route::start_requests(&request.body) {
            Ok(ids) => ids,
            Err(refusal) => return refusal,
        };
        let mut state = self.lock();
        let now = state.advance();
        // A request with an unknown EventId approves nothing.
        if let Some(unknown) = ids.iter().find(|id| !state.timeline.knows(id)) {
            return route::bad_request(&format!("There is no event {unknown}"));
        }
        for id in &ids {
            state.timeline.approve(id, now);
        }
        state.advance();
        drop(state);
        self.changed.notify_all();
        ReplayResponse::new(200)
    }

    fn record(&self, request: &ReplayRequest, arrived: Instant, action: &ServiceAction, faults: Vec<String>) {
        let status = match action {
            ServiceAction::Respond(delivery) => Some(delivery.response.status),
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
        state.report(ReplayEvent::Answered {
            method: request.method.clone(),
            target: request.target.clone(),
            status,
            faults,
        });
    }

    fn lock(&self) -> MutexGuard<'_, ServiceState> {
        // The state is consistent after every statement that could panic, so a poisoned lock is usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServiceState {
    /// Advances the timeline to the present and reports the transitions. Returns zero before the scenario starts.
    fn advance(&mut self) -> Duration {
        let Some(clock) = self.clock else {
            return Duration::ZERO;
        };
        let now = clock.started.elapsed();
        self.timeline.advance(now);
        for transition in self.timeline.take_transitions() {
            self.report(to_event(transition, clock.epoch));
        }
        if self.timeline.finished() && !self.finish_reported {
            self.finish_reported = true;
            self.report(ReplayEvent::Finished);
        }
        now
    }

    fn report(&mut self, event: ReplayEvent) {
        if let Some(observer) = &self.observer
            && observer.send(event).is_err()
        {
            self.observer = None;
        }
    }
}

impl Delivery {
    /// A response sent without faults.
    pub(super) fn plain(response: ReplayResponse) -> Self {
        Self { response, damage: None, slow_headers: Duration::ZERO, slow_body: Duration::ZERO }
    }
}

impl ServiceAction {
    fn respond(mut response: ReplayResponse, plan: &FaultPlan) -> Self {
        if let Some(content_type) = &plan.content_type {
            response = response.with("Content-Type", content_type);
        }
        let damage = match plan.answer {
            Some(AnswerFault::Damage(damage)) => Some(damage),
            _ => None,
        };
        let (slow_headers, slow_body) = (plan.slow_headers, plan.slow_body);
        Self::Respond(Box::new(Delivery { response, damage, slow_headers, slow_body }))
    }
}

/// The body of a response to an approval when a fault needs one. The service sends none.
const PLACEHOLDER_BODY: &str = r#"{"note":"placeholder body, to be damaged by a fault"}"#;

fn to_event(transition: Transition, epoch: SystemTime) -> ReplayEvent {
    match transition {
        Transition::IncarnationReset { incarnation, .. } => ReplayEvent::IncarnationReset { incarnation },
        Transition::Event { kind, event, incarnation, .. } => ReplayEvent::Event {
            change: kind,
            event_id: event.facts.event_id.clone(),
            event_type: event.facts.event_type.clone(),
            resources: event.facts.resources.clone(),
            started: event.started,
            not_before: event.not_before.map(|offset| wire::wall_time(epoch, offset)),
            incarnation,
        },
    }
}

/// The response of the service for a status.
fn status_response(status: u16) -> ReplayResponse {
    match status {
        204 | 304 => ReplayResponse::new(status),
        // Captured in public from a throttled POST.
        429 => ReplayResponse::text(429, "Throttle Result: Too Many Requests"),
        200..=399 => ReplayResponse::json(status, "{}"),
        _ => ReplayResponse::json(status, wire::error_body(super::http::reason(status))),
    }
}

fn retry_after(value: &RetryTime) -> String {
    match value {
        RetryTime::Text(text) => text.clone(),
        RetryTime::DateIn(span) => httpdate::fmt_http_date(wire::wall_time(SystemTime::now(), *span)),
    }
}

fn matches_etag(header: &str, etag: &str) -> bool {
    header.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

/// Wraps data in a gzip file without compressing it.
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
    // The format has the length modulo 2^32.
    #[allow(clippy::cast_possible_truncation)]
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_none_match_compares_weakly_and_accepts_lists() {
        for header in ["\"2\"", "W/\"2\"", "\"1\", \"2\"", "*"] {
            assert!(matches_etag(header, "\"2\""), "{header}");
        }
        for header in ["2", "\"22\"", "", "\"2-altered\""] {
            assert!(!matches_etag(header, "\"2\""), "{header}");
        }
    }

    #[test]
    fn status_responses_have_the_body_of_the_service() {
        assert_eq!(status_response(429).body, b"Throttle Result: Too Many Requests");
        assert_eq!(status_response(410).body, br#"{"error":"Gone"}"#);
        assert!(status_response(204).body.is_empty());
        assert_eq!(retry_after(&RetryTime::Text("7".into())), "7");
        assert!(httpdate::parse_http_date(&retry_after(&RetryTime::DateIn(Duration::from_secs(5)))).is_ok());
    }

    #[test]
    fn gzip_stores_the_data() {
        // `curl --compressed` accepts the file.
        let packed = gzip(b"ab");
        assert_eq!(packed[10..17], [0, 2, 0, 0xfd, 0xff, b'a', b'b']);
        assert_eq!(packed.len(), 10 + 7 + 5 + 8);
        assert_eq!(packed[packed.len() - 4..], [2, 0, 0, 0]);
    }
}
