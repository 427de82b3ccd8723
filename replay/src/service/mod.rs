//! The service without its sockets: a timeline, its faults, its clock and its records.
//!
//! `answer` changes answers as faults demand. `outside` sends messages about changes, and
//! `control_plane` processes requests from outside the machines.

mod answer;
mod control_plane;
mod outside;

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::fault::Fault;
use crate::fault::plan::{AnswerFault, FaultPlan, FaultPlanner, RequestKind};
use crate::http::instance::{compute, token, vm_id};
use crate::http::route::{self, Refusal, Route};
use crate::http::wire::{self, ApiVersion};
use crate::http::{ReplayRequest, ReplayResponse};
use crate::report::{RecordedRequest, ReplayEvent};
use crate::timeline::Timeline;
use crate::timeline::document::{EventFacts, ReplayDocument, Transition};
use crate::verdict::{self, ClientExit, Exchange, Verdict};

pub(crate) use answer::{Delivery, ServiceAction};
pub(crate) use outside::Outside;

/// The most requests that are kept. The oldest is dropped first.
pub const MAX_RECORDED: usize = 10_000;

/// The most bytes that the bodies of these requests have together.
const RECORDED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The state that all connections of a server share.
pub(crate) struct Service {
    /// The machines' names. A machine's number is its index here.
    pub(crate) names: Vec<String>,
    state: Mutex<ServiceState>,
    /// Notified when the server stops, when the next due time changes, and when a connection ends.
    pub(crate) changed: Condvar,
}

pub(crate) struct ServiceState {
    pub(crate) timeline: Timeline,
    /// One for each machine.
    pub(crate) lanes: Vec<Lane>,
    /// The newest version that the service has.
    pub(crate) newest: ApiVersion,
    /// The control plane, if there is one.
    pub(crate) outside: Option<Outside>,
    /// When the service was created, or began again.
    origin: Instant,
    /// Set by the first GET that is answered with a document.
    pub(crate) clock: Option<ServiceClock>,
    requests: VecDeque<RecordedRequest>,
    /// The sum of their bodies.
    recorded_bytes: usize,
    observer: Option<Sender<ReplayEvent>>,
    /// Whether the observer receives findings.
    findings: bool,
    /// When the scenario ended.
    pub(crate) finished: Option<Duration>,
    stopping: bool,
    connections: usize,
}

/// The state of one machine.
pub(crate) struct Lane {
    pub(crate) planner: FaultPlanner,
    pub(crate) first_request: Option<Instant>,
    /// The approvals whose answers are delayed.
    delayed: Vec<DelayedPost>,
    verdict: Verdict,
}

/// An approval whose answer is delayed.
pub(crate) struct DelayedPost {
    request: ReplayRequest,
    arrived: Instant,
}

