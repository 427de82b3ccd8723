//! The sources of notices: the queue, and Resource Graph.
//!
//! The hub deletes a message of the queue once its content is kept: in the states of the machines
//! that it is about, and in the audit file. Until then the hub renews the message's time; after a
//! crash the message appears again. Resource Graph has the content of messages that were lost. It
//! is queried at the start and at intervals: for all open events, and then for followed events that
//! were not among them.

use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use scheduled_events_common::log;
use tokio::sync::Semaphore;
use tokio::time::{Instant, interval_at, sleep, timeout};

use crate::azure::arm::{Arm, ArmError};
use crate::azure::graph::{ACCESS, Events, TAGS, is_guid, not_understood, tagged};
use crate::azure::identity::Identity;
use crate::azure::queue::{BATCH, INVISIBLE, Queue, QueueError, QueueMessage};
use crate::confirm::{Confirmed, NAMED_MAX, Rows};
use crate::dispatch::Dispatch;
use crate::message::Kept;
use crate::notice::{self, EventKey, Notice, NoticeError, Notices};
use crate::shared::Shared;

/// How many messages are processed at a time.
pub const MESSAGES_AT_ONCE: u32 = 512;

/// The pause before an empty queue is read again. A Preempt leaves 30 seconds.
const EMPTY: Duration = Duration::from_secs(1);

/// The first pause after a failure. It doubles up to the last one.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(30);

/// How many times a message may be received without being deleted. Beyond that, it crashes this
/// program, or cannot be kept or recorded, and is set aside.
const RECEIVED_MAX: i64 = 20;

/// How long to wait until the machines have kept a page of rows.
const KEPT_TIME: Duration = Duration::from_secs(30);

/// How often the rights in several subscriptions are checked. An event must be absent for longer
/// before it is over.
const ACCESS_INTERVAL: Duration = Duration::from_secs(3600);

/// How often to look for messages that need a row.
const DOUBTS: Duration = Duration::from_millis(500);

/// Reads the queue without end.
pub async fn read_queue(
    mut queue: Rc<Queue>,
    identity: Identity,
    dispatch: Rc<Dispatch>,
    slots: Arc<Semaphore>,
) {
    let mut problem = Problem::new("queue", "the queue");
    // Until then the hub could act for a machine whose own watcher acts.
    while !dispatch.knows_agents() {
        sleep(EMPTY).await;
    }
    loop {
        // The hub receives only as many as it processes: the others stay visible to a standby.
        let Ok(permit) = slots
            .clone()
            .acquire_many_owned(u32::try_from(BATCH).unwrap_or(1))
            .await
        else {
            return;
        };
        let messages = match queue.receive().await {
            Ok(messages) => messages,
            Err(why) => {
                drop(permit);
                sleep(problem.failed(&dispatch, &why)).await;
                // A SAS token expires, and by now the file may have the next one.
                if let Some(Ok(opened)) = dispatch
                    .shared
                    .config
                    .queue
                    .as_ref()
                    .map(|queue| Queue::new(queue, &identity))
                {
                    queue = Rc::new(opened);
                }
                continue;
            }
        };
        problem.passed();
        let is_empty = messages.is_empty();
        let mut permit = permit;
        for message in messages {
            let slot = permit.split(1);
            // In the order of the queue: earlier messages are applied first.
            let kept = deliver(&dispatch, &message);
            let (queue, dispatch) = (queue.clone(), dispatch.clone());
            tokio::task::spawn_local(async move {
                match kept {
                    Ok(kept) => {
                        delete_once_kept(&queue, &dispatch, message, kept, INVISIBLE / 2).await;
                    }
                    Err(why) => tokio::select! {
                        () = set_aside(&queue, &dispatch, &message, &why) => {}
                        () = dispatch.shared.stopping.notified() => {}
                    },
                }
                drop(slot);
            });
        }
        drop(permit);
        if is_empty {
            sleep(EMPTY).await;
        }
    }
}

/// Passes on the content of a message.
fn deliver(dispatch: &Rc<Dispatch>, message: &QueueMessage) -> Result<Kept, NoticeError> {
    if message.received > RECEIVED_MAX {
        return Err(NoticeError::NeverDeleted(message.received));
    }
    let content = message.content.as_ref();
    let content = content.map_err(|error| NoticeError::NotBase64(error.clone()))?;
    let notices = notice::read(content)?;
    let Shared {
        journal,
        metrics,
        clock,
        ..
    } = &*dispatch.shared;
    if !notices.problems.is_empty() {
        let why = notices.problems.join("; ");
        if notices.notices.is_empty() {
            for _ in &notices.problems {
                metrics.notice("invalid");
            }
            return Err(NoticeError::NoEvent(notices.problems));
        }
        // It is deleted, together with its readable part.
        journal.set_aside(&why, content, clock.time_of_day().seconds());
    }
    metrics.message(if notices.notices.is_empty() {
        "left-out"
    } else {
        "applied"
    });
    Ok(dispatch.deliver(Notices {
        is_queued: true,
        ..notices
    }))
}

