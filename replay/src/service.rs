//! The service without its sockets: a timeline, its faults, its clock and its records.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::fault::Fault;
use crate::fault::kind::RetryTime;
use crate::fault::plan::{AnswerFault, Damage, FaultPlan, FaultPlanner, RequestKind};
use crate::http::instance::{compute, token, vm_id};
use crate::http::route::{self, Route};
use crate::http::wire::{self, ApiVersion};
use crate::http::{ReplayRequest, ReplayResponse};
use crate::report::{RecordedRequest, ReplayEvent};
use crate::timeline::Timeline;
use crate::timeline::document::{EventFacts, ReplayDocument, Transition};
use crate::verdict::{self, Exchange, Verdict};

/// The most requests remembered. The oldest is dropped first.
pub const MAX_RECORDED: usize = 10_000;

/// What all connections of a server share.
pub(crate) struct Service {
    /// The machines' names. A number of a machine is an index of it.
    pub(crate) names: Vec<String>,
    state: Mutex<ServiceState>,
    /// Notified when the server stops, when something else becomes due next, and when a connection ends.
    pub(crate) changed: Condvar,
}

/// What to do with a request.
pub(crate) enum ServiceAction {
    /// Close the connection: the server is stopping.
    Stop,
    Reset,
    Silence,
    NotHttp,
    Respond(Box<Delivery>),
}

/// A response and how to send it.
pub(crate) struct Delivery {
    pub(crate) response: ReplayResponse,
    pub(crate) damage: Option<Damage>,
    pub(crate) slow_headers: Duration,
    pub(crate) slow_body: Duration,
}

pub(crate) struct ServiceState {
    pub(crate) timeline: Timeline,
    /// One for each machine.
    pub(crate) lanes: Vec<Lane>,
    /// When the service was made, or began again.
    origin: Instant,
    /// Set by the first GET that is answered with a document.
    pub(crate) clock: Option<ServiceClock>,
    requests: VecDeque<RecordedRequest>,
    observer: Option<Sender<ReplayEvent>>,
    /// Whether the observer receives findings.
    findings: bool,
    pub(crate) finish_reported: bool,
    stopping: bool,
    connections: usize,
}

/// What the service keeps for each machine.
pub(crate) struct Lane {
    pub(crate) planner: FaultPlanner,
    pub(crate) first_request: Option<Instant>,
    verdict: Verdict,
}

/// Which events of the machine a document shows, and which its version leaves out.
#[derive(Default)]
struct ShownEvents {
    shown: Vec<(Arc<EventFacts>, bool)>,
    hidden: Vec<Arc<EventFacts>>,
}

/// When the scenario started.
#[derive(Clone, Copy)]
pub(crate) struct ServiceClock {
    pub(crate) started: Instant,
    epoch: SystemTime,
}

