//! Approvals of all machines: those of one resource that are due together are one request.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, sleep};

use crate::azure::arm::{Arm, ArmError, Detail, Refusal};

/// How long the first approval of a resource waits for others.
const GATHER: Duration = Duration::from_millis(20);

/// So many ids are in one request.
const LIST_MAX: usize = 100;

/// How many requests are in progress at a time.
const REQUESTS_AT_ONCE: usize = 16;

/// A service that asks for a pause gets it, but no longer than this, as from a session: events start without an approval otherwise.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Approvals that were not sent yet: by resource, each id with those that wait for its answer. Machines of one event may approve it
/// together.
type Due = HashMap<String, Vec<(String, Vec<Answer>)>>;

type Answer = oneshot::Sender<Result<(), ArmError>>;

/// Sends approvals.
pub struct Approvals {
    arm: Arm,
    due: RefCell<Due>,
    requests: Semaphore,
    /// The service's last request for a pause, and when that ends.
    paused: RefCell<Option<(Instant, ArmError)>>,
    /// How many requests were sent.
    pub sent: Cell<u64>,
}

impl Approvals {
    /// Sends approvals to this service.
    pub fn new(arm: Arm) -> Rc<Self> {
        let (due, requests) = (RefCell::default(), Semaphore::new(REQUESTS_AT_ONCE));
        Rc::new(Self { arm, due, requests, paused: RefCell::default(), sent: Cell::default() })
    }

    /// Approves an event of a resource.
    ///
    /// # Errors
    /// Why it may not be approved. A request without an answer may have arrived.
    pub async fn approve(self: &Rc<Self>, resource_id: &str, event_id: &str) -> Result<(), ArmError> {
        let (sender, answer) = oneshot::channel();
        let key = resource_id.to_ascii_lowercase();
        let is_first = {
            let mut due = self.due.borrow_mut();
            let list = due.entry(key.clone()).or_default();
            let is_first = list.is_empty();
            match list.iter_mut().find(|(id, _)| id.eq_ignore_ascii_case(event_id)) {
                Some((_, waiting)) => waiting.push(sender),
                None => list.push((event_id.to_owned(), vec![sender])),
            }
            is_first
        };
        if is_first {
            tokio::task::spawn_local(self.clone().send(key));
        }
        answer.await.unwrap_or_else(|_| Err(ArmError::NotSent("the request was given up".into())))
    }

    async fn acknowledge(&self, resource_id: &str, ids: &[&str]) -> Result<(), ArmError> {
        self.sent.set(self.sent.get() + 1);
        let result = self.arm.acknowledge(resource_id, ids).await;
        if let Err(error) = &result
            && let Some(pause) = error.pause()
        {
            self.paused.replace(Some((Instant::now() + pause.min(PAUSE_MAX), error.clone())));
        }
        result
    }

    /// The refusal by a service that has asked for a pause, until that is over. Nothing waits here for its end: an event that changes
    /// meanwhile needs another decision.
    fn refused_for_now(&self) -> Option<ArmError> {
        let paused = self.paused.borrow();
        let (until, error) = paused.as_ref()?;
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        Some(error.clone().with_pause(left))
    }

