//! Imitates an HTTP server that receives records; each test defines which one, and how it answers.
//!
//! It is strict where RFC 9112 is: a request has a Host, the Content-Length of its body, and no
//! absolute target of a proxy.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use scheduled_events_test_support::{TestServer, wait};
use serde_json::Value;

/// A request that was received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The status of the answer.
    pub(crate) status: u16,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self
            .headers
            .iter()
            .filter(|(found, _)| found == name)
            .map(|(_, value)| value.as_str());
        let first = found.next();
        assert_eq!(found.next(), None, "the header {name} is repeated");
        first
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a body in JSON")
    }
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    pub(crate) fn with(status: u16, body: &str) -> Self {
        Self {
            status,
            body: body.to_owned(),
            ..Self::default()
        }
    }
}

type Behaviour = dyn Fn(&Received, usize) -> Option<Answer> + Send + Sync;

#[derive(Default)]
struct Log {
    received: Mutex<Vec<Received>>,
    changed: Condvar,
}

/// The server.
pub(crate) struct Receiver {
    server: TestServer,
    log: Arc<Log>,
}

impl Receiver {
    /// A server that answers with the result of `behaviour` for a request and the number of
    /// requests before it; `None` closes the connection without an answer.
    pub(crate) fn start(
        behaviour: impl Fn(&Received, usize) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        let log = Arc::new(Log::default());
        let shared = Arc::clone(&log);
        let server = TestServer::start(
            move |connection| while answer(connection, &shared, &behaviour).is_some() {},
        );
        Self { server, log }
    }

    /// A server that accepts everything.
    pub(crate) fn accepting() -> Self {
        Self::start(|_, _| Some(Answer::status(200)))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        self.server.url() + path
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The requests so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.log.received.lock().unwrap().clone()
    }

    /// The requests so far that were answered with success.
    pub(crate) fn accepted(&self) -> Vec<Received> {
        self.received()
            .into_iter()
            .filter(|received| (200..300).contains(&received.status))
            .collect()
    }

    /// Waits until this is true of the requests so far, and returns them.
    pub(crate) fn wait(
        &self,
        what: &str,
        condition: impl Fn(&[Received]) -> bool,
    ) -> Vec<Received> {
        let received = self.log.received.lock().unwrap();
        let (received, result) = self
            .log
            .changed
            .wait_timeout_while(received, wait::LIMIT, |received| !condition(received))
            .unwrap();
        let shown = || {
            received
                .iter()
                .map(|received| String::from_utf8_lossy(&received.body))
                .collect::<Vec<_>>()
        };
        assert!(
            !result.timed_out(),
            "waited for {what}, received {:#?}",
            shown()
        );
        received.clone()
    }

    pub(crate) fn wait_for(&self, count: usize) -> Vec<Received> {
        self.wait(&format!("{count} requests"), |received| {
            received.len() >= count
        })
    }
}

fn answer(stream: &TcpStream, log: &Log, behaviour: &Behaviour) -> Option<()> {
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .ok()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|count| *count > 0)?;
    let mut words = line.trim_end().split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    assert_eq!(words.next(), Some("HTTP/1.1"));
    assert!(target.starts_with('/'), "a request for a proxy: {target}");
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let find = |name: &str| {
        headers
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.clone())
    };
    assert!(find("host").is_some(), "no Host");
    let length = match find("content-length") {
        Some(length) => length.parse().expect("a length"),
        None if method == "GET" => 0,
        None => panic!("no Content-Length"),
    };
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut received = Received {
        method,
        target,
        headers,
        body,
        status: 0,
    };
    let count = log.received.lock().unwrap().len();
    let answer = behaviour(&received, count);
    received.status = answer.as_ref().map_or(0, |answer| answer.status);
    log.received.lock().unwrap().push(received);
    log.changed.notify_all();
    let answer = answer?;
    let mut head = format!(
        "HTTP/1.1 {} x\r\ncontent-length: {}\r\n",
        answer.status,
        answer.body.len()
    );
    for (name, value) in &answer.headers {
        head.extend([name, ": ", value.as_str(), "\r\n"]);
    }
    let mut stream = stream;
    stream
        .write_all(format!("{head}\r\n{}", answer.body).as_bytes())
        .ok()
}
