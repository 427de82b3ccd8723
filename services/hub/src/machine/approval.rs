//! The approval of a machine's events: those that are due at a time are sent, and answered, together.

use scheduled_events::record::{EventRecord, event_key};
use scheduled_events::session::with_approval;
use scheduled_events_common::log;
use scheduled_events_core::{Arrival, Cause, RequestOutcome, Response, UnixMillis};

use tokio::time::Instant;

use super::Machine;
use crate::azure::arm::ArmError;
use crate::message::Message;
use crate::notice::EventKey;
use crate::store::StoreError;

impl Machine {
    /// Sends the approval in progress, unless what came while it was written down speaks against it.
    pub(super) async fn post(&mut self, posted: Vec<String>) -> Result<(), StoreError> {
        let mut is_outdated = false;
        while let Ok(message) = self.inbox.try_recv() {
            if let Message::Notice {
                notice,
                arrival: Arrival::Changed,
                ..
            } = &message
            {
                is_outdated |= posted.iter().any(|id| event_key(id) == notice.key);
            }
            self.on_message(message).await?;
        }
        // Another machine may have a watcher of its own since the gate's yes, or a message may say that the event has started.
        let holds = |id: &String| {
            let key = event_key(id);
            self.events.get(&key).is_none_or(|known| {
                let event = EventKey::new(&known.resource_id, &key);
                self.shared.gates.holds(&event) && !self.shared.approvals.is_stopped(&event)
            })
        };
        is_outdated |= self.has_watcher || !posted.iter().all(holds);
        if !is_outdated && !self.is_stopping && self.session.awaits_answer() {
            self.send(posted);
            return Ok(());
        }
        let results = posted.into_iter().map(|id| (Err(ArmError::Withdrawn), id));
        let results = results.collect();
        let now = self.set_time();
        self.on_approval(results, now).await
    }

    /// Sends the approval in progress. Nothing comes between what calls this and the first look at what is withdrawn.
    fn send(&self, posted: Vec<String>) {
        let answers = posted.into_iter().map(|id| {
            let known = self.events.get(&event_key(&id));
            let resource_id = known
                .map(|known| known.resource_id.as_str())
                .unwrap_or_default();
            // Each approval follows a yes. One that is not known is an old one.
            let yes_until = known.and_then(|known| known.yes_until);
            let until = yes_until.unwrap_or_else(Instant::now);
            let is_due = !self.approved.contains(&event_key(&id));
            let answer = is_due.then(|| self.shared.approvals.approve(resource_id, &id, until));
            (answer, id)
        });
        let (answers, sender): (Vec<_>, _) = (answers.collect(), self.sender.clone());
        tokio::task::spawn_local(async move {
            let mut results = Vec::new();
            for (answer, id) in answers {
                let result = match answer {
                    Some(answer) => answer.await,
                    None => Ok(()),
                };
                results.push((result, id));
            }
            let _ = sender.send(Message::Approved(results));
        });
    }

    /// Records what Azure answered.
    pub(super) async fn on_approval(
        &mut self,
        results: Vec<(Result<(), ArmError>, String)>,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let approved = results.iter().filter(|(result, _)| result.is_ok());
        self.approved.extend(approved.map(|(_, id)| event_key(id)));
        let (results, posted): (Vec<_>, Vec<_>) = results.into_iter().unzip();
        let result = results.into_iter().find(Result::is_err).unwrap_or(Ok(()));
        // A list that was approved in part is answered with 207, which says nothing about this event.
        let status = match &result {
            Ok(()) => Some(200),
            Err(error) => error.status().filter(|status| !(200..300).contains(status)),
        };
        self.is_withdrawn = matches!(result, Err(ArmError::Withdrawn));
        let pause = result.as_ref().err().and_then(ArmError::pause);
        let retry_after =
            pause.map(|pause| u32::try_from(pause.as_millis().div_ceil(1000)).unwrap_or(u32::MAX));
        let outcome = match status {
            Some(status) => self.session.on_response(
                &Response {
                    status,
                    retry_after,
                    body: b"",
                },
                now,
            ),
            None => self.session.on_failure(Cause::Unreachable, now),
        };
        self.shared.metrics.approval(result.is_ok());
        if let (RequestOutcome::ApprovalFailed { .. }, Err(error)) = (outcome, &result) {
            let text = format!("warning: approval of {} failed: {error}", posted.join(", "));
            log::printable(&text);
        }
        let events = posted.into_iter().map(|id| {
            let known = self.events.get(&event_key(&id));
            let known = known.map(|known| known.event.clone()).unwrap_or_default();
            EventRecord {
                event_id: id,
                ..known
            }
        });
        let events: Vec<_> = events.collect();
        with_approval(&events, status, |record| self.record(record));
        // What was approved is not approved again after a crash.
        self.save().await.map(drop)
    }
}