/// Which events of the machine a document shows, and which its version leaves out.
#[derive(Default)]
struct ShownEvents {
    shown: Vec<(Arc<EventFacts>, bool)>,
    /// Whether there is one of any machine, and a Scheduled one of another machine.
    shows_any: bool,
    shows_other: bool,
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
        Self {
            names,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Processes a request to a machine's address, with the delay that its faults demand, and
    /// records it.
    ///
    /// The number after those of the machines is that of the control plane.
    pub(crate) fn handle(&self, machine: usize, request: &ReplayRequest) -> ServiceAction {
        if machine == self.names.len() {
            return self.handle_outside(request);
        }
        let arrived = Instant::now();
        let mut events = ShownEvents::default();
        let newest = self.lock().newest;
        let (kind, plan, action) = match route::route(request, newest) {
            Err(Refusal::Other(response)) => (
                None,
                FaultPlan::default(),
                ServiceAction::respond(response, &FaultPlan::default()),
            ),
            Err(Refusal::UnknownVersion(kind)) => {
                let plan = self.plan_refusal(machine, kind, arrived);
                let action = ServiceAction::instead_of_answer(&plan, answer::status_response)
                    .unwrap_or_else(|| {
                        ServiceAction::respond(route::unknown_version(newest), &plan)
                    });
                (None, plan, action)
            }
            Ok(route) => {
                let plan = self.plan(machine, route, arrived);
                if self.delay(machine, route.kind(), (request, arrived), plan.delay) {
                    return ServiceAction::Stop;
                }
                let action = self.decide(machine, route, request, &plan, &mut events);
                (Some(route.kind()), plan, action)
            }
        };
        self.record(machine, kind, (request, arrived), (&plan, &action), &events);
        action
    }

    /// Delays the answer to a request, as its faults demand. Returns true if the server stops before.
    fn delay(
        &self,
        machine: usize,
        kind: RequestKind,
        (request, arrived): (&ReplayRequest, Instant),
        span: Duration,
    ) -> bool {
        if span.is_zero() {
            return false;
        }
        match kind {
            RequestKind::EventsGet => self.poll_waits(machine, arrived),
            RequestKind::EventsPost => {
                let request = request.clone();
                let delayed = DelayedPost { request, arrived };
                self.lock().lanes[machine].delayed.push(delayed);
            }
            _ => {}
        }
        let is_stopping = self.pause(span);
        if let Some(lane) = self.lock().lanes.get_mut(machine) {
            lane.delayed.retain(|delayed| delayed.arrived != arrived);
        }
        is_stopping
    }

    /// Waits for a time. Returns true if the server stops before.
    pub(crate) fn pause(&self, span: Duration) -> bool {
        if span.is_zero() {
            return false;
        }
        let state = self.lock();
        let waiting = self
            .changed
            .wait_timeout_while(state, span, |state| !state.stopping);
        waiting.unwrap_or_else(PoisonError::into_inner).0.stopping
    }

    /// Records a request that could not be read whole, as far as it could.
    pub(crate) fn record_refusal(
        &self,
        machine: usize,
        request: &ReplayRequest,
        response: &ReplayResponse,
    ) {
        let plan = FaultPlan::default();
        let action = ServiceAction::respond(response.clone(), &plan);
        if machine == self.names.len() {
            return self.record_outside(request, Instant::now(), (&plan, &action));
        }
        self.record(
            machine,
            None,
            (request, Instant::now()),
            (&plan, &action),
            &ShownEvents::default(),
        );
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
            // Wakes the thread that delivers messages about the changes.
            self.changed.notify_all();
            state = match state.clock.and(state.timeline.next_due()) {
                Some(due) => {
                    let left = due.saturating_sub(now);
                    self.changed
                        .wait_timeout(state, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
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

    /// Counts a new connection if fewer than `most` are open, and waits up to `span` for that.
    /// Returns whether it is counted.
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
        lane.planner
            .plan(route.kind(), arrived.saturating_duration_since(first))
    }

    /// Notes that a poll waits for its answer.
    fn poll_waits(&self, machine: usize, arrived: Instant) {
        let mut state = self.lock();
        let at = arrived.saturating_duration_since(state.origin);
        state.lanes[machine].verdict.poll_waits(at);
    }

    fn plan_refusal(&self, machine: usize, kind: RequestKind, arrived: Instant) -> FaultPlan {
        let mut state = self.lock();
        let lane = &mut state.lanes[machine];
        let first = lane.first_request.unwrap_or(arrived);
        lane.planner
            .plan_refusal(kind, arrived.saturating_duration_since(first))
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
        if let Some(action) = ServiceAction::instead_of_answer(plan, answer::status_response) {
            return action;
        }
        // These two return no document, so they do not start the scenario.
        match plan.answer {
            Some(AnswerFault::Empty) if is_get => {
                return ServiceAction::respond(ReplayResponse::json(200, ""), plan);
            }
            Some(AnswerFault::NotJson) if is_get => {
                return ServiceAction::respond(ReplayResponse::json(200, "not json"), plan);
            }
            _ => {}
        }
        let response = match route {
            Route::EventsGet(version) => self.document(machine, version, request, plan, events),
            Route::EventsPost => self.approve(request),
            Route::Name => ReplayResponse::text(200, vm_name.as_bytes()),
            Route::VmId => ReplayResponse::text(200, vm_id(vm_name).as_bytes()),
            Route::Instance(version) => {
                let instance = json!({"compute": compute(vm_name, version)});
                ReplayResponse::json(200, wire::written(&instance))
            }
            Route::Compute(version) => {
                ReplayResponse::json(200, wire::written(&compute(vm_name, version)))
            }
            Route::Token => ReplayResponse::json(200, token(vm_name, &request.target)),
        };
        ServiceAction::answer(response, plan)
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
        let clock = state.start();
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
                document
                    .events
                    .iter()
                    .filter(|event| event.started || !plan.started_only)
                    .cloned()
                    .collect()
            },
        };
        for event in &altered.events {
            shown.shows_any |= version.includes(event);
            if !verdict::names(&event.facts.resources, &self.names[machine]) {
                shown.shows_other |= version.includes(event) && !event.started;
            } else if version.includes(event) {
                shown.shown.push((event.facts.clone(), event.started));
            } else {
                shown.hidden.push(event.facts.clone());
            }
        }
        // Altered content needs a different tag, otherwise a client that sends If-None-Match would
        // get a 304.
        let mark = if altered.events.len() == document.events.len() {
            ""
        } else {
            "-altered"
        };
        let etag = format!("\"{}{mark}\"", altered.incarnation);
        let conditional = plan.answer.is_none() && plan.slow_body.is_zero();
        if conditional
            && request
                .header("If-None-Match")
                .any(|value| matches_etag(value, &etag))
        {
            return ReplayResponse::new(304).with("ETag", etag);
        }
        let mut body = wire::render(&altered, version, wire::shifted(clock.epoch, plan.clock));
        if plan.alters_members() {
            body = wire::with_invalid_members(&body, &plan.members, plan.repeated_ids);
        }
        let response = ReplayResponse::json(200, body).with("ETag", etag);
        match plan.clock {
            0 => response,
            ahead => response.with(
                "Date",
                httpdate::fmt_http_date(wire::shifted(SystemTime::now(), ahead)),
            ),
        }
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
        let response = action.response();
        let status = response.map(|response| response.status);
        let header = |name| {
            response.and_then(|response| response.headers.iter().find(|(known, _)| *known == name))
        };
        let is_poll = kind == Some(RequestKind::EventsGet);
        let mut state = self.lock();
        state.remember(machine, request, arrived, status);
        let approves = match kind {
            Some(RequestKind::EventsPost) => state.approved_by(request),
            _ => Vec::new(),
        };
        state.report(ReplayEvent::Answered {
            machine,
            method: request.method.clone(),
            target: request.target.clone(),
            approves: approves.iter().map(|(id, _)| id.clone()).collect(),
            status,
            faults: plan.names.clone(),
        });
        let (origin, newest) = (state.origin, state.newest);
        state.lanes[machine].verdict.exchange(&Exchange {
            request,
            newest,
            kind,
            arrived: arrived.saturating_duration_since(origin),
            answered: origin.elapsed() + plan.short_delay(),
            status,
            location: header("Location").map(|(_, value)| value.as_str()),
            retry_after: header("Retry-After").and_then(|(_, value)| answer::retry_time(value)),
            faults: &plan.names,
            is_intact: kind.is_none_or(|kind| plan.is_intact(kind)),
            is_broken: plan.is_broken(),
            is_slow: plan.is_slow(),
            refusal: response
                .filter(|_| kind.is_none())
                .map(|answer| answer.body.as_slice()),
            document: response
                .filter(|answer| is_poll && answer.status == 200)
                .map(|answer| answer.body.as_slice()),
            is_altered: is_poll && plan.alters_members(),
            shown: &events.shown,
            shows_any: events.shows_any,
            shows_other: events.shows_other,
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
        let now = state.origin.elapsed();
        // Approvals whose answers a fault delays were sent all the same.
        for waiting in &state.lanes[machine].delayed {
            let approves = state.approved_by(&waiting.request);
            verdict.exchange(&Exchange {
                arrived: waiting.arrived.saturating_duration_since(state.origin),
                is_slow: true,
                approves: &approves,
                ..Exchange::unanswered(&waiting.request, now, state.newest)
            });
        }
        verdict.conclude(now, state.timeline.speed(), state.finished);
        verdict.has_outside = state.outside.as_ref().is_some_and(Outside::may_be_used);
        verdict
    }

    /// The number of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.lock().connections
    }

    /// Whether a client waits for its first response.
    pub(crate) fn is_answering(&self) -> bool {
        let state = self.lock();
        state.lanes.iter().any(|lane| lane.verdict.waits())
    }

    /// The verdicts on all clients, which send no more requests.
    pub(crate) fn finish(&self) -> Vec<Verdict> {
        for machine in 0..self.names.len() {
            self.client_ended(machine);
        }
        (0..self.names.len())
            .map(|machine| self.verdict(machine))
            .collect()
    }

    /// How many requests were received, if nobody receives the findings about them.
    pub(crate) fn unwatched_requests(&self) -> usize {
        let state = self.lock();
        if state.findings {
            0
        } else {
            state.requests.len()
        }
    }

    pub(crate) fn client_ended(&self, machine: usize) {
        let mut state = self.lock();
        state.advance();
        let (now, over) = (state.origin.elapsed(), state.finished);
        state.lanes[machine].verdict.client_ended(now, over);
    }

    pub(crate) fn client_exited(&self, machine: usize, exit: ClientExit) {
        if matches!(exit, ClientExit::ByItself(_)) {
            self.client_ended(machine);
        }
        self.lock().lanes[machine].verdict.client_exited(exit);
    }

    pub(crate) fn origin(&self) -> Instant {
        self.lock().origin
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ServiceState> {
        // The state is consistent after every statement that could panic, so a poisoned lock is
        // usable.
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
        let machines = timeline.machines();
        let lane = |name: &String| Lane {
            planner: FaultPlanner::new(Arc::clone(&faults)),
            first_request: None,
            delayed: Vec::new(),
            verdict: Verdict::new(name.clone(), machines.contains(&name.to_ascii_lowercase())),
        };
        Self {
            timeline,
            lanes: names.iter().map(lane).collect(),
            newest: ApiVersion::STABLE,
            outside: None,
            origin: Instant::now(),
            clock: None,
            requests: VecDeque::new(),
            recorded_bytes: 0,
            observer,
            findings,
            finished: None,
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
        let outside = self.outside.take().map(|outside| outside.again(&faults));
        let new = Self::new(names, timeline, faults, observer, findings);
        *self = Self {
            connections: self.connections,
            stopping: self.stopping,
            newest: self.newest,
            outside,
            ..new
        };
        self.start_for_queue();
    }

    /// Starts the scenario if there is a queue: the server cannot know when its reader starts.
    pub(crate) fn start_for_queue(&mut self) {
        if self.outside.as_ref().is_some_and(Outside::fills_queue) {
            self.start();
        }
    }

    /// The clock, which starts now if it has not yet.
    fn start(&mut self) -> ServiceClock {
        if let Some(clock) = self.clock {
            return clock;
        }
        let clock = ServiceClock {
            started: Instant::now(),
            epoch: SystemTime::now(),
        };
        self.clock = Some(clock);
        self.report(ReplayEvent::ScenarioStarted);
        clock
    }

    fn remember(
        &mut self,
        machine: usize,
        request: &ReplayRequest,
        arrived: Instant,
        status: Option<u16>,
    ) {
        self.recorded_bytes += request.body.len();
        while self.requests.len() >= MAX_RECORDED || self.recorded_bytes > RECORDED_BYTES_MAX {
            let Some(dropped) = self.requests.pop_front() else {
                break;
            };
            self.recorded_bytes -= dropped.body.len();
        }
        self.requests.push_back(RecordedRequest {
            machine,
            method: request.method.clone(),
            target: request.target.clone(),
            headers: request.headers.clone(),
            body: request.body.clone(),
            arrived,
            status,
        });
    }

    /// Advances the timeline to the present and reports the transitions. Returns zero before the
    /// scenario starts.
    pub(crate) fn advance(&mut self) -> Duration {
        let Some(clock) = self.clock else {
            return Duration::ZERO;
        };
        let now = clock.started.elapsed();
        self.timeline.advance(now);
        self.report_transitions(clock);
        now
    }

    /// Reports the timeline's transitions since the last call.
    pub(crate) fn report_transitions(&mut self, clock: ServiceClock) {
        let start = clock.started.saturating_duration_since(self.origin);
        for transition in self.timeline.take_transitions() {
            for machine in 0..self.lanes.len() {
                self.lanes[machine].verdict.transition(&transition, start);
                self.report_findings(machine);
            }
            let lost = self
                .outside
                .as_mut()
                .and_then(|outside| outside.post(&transition, clock.epoch));
            self.report(to_event(transition, clock.epoch));
            if let Some(lost) = lost {
                self.report(lost);
            }
        }
        if self.timeline.finished() && self.finished.is_none() {
            self.finished = Some(self.origin.elapsed());
            if let Some(outside) = &mut self.outside {
                outside.finish();
            }
            self.report(ReplayEvent::Finished);
        }
    }

    /// The events that a request approves, with their known members.
    fn approved_by(&self, request: &ReplayRequest) -> Vec<(String, Option<Arc<EventFacts>>)> {
        let ids = route::start_requests(&request.body).unwrap_or_default();
        let facts = ids.into_iter().map(|id| (self.timeline.facts(&id), id));
        facts.map(|(facts, id)| (id, facts)).collect()
    }

    /// Reports the findings since the last call.
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

fn to_event(transition: Transition, epoch: SystemTime) -> ReplayEvent {
    match transition {
        Transition::IncarnationReset { incarnation, .. } => {
            ReplayEvent::IncarnationReset { incarnation }
        }
        Transition::Event {
            kind,
            event,
            incarnation,
            ..
        } => ReplayEvent::Event {
            change: kind,
            event_id: event.facts.event_id.clone(),
            event_type: event.facts.event_type.clone(),
            resources: event.facts.resources.clone(),
            started: event.started,
            is_advice: event.facts.is_advice(),
            not_before: event
                .not_before
                .map(|offset| wire::wall_time(epoch, offset)),
            incarnation,
        },
    }
}

fn matches_etag(header: &str, etag: &str) -> bool {
    header
        .split(',')
        .map(str::trim)
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
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
}
