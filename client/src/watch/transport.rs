//! The thread that sends requests, one at a time, so that a slow response delays nothing else.
//!
//! Each request is answered exactly once, whatever happens to the thread. If it cannot be started, or the request panics or
//! hangs, the answer is a failure like any other, and the next request starts another thread if it has none.
//!
//! The first poll may take two minutes, since the service may have to start. One connection may also be lost while the service
//! starts, and answers everybody else: so the same poll is sent again beside the first one, and the first answer counts. The
//! repetitions name the version that every service knows, since one may accept requests for a preview and never answer them.
//!
//! A POST is sent once. It has five seconds in any case, nobody knows whether one without an answer arrived, and the session
//! sends it again if the next document still has the event.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use scheduled_events_core::Cause;

use super::message::Message;
use crate::imds::{HttpResponse, Imds, RequestFailure};
use crate::limits::{
    OVERDUE_REQUESTS_MAX, REPEAT_AFTER, REPEAT_EVERY, REPEAT_TIMEOUT, REQUEST_OVERDUE,
    REQUESTS_BESIDE_MAX,
};

/// Sends a request and waits for its answer.
type Exchange = Arc<dyn Fn(&HttpRequest) -> Answer + Send + Sync>;

type Answer = Result<HttpResponse, RequestFailure>;

/// Sends requests on a thread of its own. Each one is answered by a [`Message::Response`].
pub(super) struct Transport {
    exchange: Exchange,
    answers: Answers,
    worker: Option<Worker>,
    /// Threads that hang in an overdue request.
    overdue: Vec<JoinHandle<()>>,
    /// The number of the newest request.
    number: u64,
    /// When the request in flight is overdue.
    overdue_at: Option<Instant>,
    started_at: Instant,
    /// When the poll in flight is sent again, if it may take long.
    repeat_at: Option<Instant>,
    /// The version of the newest poll, and the one of its repetitions.
    version: String,
    repeat_version: String,
    /// The threads that repeat a poll.
    repeating: Vec<JoinHandle<()>>,
}

struct Worker {
    requests: Sender<(u64, HttpRequest)>,
    thread: JoinHandle<()>,
    /// Whether a request is in its hands.
    is_busy: Arc<AtomicBool>,
}

enum HttpRequest {
    Get {
        version: String,
        timeout: Duration,
    },
    Post {
        version: String,
        body: Vec<u8>,
        timeout: Duration,
    },
}

impl HttpRequest {
    fn timeout(&self) -> Duration {
        match self {
            Self::Get { timeout, .. } | Self::Post { timeout, .. } => *timeout,
        }
    }
}

/// The way back to the watcher.
#[derive(Clone)]
struct Answers {
    sender: Sender<Message>,
    /// The number of the request in flight, or 0. The thread and the watcher both may answer it; the first one does.
    in_flight: Arc<AtomicU64>,
}

impl Answers {
    /// Answers the request, unless it is already answered. Returns whether the watcher still listens.
    fn answer(&self, number: u64, answer: Answer, repeated: bool) -> bool {
        let is_open = self
            .in_flight
            .compare_exchange(number, 0, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok();
        let message = Message::Response { answer, repeated };
        !is_open || self.sender.send(message).is_ok()
    }
}

impl Transport {
    /// A transport without a thread: the first request starts it. The thread ends with this value, after the request in flight.
    pub(super) fn new(imds: Imds, responses: Sender<Message>) -> Self {
        let exchange = move |request: &HttpRequest| match request {
            HttpRequest::Get { version, timeout } => imds.events_in(version, *timeout),
            HttpRequest::Post {
                version,
                body,
                timeout,
            } => imds.approve_in(version, body, *timeout),
        };
        Self::with(Arc::new(exchange), responses)
    }

    fn with(exchange: Exchange, sender: Sender<Message>) -> Self {
        let answers = Answers {
            sender,
            in_flight: Arc::default(),
        };
        Self {
            exchange,
            answers,
            worker: None,
            overdue: Vec::new(),
            number: 0,
            overdue_at: None,
            started_at: Instant::now(),
            repeat_at: None,
            version: String::new(),
            repeat_version: String::new(),
            repeating: Vec::new(),
        }
    }

    /// Requests the document in a version, and in another one if it has to be repeated.
    pub(super) fn get(&mut self, version: String, repeat_version: String, timeout: Duration) {
        self.version.clone_from(&version);
        self.repeat_version = repeat_version;
        self.request(HttpRequest::Get { version, timeout });
        self.repeat_at = (timeout > REPEAT_AFTER).then(|| self.started_at + REPEAT_AFTER);
    }

    /// Posts an approval.
    pub(super) fn post(&mut self, version: String, body: Vec<u8>, timeout: Duration) {
        self.request(HttpRequest::Post {
            version,
            body,
            timeout,
        });
    }

    /// The version of the newest poll, or of the repetition that was answered.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Records that a repetition of the newest poll was answered.
    pub(super) fn repeat_answered(&mut self) {
        self.version.clone_from(&self.repeat_version);
    }

