//! Tests of the replay server over real sockets, with a client that sends and reads plain bytes.

mod advice;
mod control;
#[allow(dead_code, unreachable_pub)] // Each test program uses a part of it.
#[path = "../../../tests/support/eventually.rs"]
mod eventually;
mod faults;
mod finish;
mod machines;
mod masked;
mod outside;
mod redirects;
mod rules;
mod scenarios;
mod shown;
mod stopping;

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use scheduled_events_replay::{Fault, ReplayEvent, Scenario, Server, ServerConfig, TransitionKind};
use serde_json::Value;

const EVENTS: &str = "/metadata/scheduledevents?api-version=2020-07-01";
const ADVICE_EVENTS: &str = "/metadata/scheduledevents?api-version=2024-07-09";
const NAME: &str = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";

/// A time-out that no test reaches unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// One event that is in the first document and changes only when it is approved.
const STEADY: &str = r#"
    about = "A Freeze that waits for its approval."
    [[event]]
    event_type = "Freeze"
    description = "Host server is undergoing maintenance."
    duration_in_seconds = 9
    notice = "1h"
    starts_after_approval = "0s"
    started_for = "1h"
"#;

#[derive(Debug)]
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connect");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("set time-out");
    stream
        .set_write_timeout(Some(PATIENCE))
        .expect("set time-out");
    stream
}

fn head(method: &str, target: &str, extra: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\n{extra}\r\n")
}

/// Reads up to and including the empty line.
fn read_head(stream: &mut TcpStream) -> Response {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        bytes.push(byte[0]);
    }
    let text = String::from_utf8(bytes).expect("UTF-8");
    let mut lines = text.trim_end().split("\r\n");
    let status = lines
        .next()
        .expect("status line")
        .split(' ')
        .nth(1)
        .expect("status")
        .parse()
        .expect("number");
    let headers = lines
        .map(|line| line.split_once(": ").expect("field"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Response {
        status,
        headers,
        body: Vec::new(),
    }
}

fn read_response(stream: &mut TcpStream) -> Response {
    let mut response = read_head(stream);
    let length = response
        .header("Content-Length")
        .map_or(0, |length| length.parse().expect("a number"));
    response.body = vec![0; length];
    stream
        .read_exact(&mut response.body)
        .expect("the whole body");
    response
}

fn raw(address: SocketAddr, request: &[u8]) -> Response {
    let mut stream = connect(address);
    stream.write_all(request).expect("send");
    read_response(&mut stream)
}

fn get(server: &Server, target: &str) -> Response {
    raw(server.addr(), head("GET", target, "").as_bytes())
}

fn document(server: &Server) -> Value {
    let response = get(server, EVENTS);
    assert_eq!(response.status, 200);
    response.json()
}

fn post(server: &Server, body: &str) -> Response {
    let length = format!("Content-Length: {}\r\n", body.len());
    raw(
        server.addr(),
        (head("POST", EVENTS, &length) + body).as_bytes(),
    )
}

fn approve(server: &Server, ids: &[&str]) -> Response {
    let requests: Vec<_> = ids
        .iter()
        .map(|id| serde_json::json!({ "EventId": id }))
        .collect();
    post(
        server,
        &serde_json::json!({ "StartRequests": requests }).to_string(),
    )
}

fn event_id(document: &Value, index: usize) -> String {
    document["Events"][index]["EventId"]
        .as_str()
        .expect("EventId")
        .to_owned()
}

fn statuses(document: &Value) -> Vec<&str> {
    events(document)
        .iter()
        .map(|event| event["EventStatus"].as_str().expect("EventStatus"))
        .collect()
}

fn events(document: &Value) -> &[Value] {
    document["Events"].as_array().expect("Events")
}

fn steady() -> ServerConfig {
    ServerConfig::new(Scenario::parse(STEADY).expect("valid"))
}

fn start(config: ServerConfig) -> Server {
    Server::start(config.without_verdict()).expect("start")
}

fn faulty(faults: &[&str]) -> Server {
    start(faults.iter().fold(steady(), |config, fault| {
        config.fault(fault.parse().expect(fault))
    }))
}

fn builtin(name: &str) -> ServerConfig {
    ServerConfig::new(Scenario::builtin(name).expect(name))
}

scheduled_events_test_support::nothing_is_left_over!();