/// Copies a message once the audit file can be written, and deletes it once the file has it. If
/// that fails, it appears again.
async fn set_aside(queue: &Queue, dispatch: &Dispatch, message: &QueueMessage, why: &NoticeError) {
    let Shared {
        journal,
        metrics,
        clock,
        ..
    } = &*dispatch.shared;
    let work = async {
        // While the audit file cannot be written, the message appears again and again. One copy is
        // enough.
        if !journal.sync().await {
            return Ok(());
        }
        queue.copy_aside(message).await?;
        log::printable(&format!(
            "warning: a message of the queue is set aside: {why}"
        ));
        let content = message
            .content
            .as_deref()
            .unwrap_or(message.text.as_bytes());
        journal.set_aside(&why.to_string(), content, clock.time_of_day().seconds());
        metrics.message("set-aside");
        if journal.sync().await {
            dispatch.shared.store.renewed().await;
            queue.delete(message).await
        } else {
            Ok(())
        }
    };
    if let Err(why) = work.await {
        queue_failed(dispatch, &why);
    }
}

fn queue_failed(dispatch: &Dispatch, why: &QueueError) {
    dispatch.shared.metrics.problem("queue");
    log::printable(&format!("warning: {why}"));
}

/// Deletes a message once its content is kept and in the audit file, and this hub's turn was renewed
/// after that. Until then, its time is renewed at this interval, and it is given back if the hub
/// stops. While the audit file cannot be written, the message appears again and again.
async fn delete_once_kept(
    queue: &Queue,
    dispatch: &Dispatch,
    mut message: QueueMessage,
    kept: Kept,
    renew_every: Duration,
) {
    let work = async {
        kept.wait().await;
        let is_in_audit = dispatch.shared.journal.sync().await;
        if is_in_audit {
            dispatch.shared.store.renewed().await;
        }
        is_in_audit
    };
    let stopping = dispatch.shared.stopping.notified();
    tokio::pin!(stopping);
    tokio::pin!(work);
    let mut renewals = interval_at(Instant::now() + renew_every, renew_every);
    let is_in_audit = loop {
        let renewed = tokio::select! {
            is_in_audit = &mut work => break is_in_audit,
            () = &mut stopping => {
                if let Err(why) = queue.give_back(&mut message).await {
                    queue_failed(dispatch, &why);
                }
                return;
            }
            _ = renewals.tick() => queue.renew(&mut message).await,
        };
        if let Err(why) = renewed {
            queue_failed(dispatch, &why);
        }
    };
    if !is_in_audit {
        return;
    }
    // If that fails, the message appears again, with nothing new.
    if let Err(why) = queue.delete(&message).await {
        queue_failed(dispatch, &why);
    }
}

/// Polls Resource Graph every `interval`.
pub async fn ask_graph(arm: Arm, dispatch: Rc<Dispatch>, interval: Duration) {
    let mut problem = Problem::new("graph", "Resource Graph");
    loop {
        match reconcile(&arm, &dispatch).await {
            Ok(()) => {
                problem.passed();
                dispatch.reconciled(Instant::now());
                sleep(interval).await;
            }
            Err(error) => {
                let why = format!("cannot ask Resource Graph: {error}");
                sleep(problem.failed(&dispatch, &why)).await;
            }
        }
    }
}

/// Polls which subscriptions' events this identity may not read: a query for several leaves these
/// out silently.
pub async fn check_access(arm: Arm, dispatch: Rc<Dispatch>) {
    let subscriptions = dispatch.shared.config.subscriptions.clone();
    if subscriptions.len() == 1 {
        // A query for a single subscription without rights fails by itself.
        dispatch.set_refused(Default::default());
        return;
    }
    let mut refused = std::collections::HashSet::new();
    loop {
        for subscription in &subscriptions {
            match arm.query(std::slice::from_ref(subscription), ACCESS).await {
                Ok(_) if refused.remove(subscription) => {
                    log::line(&format!("subscription {subscription} can be read"));
                }
                Err(error)
                    if matches!(error.status(), Some(401 | 403))
                        && refused.insert(subscription.clone()) =>
                {
                    log::printable(&format!(
                        "warning: subscription {subscription} cannot be read, and its events are seen in the queue only: {error}"
                    ));
                }
                // Other failures show nothing about rights.
                Ok(_) | Err(_) => {}
            }
        }
        dispatch.set_refused(refused.iter().map(|id| id.to_ascii_lowercase()).collect());
        sleep(ACCESS_INTERVAL).await;
    }
}

