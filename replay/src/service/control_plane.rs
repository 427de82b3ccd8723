//! Processes requests to the control plane.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Outside, Service, ServiceAction};
use crate::control_plane::delivery::Mail;
use crate::control_plane::error::{self, refusal, refusals};
use crate::control_plane::route::{self, ControlRoute};
use crate::control_plane::{graph, json, row};
use crate::fault::plan::{FaultPlan, RequestKind};
use crate::http::{ReplayRequest, ReplayResponse};
use crate::report::ReplayEvent;
use crate::resource::{is_guid, target_id};

impl Service {
    pub(super) fn handle_outside(&self, request: &ReplayRequest) -> ServiceAction {
        let arrived = Instant::now();
        let mut plan = FaultPlan::default();
        let action = match route::route(request) {
            Err(refusal) => ServiceAction::respond(refusal, &plan),
            Ok(route) => {
                self.plan_outside(route.kind(), arrived, &mut plan);
                if self.pause(plan.delay) {
                    return ServiceAction::Stop;
                }
                ServiceAction::instead_of_answer(&plan, error::of_status).unwrap_or_else(|| {
                    ServiceAction::answer(self.answer_outside(&route, request), &plan)
                })
            }
        };
        self.record_outside(request, arrived, (&plan, &action));
        action
    }

    fn plan_outside(&self, kind: RequestKind, arrived: Instant, plan: &mut FaultPlan) {
        if let Some(outside) = &mut self.lock().outside {
            let first = *outside.first_request.get_or_insert(arrived);
            *plan = outside
                .planner
                .plan(kind, arrived.saturating_duration_since(first));
        }
    }

    fn answer_outside(&self, route: &ControlRoute, request: &ReplayRequest) -> ReplayResponse {
        let response = match route {
            ControlRoute::Graph => graph::answer(&request.body, |table| self.rows(table)),
            ControlRoute::Acknowledge { resource, event_id } => {
                match self.acknowledge(resource, event_id) {
                    Ok(()) => approved(),
                    Err((code, message)) => refusal(404, code, message),
                }
            }
            ControlRoute::AcknowledgeList { resource } => {
                self.acknowledge_list(resource, &request.body)
            }
        };
        self.changed.notify_all();
        response
    }

    /// The rows of a table. A query for them starts the scenario.
    fn rows(&self, table: &str) -> Vec<Value> {
        let mut state = self.lock();
        let clock = state.start();
        state.advance();
        if table == "resources" {
            return row::resource_rows(&self.names);
        }
        state
            .timeline
            .appeared()
            .map(|(event, status)| row::event_row(&event, status, clock.epoch))
            .collect()
    }

    fn acknowledge_list(&self, resource: &str, body: &[u8]) -> ReplayResponse {
        // The body is `{"value": ["ID", …]}`.
        let body = json(body);
        let ids = body
            .get("value")
            .and_then(Value::as_array)
            .map(|ids| ids.iter().map(Value::as_str));
        let ids: Option<Vec<&str>> = ids.and_then(Iterator::collect);
        let Some(ids) = ids.filter(|ids| !ids.is_empty()) else {
            let message = "The request content was invalid and could not be deserialized: 'value is no list of ids'.";
            return refusal(400, "InvalidRequestContent", message);
        };
        if let Some(id) = ids.iter().find(|id| !is_guid(id)) {
            return route::invalid_id(id);
        }
        let mut details = Vec::new();
        for id in &ids {
            if let Err((code, message)) = self.acknowledge(resource, id) {
                details.push((*id, code, message));
            }
        }
        match details.len() {
            0 => approved(),
            count if count == ids.len() => refusals(
                404,
                "NotFound",
                "No event of the list was found at this resource.",
                &details,
            ),
            _ => {
                let message = "The operation returned different statuses for the Scheduled Events. Review each event's \
                               result for details.";
                refusals(207, "MultiStatusResponse", message, &details)
            }
        }
    }

    /// Approves an event, as a request inside the machine does.
    fn acknowledge(
        &self,
        resource: &str,
        event_id: &str,
    ) -> Result<(), (&'static str, &'static str)> {
        let mut state = self.lock();
        let now = state.advance();
        let is_at_resource =
            |resources: &[String]| target_id(resources).eq_ignore_ascii_case(resource);
        if !state
            .timeline
            .facts(event_id)
            .is_some_and(|facts| is_at_resource(&facts.resources))
        {
            return Err(("NotFound", "Scheduled event not found"));
        }
        state.timeline.approve(event_id, now);
        state.advance();
        Ok(())
    }

    pub(super) fn record_outside(
        &self,
        request: &ReplayRequest,
        arrived: Instant,
        (plan, action): (&FaultPlan, &ServiceAction),
    ) {
        let status = action.response().map(|response| response.status);
        let mut state = self.lock();
        state.remember(self.names.len(), request, arrived, status);
        let (method, target, faults) = (
            request.method.clone(),
            request.target.clone(),
            plan.names.clone(),
        );
        state.report(ReplayEvent::ControlPlane {
            method,
            target,
            status,
            faults,
        });
    }

    /// Waits for messages, at most for a time.
    pub(crate) fn collect_mail(&self, wait: Duration) -> Vec<Mail> {
        let mut state = self.lock();
        for is_last in [false, true] {
            let mail = state
                .outside
                .as_mut()
                .map(Outside::take_mail)
                .unwrap_or_default();
            if is_last || !mail.is_empty() || state.stopping {
                return mail;
            }
            state = self
                .changed
                .wait_timeout(state, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        Vec::new()
    }

    /// Reports the result for a message.
    pub(crate) fn report_message(&self, event: ReplayEvent) {
        self.lock().report(event);
    }
}

fn approved() -> ReplayResponse {
    ReplayResponse::json(200, r#"{"value":"Successfully Approved"}"#)
}