    /// Whether a thread has the newest request, or had it: otherwise it was answered with a failure at once.
    pub(super) const fn has_worker(&self) -> bool {
        self.worker.is_some()
    }

    /// How long ago the last request was made.
    pub(super) fn idle_time(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// Sends a poll that has no answer for some time again, beside the one in flight. Returns whether it was for the first time.
    pub(super) fn repeat(&mut self) -> bool {
        let (Some(at), Some(end)) = (self.repeat_at, self.overdue_at) else {
            return false;
        };
        let now = Instant::now();
        if now < at || self.answers.in_flight.load(Ordering::SeqCst) == 0 {
            return false;
        }
        self.repeat_at = Some(now + REPEAT_EVERY);
        self.repeating.retain(|thread| !thread.is_finished());
        if self.repeating.len() + 1 < REQUESTS_BESIDE_MAX {
            // Shorter than the first one, which may take two minutes, so that the next one can always be sent.
            let timeout = end.saturating_duration_since(now).min(REPEAT_TIMEOUT);
            let (exchange, answers) = (Arc::clone(&self.exchange), self.answers.clone());
            let (number, version) = (self.number, self.repeat_version.clone());
            // A failure is that of the request in flight, or none: this one can only help.
            let repeat = move || {
                let request = HttpRequest::Get { version, timeout };
                if let Ok(answer) = catch_unwind(AssertUnwindSafe(|| exchange(&request)))
                    && answer.is_ok()
                {
                    answers.answer(number, answer, true);
                }
            };
            self.repeating.extend(thread::Builder::new().spawn(repeat));
        }
        at == self.started_at + REPEAT_AFTER
    }

    /// Answers an overdue request with a failure. Returns the time until the request in flight is overdue or sent again, if there
    /// is one.
    pub(super) fn check(&mut self) -> Option<Duration> {
        if self.answers.in_flight.load(Ordering::SeqCst) == 0 {
            (self.overdue_at, self.repeat_at) = (None, None);
        }
        let now = Instant::now();
        let left = self.overdue_at?.saturating_duration_since(now);
        if !left.is_zero() {
            let repeat = self.repeat_at.map(|at| at.saturating_duration_since(now));
            return Some(repeat.map_or(left, |repeat| repeat.min(left)));
        }
        (self.overdue_at, self.repeat_at) = (None, None);
        self.overdue
            .extend(self.worker.take().map(|worker| worker.thread));
        self.fail(
            Cause::Timeout,
            "the request hangs beyond its timeout and was abandoned",
        );
        None
    }

    fn request(&mut self, request: HttpRequest) {
        self.number += 1;
        self.repeat_at = None;
        self.answers.in_flight.store(self.number, Ordering::SeqCst);
        self.started_at = Instant::now();
        self.overdue_at = Some(self.started_at + request.timeout() + REQUEST_OVERDUE);
        self.overdue.retain(|thread| !thread.is_finished());
        if self
            .worker
            .as_ref()
            .is_some_and(|worker| worker.thread.is_finished())
        {
            self.worker = None;
        }
        // A poll that was sent again has an answer, and the first one hangs.
        let is_busy = |worker: &mut Worker| worker.is_busy.load(Ordering::SeqCst);
        self.overdue
            .extend(self.worker.take_if(is_busy).map(|worker| worker.thread));
        if self.worker.is_none() {
            if self.overdue.len() >= OVERDUE_REQUESTS_MAX {
                return self.fail(Cause::Timeout, "several earlier requests still hang");
            }
            match self.start() {
                Ok(worker) => self.worker = Some(worker),
                Err(error) => {
                    return self.fail(
                        Cause::Unreachable,
                        &format!("cannot start another thread: {error}"),
                    );
                }
            }
        }
        let sent = self.worker.as_ref().is_some_and(|worker| {
            worker.is_busy.store(true, Ordering::SeqCst);
            worker.requests.send((self.number, request)).is_ok()
        });
        if !sent {
            self.worker = None;
            self.fail(
                Cause::ConnectionLost,
                "the thread that sends requests has ended",
            );
        }
    }

    fn start(&self) -> io::Result<Worker> {
        let (requests, queue) = mpsc::channel();
        let (exchange, answers) = (Arc::clone(&self.exchange), self.answers.clone());
        let is_busy = Arc::<AtomicBool>::default();
        let flag = Arc::clone(&is_busy);
        let thread =
            thread::Builder::new().spawn(move || serve(&exchange, &queue, &answers, &flag))?;
        Ok(Worker {
            requests,
            thread,
            is_busy,
        })
    }

    /// Answers the newest request with a failure, unless it is already answered.
    fn fail(&self, cause: Cause, detail: &str) {
        self.answers.answer(
            self.number,
            Err(RequestFailure {
                cause,
                detail: detail.to_owned(),
            }),
            false,
        );
    }
}

fn serve(
    exchange: &Exchange,
    requests: &Receiver<(u64, HttpRequest)>,
    answers: &Answers,
    is_busy: &AtomicBool,
) {
    for (number, request) in requests {
        // Nothing is shared that a panic could leave inconsistent: the HTTP library discards the connection.
        let answer = catch_unwind(AssertUnwindSafe(|| exchange(&request))).unwrap_or_else(|_| {
            let detail = "the request panicked".to_owned();
            Err(RequestFailure {
                cause: Cause::ConnectionLost,
                detail,
            })
        });
        is_busy.store(false, Ordering::SeqCst);
        if !answers.answer(number, answer, false) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(1);

    fn version() -> String {
        "2020-07-01".to_owned()
    }

    /// A transport whose requests do what the function does with their number.
    fn transport(act: impl Fn(u64) + Send + Sync + 'static) -> (Transport, Receiver<Message>) {
        let (sender, messages) = mpsc::channel();
        let number = AtomicU64::new(0);
        let exchange = move |_: &HttpRequest| {
            act(number.fetch_add(1, Ordering::SeqCst) + 1);
            Ok(HttpResponse {
                status: 200,
                ..HttpResponse::default()
            })
        };
        (Transport::with(Arc::new(exchange), sender), messages)
    }

    /// Waits for the answer as the watcher does.
    fn answer(transport: &mut Transport, messages: &Receiver<Message>) -> Answer {
        loop {
            let wait = transport.check().unwrap_or(Duration::from_secs(30));
            match messages.recv_timeout(wait) {
                Ok(Message::Response { answer, .. }) => return answer,
                Ok(_) => panic!("another message"),
                Err(_) => assert!(wait < Duration::from_secs(30), "no answer"),
            }
        }
    }

    #[test]
    fn a_request_that_panics_is_a_failure_and_the_next_one_is_sent() {
        let (mut transport, messages) = transport(|number| assert_ne!(number, 2, "as intended"));
        for succeeds in [true, false, true, true] {
            transport.get(version(), version(), TIMEOUT);
            let answer = answer(&mut transport, &messages);
            assert_eq!(answer.is_ok(), succeeds, "{answer:?}");
        }
    }

    #[test]
    fn a_request_that_hangs_is_a_failure_and_its_late_answer_counts_for_nothing() {
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        let wait_at = Arc::clone(&gate);
        let (mut transport, messages) = transport(move |number| {
            if number == 1 {
                drop(wait_at.lock());
            }
        });
        transport.get(version(), version(), TIMEOUT);
        let failure = answer(&mut transport, &messages).expect_err("a request that hangs");
        assert_eq!(failure.cause, Cause::Timeout);
        transport.post(version(), Vec::new(), TIMEOUT);
        assert!(answer(&mut transport, &messages).is_ok());
        drop(closed);
        for thread in transport.overdue.drain(..) {
            thread.join().unwrap();
        }
        assert!(messages.try_recv().is_err(), "a second answer");
    }

    /// Fault 30 of `tests/field-faults.md`.
    #[test]
    fn a_first_poll_that_is_never_answered_is_sent_again_beside_it_and_the_first_answer_counts() {
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        let wait_at = Arc::clone(&gate);
        // The first three requests hang.
        let (mut transport, messages) = transport(move |number| {
            if number <= 3 {
                drop(wait_at.lock());
            }
        });
        assert!(!transport.repeat());
        transport.get(version(), version(), REPEAT_AFTER * 20);
        assert!(!transport.repeat(), "not yet");
        assert!(transport.check().is_some_and(|left| left <= REPEAT_AFTER));
        let since = transport.started_at;
        let mut repeat = |at: Duration| {
            // As if so much time had passed.
            let passed = Instant::now().checked_sub(at).unwrap();
            transport.started_at = passed;
            transport.repeat_at = Some(passed + at);
            transport.repeat()
        };
        assert!(repeat(REPEAT_AFTER), "the first time");
        for _ in 0..3 {
            assert!(!repeat(REPEAT_AFTER + REPEAT_EVERY));
        }
        assert_eq!(transport.repeating.len(), REQUESTS_BESIDE_MAX - 1);
        assert!(messages.try_recv().is_err());
        drop(closed);
        assert!(answer(&mut transport, &messages).is_ok());
        for thread in transport.repeating.drain(..) {
            thread.join().unwrap();
        }
        assert!(messages.try_recv().is_err(), "a second answer");
        // Other requests are sent once.
        transport.started_at = since;
        transport.get(version(), version(), TIMEOUT);
        assert_eq!(transport.repeat_at, None);
    }

    #[test]
    fn requests_that_hang_are_bounded() {
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        let wait_at = Arc::clone(&gate);
        let (mut transport, messages) = transport(move |_| drop(wait_at.lock()));
        for _ in 0..OVERDUE_REQUESTS_MAX + 2 {
            transport.get(version(), version(), Duration::ZERO);
            if transport.worker.is_some() {
                transport.overdue_at = Some(Instant::now());
            }
            assert!(answer(&mut transport, &messages).is_err());
            assert!(transport.overdue.len() <= OVERDUE_REQUESTS_MAX);
        }
        drop(closed);
        for thread in &transport.overdue {
            while !thread.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        transport.get(version(), version(), TIMEOUT);
        assert!(answer(&mut transport, &messages).is_ok());
    }
}
