//! The task of one target: reads records, forwards them in their order, and repeats failed
//! requests.
//!
//! The position is saved after the target has accepted a record, so a crash repeats at most the
//! last request. The task repeats requests to a target that cannot be reached, or refuses for now,
//! without limit. It sends a record that the target rejects as invalid a few times, and then keeps
//! it in a file of its own, so that one record does not delay the others.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::audit::{Line, Position, Tail};
use crate::config::{Start, TargetConfig};
use crate::error::RelayError;
use crate::file::RelayFile;
use crate::record::Record;
use crate::state::{Folder, State, StateFile};
use crate::targets::{self, Filter, Item, RequestError, Target};
use crate::transport::{Outcome, Request, Transport};
use scheduled_events_common::log;
use scheduled_events_common::random::part_of;

/// How often the audit file is examined for new lines.
const POLL: Duration = Duration::from_millis(500);

/// The delay after the first failure. It doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest delay after a failure, unless the target asks for a longer one.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// How often to send a record to a target that rejects it.
const REJECTIONS_MAX: u32 = 5;

/// How many lines are read at once.
const READ_MAX: usize = 512;

/// How often an unchanged failure is logged.
const LOG_AGAIN: Duration = Duration::from_secs(300);

/// How long the position of records that the target does not receive may remain unsaved.
const SAVE_IDLE: Duration = Duration::from_secs(60);

/// The result of one step of a delivery.
enum DeliveryStep {
    /// It did something, and there may be more to do.
    Done,
    /// There is nothing to do.
    Idle,
    /// It failed, and is tried again after this time.
    Failed(Duration),
}

/// The delivery to one target.
pub struct Delivery {
    name: String,
    machine: String,
    target: Box<dyn Target>,
    filter: Filter,
    transport: Transport,
    tail: Tail,
    file: StateFile,
    state: State,
    /// Whether `state` is saved, and when it was.
    saved: bool,
    saved_at: Instant,
    /// Records that were read and not yet forwarded. The position is that of a record after which
    /// the state can be saved.
    waiting: VecDeque<(Record, Option<Position>)>,
    /// How many records are sent one by one, since the target rejected them together.
    single: usize,
    /// The number of failed attempts in a row, and how many of them were rejections.
    failures: u32,
    rejections: u32,
    logged: Option<(String, Instant)>,
    last_sent: Option<Instant>,
    refreshed: Option<Instant>,
}

impl Delivery {
    /// Sets up the delivery to a target. Its position is saved before this returns.
    ///
    /// # Errors
    /// The target's settings or its state cannot be used.
    pub fn open(
        config: &TargetConfig,
        file: &RelayFile,
        folder: &Folder,
        machine: &str,
    ) -> Result<Self, RelayError> {
        let name = config.name.get_ref().clone();
        let failed = |error| RelayError::Target {
            name: name.clone(),
            error,
        };
        let cannot = |what: &str| RelayError::io(format!("target {name:?}: cannot {what}"));
        let target = targets::open(config, machine).map_err(failed)?;
        if config.records.is_some() && !target.has_choice() {
            return Err(failed(
                "`records` has no effect on a target of this kind; remove it".into(),
            ));
        }
        let transport =
            Transport::new(config.ca.as_deref(), &file.metadata, &file.relay).map_err(failed)?;
        let audit = &file.audit;
        let file = folder.file(&name);
        let loaded = file.load().map_err(cannot("read its state"))?;
        let is_new = loaded.is_none();
        let mut state = loaded.unwrap_or_default();
        if is_new && config.start == Start::End {
            let end = Tail::new(audit, None).skip_to_end();
            state.position = end.map_err(cannot(&format!("read {}", audit.display())))?;
        }
        // Without a position, forwarding begins with the oldest line once the file can be read. What is
        // rotated away before that is not known to be lost.
        state.position = state
            .position
            .or_else(|| Tail::position_before_all(audit).ok());
        let tail = Tail::new(audit, state.position.clone());
        file.save(&state).map_err(cannot("save its state"))?;
        Ok(Self {
            filter: Filter::new(config),
            name,
            machine: machine.to_owned(),
            target,
            transport,
            tail,
            file,
            state,
            saved: true,
            saved_at: Instant::now(),
            waiting: VecDeque::new(),
            single: 0,
            failures: 0,
            rejections: 0,
            logged: None,
            last_sent: None,
            refreshed: None,
        })
    }