impl Service {
    pub(crate) fn new(
        names: Vec<String>,
        timeline: Timeline,
        faults: Vec<Fault>,
        observer: Option<Sender<ReplayEvent>>,
        findings: bool,
    ) -> Self {
        let state = ServiceState::new(&names, timeline, faults, observer, findings);
        Self { names, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Processes a request to a machine's address, with the delay that its faults demand, and records it.
    pub(crate) fn handle(&self, machine: usize, request: &ReplayRequest) -> ServiceAction {
        let arrived = Instant::now();
        let mut events = ShownEvents::default();
        let (kind, plan, action) = match route::route(request) {
            Err(refusal) => (None, FaultPlan::default(), ServiceAction::respond(refusal, &FaultPlan::default())),
            Ok(route) => {
                let plan = self.plan(machine, route, arrived);
                if self.pause(plan.delay) {
                    return ServiceAction::Stop;
                }
                let action = self.decide(machine, route, request, &plan, &mut events);
                (Some(route.kind()), plan, action)
            }
        };
        self.record(machine, kind, (request, arrived), (&plan, &action), &events);
        action
    }

    /// Waits for a time. Returns true if the server stops before.
    pub(crate) fn pause(&self, span: Duration) -> bool {
        if span.is_zero() {
            return false;
        }
        let state = self.lock();
        let waiting = self.changed.wait_timeout_while(state, span, |state| !state.stopping);
        waiting.unwrap_or_else(PoisonError::into_inner).0.stopping
    }

    /// Records a request that could not be parsed.
    pub(crate) fn record_refusal(&self, machine: usize, status: u16) {
        let request = ReplayRequest::default();
        let action = ServiceAction::respond(ReplayResponse::new(status), &FaultPlan::default());
        let plan = FaultPlan::default();
        self.record(machine, None, (&request, Instant::now()), (&plan, &action), &ShownEvents::default());
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.lock().requests.iter().cloned().collect()
    }

    pub(crate) fn finished(&self) -> bool {
        let mut state = self.lock();
        state.advance();
        state.clock.is_some() && state.timeline.finished()
    }

    /// Reports transitions when they are due, until the server stops.
    pub(crate) fn run_clock(&self) {
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

    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.lock().stopping
    }

    /// Counts a new connection if fewer than `most` are open, and waits up to `span` for that. Returns whether it is counted.
    pub(crate) fn enter(&self, most: usize, span: Duration) -> bool {
        let full = |state: &mut ServiceState| !state.stopping && state.connections >= most;
        let waiting = self.changed.wait_timeout_while(self.lock(), span, full);
        let (mut state, timeout) = waiting.unwrap_or_else(PoisonError::into_inner);
        let enters = !timeout.timed_out() && !state.stopping;
        state.connections += usize::from(enters);
        enters
    }

    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        state.connections = state.connections.saturating_sub(1);
        drop(state);
        self.changed.notify_all();
    }

    fn plan(&self, machine: usize, route: Route, arrived: Instant) -> FaultPlan {
        let mut state = self.lock();
        let lane = &mut state.lanes[machine];
        let first = *lane.first_request.get_or_insert(arrived);
        lane.planner.plan(route.kind(), arrived.saturating_duration_since(first))
    }

    fn decide(
        &self,
        machine: usize,
        route: Route,
        request: &ReplayRequest,
        plan: &FaultPlan,
        events: &mut ShownEvents,
    ) -> ServiceAction {
        let vm_name = &self.names[machine];
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
            Route::EventsGet(version) => self.document(machine, version, request, plan, events),
            Route::EventsPost => self.approve(request),
            Route::Name => ReplayResponse::text(200, vm_name.as_bytes()),
            Route::VmId => ReplayResponse::text(200, vm_id(vm_name).as_bytes()),
            Route::Instance(version) => {
                let instance = json!({"compute": compute(vm_name, version)});
                ReplayResponse::json(200, instance.to_string())
            }
            Route::Compute(version) => ReplayResponse::json(200, compute(vm_name, version).to_string()),
            Route::Token => ReplayResponse::json(200, token(vm_name, &request.target).to_string()),
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
                let packed = wire::gzip(&response.body);
                response.with("Content-Encoding", "gzip").body(packed)
            }
            _ => response,
        };
        ServiceAction::respond(response, plan)
    }

    fn document(
        &self,
        machine: usize,
        version: ApiVersion,
        request: &ReplayRequest,
        plan: &FaultPlan,
        shown: &mut ShownEvents,
    ) -> ReplayResponse {
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
        for event in altered.events.iter().filter(|event| verdict::names(&event.facts.resources, &self.names[machine]))
        {
            if version.includes(event) {
                shown.shown.push((event.facts.clone(), event.started));
            } else {
                shown.hidden.push(event.facts.clone());
            }
        }
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

    fn record(
        &self,
        machine: usize,
        kind: Option<RequestKind>,
        (request, arrived): (&ReplayRequest, Instant),
        (plan, action): (&FaultPlan, &ServiceAction),
        events: &ShownEvents,
    ) {
        let response = match action {
            ServiceAction::Respond(delivery) => Some(&delivery.response),
            _ => None,
        };
        let status = response.map(|response| response.status);
        let header = |name| response.and_then(|response| response.headers.iter().find(|(known, _)| *known == name));
        let mut state = self.lock();
        if state.requests.len() >= MAX_RECORDED {
            state.requests.pop_front();
        }
        state.requests.push_back(RecordedRequest {
            machine,
            method: request.method.clone(),
            target: request.target.clone(),
            headers: request.headers.clone(),
            body: request.body.clone(),
            arrived,
            status,
        });
        let ids = match kind {
            Some(RequestKind::EventsPost) => route::start_requests(&request.body).unwrap_or_default(),
            _ => Vec::new(),
        };
        state.report(ReplayEvent::Answered {
            machine,
            method: request.method.clone(),
            target: request.target.clone(),
            approves: ids.clone(),
            status,
            faults: plan.names.clone(),
        });
        let approves: Vec<_> =
            ids.into_iter().map(|id| (state.timeline.facts(&id), id)).map(|(facts, id)| (id, facts)).collect();
        let origin = state.origin;
        state.lanes[machine].verdict.exchange(&Exchange {
            request,
            kind,
            arrived: arrived.saturating_duration_since(origin),
            answered: origin.elapsed(),
            status,
            location: header("Location").map(|(_, value)| value.as_str()),
            has_retry_after: header("Retry-After").is_some(),
            faults: &plan.names,
            is_intact: kind.is_none_or(|kind| plan.is_intact(kind)),
            shown: &events.shown,
            hidden: &events.hidden,
            approves: &approves,
        });
        state.report_findings(machine);
    }

    /// The verdict on a machine's client until now.
    pub(crate) fn verdict(&self, machine: usize) -> Verdict {
        let mut state = self.lock();
        state.advance();
        let mut verdict = state.lanes[machine].verdict.clone();
        verdict.conclude(state.origin.elapsed(), state.is_over());
        verdict
    }

    pub(crate) fn client_ended(&self, machine: usize) {
        let mut state = self.lock();
        state.advance();
        let (now, is_over) = (state.origin.elapsed(), state.is_over());
        state.lanes[machine].verdict.client_ended(now, is_over);
    }

    pub(crate) fn origin(&self) -> Instant {
        self.lock().origin
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ServiceState> {
        // The state is consistent after every statement that could panic, so a poisoned lock is usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServiceState {
    fn new(
        names: &[String],
        timeline: Timeline,
        faults: Vec<Fault>,
        observer: Option<Sender<ReplayEvent>>,
        findings: bool,
    ) -> Self {
        let faults: Arc<[Fault]> = faults.into();
        let lane = |name: &String| Lane {
            planner: FaultPlanner::new(Arc::clone(&faults)),
            first_request: None,
            verdict: Verdict::new(name.clone()),
        };
        Self {
            timeline,
            lanes: names.iter().map(lane).collect(),
            origin: Instant::now(),
            clock: None,
            requests: VecDeque::new(),
            observer,
            findings,
            finish_reported: false,
            stopping: false,
            connections: 0,
        }
    }

    /// Begins again with another timeline. Open connections stay.
    pub(crate) fn begin_again(
        &mut self,
        names: &[String],
        timeline: Timeline,
        faults: Vec<Fault>,
        observer: Option<Sender<ReplayEvent>>,
        findings: bool,
    ) {
        let new = Self::new(names, timeline, faults, observer, findings);
        *self = Self { connections: self.connections, stopping: self.stopping, ..new };
    }

    /// Advances the timeline to the present and reports the transitions. Returns zero before the scenario starts.
    pub(crate) fn advance(&mut self) -> Duration {
        let Some(clock) = self.clock else {
            return Duration::ZERO;
        };
        let now = clock.started.elapsed();
        self.timeline.advance(now);
        self.report_transitions(clock);
        now
    }

    /// Reports what has happened in the timeline since the last call.
    pub(crate) fn report_transitions(&mut self, clock: ServiceClock) {
        let start = clock.started.saturating_duration_since(self.origin);
        for transition in self.timeline.take_transitions() {
            for machine in 0..self.lanes.len() {
                self.lanes[machine].verdict.transition(&transition, start);
                self.report_findings(machine);
            }
            self.report(to_event(transition, clock.epoch));
        }
        if self.timeline.finished() && !self.finish_reported {
            self.finish_reported = true;
            self.report(ReplayEvent::Finished);
        }
    }

    fn is_over(&self) -> bool {
        self.clock.is_some() && self.timeline.finished()
    }

    /// Reports what was found since the last call.
    fn report_findings(&mut self, machine: usize) {
        if self.findings {
            for finding in self.lanes[machine].verdict.take_new() {
                self.report(ReplayEvent::Finding { machine, finding });
            }
        }
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
    pub(crate) fn plain(response: ReplayResponse) -> Self {
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
        _ => ReplayResponse::json(status, wire::error_body(crate::http::reason(status))),
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
}
