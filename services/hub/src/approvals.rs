//! Approvals of all machines: those of one resource that are due together share one request.
//!
//! A message is news, and Resource Graph is the record: before an approval, the event's row is asked
//! for once. What it says is passed on, and withdraws the approval if the event is another one.
//!
//! A gate's yes holds for [`yes_time`]. All waiting on the way to the request, and the request
//! itself, end with it; the gate is then asked again.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use azure_core::credentials::Secret;
use scheduled_events::record::{EventRecord, event_key};
use scheduled_events_common::log;
use scheduled_events_core::UnixMillis;
use scheduled_events_gate::driver::POST_TIME;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use crate::azure::arm::{Arm, ArmError, Detail, Refusal, approval};
use crate::confirm::{Confirmations, Confirmed};
use crate::notice::{EventKey, key_of};
use crate::store::Store;

/// How long after the question to which the gate answered yes an approval may be in progress. The
/// gate lets no machine prepare again before [`POST_TIME`]; a request that is ended may still arrive.
const YES_TIME: Duration = POST_TIME.saturating_sub(Duration::from_secs(1));

/// The same for an event of one machine: nobody else prepares for it, so that it can wait for its
/// turn among thousands.
const ALONE_TIME: Duration = Duration::from_secs(60 * 60);

/// How much of a yes's time is kept for the request. Once only this is left, nothing waits for the
/// event's row.
const REQUEST_LEFT: Duration = Duration::from_secs(5);

/// How long the row of an event may take of which a message says that it has started. A machine does not
/// begin to prepare for it meanwhile.
const ROW_TIME: Duration = Duration::from_secs(4);

/// How long the first approval of a resource waits for others.
const GATHER: Duration = Duration::from_millis(20);

/// The maximum number of ids in one request.
const LIST_MAX: usize = 100;

/// How many requests are in progress at a time.
const REQUESTS_AT_ONCE: usize = 16;

/// The longest pause, as for a session, that a service gets when it asks for one: otherwise events
/// would start without an approval.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// How long the gate's yes to an event counts.
pub fn yes_time(event: &EventRecord) -> Duration {
    match &event.resources {
        Some(names) if names.len() == 1 => ALONE_TIME,
        _ => YES_TIME,
    }
}

/// An event whose approval was not sent yet.
struct Due {
    /// It is sent only with the row that was asked for under this number.
    number: u64,
    event_id: String,
    key: String,
    /// When the gate's yes ends.
    until: Instant,
    /// The machines that wait for the answer: machines of one event may approve it together.
    waiting: Vec<Answer>,
}

type Answer = oneshot::Sender<Result<(), ArmError>>;

/// Sends approvals.
pub struct Approvals {
    arm: Arm,
    store: Rc<Store>,
    /// By resource.
    due: RefCell<HashMap<String, Vec<Due>>>,
    next: Cell<u64>,
    requests: Semaphore,
    /// The events that are not approved for now: since when, and whether the log says so.
    stopped: RefCell<HashMap<EventKey, (Instant, bool)>>,
    /// Asks for the rows of events.
    pub confirmations: Rc<Confirmations>,
    /// The service's last request for a pause, and when that ends.
    paused: RefCell<Option<(Instant, ArmError)>>,
    /// How many requests were sent.
    pub sent: Cell<u64>,
}

impl Approvals {
    /// Sends approvals to this service while it is this hub's turn.
    pub fn new(arm: Arm, store: Rc<Store>) -> Rc<Self> {
        let (due, requests) = (RefCell::default(), Semaphore::new(REQUESTS_AT_ONCE));
        Rc::new(Self {
            arm,
            store,
            due,
            next: Cell::default(),
            requests,
            stopped: RefCell::default(),
            confirmations: Rc::default(),
            paused: RefCell::default(),
            sent: Cell::default(),
        })
    }

    /// Azure's time of day, or this machine's, if that differs by little.
    pub fn time_of_day(&self, own: UnixMillis) -> UnixMillis {
        self.arm.time_unlike(own).unwrap_or(own)
    }