/// Queries Resource Graph once.
///
/// # Errors
/// It refuses, or does not answer. Rows that were read until then count.
pub async fn reconcile(arm: &Arm, dispatch: &Rc<Dispatch>) -> Result<(), ArmError> {
    let subscriptions = &dispatch.shared.config.subscriptions;
    if let Some(registered) = dispatch.shared.gates.agents().await {
        dispatch.set_registered(registered);
    }
    let mut tags = Ok(());
    if let Some(tag) = &dispatch.shared.config.agents.tag {
        let mut agents = Vec::new();
        let add = async |page: String| tagged(&page, tag).map(|found| agents.extend(found));
        tags = arm.query_each(subscriptions, TAGS, add).await;
        match &tags {
            Ok(()) => dispatch.set_agents(&agents),
            Err(error) if !dispatch.knows_tags() => return Err(error.clone()),
            // The query for events runs all the same: machines that had the tag still have it.
            Err(_) => {}
        }
    }
    // An event that is announced meanwhile may be in no answer.
    let mut missing = dispatch.open_events();
    let mut seen = ask_about(arm, dispatch, Events::Open, true).await?;
    missing.retain(|event| !seen.events.contains(event));
    let named: Vec<_> = missing
        .iter()
        .filter(|event| is_guid(&event.id))
        .map(|event| event.id.clone())
        .collect();
    for ids in named.chunks(NAMED_MAX) {
        let more = ask_about(arm, dispatch, Events::Named(ids), true).await?;
        seen.events.extend(more.events);
        seen.has_unreadable |= more.has_unreadable;
    }
    missing.retain(|event| !seen.events.contains(event));
    // A row that cannot be read may belong to any of them.
    if !seen.has_unreadable {
        dispatch.absent(&missing, Instant::now());
    }
    tags
}

/// Lets single events be asked for: before their approval, and if only a message ends them.
pub fn confirm_by(arm: &Arm, dispatch: &Rc<Dispatch>) {
    let (arm, dispatch_weak) = (arm.clone(), Rc::downgrade(dispatch));
    let ask = Box::new(move |ids: Vec<String>| {
        let (arm, dispatch) = (arm.clone(), dispatch_weak.upgrade());
        let answer = async move {
            match dispatch {
                Some(dispatch) => ask_about(&arm, &dispatch, Events::Named(&ids), false).await,
                None => Ok(Rows::default()),
            }
        };
        Box::pin(answer) as std::pin::Pin<Box<dyn Future<Output = _>>>
    });
    dispatch.shared.approvals.confirmations.ask_by(ask);
}

/// Asks for the rows of events that only a message ends or narrows, without end.
pub async fn confirm_doubts(dispatch: Rc<Dispatch>) {
    loop {
        let doubted = dispatch.doubted(Instant::now());
        let ask = |event: &EventKey| {
            let (all, event) = (
                dispatch.shared.approvals.confirmations.clone(),
                event.clone(),
            );
            tokio::task::spawn_local(async move { all.confirm(event).await })
        };
        let (mut answered, mut absent) = (Vec::new(), Vec::new());
        let questions: Vec<_> = doubted.iter().map(ask).collect();
        for (event, question) in doubted.into_iter().zip(questions) {
            match question.await {
                Ok(Confirmed::Row) => answered.push(event),
                Ok(Confirmed::Absent) => {
                    answered.push(event.clone());
                    absent.push(event);
                }
                // No answer says nothing.
                Ok(Confirmed::Unreadable | Confirmed::Unanswered(_)) | Err(_) => {}
            }
        }
        dispatch.doubts_answered(&answered, &absent, Instant::now());
        sleep(DOUBTS).await;
    }
}

/// Queries events, and passes on the rows of each page. `waits`: no faster than the machines keep
/// them.
async fn ask_about(
    arm: &Arm,
    dispatch: &Rc<Dispatch>,
    events: Events<'_>,
    waits: bool,
) -> Result<Rows, ArmError> {
    let mut answer = Rows::default();
    arm.query_each(
        &dispatch.shared.config.subscriptions,
        &events.query(),
        async |page| {
            let notices = notice::read(page.as_bytes())
                .map_err(|error| not_understood("answers with a row that", error))?;
            answer.has_unreadable |= !notices.problems.is_empty();
            answer
                .events
                .extend(notices.notices.iter().map(Notice::event_key));
            let kept = dispatch.deliver(notices);
            if waits {
                // A machine whose state cannot be kept must not delay the notices of others.
                let _ = timeout(KEPT_TIME, kept.wait()).await;
            }
            Ok(())
        },
    )
    .await?;
    Ok(answer)
}

