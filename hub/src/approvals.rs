//! Approvals of all machines: those of one resource that are due together are one request.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::azure::arm::{Arm, ArmError, Detail, Refusal};

/// How long the first approval of a resource waits for others.
const GATHER: Duration = Duration::from_millis(20);

/// So many ids are in one request.
const LIST_MAX: usize = 100;

/// How many requests are in progress at a time.
const REQUESTS_AT_ONCE: usize = 16;

/// A service that asks for a pause gets it, but no longer than this: events start without an approval otherwise.
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
    paused_until: Cell<Option<Instant>>,
    /// How many requests were sent.
    pub sent: Cell<u64>,
}

impl Approvals {
    /// Sends approvals to this service.
    pub fn new(arm: Arm) -> Rc<Self> {
        let (due, requests) = (RefCell::default(), Semaphore::new(REQUESTS_AT_ONCE));
        Rc::new(Self { arm, due, requests, paused_until: Cell::default(), sent: Cell::default() })
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

    /// Sends what is due of a resource.
    async fn send(self: Rc<Self>, resource_id: String) {
        sleep(GATHER).await;
        // The semaphore is never closed.
        let _permit = self.requests.acquire().await;
        if let Some(until) = self.paused_until.get() {
            sleep_until(until).await;
        }
        let mut due = self.due.borrow_mut().remove(&resource_id).unwrap_or_default();
        while !due.is_empty() {
            let batch: Vec<_> = due.drain(..due.len().min(LIST_MAX)).collect();
            let ids: Vec<&str> = batch.iter().map(|(id, _)| id.as_str()).collect();
            self.sent.set(self.sent.get() + 1);
            let result = self.arm.acknowledge(&resource_id, &ids).await;
            if let Some(pause) = result.as_ref().err().and_then(ArmError::pause) {
                self.paused_until.set(Some(Instant::now() + pause.min(PAUSE_MAX)));
            }
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

    #[test]
    fn machines_of_one_event_approve_it_with_one_request() {
        let paths = Arc::<Mutex<Vec<String>>>::default();
        let seen = paths.clone();
        let server = TestServer::start(move |connection| {
            let mut lines = BufReader::new(&**connection).lines().map_while(Result::ok);
            while let Some(first) = lines.next() {
                seen.lock().expect("no panic").push(first);
                lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
                let _ = (&**connection).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        });
        let identity = IdentityConfig { kind: IdentityKind::Emulator, client_id: None };
        let identity = Identity::new(&identity, Cloud::Public).expect("an identity");
        let arm = Arm::new(server.url().parse().expect("an address"), identity).expect("a client");
        let set = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/web/providers/Microsoft.Compute\
                   /virtualMachineScaleSets/front";
        let id = "c7061bac-afdc-4513-b24b-aa5f13a16123";
        let done = scheduled_events_fleet::cli::block_on(async {
            let approvals = Approvals::new(arm);
            let (upper_set, upper_id) = (set.to_uppercase(), id.to_uppercase());
            let both = tokio::join!(approvals.approve(set, id), approvals.approve(&upper_set, &upper_id));
            (both, approvals.sent.get())
        });
        let done = done.unwrap_or_else(|failure| panic!("{}", failure.message));
        assert_eq!(done, ((Ok(()), Ok(())), 1));
        let paths = paths.lock().expect("no panic");
        assert!(paths.len() == 1 && paths[0].contains("/scheduledevents/c7061bac"), "{paths:?}");
    }
}
