//! A metadata service that the test controls: it serves the test's documents, and records its
//! requests.
//!
//! Unlike the replay server it never changes by itself, and it can send any bytes as a response.

use std::io::{BufRead, BufReader, Write};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use scheduled_events_test_support::{Connection, TestServer};
use serde_json::Value;

use super::eventually;

/// A request that was received.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub arrived: Instant,
}

/// A response, byte by byte.
#[derive(Clone, Debug)]
pub struct Reply {
    bytes: Vec<u8>,
    after: Duration,
    close: bool,
}

/// A function that may answer a request in place of the service.
type Intercept = Box<dyn FnMut(&Request) -> Option<Reply> + Send>;

/// A metadata service that serves the test's documents, until it is dropped.
pub struct FakeService {
    server: TestServer,
    state: Arc<Mutex<State>>,
}

struct State {
    name: Option<String>,
    vm_id: String,
    document: String,
    post_status: u16,
    intercept: Option<Intercept>,
    requests: Vec<Request>,
    keeps_requests: bool,
}

impl Request {
    /// The values of a header field.
    pub fn header(&self, name: &str) -> Vec<&str> {
        let fields = self
            .headers
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name));
        fields.map(|(_, value)| value.as_str()).collect()
    }

    pub fn is_get(&self) -> bool {
        self.method == "GET" && !self.target.starts_with("/metadata/instance/")
    }

    pub fn is_post(&self) -> bool {
        self.method == "POST"
    }

    pub fn is_name(&self) -> bool {
        self.target.starts_with("/metadata/instance/compute/name")
    }

    /// The event ids in a POST.
    pub fn ids(&self) -> Vec<String> {
        let body: Value = serde_json::from_slice(&self.body).expect("JSON");
        let requests = body["StartRequests"]
            .as_array()
            .expect("StartRequests")
            .clone();
        requests
            .iter()
            .map(|request| request["EventId"].as_str().expect("EventId").to_owned())
            .collect()
    }
}

impl Reply {
    /// A response with a status, header fields (each with its line end) and a body.
    pub fn new(status: u16, fields: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let head = format!(
            "HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n{fields}\r\n",
            body.len()
        );
        Self::raw([head.as_bytes(), body].concat())
    }

    /// Exactly these bytes.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            after: Duration::ZERO,
            close: false,
        }
    }

    /// Delays the response.
    #[must_use]
    pub fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    /// Closes the connection after the response.
    #[must_use]
    pub fn close(self) -> Self {
        Self {
            close: true,
            ..self
        }
    }
}

impl FakeService {
    /// Starts the service of the machine `WestNO_0`, without events.
    pub fn start() -> Self {
        let state = Arc::new(Mutex::new(State {
            name: Some(super::VM.to_owned()),
            vm_id: "4e9b5f62-0b37-4c5f-8d0e-6b2f6f2c8a11".to_owned(),
            document: super::document(1, &[]),
            post_status: 200,
            intercept: None,
            requests: Vec::new(),
            keeps_requests: true,
        }));
        let shared = Arc::clone(&state);
        let server = TestServer::start(move |connection| serve(connection, &shared));
        Self { server, state }
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Serves these events from now on.
    pub fn show(&self, incarnation: u64, events: &[Value]) {
        self.show_body(&super::document(incarnation, events));
    }

    /// Serves this document from now on.
    pub fn show_body(&self, body: &str) {
        body.clone_into(&mut self.lock().document);
    }

    /// Sets the machine's name; without one the service answers 404.
    pub fn set_name(&self, name: Option<&str>) {
        self.lock().name = name.map(str::to_owned);
    }

    /// Sets the machine's `vmId`.
    pub fn set_vm_id(&self, vm_id: &str) {
        vm_id.clone_into(&mut self.lock().vm_id);
    }

    /// Sets the status of responses to POST.
    pub fn set_post_status(&self, status: u16) {
        self.lock().post_status = status;
    }

    /// Passes each request to the function first, which may answer it.
    pub fn intercept(&self, intercept: impl FnMut(&Request) -> Option<Reply> + Send + 'static) {
        self.lock().intercept = Some(Box::new(intercept));
    }

    /// Stops recording requests, for tests that send millions.
    pub fn forget_requests(&self) {
        self.lock().keeps_requests = false;
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }

    /// The event ids in all POSTs so far.
    pub fn posted(&self) -> Vec<String> {
        self.requests()
            .iter()
            .filter(|request| request.is_post())
            .flat_map(Request::ids)
            .collect()
    }

    /// The number of polls so far.
    pub fn polls(&self) -> usize {
        self.lock()
            .requests
            .iter()
            .filter(|request| request.is_get())
            .count()
    }

    /// Waits for this number of further polls. The client has the responses to all of them but the
    /// last.
    pub fn await_polls(&self, more: usize) {
        let wanted = self.polls() + more;
        eventually("a poll", || (self.polls() >= wanted).then_some(()));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a lock")
    }
}

fn serve(connection: &Connection, state: &Mutex<State>) {
    let _ = connection.set_nodelay(true);
    let mut reader = BufReader::new(&**connection);
    while let Some(request) = read(&mut reader) {
        let reply = {
            let mut state = state.lock().expect("a lock");
            if state.keeps_requests {
                state.requests.push(request.clone());
            }
            let mut intercept = state.intercept.take();
            let reply = intercept.as_mut().and_then(|intercept| intercept(&request));
            state.intercept = intercept;
            reply.unwrap_or_else(|| state.answer(&request))
        };
        let has_ended = connection.pause(reply.after);
        if has_ended || (&mut &**connection).write_all(&reply.bytes).is_err() || reply.close {
            return;
        }
    }
}

impl State {
    fn answer(&self, request: &Request) -> Reply {
        match &self.name {
            _ if request.is_post() => Reply::new(self.post_status, "", ""),
            Some(name) if request.is_name() => {
                Reply::new(200, "Content-Type: text/plain\r\n", name)
            }
            None if request.is_name() => Reply::new(404, "", "{}"),
            _ if !request.is_get() => Reply::new(200, "Content-Type: text/plain\r\n", &self.vm_id),
            _ => Reply::new(
                200,
                "Content-Type: application/json; charset=utf-8\r\n",
                &self.document,
            ),
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => break,
        }
    }
    let mut request = Request {
        method,
        target,
        headers,
        body: Vec::new(),
        arrived: Instant::now(),
    };
    let length = request
        .header("Content-Length")
        .first()
        .map_or(0, |length| length.parse().unwrap_or(0));
    request.body.resize(length, 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}