    /// Forwards records until it is asked to stop.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let wait = match self.step().await {
                DeliveryStep::Done => continue,
                DeliveryStep::Idle => POLL,
                DeliveryStep::Failed(wait) => wait,
            };
            tokio::select! {
                () = sleep(wait) => {}
                _ = stop.changed() => {}
            }
        }
        self.save();
    }

    async fn step(&mut self) -> DeliveryStep {
        if let Some(failed) = self.refresh().await {
            return failed;
        }
        if self.waiting.is_empty()
            && let Err(error) = self.read()
        {
            return self.failed(&format!("cannot read the audit file: {error}"), None);
        }
        if self.waiting.is_empty() {
            if !self.saved && self.saved_at.elapsed() > SAVE_IDLE {
                self.save();
            }
            return DeliveryStep::Idle;
        }
        let next = self.next();
        if next.items.is_empty() {
            self.commit(next);
            return DeliveryStep::Done;
        }
        let outcome = match self.target.requests(&next.items) {
            Ok(requests) => self.send(&requests).await,
            Err(RequestError::Setting(error)) => Outcome::Later(error.to_string(), None),
            // It would fail in the same way again.
            Err(error) => {
                self.rejections = REJECTIONS_MAX;
                Outcome::Rejected(error.to_string())
            }
        };
        match outcome {
            Outcome::Accepted => {
                self.succeeded();
                self.commit(next);
                self.save();
                DeliveryStep::Done
            }
            Outcome::Later(reason, wait) => self.failed(&reason, wait),
            Outcome::Rejected(_) if next.items.len() > 1 => {
                self.single = next.items.len();
                self.rejections = 0;
                DeliveryStep::Done
            }
            Outcome::Rejected(reason) => self.rejected(next, &reason),
        }
    }

    /// Reads the next records of the audit file.
    fn read(&mut self) -> io::Result<()> {
        let batch = self.tail.read(READ_MAX)?;
        if batch.replaced {
            self.log("the audit file is another one than before; all its records are forwarded");
        }
        if let Some(first) = batch
            .lines
            .first()
            .map(Record::new)
            .filter(|_| batch.lost > 0)
        {
            self.log(&format!(
                "{} records were rotated away before they could be forwarded",
                batch.lost
            ));
            self.waiting
                .push_back((Record::gap(batch.lost, &first), None));
        }
        self.waiting.extend(
            batch
                .lines
                .iter()
                .map(|line: &Line| (Record::new(line), Some(line.position.clone()))),
        );
        Ok(())
    }

    /// The next records for the target, and the state after them.
    fn next(&self) -> Next {
        let max = if self.single > 0 {
            1
        } else {
            self.target.batch_max()
        };
        let mut next = Next {
            items: Vec::new(),
            count: 0,
            state: self.state.clone(),
        };
        for (record, position) in &self.waiting {
            let passes = self.filter.passes(record, &*self.target);
            if passes && next.items.len() == max {
                break;
            }
            if passes {
                let event = next.state.events.apply(record);
                next.items.push(Item {
                    record: record.clone(),
                    event,
                });
            }
            if position.is_some() {
                next.state.position.clone_from(position);
            }
            next.count += 1;
        }
        next
    }

    fn commit(&mut self, next: Next) {
        self.single = self.single.saturating_sub(next.items.len());
        self.waiting.drain(..next.count);
        self.state = next.state;
        self.saved = false;
    }

    /// Saves the state. If that fails, the next record tries again; until then a restart would
    /// repeat some records.
    fn save(&mut self) {
        match self.file.save(&self.state) {
            Ok(()) => self.saved = true,
            Err(error) => self.log_failure(&format!("cannot save its state: {error}")),
        }
        self.saved_at = Instant::now();
    }

    async fn send(&mut self, requests: &[Request]) -> Outcome {
        for request in requests {
            if let Some(last) = self.last_sent {
                sleep((last + self.target.pause()).saturating_duration_since(Instant::now())).await;
            }
            let classify = |status, body: &str| self.target.classify(status, body);
            let outcome = self.transport.send(request, classify).await;
            self.last_sent = Some(Instant::now());
            if outcome != Outcome::Accepted {
                return outcome;
            }
        }
        Outcome::Accepted
    }

    /// Repeats open events, if it is time. Returns a step if that failed for now.
    async fn refresh(&mut self) -> Option<DeliveryStep> {
        let every = self.target.refresh_every()?;
        let is_due = self.refreshed.is_none_or(|last| last.elapsed() >= every);
        if !is_due || self.state.events.is_empty() {
            return None;
        }
        let outcome = match self.target.refresh(&self.state.events) {
            Ok(requests) => self.send(&requests).await,
            Err(RequestError::Setting(error)) => Outcome::Later(error.to_string(), None),
            Err(error) => Outcome::Rejected(error.to_string()),
        };
        match outcome {
            Outcome::Later(reason, wait) => return Some(self.failed(&reason, wait)),
            Outcome::Accepted => self.succeeded(),
            // It must not delay records.
            Outcome::Rejected(reason) => {
                self.log_failure(&format!("it rejects the events that are open: {reason}"));
            }
        }
        self.refreshed = Some(Instant::now());
        None
    }

    fn rejected(&mut self, next: Next, reason: &str) -> DeliveryStep {
        self.rejections += 1;
        if self.rejections < REJECTIONS_MAX {
            return self.failed(reason, None);
        }
        let kept = next.items.iter().try_fold(None, |_, item| {
            let line = item.record.with_machine(&self.machine);
            self.file.keep_rejected(&line).map(Some)
        });
        match kept {
            Ok(path) => {
                let path = path.map_or(String::new(), |path| path.display().to_string());
                self.log(&format!(
                    "it rejects a record, which is now in {path}: {reason}"
                ));
                self.failures = 0;
                self.rejections = 0;
                self.commit(next);
                self.save();
                DeliveryStep::Done
            }
            Err(error) => self.failed(
                &format!("cannot keep a record that it rejects: {error}"),
                None,
            ),
        }
    }

    fn failed(&mut self, reason: &str, wait: Option<Duration>) -> DeliveryStep {
        let backoff = RETRY_FIRST
            .saturating_mul(1 << self.failures.min(16))
            .min(RETRY_MAX);
        // Machines that failed together must not come back together.
        let backoff = backoff.mul_f64(0.8) + part_of(backoff.mul_f64(0.4));
        self.failures = self.failures.saturating_add(1);
        self.log_failure(&format!("cannot deliver, and tries again: {reason}"));
        DeliveryStep::Failed(wait.map_or(backoff, |wait| wait.max(RETRY_FIRST)))
    }

    fn succeeded(&mut self) {
        self.failures = 0;
        self.rejections = 0;
        if self.logged.take().is_some() {
            self.log("delivers again");
        }
    }

    /// Logs a failure, unless it was logged a short time ago.
    fn log_failure(&mut self, reason: &str) {
        if self
            .logged
            .as_ref()
            .is_some_and(|(last, at)| last == reason && at.elapsed() < LOG_AGAIN)
        {
            return;
        }
        self.log(reason);
        self.logged = Some((reason.to_owned(), Instant::now()));
    }

    fn log(&self, message: &str) {
        log::printable(&format!("target {}: {message}", self.name));
    }
}

/// The next records for a target.
struct Next {
    items: Vec<Item>,
    /// How many waiting records that covers, including those that the target does not receive.
    count: usize,
    /// The state after them.
    state: State,
}