    /// Queues the approval of an event of a resource at once: [`Self::withdraw`] finds it before
    /// the answer is awaited. `until` is the end of the gate's yes.
    ///
    /// # Errors
    /// Why it may not be approved. A request without an answer may have arrived.
    pub fn approve(
        self: &Rc<Self>,
        resource_id: &str,
        event_id: &str,
        until: Instant,
    ) -> impl Future<Output = Result<(), ArmError>> + use<> {
        let (sender, answer) = oneshot::channel();
        // An invalid approval would prevent the others in the same list.
        let invalid = approval(resource_id, &[event_id]).err();
        let resource_id = resource_id.to_ascii_lowercase();
        let is_first = invalid.is_none() && {
            let mut due = self.due.borrow_mut();
            // The list is there until its sender ends.
            let is_first = !due.contains_key(&resource_id);
            let list = due.entry(resource_id.clone()).or_default();
            let key = event_key(event_id);
            match list.iter_mut().find(|due| due.key == key) {
                Some(due) => {
                    due.until = due.until.max(until);
                    due.waiting.push(sender);
                }
                None => list.push(Due {
                    number: self.next.replace(self.next.get() + 1),
                    event_id: event_id.to_owned(),
                    key,
                    until,
                    waiting: vec![sender],
                }),
            }
            is_first
        };
        if is_first {
            tokio::task::spawn_local(self.clone().send(resource_id));
        }
        async {
            if let Some(why) = invalid {
                return Err(ArmError::Invalid(why));
            }
            answer.await.unwrap_or(Err(ArmError::Withdrawn))
        }
    }

    /// Drops the unsent approvals of the event: it has changed.
    pub fn withdraw(&self, event: &EventKey) {
        for (resource_id, list) in &mut *self.due.borrow_mut() {
            if key_of(resource_id) == event.scope {
                list.retain(|due| due.key != event.id);
            }
        }
    }

    /// Stops the approval of the event, or allows it again.
    pub fn stop(&self, event: &EventKey, is_stopped: bool) {
        if is_stopped {
            let mut stopped = self.stopped.borrow_mut();
            let now = || (Instant::now(), false);
            stopped.entry(event.clone()).or_insert_with(now);
            self.withdraw(event);
        } else {
            self.stopped.borrow_mut().remove(event);
        }
    }

    /// Whether the event is not approved for now. The log gets the reason once.
    pub fn is_stopped(&self, event: &EventKey) -> bool {
        let mut stopped = self.stopped.borrow_mut();
        let Some((_, is_logged)) = stopped.get_mut(event) else {
            return false;
        };
        if !std::mem::replace(is_logged, true) {
            log::printable(&format!(
                "note: a message says that event {event} is not Scheduled any more, and no row of Resource Graph does: it is not \
                 approved, unless all rows contradict the message for ten minutes"
            ));
        }
        true
    }

    /// Whether the approval of the event was stopped just now, so that its row may not have come yet.
    pub fn was_just_stopped(&self, event: &EventKey) -> bool {
        let stopped = self.stopped.borrow();
        let since = stopped.get(event);
        since.is_some_and(|(since, _)| since.elapsed() < ROW_TIME)
    }

    /// Drops all unsent approvals: this hub stops, and sees no more changes.
    pub fn withdraw_all(&self) {
        self.due.borrow_mut().clear();
    }

    async fn acknowledge(
        &self,
        token: &Secret,
        resource_id: &str,
        ids: &[&str],
        until: Instant,
    ) -> Result<(), ArmError> {
        if !self.store.has_turn() {
            return Err(ArmError::NotActive);
        }
        self.sent.set(self.sent.get() + 1);
        let result = self.arm.acknowledge(token, resource_id, ids, until).await;
        if let Err(error) = &result
            && let Some(pause) = error.pause()
        {
            self.paused
                .replace(Some((Instant::now() + pause.min(PAUSE_MAX), error.clone())));
        }
        result
    }