    /// Sends what is due of a resource.
    async fn send(self: Rc<Self>, resource_id: String) {
        sleep(GATHER).await;
        // The semaphore is never closed.
        let _permit = self.requests.acquire().await;
        let mut due = self.due.borrow_mut().remove(&resource_id).unwrap_or_default();
        while !due.is_empty() {
            let batch: Vec<_> = due.drain(..due.len().min(LIST_MAX)).collect();
            let ids: Vec<&str> = batch.iter().map(|(id, _)| id.as_str()).collect();
            let result = match self.refused_for_now() {
                Some(error) => Err(error),
                None => self.acknowledge(&resource_id, &ids).await,
            };
            // Some may have been approved: those that are not named.
            let in_part = result.as_ref().err().and_then(ArmError::refusal).filter(|refusal| refusal.is_in_part(&ids));
            for (id, waiting) in batch {
                let result = match in_part {
                    Some(refusal) => {
                        let detail = refusal.details.iter().find(|detail| detail.target.eq_ignore_ascii_case(&id));
                        match detail {
                            Some(Detail { code, message, .. }) => {
                                let (code, message) = (code.clone(), message.clone());
                                Err(ArmError::Refused(Refusal { code, message, ..refusal.clone() }))
                            }
                            None if refusal.approves_others() => Ok(()),
                            None => result.clone(),
                        }
                    }
                    None => result.clone(),
                };
                for sender in waiting {
                    let _ = sender.send(result.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::sync::{Arc, Mutex};

    use scheduled_events_test_support::TestServer;

    use super::*;
    use crate::azure::identity::Identity;
    use crate::config::{Cloud, Identity as IdentityConfig, IdentityKind};

    const SET: &str = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/web/providers/Microsoft.Compute\
                       /virtualMachineScaleSets/front";
    const ID: &str = "c7061bac-afdc-4513-b24b-aa5f13a16123";

    /// Runs work with a service that gives this answer to each request, and returns the paths of the requests.
    fn with_service<T>(answer: &'static str, work: impl AsyncFnOnce(Rc<Approvals>) -> T) -> (T, Vec<String>) {
        let paths = Arc::<Mutex<Vec<String>>>::default();
        let seen = paths.clone();
        let server = TestServer::start(move |connection| {
            let mut lines = BufReader::new(&**connection).lines().map_while(Result::ok);
            while let Some(first) = lines.next() {
                seen.lock().expect("no panic").push(first);
                lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
                let _ = (&**connection).write_all(answer.as_bytes());
            }
        });
        let identity = IdentityConfig { kind: IdentityKind::Emulator, client_id: None };
        let identity = Identity::new(&identity, Cloud::Public).expect("an identity");
        let arm = Arm::new(server.url().parse().expect("an address"), identity).expect("a client");
        let done = scheduled_events_fleet::cli::block_on(work(Approvals::new(arm)));
        let done = done.unwrap_or_else(|failure| panic!("{}", failure.message));
        let paths = paths.lock().expect("no panic").clone();
        (done, paths)
    }

    #[test]
    fn machines_of_one_event_approve_it_with_one_request() {
        let (done, paths) = with_service("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", async |approvals| {
            let (upper_set, upper_id) = (SET.to_uppercase(), ID.to_uppercase());
            let both = tokio::join!(approvals.approve(SET, ID), approvals.approve(&upper_set, &upper_id));
            (both, approvals.sent.get())
        });
        assert_eq!(done, ((Ok(()), Ok(())), 1));
        assert!(paths.len() == 1 && paths[0].contains("/scheduledevents/c7061bac"), "{paths:?}");
    }

    /// The event may be another one by the end of the pause.
    #[test]
    fn no_approval_waits_for_the_end_of_a_pause_that_the_service_asked_for() {
        let answer = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n";
        let (refused, paths) = with_service(answer, async |approvals| {
            let begin = Instant::now();
            let mut refused = Vec::new();
            for event in 0..3 {
                let id = ID.replace("c7061bac", &format!("c706000{event}"));
                refused.push(approvals.approve(SET, &id).await.expect_err("a refusal"));
            }
            assert!(begin.elapsed() < Duration::from_secs(5), "it waited");
            refused
        });
        assert_eq!(paths.len(), 1, "{paths:?}");
        let pauses: Vec<_> = refused.iter().map(|error| (error.status(), error.pause().expect("a pause"))).collect();
        assert!(
            pauses.iter().all(|(status, _)| *status == Some(429)) && pauses.is_sorted_by(|a, b| a.1 > b.1),
            "{pauses:?}"
        );
        assert!(pauses[2].1 > Duration::from_secs(1), "{pauses:?}");
    }
}
