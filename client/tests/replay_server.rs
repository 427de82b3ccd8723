//! The replay server over real sockets, met by a client that knows nothing but bytes.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use scheduled_events::replay::{Change, Config, Fault, ReplayEvent, Scenario, Server};
use serde_json::Value;

const EVENTS: &str = "/metadata/scheduledevents?api-version=2020-07-01";
const NAME: &str = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";

/// Longer than anything here takes, shorter than a test runner's patience.
const PATIENCE: Duration = Duration::from_secs(30);

/// One event that is on from the first document and moves only when approved.
const STEADY: &str = r#"
    about = "A freeze that waits for its approval."
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
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("set time-out");
    stream.set_write_timeout(Some(PATIENCE)).expect("set time-out");
    stream
}

fn head(method: &str, target: &str, extra: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\n{extra}\r\n")
}

/// Reads up to and including the empty line, and nothing beyond.
fn read_head(stream: &mut TcpStream) -> Response {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        bytes.push(byte[0]);
    }
    let text = String::from_utf8(bytes).expect("UTF-8");
    let mut lines = text.trim_end().split("\r\n");
    let status = lines.next().expect("status line").split(' ').nth(1).expect("status").parse().expect("number");
    let headers = lines
        .map(|line| line.split_once(": ").expect("field"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Response { status, headers, body: Vec::new() }
}

fn read_response(stream: &mut TcpStream) -> Response {
    let mut response = read_head(stream);
    let length = response.header("Content-Length").map_or(0, |length| length.parse().expect("a number"));
    response.body = vec![0; length];
    stream.read_exact(&mut response.body).expect("the whole body");
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
    raw(server.addr(), (head("POST", EVENTS, &length) + body).as_bytes())
}

fn approve(server: &Server, ids: &[&str]) -> Response {
    let requests: Vec<_> = ids.iter().map(|id| serde_json::json!({ "EventId": id })).collect();
    post(server, &serde_json::json!({ "StartRequests": requests }).to_string())
}

fn event_id(document: &Value, index: usize) -> String {
    document["Events"][index]["EventId"].as_str().expect("EventId").to_owned()
}

fn statuses(document: &Value) -> Vec<&str> {
    events(document).iter().map(|event| event["EventStatus"].as_str().expect("EventStatus")).collect()
}

fn events(document: &Value) -> &[Value] {
    document["Events"].as_array().expect("Events")
}

fn steady() -> Config {
    Config::new(Scenario::parse(STEADY).expect("valid"))
}

fn start(config: Config) -> Server {
    Server::start(config).expect("start")
}

fn faulty(faults: &[&str]) -> Server {
    start(faults.iter().fold(steady(), |config, fault| config.fault(fault.parse().expect(fault))))
}

fn builtin(name: &str) -> Config {
    Config::new(Scenario::builtin(name).expect(name))
}

// The rules of the service.

#[test]
fn documents_are_compact_and_complete() {
    let server = start(steady().seed(1));
    let response = get(&server, EVENTS);
    assert_eq!(response.header("Content-Type"), Some("application/json; charset=utf-8"));
    assert_eq!(response.header("ETag"), Some("\"2\""));
    let id = event_id(&response.json(), 0);
    let not_before = response.json()["Events"][0]["NotBefore"].as_str().expect("text").to_owned();
    assert_eq!(
        response.text(),
        format!(
            "{{\"DocumentIncarnation\":2,\"Events\":[{{\"EventId\":\"{id}\",\"EventStatus\":\"Scheduled\",\
             \"EventType\":\"Freeze\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[\"WestNO_0\"],\
             \"NotBefore\":\"{not_before}\",\"Description\":\"Host server is undergoing maintenance.\",\
             \"EventSource\":\"Platform\",\"DurationInSeconds\":9}}]}}"
        )
    );
    assert_eq!(not_before.len(), 29);
    let ahead = httpdate::parse_http_date(&not_before).expect("RFC 1123").duration_since(SystemTime::now());
    assert!(ahead.expect("ahead") <= Duration::from_secs(3600));
}

#[test]
fn event_ids_follow_the_seed() {
    let id = |config| event_id(&document(&start(config)), 0);
    assert_eq!(id(steady().seed(1)), id(steady().seed(1)));
    assert_ne!(id(steady().seed(1)), id(steady().seed(2)));
    assert_ne!(id(steady()), id(steady()));
}

#[test]
fn refusals_are_those_of_the_service() {
    let server = start(steady());
    let refused = |request: &str| raw(server.addr(), request.as_bytes());
    let plain = |target: &str, fields: &str| refused(&format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));

    let response = plain(EVENTS, "");
    assert_eq!(response.status, 400);
    assert_eq!(response.text(), r#"{ "error": "Bad request: . Required metadata header not specified" }"#);
    assert_eq!(plain(NAME, "").status, 400);
    assert_eq!(plain(EVENTS, "Metadata: false\r\n").status, 400);
    assert_eq!(plain(EVENTS, "Metadata: true\r\nX-Forwarded-For: 10.0.0.1\r\n").status, 400);
    assert_eq!(plain(NAME, "Metadata: true\r\nX-Forwarded-For: 10.0.0.1\r\n").status, 400);
    assert_eq!(plain(EVENTS, "metadata:true\r\n").status, 200);

    for query in [
        "",
        "?api-version=",
        "?api-version=2020-07-02",
        "?api-version=latest",
        "?api-version=2020-07-01&api-version=2020-07-01",
        "?api-version=2020-07-01&api-version=2019-08-01",
        "?API-VERSION=2020-07-01&api-version=2019-08-01",
    ] {
        for method in ["GET", "POST"] {
            let response = refused(&head(method, &format!("/metadata/scheduledevents{query}"), ""));
            assert_eq!(response.status, 400, "{query}");
            let body = response.json();
            assert!(body["error"].as_str().is_some_and(|text| text.contains("api-version")));
            assert_eq!(body["newest-versions"], serde_json::json!(["2020-07-01", "2019-08-01", "2019-04-01"]));
        }
    }
    let repeated = refused(&head("GET", &format!("{EVENTS}&x=1&x=1"), ""));
    assert_eq!(repeated.status, 400);

    assert_eq!(get(&server, "/").status, 404);
    assert_eq!(get(&server, "/metadata/scheduledevent?api-version=2020-07-01").status, 404);
    let delete = refused(&head("DELETE", EVENTS, ""));
    assert_eq!((delete.status, delete.header("Allow")), (405, Some("GET, POST")));
    assert_eq!(refused(&head("POST", NAME, "")).status, 405);
}

#[test]
fn a_head_request_gets_no_body() {
    let server = start(steady());
    let mut stream = connect(server.addr());
    stream.write_all(head("HEAD", EVENTS, "Connection: close\r\n").as_bytes()).expect("send");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("read");
    assert!(bytes.starts_with(b"HTTP/1.1 405 ") && bytes.ends_with(b"\r\n\r\n"));
}

#[test]
fn older_versions_show_less() {
    let server = start(steady());
    for (version, members) in [
        ("2017-03-01", 6),
        ("2017-08-01", 6),
        ("2017-11-01", 6),
        ("2019-01-01", 6),
        ("2019-04-01", 7),
        ("2019-08-01", 8),
        ("2020-07-01", 9),
    ] {
        let response = get(&server, &format!("/metadata/scheduledevents?api-version={version}"));
        let event = &response.json()["Events"][0];
        assert_eq!(event.as_object().map(serde_json::Map::len), Some(members), "{version}");
        let name = if version == "2017-03-01" { "_WestNO_0" } else { "WestNO_0" };
        assert_eq!(event["Resources"][0], name, "{version}");
    }
    for (event_type, hidden, shown) in
        [("Preempt", "2017-08-01", "2017-11-01"), ("Terminate", "2017-11-01", "2019-01-01")]
    {
        let server = start(Config::new(Scenario::parse(&STEADY.replace("Freeze", event_type)).expect("valid")));
        let count = |version: &str| {
            events(&get(&server, &format!("/metadata/scheduledevents?api-version={version}")).json()).len()
        };
        assert_eq!((count(hidden), count(shown), count("2020-07-01")), (0, 1, 1), "{event_type}");
    }
}

#[test]
fn an_etag_saves_the_body() {
    let server = start(steady());
    let etag = get(&server, EVENTS).header("ETag").expect("ETag").to_owned();
    let conditional =
        |tag: &str| raw(server.addr(), head("GET", EVENTS, &format!("If-None-Match: {tag}\r\n")).as_bytes());
    let response = conditional(&etag);
    assert_eq!((response.status, response.header("ETag"), response.body.len()), (304, Some(etag.as_str()), 0));
    assert_eq!(response.header("Content-Length"), None);
    assert_eq!(conditional("\"other\"").status, 200);
    let id = event_id(&document(&server), 0);
    assert_eq!(approve(&server, &[&id]).status, 200);
    let response = conditional(&etag);
    assert_eq!((response.status, response.header("ETag")), (200, Some("\"3\"")));
}

#[test]
fn approvals_start_an_event_once() {
    let server = start(steady());
    assert_eq!(approve(&server, &["C7061BAC-AFDC-4513-B24B-AA5F13A16123"]).status, 400);
    let before = document(&server);
    let id = event_id(&before, 0);
    assert_eq!(statuses(&before), ["Scheduled"]);

    // One unknown EventId spoils the request, and nothing malformed changes anything.
    assert_eq!(approve(&server, &[&id, "unknown"]).status, 400);
    for malformed in ["", "{", "[]", "{}", r#"{"StartRequests":[]}"#, r#"{"StartRequests":[{"Id":"x"}]}"#, "\u{feff}{}"]
    {
        assert_eq!(post(&server, malformed).status, 400, "{malformed}");
    }
    assert_eq!(document(&server), before);

    let response = approve(&server, &[&id.to_ascii_lowercase()]);
    assert_eq!((response.status, response.body.len()), (200, 0));
    let after = document(&server);
    assert_eq!((statuses(&after).as_slice(), &after["Events"][0]["NotBefore"]), (&["Started"][..], &Value::from("")));
    assert_eq!((after["DocumentIncarnation"].as_u64(), event_id(&after, 0)), (Some(3), id.clone()));

    // Again, and of a Started event: valid, without effect.
    assert_eq!(approve(&server, &[&id, &id]).status, 200);
    assert_eq!(document(&server), after);
}

#[test]
fn approval_bodies_come_in_several_shapes() {
    let id = |server: &Server| event_id(&document(server), 0);
    let started = |server: &Server| statuses(&document(server)) == ["Started"];

    let server = start(steady());
    let old = format!(r#"{{"DocumentIncarnation":"5","StartRequests":[{{"EventId":"{}"}}]}}"#, id(&server));
    assert_eq!(post(&server, &old).status, 200);
    assert!(started(&server));

    let server = start(steady());
    let body = format!(r#"{{"StartRequests":[{{"EventId":"{}"}}]}}"#, id(&server));
    let (first, second) = body.split_at(10);
    let chunked = format!("{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n", first.len(), second.len());
    let request = head("POST", EVENTS, "Transfer-Encoding: chunked\r\n") + &chunked;
    assert_eq!(raw(server.addr(), request.as_bytes()).status, 200);
    assert!(started(&server));

    // A client that waits to be told to go on, as .NET's does.
    let server = start(steady());
    let body = format!(r#"{{"StartRequests":[{{"EventId":"{}"}}]}}"#, id(&server));
    let fields = format!("Expect: 100-continue\r\nContent-Length: {}\r\n", body.len());
    let mut stream = connect(server.addr());
    stream.write_all(head("POST", EVENTS, &fields).as_bytes()).expect("send");
    assert_eq!(read_head(&mut stream).status, 100);
    stream.write_all(body.as_bytes()).expect("send");
    assert_eq!(read_response(&mut stream).status, 200);
    assert!(started(&server));
}

#[test]
fn neither_of_a_pair_goes_before_both_are_approved() {
    let pair = STEADY.replace("Freeze", "Terminate")
        + "count = 2\nresources = [\"{peer:index}\"]\napproval_group = \"pair\"\n";
    let server = start(Config::new(Scenario::parse(&pair).expect("valid")).vm_name("pool_7"));
    let before = document(&server);
    assert_eq!(before["Events"][0]["Resources"], serde_json::json!(["pool_7"]));
    assert_eq!(before["Events"][1]["Resources"], serde_json::json!(["pool_8"]));
    assert_eq!(approve(&server, &[&event_id(&before, 1)]).status, 200);
    assert_eq!(document(&server), before);
    assert_eq!(approve(&server, &[&event_id(&before, 0)]).status, 200);
    assert_eq!(statuses(&document(&server)), ["Started", "Started"]);
}

#[test]
fn the_name_is_plain_text() {
    let server = start(steady().vm_name("pool_7"));
    let response = get(&server, NAME);
    assert_eq!((response.status, response.text()), (200, "pool_7"));
    assert_eq!(response.header("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(get(&server, "/metadata/instance/compute/name?api-version=2021-02-01").status, 400);
    let bad = get(&server, "/metadata/instance/compute/name?api-version=1999-01-01&format=text");
    assert!(bad.status == 400 && bad.json()["newest-versions"].is_array());
}

#[test]
fn connections_are_kept_and_pipelines_answered() {
    let server = start(steady());
    let mut stream = connect(server.addr());
    for _ in 0..3 {
        stream.write_all(head("GET", EVENTS, "").as_bytes()).expect("send");
        assert_eq!(read_response(&mut stream).status, 200);
    }
    stream
        .write_all((head("GET", NAME, "") + &head("GET", "/", "") + &head("GET", EVENTS, "")).as_bytes())
        .expect("send");
    let answers = [(); 3].map(|()| read_response(&mut stream).status);
    assert_eq!(answers, [200, 404, 200]);

    // Byte by byte, then closed on request.
    for byte in head("GET", EVENTS, "Connection: close\r\n").bytes() {
        stream.write_all(&[byte]).expect("send");
    }
    let response = read_response(&mut stream);
    assert_eq!((response.status, response.header("Connection")), (200, Some("close")));
    assert_eq!(stream.read(&mut [0]).expect("end"), 0);
    assert_eq!(server.requests().len(), 7);
}

#[test]
fn requests_have_limits() {
    let server = start(steady());
    let long = "a".repeat(20_000);
    let huge = format!("{}{}", head("POST", EVENTS, "Content-Length: 400000\r\n"), "x".repeat(400_000));
    for (request, status) in [
        (head("GET", &format!("/{long}"), ""), 431),
        (head("GET", EVENTS, &format!("X: {long}\r\n")), 431),
        (head("GET", EVENTS, &"X: y\r\n".repeat(200)), 431),
        (huge, 413),
        ("\u{1}\u{2} not HTTP\r\n\r\n".to_owned(), 400),
        (head("POST", EVENTS, "Content-Length: x\r\n"), 400),
    ] {
        assert_eq!(raw(server.addr(), request.as_bytes()).status, status);
    }
    assert_eq!(get(&server, EVENTS).status, 200);
}

#[test]
fn requests_are_recorded() {
    let server = start(steady().fault("get.reset@2".parse().expect("fault")));
    let before = Instant::now();
    document(&server);
    let mut stream = connect(server.addr());
    stream.write_all(head("GET", EVENTS, "").as_bytes()).expect("send");
    assert!(stream.read(&mut [0]).is_err());
    assert_eq!(post(&server, "{}").status, 400);
    let requests = server.requests();
    let seen: Vec<_> = requests.iter().map(|it| (it.method.as_str(), it.status, it.body.as_slice())).collect();
    assert_eq!(seen, [("GET", Some(200), &b""[..]), ("GET", None, b""), ("POST", Some(400), b"{}")]);
    assert!(requests.iter().all(|it| it.target == EVENTS && it.arrived >= before));
    assert!(requests[0].headers.contains(&("Metadata".to_owned(), "true".to_owned())));
}

// The scenarios.

struct Expected {
    name: &'static str,
    /// Type, source, description, duration and resources of each event in document order.
    events: Vec<(&'static str, &'static str, &'static str, i64, Vec<String>)>,
    /// What happens to each event, approvals left out, which is the same at every pace.
    course: &'static [Change],
    /// The incarnations of the whole scenario, if events do not mingle.
    incarnations: Option<&'static [u64]>,
}

const USUAL: &[Change] = &[Change::Appeared, Change::Started, Change::Gone];
const HOST: &str = "Host server is undergoing maintenance.";
const RESTART: &str = "Virtual machine is going to be restarted as requested by authorized user.";

fn expectations() -> Vec<Expected> {
    let names = |numbers: &[u32]| numbers.iter().map(|number| format!("WestNO_{number}")).collect::<Vec<_>>();
    let one = |name, event_type, source, description, duration, vms: &[u32]| Expected {
        name,
        events: vec![(event_type, source, description, duration, names(vms))],
        course: USUAL,
        incarnations: Some(&[1, 2, 3, 4]),
    };
    let many = |name, count: u32| Expected {
        events: (0..count).map(|vm| ("Terminate", "User", "", -1, names(&[vm]))).collect(),
        ..one(name, "", "", "", 0, &[])
    };
    let migration = "Virtual machine is being paused because of a memory-preserving Live Migration operation.";
    let redeploy = "Virtual machine is going to be redeployed as requested by authorized user.";
    let failure = "Virtual machine has encountered a failure.";
    vec![
        one("live-migration", "Freeze", "Platform", migration, 5, &[0, 1]),
        one("host-maintenance", "Freeze", "Platform", HOST, 9, &[0]),
        one("user-reboot", "Reboot", "User", RESTART, -1, &[0]),
        one("user-redeploy", "Redeploy", "User", redeploy, -1, &[0]),
        one("redeploy", "Redeploy", "Platform", failure, -1, &[0]),
        Expected {
            course: &[Change::Appeared, Change::Cancelled],
            incarnations: Some(&[1, 2, 3]),
            ..one("cancelled", "Freeze", "Platform", HOST, 30, &[0])
        },
        one("preempt", "Preempt", "Platform", "", -1, &[0]),
        one("terminate", "Terminate", "User", "", -1, &[0]),
        many("terminate-pair", 2),
        Expected {
            course: &[Change::Appeared, Change::Gone],
            incarnations: Some(&[1, 2, 3]),
            ..one("hardware-failure", "Reboot", "Platform", failure, -1, &[0, 1])
        },
        Expected {
            course: &[Change::Appeared, Change::Rescheduled, Change::Started, Change::Gone],
            incarnations: Some(&[1, 2, 3, 4, 5]),
            ..one("rescheduled", "Freeze", "Platform", HOST, 9, &[0])
        },
        Expected {
            events: vec![("Freeze", "Platform", HOST, 6, names(&[0])), ("Reboot", "User", RESTART, -1, names(&[0]))],
            incarnations: None,
            ..one("reboot-during-freeze", "", "", "", 0, &[])
        },
        Expected {
            incarnations: Some(&[279, 280, 1, 2, 3]),
            ..one("incarnation-reset", "Freeze", "Platform", HOST, 9, &[0])
        },
        many("scale-in", 200),
    ]
}

/// Plays a scenario to its end, approving all there is at first sight, and checks every document.
fn play(expected: &Expected) {
    let name = expected.name;
    let (sender, receiver) = mpsc::channel();
    let speed = if name == "preempt" { 60.0 } else { 600.0 };
    let server = start(builtin(name).speed(speed).observer(sender));
    let first = document(&server);
    assert!(events(&first).is_empty(), "{name}");
    let mut incarnations = vec![first["DocumentIncarnation"].as_u64().expect("number")];
    let mut courses: HashMap<String, Vec<Change>> = HashMap::new();
    let mut ids: Vec<Option<String>> = vec![None; expected.events.len()];
    let mut approved = false;
    loop {
        let event = receiver.recv_timeout(PATIENCE).expect("the scenario goes on");
        let (incarnation, change) = match event {
            ReplayEvent::Event { change: Change::Approved, .. } => continue,
            ReplayEvent::Event { change, event_id, incarnation, .. } => {
                courses.entry(event_id).or_default().push(change);
                (incarnation, Some(change))
            }
            ReplayEvent::IncarnationReset { incarnation } => (incarnation, None),
            ReplayEvent::Finished => break,
            _ => continue,
        };
        if incarnations.last() == Some(&incarnation) {
            continue;
        }
        incarnations.push(incarnation);
        let seen = document(&server);
        check(name, &seen, expected, &mut ids);
        if change == Some(Change::Appeared) || !approved {
            let ids: Vec<_> = events(&seen).iter().map(|event| event["EventId"].as_str().expect("id")).collect();
            if !ids.is_empty() {
                assert_eq!(approve(&server, &ids).status, 200, "{name}");
                approved = true;
            }
        }
    }
    assert!(server.finished(), "{name}");
    assert!(events(&document(&server)).is_empty(), "{name}");
    assert_eq!(courses.len(), expected.events.len(), "{name}");
    assert!(courses.values().all(|course| course == expected.course), "{name}: {courses:?}");
    if let Some(wanted) = expected.incarnations {
        assert_eq!(incarnations, wanted, "{name}");
    }
}

fn check(name: &str, document: &Value, expected: &Expected, ids: &mut [Option<String>]) {
    for event in events(document) {
        let index = expected
            .events
            .iter()
            .position(|wanted| event["EventType"] == wanted.0 && event["Resources"] == serde_json::json!(wanted.4))
            .unwrap_or_else(|| panic!("{name}: {event}"));
        let (_, source, description, duration, _) = &expected.events[index];
        assert_eq!(event["EventSource"], *source, "{name}");
        assert_eq!(event["Description"], *description, "{name}");
        assert_eq!(event["DurationInSeconds"], *duration, "{name}");
        let not_before = event["NotBefore"].as_str().expect("text");
        match event["EventStatus"].as_str() {
            Some("Scheduled") => {
                let time = httpdate::parse_http_date(not_before).expect("RFC 1123");
                // Not a century away in either direction; the moment itself is the state machine's test.
                let distance = time.duration_since(SystemTime::now()).unwrap_or_else(|error| error.duration());
                assert!(distance < Duration::from_secs(120), "{name}: {not_before}");
            }
            Some("Started") => assert_eq!(not_before, "", "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        let id = event["EventId"].as_str().expect("text").to_owned();
        assert!(id.len() == 36 && id == id.to_ascii_uppercase(), "{name}: {id}");
        assert_eq!(*ids[index].get_or_insert_with(|| id.clone()), id, "{name}");
    }
}

#[test]
fn every_builtin_scenario_plays_to_its_end() {
    let expectations = expectations();
    let names: Vec<_> = expectations.iter().map(|it| it.name).collect();
    assert_eq!(names, Scenario::builtins().map(|(name, _)| name).collect::<Vec<_>>());
    thread::scope(|scope| {
        let plays: Vec<_> = expectations.iter().map(|expected| scope.spawn(|| play(expected))).collect();
        for (play, name) in plays.into_iter().zip(names) {
            play.join().unwrap_or_else(|_| panic!("{name} failed, see above"));
        }
    });
}

#[test]
fn without_an_approval_events_wait_for_not_before() {
    let (sender, receiver) = mpsc::channel();
    let server = start(builtin("terminate-pair").speed(1200.0).observer(sender));
    assert!(!server.finished());
    document(&server);
    let moments: Vec<_> = receiver
        .iter()
        .take_while(|event| *event != ReplayEvent::Finished)
        .filter_map(|event| match event {
            ReplayEvent::Event { change, incarnation, not_before, .. } => {
                Some((change, incarnation, not_before.is_some()))
            }
            _ => None,
        })
        .collect();
    let twice = |change, incarnation, dated| [(change, incarnation, dated); 2];
    let wanted = [twice(Change::Appeared, 2, true), twice(Change::Started, 3, false), twice(Change::Gone, 4, false)];
    assert_eq!(moments, wanted.concat());
    assert!(server.finished());
}

#[test]
fn time_begins_with_the_first_document() {
    let (sender, receiver) = mpsc::channel();
    let server = start(builtin("preempt").speed(1e6).observer(sender).fault("status:503@1-2".parse().expect("fault")));
    get(&server, NAME);
    approve(&server, &["x"]);
    get(&server, EVENTS);
    // At this speed the whole scenario would be over by now if it had begun.
    assert_eq!(receiver.recv_timeout(PATIENCE).expect("name").to_string(), format!("GET {NAME} -> 200"));
    assert_eq!(
        receiver.recv_timeout(PATIENCE).expect("post").to_string(),
        format!("POST {EVENTS} -> 503 (fault: status:503@1-2)")
    );
    assert!(matches!(receiver.recv_timeout(PATIENCE), Ok(ReplayEvent::Answered { status: Some(503), .. })));
    assert_eq!(receiver.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
    assert!(!server.finished());
    document(&server);
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(ReplayEvent::PlaybackStarted));
    drop(server);
    assert!(receiver.iter().count() >= 1, "the stream ends with the server");
}

// The faults.

/// What a client gets until the end of the connection, and the error that ended it.
fn read_all(address: SocketAddr, request: &str) -> (Vec<u8>, Option<ErrorKind>) {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("send");
    let mut bytes = Vec::new();
    let error = stream.read_to_end(&mut bytes).err().map(|error| error.kind());
    (bytes, error)
}

fn body_of(bytes: &[u8]) -> &[u8] {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    &bytes[end + 4..]
}

#[test]
fn fault_empty() {
    let server = faulty(&["get.empty@1-2"]);
    for _ in 0..2 {
        let response = get(&server, EVENTS);
        assert_eq!((response.status, response.body.len(), response.header("Content-Length")), (200, 0, Some("0")));
    }
    assert_eq!(events(&document(&server)).len(), 1);
}

#[test]
fn fault_status() {
    for (code, body) in [
        (404, r#"{"error":"Not Found"}"#),
        (408, r#"{"error":"Request Timeout"}"#),
        (410, r#"{"error":"Gone"}"#),
        (429, "Throttle Result: Too Many Requests"),
        (500, r#"{"error":"Internal Server Error"}"#),
        (204, ""),
    ] {
        let server = faulty(&[&format!("status:{code}@1")]);
        let response = get(&server, EVENTS);
        assert_eq!((response.status, response.text()), (code, body));
        assert_eq!(get(&server, EVENTS).status, 200);
    }
}

#[test]
fn a_refused_approval_has_no_effect_and_a_damaged_answer_has() {
    for (fault, effect) in [
        ("post.status:500@1", false),
        ("post.retry-after:1@1", false),
        ("post.redirect:307@1", false),
        ("post.reset@1", false),
        ("post.empty@1", true),
        ("post.short-body@1", true),
        ("post.half-document@1", true),
        ("post.not-json@1", true),
        ("post.reset-mid-body@1", true),
    ] {
        let server = faulty(&[fault]);
        let id = event_id(&document(&server), 0);
        let body = format!(r#"{{"StartRequests":[{{"EventId":"{id}"}}]}}"#);
        let fields = format!("Connection: close\r\nContent-Length: {}\r\n", body.len());
        read_all(server.addr(), &(head("POST", EVENTS, &fields) + &body));
        let wanted = if effect { "Started" } else { "Scheduled" };
        assert_eq!(statuses(&document(&server)), [wanted], "{fault}");
        assert_eq!(approve(&server, &[&id]).status, 200, "{fault}");
        assert_eq!(statuses(&document(&server)), ["Started"], "{fault}");
    }
}

#[test]
fn faults_of_one_method_leave_the_other_alone() {
    let server = faulty(&["get.status:500", "name.status:404"]);
    assert_eq!(get(&server, EVENTS).status, 500);
    assert_eq!(get(&server, NAME).status, 404);
    assert_eq!(post(&server, "{}").status, 400);
    // A request that the service refuses meets no fault.
    assert_eq!(get(&server, "/metadata/scheduledevents").status, 400);
}

#[test]
fn fault_first_call_delay() {
    let server = faulty(&["first-call-delay:0.2"]);
    let before = Instant::now();
    assert_eq!(get(&server, EVENTS).status, 200);
    assert!(before.elapsed() >= Duration::from_millis(200));
    // An hour for the others, were they hit: this would never end.
    let server = faulty(&["first-call-delay:0", "name.slow-headers:3600"]);
    assert_eq!(get(&server, EVENTS).status, 200);
    assert_eq!(get(&server, EVENTS).status, 200);
}

#[test]
fn fault_stale() {
    let server = faulty(&["stale:3600@2-"]);
    let current = document(&server);
    let stale = document(&server);
    assert_eq!(current["DocumentIncarnation"], 2);
    assert_eq!(stale, serde_json::json!({"DocumentIncarnation": 1, "Events": []}));
    // The event is approved all the same, which the stale answers do not show.
    assert_eq!(approve(&server, &[&event_id(&current, 0)]).status, 200);
    assert_eq!(document(&server), stale);
}

#[test]
fn fault_reset() {
    let server = faulty(&["reset@1", "name.reset"]);
    for request in [head("GET", EVENTS, ""), head("GET", NAME, "")] {
        let (bytes, error) = read_all(server.addr(), &request);
        assert_eq!((bytes.len(), error), (0, Some(ErrorKind::ConnectionReset)));
    }
    assert_eq!(get(&server, EVENTS).status, 200);
}

#[test]
fn fault_reset_mid_body() {
    let server = faulty(&["reset-mid-body"]);
    let (bytes, error) = read_all(server.addr(), &head("GET", EVENTS, ""));
    assert_eq!(error, Some(ErrorKind::ConnectionReset));
    let body = body_of(&bytes);
    assert!(body.starts_with(b"{\"DocumentIncarnation\"") && !body.ends_with(b"]}"));
}

#[test]
fn fault_slow_headers_and_slow_body() {
    for fault in ["slow-headers:0.2", "slow-body:0.2"] {
        let server = faulty(&[fault]);
        let before = Instant::now();
        assert_eq!(events(&document(&server)).len(), 1);
        assert!(before.elapsed() >= Duration::from_millis(200), "{fault}");
    }
    // The head comes at once and the body does not: an hour between two pieces.
    let server = faulty(&["slow-body:360000"]);
    let mut stream = connect(server.addr());
    stream.write_all(head("GET", EVENTS, "").as_bytes()).expect("send");
    assert_eq!(read_head(&mut stream).status, 200);
    drop(server);
    assert!(!matches!(stream.read(&mut [0]), Ok(1)));
    // An approval's answer has no body to trickle, so it gets one.
    let server = faulty(&["post.slow-body:0.1"]);
    let id = event_id(&document(&server), 0);
    assert!(!approve(&server, &[&id]).body.is_empty());
}

#[test]
fn fault_silence() {
    let server = faulty(&["silence@1"]);
    let mut stream = connect(server.addr());
    stream.write_all(head("GET", EVENTS, "").as_bytes()).expect("send");
    stream.set_read_timeout(Some(Duration::from_millis(50))).expect("set time-out");
    let error = stream.read(&mut [0]).expect_err("silence").kind();
    assert!(matches!(error, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    // Others are served meanwhile.
    assert_eq!(get(&server, EVENTS).status, 200);
    assert_eq!(server.requests()[0].status, None);
    drop(server);
    stream.set_read_timeout(Some(PATIENCE)).expect("set time-out");
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn fault_short_body() {
    let server = faulty(&["short-body"]);
    let mut stream = connect(server.addr());
    stream.write_all(head("GET", EVENTS, "").as_bytes()).expect("send");
    let response = read_head(&mut stream);
    let length: usize = response.header("Content-Length").expect("length").parse().expect("number");
    let mut body = Vec::new();
    stream.read_to_end(&mut body).expect("an orderly end");
    assert!(!body.is_empty() && body.len() < length);
}

#[test]
fn fault_endless_body() {
    let server = faulty(&["endless-body"]);
    let mut stream = connect(server.addr());
    stream.write_all(head("GET", EVENTS, "").as_bytes()).expect("send");
    let response = read_head(&mut stream);
    assert_eq!((response.header("Transfer-Encoding"), response.header("Content-Length")), (Some("chunked"), None));
    let mut bytes = vec![0; 4_000_000];
    stream.read_exact(&mut bytes).expect("no end in sight");
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert!(text.contains("]}\r\n1000\r\n    "), "{text:.400}");
}

#[test]
fn fault_huge_body() {
    let server = faulty(&["huge-body:3MB"]);
    let response = get(&server, EVENTS);
    assert_eq!(response.body.len(), 3_000_000);
    assert_eq!(events(&response.json()).len(), 1);
    // A gigabyte is announced and begun, and a client may leave.
    let server = faulty(&["huge-body:1GB"]);
    let mut stream = connect(server.addr());
    stream.write_all(head("GET", EVENTS, "").as_bytes()).expect("send");
    assert_eq!(read_head(&mut stream).header("Content-Length"), Some("1000000000"));
    stream.read_exact(&mut vec![0; 1_000_000]).expect("the beginning");
}

#[test]
fn fault_many_headers() {
    let server = faulty(&["many-headers:100000"]);
    let (bytes, error) = read_all(server.addr(), &head("GET", EVENTS, "Connection: close\r\n"));
    assert_eq!(error, None);
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert_eq!(text.matches("\r\nX-Padding-").count(), 100_000);
    assert!(text.ends_with("]}"));
}

#[test]
fn fault_gzip() {
    let server = faulty(&["gzip"]);
    let response = get(&server, EVENTS);
    assert_eq!(response.header("Content-Encoding"), Some("gzip"));
    assert_eq!(response.body[..3], [0x1f, 0x8b, 8]);
}

#[test]
fn fault_content_type() {
    let server = faulty(&["content-type:text/html"]);
    let response = get(&server, EVENTS);
    assert_eq!(response.header("Content-Type"), Some("text/html"));
    assert_eq!(response.headers.iter().filter(|(name, _)| name == "Content-Type").count(), 1);
    assert_eq!(events(&response.json()).len(), 1);
}

#[test]
fn fault_redirect() {
    for (fault, code, location) in [
        ("redirect:301", 301, "http://127.0.0.1:9/"),
        ("redirect:302", 302, "http://127.0.0.1:9/"),
        ("redirect:307,http://attacker.example/x", 307, "http://attacker.example/x"),
        ("redirect:308", 308, "http://127.0.0.1:9/"),
    ] {
        let response = get(&faulty(&[fault]), EVENTS);
        assert_eq!((response.status, response.header("Location")), (code, Some(location)));
    }
}

#[test]
fn fault_retry_after() {
    let value = |fault: &str| {
        let response = get(&faulty(&[fault]), EVENTS);
        assert_eq!((response.status, response.text()), (429, "Throttle Result: Too Many Requests"));
        response.header("Retry-After").expect("Retry-After").to_owned()
    };
    assert_eq!(value("retry-after:7"), "7");
    assert_eq!(value("retry-after:Wed, 21 Oct 2026 07:28:00 GMT"), "Wed, 21 Oct 2026 07:28:00 GMT");
    let before = SystemTime::now();
    let date = httpdate::parse_http_date(&value("retry-after:date+50")).expect("a date");
    let ahead = date.duration_since(before).expect("ahead");
    assert!((49..=50 + PATIENCE.as_secs()).contains(&ahead.as_secs()), "{ahead:?}");
}

#[test]
fn fault_half_document_and_not_json() {
    let server = faulty(&["half-document@1", "not-json@2"]);
    let half = get(&server, EVENTS);
    assert_eq!(half.status, 200);
    assert!(half.text().starts_with("{\"DocumentIncarnation\":2,\"Events\":[{"));
    assert!(serde_json::from_slice::<Value>(&half.body).is_err());
    let not_json = get(&server, EVENTS);
    assert_eq!((not_json.status, not_json.text()), (200, "not json"));
    assert_eq!(not_json.header("Content-Type"), Some("application/json; charset=utf-8"));
    assert_eq!(get(&server, EVENTS).body.len() / 2, half.body.len());
}

#[test]
fn fault_incarnation_back() {
    let server = faulty(&["incarnation-back:1@2", "incarnation-back:99@3"]);
    let incarnations = [(); 4].map(|()| document(&server)["DocumentIncarnation"].as_u64());
    assert_eq!(incarnations, [Some(2), Some(1), Some(0), Some(2)]);
}

#[test]
fn fault_vanish() {
    let server = faulty(&["vanish@2"]);
    let counts = [(); 3].map(|()| {
        let seen = document(&server);
        (seen["DocumentIncarnation"].as_u64(), events(&seen).len())
    });
    assert_eq!(counts, [(Some(2), 1), (Some(2), 0), (Some(2), 1)]);
    // Not even a client that asks with If-None-Match is spared.
    let server = faulty(&["vanish@2"]);
    let etag = get(&server, EVENTS).header("ETag").expect("ETag").to_owned();
    let response = raw(server.addr(), head("GET", EVENTS, &format!("If-None-Match: {etag}\r\n")).as_bytes());
    assert!(response.status == 200 && events(&response.json()).is_empty());
}

#[test]
fn fault_started_without_scheduled() {
    let server = faulty(&["started-without-scheduled@2-"]);
    let id = event_id(&document(&server), 0);
    assert!(events(&document(&server)).is_empty());
    assert_eq!(approve(&server, &[&id]).status, 200);
    assert_eq!(statuses(&document(&server)), ["Started"]);
}

#[test]
fn windows_of_time_open_and_close() {
    let server = faulty(&["status:410@0s-0.3s"]);
    let begin = Instant::now();
    assert_eq!(get(&server, EVENTS).status, 410);
    while get(&server, EVENTS).status == 410 {
        thread::yield_now();
    }
    assert!(begin.elapsed() >= Duration::from_millis(290));
    let server = faulty(&["status:410@3600s-"]);
    assert_eq!(get(&server, EVENTS).status, 200);
}

#[test]
fn faults_combine() {
    let server = faulty(&["slow-body:0.1", "slow-headers:0.1", "status:500@1", "empty", "content-type:text/plain"]);
    let before = Instant::now();
    let response = get(&server, EVENTS);
    assert_eq!((response.status, response.header("Content-Type")), (500, Some("text/plain")));
    assert!(before.elapsed() >= Duration::from_millis(200));
    assert_eq!(get(&server, EVENTS).body.len(), 0);
}

#[test]
fn unknown_faults_name_the_nearest() {
    let error = "endles-body".parse::<Fault>().expect_err("unknown").to_string();
    assert!(error.contains("did you mean `endless-body`?") && error.contains("retry-after:VALUE"), "{error}");
}

// The server itself.

/// How many threads of this process serve the port.
#[cfg(target_os = "linux")]
fn threads_of(address: SocketAddr) -> usize {
    let name = format!("replay-{}", address.port());
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|comm| comm.trim_end() == name).count()
}

#[test]
fn stopping_leaves_no_thread_and_no_port() {
    let faults = ["silence@1", "endless-body@2", "slow-body:36000@3", "slow-headers:36000@4"];
    let (sender, receiver) = mpsc::channel();
    let config = faults.iter().fold(steady(), |config, fault| config.fault(fault.parse().expect(fault)));
    let server = start(config.observer(sender));
    let address = server.addr();
    assert_eq!(server.url(), format!("http://{address}"));
    let mut busy: Vec<_> = (0..faults.len())
        .map(|_| {
            let mut stream = connect(address);
            stream.write_all(head("GET", EVENTS, "").as_bytes()).expect("send");
            // Until the server has decided on this one, the next must not come.
            while !matches!(receiver.recv_timeout(PATIENCE).expect("an answer"), ReplayEvent::Answered { .. }) {}
            stream
        })
        .collect();
    let idle = connect(address);
    let mut kept = connect(address);
    kept.write_all(head("GET", EVENTS, "").as_bytes()).expect("send");
    assert_eq!(read_response(&mut kept).status, 200);
    #[cfg(target_os = "linux")]
    assert!(threads_of(address) > 2 + faults.len());

    drop(server);
    #[cfg(target_os = "linux")]
    assert_eq!(threads_of(address), 0);
    TcpStream::connect_timeout(&address, PATIENCE).expect_err("nobody listens");
    TcpListener::bind(address).expect("the port is free");
    for stream in busy.iter_mut().chain([&mut kept]) {
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest).map_or_else(|error| error.kind(), |_| ErrorKind::UnexpectedEof);
        assert!(!matches!(ended, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{ended}");
    }
    drop(idle);
}

#[test]
fn fifty_connections_at_once() {
    let server = start(steady());
    let address = server.addr();
    let barrier = Arc::new(Barrier::new(50));
    let clients: Vec<_> = (0..50)
        .map(|_| {
            let barrier = barrier.clone();
            thread::spawn(move || {
                let mut stream = connect(address);
                // All fifty are connected before the first of them asks.
                barrier.wait();
                for _ in 0..4 {
                    stream.write_all(head("GET", EVENTS, "").as_bytes()).expect("send");
                    assert_eq!(read_response(&mut stream).status, 200);
                }
                barrier.wait();
            })
        })
        .collect();
    for client in clients {
        client.join().expect("client");
    }
    assert_eq!(server.requests().len(), 200);
}

#[test]
fn more_connections_than_places_are_served_in_turn() {
    let server = start(steady());
    let mut streams: Vec<_> = (0..300).map(|_| connect(server.addr())).collect();
    while let Some(mut stream) = streams.pop() {
        // The last to come waits in the queue until enough of the first have gone.
        if streams.len() < 200 {
            stream.write_all(head("GET", NAME, "").as_bytes()).expect("send");
            assert_eq!(read_response(&mut stream).status, 200);
        }
    }
    assert_eq!(server.requests().len(), 200);
}