    /// The refusal by a service that has asked for a pause, until the pause is over. No approval
    /// waits here for its end: an event that changes meanwhile needs another decision.
    fn refused_for_now(&self) -> Option<ArmError> {
        let paused = self.paused.borrow();
        let (until, error) = paused.as_ref()?;
        let left = until
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())?;
        Some(error.clone().with_pause(left))
    }

    /// When the first of the gate's answers ends on which the approvals of a resource rely; `None` if
    /// none is due.
    fn first_end(&self, resource_id: &str) -> Option<Instant> {
        let due = self.due.borrow();
        due.get(resource_id)?.iter().map(|due| due.until).min()
    }

    /// Asks for the rows of the events of a resource that are due, as many as one request approves.
    /// Returns the answers by the numbers of the approvals, those that have come until then.
    async fn confirm(&self, resource_id: &str, until: Instant) -> HashMap<u64, Confirmed> {
        let ask = |due: &Due| {
            let (all, event) = (
                self.confirmations.clone(),
                EventKey::new(resource_id, &due.key),
            );
            let answer = tokio::task::spawn_local(async move { all.confirm(event).await });
            (due.number, answer)
        };
        let questions: Vec<_> = match self.due.borrow().get(resource_id) {
            Some(list) => list.iter().take(LIST_MAX).map(ask).collect(),
            None => Vec::new(),
        };
        let mut confirmed = HashMap::new();
        for (number, answer) in questions {
            let answer = timeout_at(until, answer).await;
            let answer = answer.ok().and_then(Result::ok);
            confirmed.insert(number, answer.unwrap_or(Confirmed::Unanswered(None)));
        }
        confirmed
    }

    /// A token, and the events' rows, for the next request of a resource.
    async fn look(
        &self,
        resource_id: &str,
        until: Instant,
    ) -> (Result<Secret, ArmError>, HashMap<u64, Confirmed>) {
        let until = until.checked_sub(REQUEST_LEFT).unwrap_or(until);
        let confirmed = self.confirm(resource_id, until).await;
        // A token that comes too late serves the next approval.
        let arm = self.arm.clone();
        let access = tokio::task::spawn_local(async move { arm.access().await });
        // The task does not panic.
        (access.await.unwrap_or(Err(ArmError::Late)), confirmed)
    }

    /// Refuses the approvals of a resource whose time is over.
    fn refuse_late(&self, resource_id: &str) {
        let (mut due, now) = (self.due.borrow_mut(), Instant::now());
        let late = due
            .get_mut(resource_id)
            .into_iter()
            .flat_map(|list| list.extract_if(.., |due| due.until <= now));
        for sender in late.flat_map(|due| due.waiting) {
            let _ = sender.send(Err(ArmError::Late));
        }
    }

    /// Takes these approvals of a resource, as far as they are due still. Those whose row cannot be
    /// read are refused.
    fn take(&self, resource_id: &str, confirmed: &HashMap<u64, Confirmed>) -> Vec<Due> {
        let mut due = self.due.borrow_mut();
        let Some(list) = due.get_mut(resource_id) else {
            return Vec::new();
        };
        let taken = list.extract_if(.., |due| confirmed.contains_key(&due.number));
        let (unreadable, batch): (Vec<_>, Vec<_>) = taken
            .partition(|due| matches!(confirmed.get(&due.number), Some(Confirmed::Unreadable)));
        for sender in unreadable.into_iter().flat_map(|due| due.waiting) {
            let _ = sender.send(Err(ArmError::NotUnderstood {
                answer: "has a row that cannot be read, which may be this event's",
                error: None,
            }));
        }
        batch
    }

    /// Sends the due approvals of a resource. Nothing is awaited between taking them and the
    /// request, since events change.
    async fn send(self: Rc<Self>, resource_id: String) {
        sleep(GATHER).await;
        while let Some(until) = self.first_end(&resource_id) {
            // Only who has a permit looks: the row is new, and thousands do not ask at once.
            let ready = timeout_at(until, async {
                // The semaphore is never closed.
                let permit = self.requests.acquire().await;
                (permit, self.look(&resource_id, until).await)
            });
            let ready = ready.await;
            self.refuse_late(&resource_id);
            let Ok((_permit, (access, confirmed))) = ready else {
                continue;
            };
            let batch = self.take(&resource_id, &confirmed);
            let Some(until) = batch.iter().map(|due| due.until).min() else {
                continue;
            };
            let ids: Vec<&str> = batch.iter().map(|due| due.event_id.as_str()).collect();
            let result = match (access, self.refused_for_now()) {
                (Err(error), _) | (Ok(_), Some(error)) => Err(error),
                (Ok(token), None) => self.acknowledge(&token, &resource_id, &ids, until).await,
            };
            // Some may have been approved: those that the answer does not name.
            let in_part = result
                .as_ref()
                .err()
                .and_then(ArmError::refusal)
                .filter(|refusal| refusal.is_in_part(&ids));
            for Due {
                number,
                event_id: id,
                waiting,
                ..
            } in batch
            {
                let result = match in_part {
                    Some(refusal) => {
                        let detail = refusal
                            .details
                            .iter()
                            .find(|detail| detail.target.eq_ignore_ascii_case(&id));
                        match detail {
                            Some(Detail { code, message, .. }) => {
                                let (code, message) = (code.clone(), message.clone());
                                Err(ArmError::Refused(Refusal {
                                    code,
                                    message,
                                    ..refusal.clone()
                                }))
                            }
                            None if refusal.approves_others() => Ok(()),
                            None => result.clone(),
                        }
                    }
                    None => result.clone(),
                };
                if result.is_ok() {
                    log_unconfirmed(&id, confirmed.get(&number));
                }
                for sender in waiting {
                    let _ = sender.send(result.clone());
                }
            }
        }
        self.due.borrow_mut().remove(&resource_id);
    }
}