/// A repeated failure: it is logged once, and retried after longer and longer pauses.
struct Problem {
    /// For a metric's label, and for people.
    place: &'static str,
    name: &'static str,
    pause: Duration,
    is_known: bool,
}

impl Problem {
    const fn new(place: &'static str, name: &'static str) -> Self {
        Self {
            place,
            name,
            pause: RETRY_FIRST,
            is_known: false,
        }
    }

    fn failed(&mut self, dispatch: &Dispatch, why: &dyn Display) -> Duration {
        dispatch.shared.metrics.problem(self.place);
        if !std::mem::replace(&mut self.is_known, true) {
            log::printable(&format!("warning: {why}; this is tried again"));
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(RETRY_LAST);
        pause
    }

    fn passed(&mut self) {
        if std::mem::take(&mut self.is_known) {
            log::line(&format!("{} answers again", self.name));
        }
        self.pause = RETRY_FIRST;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::sync::Mutex;

    use scheduled_events_test_support::TestServer;

    use super::*;
    use crate::config::{Cloud, Identity as IdentityConfig, IdentityKind, Queue as QueueConfig};
    use crate::dispatch::tests::with_dispatch;

    const MESSAGES: &str = "<QueueMessagesList><QueueMessage><MessageId>m</MessageId><PopReceipt>receipt1</PopReceipt>\
        <DequeueCount>1</DequeueCount><MessageText>e30=</MessageText></QueueMessage></QueueMessagesList>";

    /// Each renewal gives the message another receipt, which the next renewal and the deletion
    /// need.
    #[test]
    fn the_time_of_a_message_is_renewed_until_it_is_kept() {
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let seen = requests.clone();
        let server = TestServer::start(move |connection| {
            let mut lines = BufReader::new(&**connection).lines().map_while(Result::ok);
            while let Some(first) = lines.next() {
                let headers = lines.by_ref().take_while(|line| !line.is_empty());
                let is_length =
                    |line: &String| line.to_ascii_lowercase().starts_with("content-length:");
                // A server refuses a request with two lengths.
                let (status, body) = if headers.filter(is_length).count() > 1 {
                    (400, "")
                } else if first.starts_with("GET") {
                    (200, MESSAGES)
                } else {
                    (204, "")
                };
                let mut seen = seen.lock().expect("no panic");
                seen.push(first);
                let head = format!(
                    "x-ms-popreceipt: receipt{}\r\nContent-Type: application/xml",
                    seen.len()
                );
                let length = body.len();
                let _ = write!(
                    &**connection,
                    "HTTP/1.1 {status} x\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}"
                );
            }
        });
        let seen = || requests.lock().expect("no panic").clone();
        with_dispatch(async |dispatch, _stopped| {
            let url = format!("{}/devstoreaccount1/events", server.url())
                .parse()
                .expect("an address");
            let config = QueueConfig {
                url,
                poison: None,
                sas_file: None,
                emulator: true,
            };
            let identity = IdentityConfig {
                kind: IdentityKind::Emulator,
                client_id: None,
            };
            let identity = Identity::new(&identity, Cloud::Public).expect("an identity");
            let queue = Queue::new(&config, &identity).expect("a queue");
            let message = queue
                .receive()
                .await
                .expect("an answer")
                .pop()
                .expect("a message");
            let (keeping, kept) = Kept::new();
            let renewed_twice = async {
                while seen().len() < 3 {
                    sleep(Duration::from_millis(10)).await;
                }
                drop(keeping);
            };
            let deleted =
                delete_once_kept(&queue, &dispatch, message, kept, Duration::from_millis(50));
            tokio::select! {
                _ = async { tokio::join!(deleted, renewed_twice) } => {}
                why = dispatch.shared.store.hold() => panic!("{why}"),
            }
        });
        let seen = seen();
        let (last, renewals) = seen[1..].split_last().expect("requests");
        assert!(
            last.starts_with("DELETE ")
                && renewals.iter().all(|request| request.starts_with("PUT ")),
            "{seen:?}"
        );
        for (number, request) in seen[1..].iter().enumerate() {
            assert!(
                request.contains(&format!("popreceipt=receipt{}", number + 1)),
                "{seen:?}"
            );
        }
    }
}
