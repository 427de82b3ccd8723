//! Whether Resource Graph, the record, has an event: asked before an approval, and about what only a
//! message says. Questions that come while one is asked share the next query: the quota of Resource
//! Graph is a few queries a second.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::azure::arm::ArmError;
use crate::azure::graph::is_guid;
use crate::notice::EventKey;

/// How long Resource Graph may take. An approval does not wait for longer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// How long the first question waits for others.
const GATHER: Duration = Duration::from_millis(20);

/// How many events one query names.
pub const NAMED_MAX: usize = 200;

/// The answer about an event.
#[derive(Clone, Debug)]
pub enum Confirmed {
    /// It has a row, which was passed on.
    Row,
    /// It has no row.
    Absent,
    /// It may have a row, but one of the answer cannot be read.
    Unreadable,
    /// There was no answer, for this reason, or because it took too long.
    Unanswered(Option<ArmError>),
}

/// The rows of an answer, which were passed on.
#[derive(Debug, Default)]
pub struct Rows {
    /// The events that have one.
    pub events: std::collections::HashSet<EventKey>,
    /// Whether some cannot be read.
    pub has_unreadable: bool,
}

/// Asks Resource Graph for the rows of the events with these ids, and passes them on.
type Ask = Box<dyn Fn(Vec<String>) -> Pin<Box<dyn Future<Output = Result<Rows, ArmError>>>>>;

/// Asks Resource Graph for single events.
#[derive(Default)]
pub struct Confirmations {
    ask: OnceCell<Ask>,
    waiting: RefCell<HashMap<EventKey, Vec<oneshot::Sender<Confirmed>>>>,
    is_asking: Cell<bool>,
}

impl Confirmations {
    /// Sets how to ask. Until then, nothing is answered.
    pub fn ask_by(&self, ask: Ask) {
        let _ = self.ask.set(ask);
    }

    /// Asks for the row of an event.
    pub async fn confirm(self: &Rc<Self>, event: EventKey) -> Confirmed {
        // Resource Graph never has other ids.
        if !is_guid(&event.id) {
            return Confirmed::Absent;
        }
        let (sender, answer) = oneshot::channel();
        self.waiting
            .borrow_mut()
            .entry(event)
            .or_default()
            .push(sender);
        if !self.is_asking.replace(true) {
            // A task of its own: the caller that waits may be dropped.
            tokio::task::spawn_local(self.clone().ask());
        }
        match timeout(ANSWER_TIME, answer).await {
            Ok(Ok(answer)) => answer,
            _ => Confirmed::Unanswered(None),
        }
    }

    async fn ask(self: Rc<Self>) {
        loop {
            sleep(GATHER).await;
            let batch: Vec<_> = {
                let mut waiting = self.waiting.borrow_mut();
                let events: Vec<_> = waiting.keys().take(NAMED_MAX).cloned().collect();
                let take = |event: EventKey| waiting.remove_entry(&event);
                events.into_iter().filter_map(take).collect()
            };
            let Some(ask) = self.ask.get().filter(|_| !batch.is_empty()) else {
                break;
            };
            let ids = batch.iter().map(|(event, _)| event.id.clone()).collect();
            let answer = timeout(ANSWER_TIME, ask(ids)).await;
            for (event, waiting) in batch {
                let confirmed = match &answer {
                    Ok(Ok(rows)) if rows.events.contains(&event) => Confirmed::Row,
                    Ok(Ok(rows)) if rows.has_unreadable => Confirmed::Unreadable,
                    Ok(Ok(_)) => Confirmed::Absent,
                    Ok(Err(error)) => Confirmed::Unanswered(Some(error.clone())),
                    Err(_) => Confirmed::Unanswered(None),
                };
                for sender in waiting {
                    let _ = sender.send(confirmed.clone());
                }
            }
        }
        self.is_asking.set(false);
    }
}