/// Logs that an event was approved without its row.
fn log_unconfirmed(event_id: &str, confirmed: Option<&Confirmed>) {
    let why = match confirmed {
        Some(Confirmed::Absent) => "Resource Graph has no row of it yet".to_owned(),
        Some(Confirmed::Unanswered(Some(error))) => {
            format!("Resource Graph does not answer: {error}")
        }
        Some(Confirmed::Unanswered(None)) => "Resource Graph does not answer".to_owned(),
        _ => return,
    };
    log::printable(&format!(
        "warning: event {event_id} was approved by what was known of it: {why}"
    ));
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, Mutex};

    use scheduled_events_test_support::TestServer;

    use super::*;
    use crate::azure::identity::Identity;
    use crate::azure::identity::tests::Issuer;
    use crate::config::{Cloud, Identity as IdentityConfig, IdentityKind};
    use crate::store::tests::alone;

    const SET: &str = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/web/providers/Microsoft.Compute\
                       /virtualMachineScaleSets/front";
    const ID: &str = "c7061bac-afdc-4513-b24b-aa5f13a16123";
    const APPROVED: &str =
        "HTTP/1.1 200 OK\r\nContent-Length: 34\r\n\r\n{\"value\": \"Successfully Approved\"}";

    /// The end of a yes that was given just now.
    fn soon() -> Instant {
        Instant::now() + YES_TIME
    }

    #[test]
    fn a_yes_ends_soon_unless_no_other_machine_can_prepare_again() {
        let of = |names: Option<&[&str]>| {
            yes_time(&EventRecord {
                resources: names.map(|names| names.iter().map(|&name| name.into()).collect()),
                ..EventRecord::default()
            })
        };
        assert_eq!(of(Some(&["a"])), ALONE_TIME);
        assert_eq!(
            [of(None), of(Some(&[])), of(Some(&["a", "b"]))],
            [YES_TIME; 3]
        );
        assert!(YES_TIME < POST_TIME);
    }

    /// Runs work with a service that gives this answer to each request, and returns the paths of
    /// the requests.
    fn with_service<T>(
        answer: &'static str,
        work: impl AsyncFnOnce(Rc<Approvals>) -> T,
    ) -> (T, Vec<String>) {
        let identity = IdentityConfig {
            kind: IdentityKind::Emulator,
            client_id: None,
        };
        with_identity(
            Identity::new(&identity, Cloud::Public).expect("an identity"),
            answer,
            work,
        )
    }

    /// The same with another identity.
    fn with_identity<T>(
        identity: Identity,
        answer: &'static str,
        work: impl AsyncFnOnce(Rc<Approvals>) -> T,
    ) -> (T, Vec<String>) {
        let paths = Arc::<Mutex<Vec<String>>>::default();
        let seen = paths.clone();
        let server = TestServer::start(move |connection| {
            let mut lines = BufReader::new(&**connection).lines().map_while(Result::ok);
            while let Some(first) = lines.next() {
                seen.lock().expect("no panic").push(first);
                lines
                    .by_ref()
                    .take_while(|line| !line.is_empty())
                    .for_each(drop);
                let _ = (&**connection).write_all(answer.as_bytes());
            }
        });
        let arm = Arm::new(server.url().parse().expect("an address"), identity).expect("a client");
        let folder = tempfile::tempdir().expect("a folder");
        let store = Rc::new(alone(folder.path()));
        let done = scheduled_events_common::program::block_on(work(Approvals::new(arm, store)));
        let done = done.unwrap_or_else(|failure| panic!("{}", failure.message));
        let paths = paths.lock().expect("no panic").clone();
        (done, paths)
    }

    #[test]
    fn machines_of_one_event_approve_it_with_one_request() {
        let (done, paths) = with_service(APPROVED, async |approvals| {
            let (upper_set, upper_id) = (SET.to_uppercase(), ID.to_uppercase());
            let both = tokio::join!(
                approvals.approve(SET, ID, soon()),
                approvals.approve(&upper_set, &upper_id, soon())
            );
            (both, approvals.sent.get())
        });
        assert!(matches!(done, ((Ok(()), Ok(())), 1)), "{done:?}");
        assert!(
            paths.len() == 1 && paths[0].contains("/scheduledevents/c7061bac"),
            "{paths:?}"
        );
    }

    /// The event may be another one by the end of the pause.
    #[test]
    fn no_approval_waits_for_the_end_of_a_pause_that_the_service_asked_for() {
        let answer =
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n";
        let (refused, paths) = with_service(answer, async |approvals| {
            let begin = Instant::now();
            let mut refused = Vec::new();
            for event in 0..3 {
                let id = ID.replace("c7061bac", &format!("c706000{event}"));
                let refusal = approvals.approve(SET, &id, soon()).await;
                refused.push(refusal.expect_err("a refusal"));
            }
            assert!(begin.elapsed() < Duration::from_secs(15), "it waited");
            refused
        });
        assert_eq!(paths.len(), 1, "{paths:?}");
        let pauses: Vec<_> = refused
            .iter()
            .map(|error| (error.status(), error.pause().expect("a pause")))
            .collect();
        assert!(
            pauses.iter().all(|(status, _)| *status == Some(429))
                && pauses.is_sorted_by(|a, b| a.1 > b.1),
            "{pauses:?}"
        );
        assert!(pauses[2].1 > Duration::from_secs(1), "{pauses:?}");
    }

    /// The machine's clock is days ahead. A request for a token takes a while, in which events
    /// change.
    #[test]
    fn an_approval_waits_for_no_token_once_it_cannot_be_withdrawn() {
        let issuer = Issuer::new();
        issuer.valid.store(-1, Ordering::Relaxed);
        let answer = APPROVED;
        let (done, paths) = with_identity(issuer.identity(), answer, async |approvals| {
            approvals.approve(SET, ID, soon()).await
        });
        let done = (done, paths.len(), issuer.count());
        assert!(matches!(done, (Ok(()), 1, 1)), "{done:?}");
    }

    #[test]
    fn an_id_that_is_none_keeps_no_other_from_being_sent() {
        let (done, paths) = with_service(APPROVED, async |approvals| {
            tokio::join!(
                approvals.approve(SET, "nobody", soon()),
                approvals.approve(SET, ID, soon())
            )
        });
        assert!(done.0.is_err() && done.1.is_ok(), "{done:?}");
        assert_eq!(paths.len(), 1, "{paths:?}");
    }

    #[test]
    fn what_was_withdrawn_while_it_waited_is_not_sent() {
        let (done, paths) = with_service(APPROVED, async |approvals| {
            let other = ID.replace("c7061bac", "c7061bad");
            let (withdrawn, kept) = (
                approvals.approve(SET, &ID.to_uppercase(), soon()),
                approvals.approve(SET, &other, soon()),
            );
            approvals.withdraw(&EventKey::new(SET, ID));
            let done = (withdrawn.await.is_err(), kept.await);
            let last = approvals.approve(SET, ID, soon());
            approvals.withdraw_all();
            assert!(last.await.is_err());
            done
        });
        assert!(matches!(done, (true, Ok(()))), "{done:?}");
        assert!(
            paths.len() == 1 && paths[0].contains("/scheduledevents/c7061bad"),
            "{paths:?}"
        );
    }

    /// Nothing on the way to a request outlasts the gate's yes.
    #[test]
    fn what_waits_for_a_token_for_too_long_is_not_sent() {
        let issuer = Issuer::new();
        issuer.hangs.store(true, Ordering::Relaxed);
        let (done, paths) = with_identity(issuer.identity(), APPROVED, async |approvals| {
            let begin = Instant::now();
            let until = begin + Duration::from_millis(300);
            (approvals.approve(SET, ID, until).await, begin.elapsed())
        });
        assert!(matches!(done.0, Err(ArmError::Late)), "{done:?}");
        assert!(
            done.1 < Duration::from_secs(30) && paths.is_empty(),
            "{done:?} {paths:?}"
        );
    }

    #[test]
    fn requests_without_an_answer_end_with_their_yes_and_hold_up_others_no_longer() {
        let (done, paths) = with_service("", async |approvals| {
            let begin = Instant::now();
            let others: Vec<_> = (0..REQUESTS_AT_ONCE)
                .map(|number| {
                    let set = format!("{SET}{number}");
                    let until = begin + Duration::from_secs(8);
                    tokio::task::spawn_local(approvals.approve(&set, ID, until))
                })
                .collect();
            sleep(Duration::from_millis(200)).await;
            let until = Instant::now() + Duration::from_millis(300);
            let late = approvals.approve(SET, ID, until).await;
            let is_early = others.iter().all(|other| !other.is_finished());
            let mut unanswered = Vec::new();
            for other in others {
                unanswered.push(other.await.expect("no panic"));
            }
            (late, is_early, unanswered, begin.elapsed())
        });
        let (late, is_early, unanswered, all) = done;
        assert!(
            matches!(late, Err(ArmError::Late)) && is_early,
            "{late:?}, {is_early}"
        );
        let is_silent =
            |done: &Result<(), ArmError>| matches!(done, Err(ArmError::Unreachable { .. }));
        assert!(unanswered.iter().all(is_silent), "{unanswered:?}");
        assert!(all < Duration::from_secs(20), "{all:?}");
        assert_eq!(paths.len(), REQUESTS_AT_ONCE, "{paths:?}");
    }

    /// The row that was asked for before the event changed does not confirm the approval after that.
    #[test]
    fn an_approval_is_sent_only_with_a_row_that_was_asked_for_after_it() {
        let (done, paths) = with_service(APPROVED, async |approvals| {
            let (answers, questions) = (
                Arc::<tokio::sync::Semaphore>::new(Semaphore::new(0)),
                Rc::<Cell<u32>>::default(),
            );
            let (gate, asked) = (answers.clone(), questions.clone());
            approvals.confirmations.ask_by(Box::new(move |ids| {
                asked.set(asked.get() + 1);
                let gate = gate.clone();
                Box::pin(async move {
                    gate.acquire().await.expect("not closed").forget();
                    let events = ids.iter().map(|id| EventKey::new(SET, id)).collect();
                    Ok(crate::confirm::Rows {
                        events,
                        has_unreadable: false,
                    })
                })
            }));
            let before = approvals.approve(SET, ID, soon());
            while questions.get() == 0 {
                sleep(Duration::from_millis(5)).await;
            }
            approvals.withdraw(&EventKey::new(SET, ID));
            let after = approvals.approve(SET, ID, soon());
            answers.add_permits(1);
            assert!(matches!(before.await, Err(ArmError::Withdrawn)));
            sleep(Duration::from_millis(300)).await;
            let sent_early = approvals.sent.get();
            answers.add_permits(1);
            (sent_early, after.await, questions.get())
        });
        assert!(matches!(done, (0, Ok(()), 2)), "{done:?}");
        assert_eq!(paths.len(), 1, "{paths:?}");
    }
}
