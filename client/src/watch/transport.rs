//! The thread that sends requests, one at a time, so that a slow response delays nothing else.
//!
//! Each request is answered exactly once, whatever happens to the thread. If it cannot be started, or the request panics or
//! hangs, the answer is a failure like any other, and the next request starts another thread if it has none.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use scheduled_events_core::Cause;

use super::message::Message;
use crate::imds::{HttpResponse, Imds, RequestFailure};
use crate::limits::{OVERDUE_REQUESTS_MAX, REQUEST_OVERDUE};

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
}

struct Worker {
    requests: Sender<(u64, HttpRequest)>,
    thread: JoinHandle<()>,
}

enum HttpRequest {
    Get { timeout: Duration },
    Post { body: Vec<u8>, timeout: Duration },
}

impl HttpRequest {
    fn timeout(&self) -> Duration {
        match self {
            Self::Get { timeout } | Self::Post { timeout, .. } => *timeout,
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
    fn answer(&self, number: u64, answer: Answer) -> bool {
        let is_open = self
            .in_flight
            .compare_exchange(number, 0, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok();
        !is_open || self.sender.send(Message::Response(answer)).is_ok()
    }
}

impl Transport {
    /// A transport without a thread: the first request starts it. The thread ends with this value, after the request in flight.
    pub(super) fn new(imds: Imds, responses: Sender<Message>) -> Self {
        let exchange = move |request: &HttpRequest| match request {
            HttpRequest::Get { timeout } => imds.events(*timeout),
            HttpRequest::Post { body, timeout } => imds.approve(body, *timeout),
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
        }
    }

    /// Requests the document.
    pub(super) fn get(&mut self, timeout: Duration) {
        self.request(HttpRequest::Get { timeout });
    }

    /// Posts an approval.
    pub(super) fn post(&mut self, body: Vec<u8>, timeout: Duration) {
        self.request(HttpRequest::Post { body, timeout });
    }

    /// How long ago the last request was made.
    pub(super) fn idle_time(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// Answers an overdue request with a failure. Returns the time until the request in flight is overdue, if there is one.
    pub(super) fn check(&mut self) -> Option<Duration> {
        if self.answers.in_flight.load(Ordering::SeqCst) == 0 {
            self.overdue_at = None;
        }
        let left = self.overdue_at?.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Some(left);
        }
        self.overdue_at = None;
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
        let sent = self
            .worker
            .as_ref()
            .is_some_and(|worker| worker.requests.send((self.number, request)).is_ok());
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
        let thread = thread::Builder::new().spawn(move || serve(&exchange, &queue, &answers))?;
        Ok(Worker { requests, thread })
    }

    /// Answers the newest request with a failure, unless it is already answered.
    fn fail(&self, cause: Cause, detail: &str) {
        self.answers.answer(
            self.number,
            Err(RequestFailure {
                cause,
                detail: detail.to_owned(),
            }),
        );
    }
}

fn serve(exchange: &Exchange, requests: &Receiver<(u64, HttpRequest)>, answers: &Answers) {
    for (number, request) in requests {
        // Nothing is shared that a panic could leave inconsistent: the HTTP library discards the connection.
        let answer = catch_unwind(AssertUnwindSafe(|| exchange(&request))).unwrap_or_else(|_| {
            let detail = "the request panicked".to_owned();
            Err(RequestFailure {
                cause: Cause::ConnectionLost,
                detail,
            })
        });
        if !answers.answer(number, answer) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(1);

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
                Ok(Message::Response(answer)) => return answer,
                Ok(_) => panic!("another message"),
                Err(_) => assert!(wait < Duration::from_secs(30), "no answer"),
            }
        }
    }

    #[test]
    fn a_request_that_panics_is_a_failure_and_the_next_one_is_sent() {
        let (mut transport, messages) = transport(|number| assert_ne!(number, 2, "as intended"));
        for succeeds in [true, false, true, true] {
            transport.get(TIMEOUT);
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
        transport.get(TIMEOUT);
        let failure = answer(&mut transport, &messages).expect_err("a request that hangs");
        assert_eq!(failure.cause, Cause::Timeout);
        transport.post(Vec::new(), TIMEOUT);
        assert!(answer(&mut transport, &messages).is_ok());
        drop(closed);
        for thread in transport.overdue.drain(..) {
            thread.join().unwrap();
        }
        assert!(messages.try_recv().is_err(), "a second answer");
    }

    #[test]
    fn requests_that_hang_are_bounded() {
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        let wait_at = Arc::clone(&gate);
        let (mut transport, messages) = transport(move |_| drop(wait_at.lock()));
        for _ in 0..OVERDUE_REQUESTS_MAX + 2 {
            transport.get(Duration::ZERO);
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
        transport.get(TIMEOUT);
        assert!(answer(&mut transport, &messages).is_ok());
    }
}
