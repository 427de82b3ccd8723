//! A watcher's requests for documents, for a program without a watcher.

use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::message::Message;
use super::transport::Transport;
use crate::imds::{HttpResponse, Imds, RequestFailure};

/// Requests documents as a watcher does: a request that may take two minutes is sent again beside the first one, after
/// 5 seconds and then every 10 seconds, and the first answer counts.
///
/// ```
/// use scheduled_events::imds::{API_VERSION, Imds};
/// use scheduled_events::watch::Poller;
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
/// use std::time::Duration;
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
/// let imds = Imds::new(&server.url())?;
/// let polled = Poller::new(&imds).poll(API_VERSION, API_VERSION, Duration::from_secs(130), &mut |waited| {
///     if waited > Duration::from_secs(5) {
///         println!("no answer for {} s", waited.as_secs());
///     }
/// });
/// assert_eq!(polled.answer?.status, 200);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Poller {
    imds: Imds,
    transport: Transport,
    messages: Receiver<Message>,
}

/// How a poll was answered.
///
/// ```
/// use scheduled_events::imds::HttpResponse;
/// use scheduled_events::watch::Polled;
///
/// let polled = Polled { answer: Ok(HttpResponse { status: 200, ..HttpResponse::default() }), repeated: false };
/// assert!(polled.answer.is_ok_and(|answer| answer.status == 200));
/// ```
#[derive(Debug)]
pub struct Polled {
    /// The answer, or why there is none.
    pub answer: Result<HttpResponse, RequestFailure>,
    /// Whether it is the answer to a repetition, and so in its version.
    pub repeated: bool,
}

impl Poller {
    /// A poller of this service. It starts a thread with the first request.
    pub fn new(imds: &Imds) -> Self {
        let (sender, messages) = mpsc::channel();
        Self {
            imds: imds.clone(),
            transport: Transport::new(imds.clone(), sender),
            messages,
        }
    }

    /// Requests the document in a version of the API, and in `repeat_version` beside it while there is no answer. `waiting` is called
    /// at least once a second meanwhile, with the time that has passed.
    pub fn poll(
        &mut self,
        version: &str,
        repeat_version: &str,
        timeout: Duration,
        waiting: &mut dyn FnMut(Duration),
    ) -> Polled {
        let begin = Instant::now();
        self.transport
            .get(version.to_owned(), repeat_version.to_owned(), timeout);
        if !self.transport.has_worker() {
            // The system refuses another thread: then one connection has to do.
            while self.messages.try_recv().is_ok() {}
            let answer = self.imds.events_in(version, timeout);
            let repeated = false;
            return Polled { answer, repeated };
        }
        loop {
            self.transport.repeat();
            let second = Duration::from_secs(1);
            let wait = self.transport.check().map_or(second, |at| at.min(second));
            // The transport holds a sender, and answers each request.
            if let Ok(Message::Response { answer, repeated }) = self.messages.recv_timeout(wait) {
                return Polled { answer, repeated };
            }
            waiting(begin.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::imds::API_VERSION;
    use crate::limits::REPEAT_AFTER;

    /// Fault 30 of `tests/field-faults.md`.
    #[test]
    fn a_version_that_is_accepted_and_never_answered_is_asked_for_in_another_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let service = thread::spawn(move || {
            let mut silent = Vec::new();
            for _ in 0..2 {
                let (mut connection, _) = listener.accept().unwrap();
                let mut head = [0; 1024];
                let length = connection.read(&mut head).unwrap();
                if String::from_utf8_lossy(&head[..length]).contains(API_VERSION) {
                    let body = r#"{"DocumentIncarnation":1,"Events":[]}"#;
                    let length = body.len();
                    write!(
                        connection,
                        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
                    )
                    .unwrap();
                } else {
                    silent.push(connection);
                }
            }
            // They stay open until the test ends them: closing one would be an answer, too.
            silent
        });
        let imds = Imds::new(&endpoint).unwrap();
        let mut waited = Vec::new();
        let polled = Poller::new(&imds).poll(
            "2024-07-09",
            API_VERSION,
            Duration::from_secs(20),
            &mut |time| waited.push(time),
        );
        assert!(polled.repeated);
        assert_eq!(polled.answer.unwrap().status, 200);
        assert_eq!(service.join().unwrap().len(), 1);
        assert!(waited.len() >= 4 && waited.is_sorted(), "{waited:?}");
        assert!(waited.last() >= Some(&(REPEAT_AFTER * 3 / 4)));
    }
}
