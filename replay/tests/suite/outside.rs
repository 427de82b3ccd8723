//! Tests of a server's services outside its machines, with the same timeline. A test whose name
//! begins with `fact_` checks a fact of `docs/inside/wire.md`, section 6. The queue is a fake here;
//! `tests/python/programs/test_control_plane.py` has a real one, and foreign clients.

use std::io::{BufRead, BufReader};
use std::sync::Mutex;

use scheduled_events_replay::ControlPlane;
use scheduled_events_test_support::TestServer;
use serde_json::json;

use super::*;

const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";
const SET: &str = "/subscriptions/00000000-0000-0000-0000-000000000000/resourcegroups/replay/providers/Microsoft.Compute/\
                   virtualMachineScaleSets/WestNO";
const EVENT_ROWS: &str = "maintenanceresources | where type == 'microsoft.maintenance/scheduledevents' | order by id asc";

fn outside(config: ServerConfig) -> Server {
    start(config.control_plane(ControlPlane::default()))
}

fn address(server: &Server) -> SocketAddr {
    let url = server.control_plane().expect("a control plane");
    url.strip_prefix("http://")
        .expect("http")
        .parse()
        .expect("an address")
}

fn ask(server: &Server, target: &str, body: &str) -> Response {
    raw(address(server), request(target, body).as_bytes())
}

fn request(target: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer x\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn acknowledge(server: &Server, resource: &str, id: &str) -> Response {
    let events =
        format!("{resource}/providers/Microsoft.Maintenance/scheduledevents/{id}/acknowledge");
    ask(
        server,
        &format!("{events}?api-version=2025-10-01-preview"),
        "",
    )
}

fn acknowledge_list(server: &Server, ids: &[&str]) -> Response {
    let target = format!(
        "{SET}/providers/Microsoft.Maintenance/scheduledevents?api-version=2025-10-01-preview"
    );
    ask(server, &target, &json!({ "value": ids }).to_string())
}

fn graph(server: &Server, query: &str) -> Response {
    let body = json!({ "subscriptions": [SUBSCRIPTION], "query": query });
    ask(
        server,
        "/providers/Microsoft.ResourceGraph/resources?api-version=2024-04-01",
        &body.to_string(),
    )
}

fn rows(server: &Server) -> Vec<Value> {
    let response = graph(server, EVENT_ROWS);
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["data"].as_array().expect("rows").clone()
}

/// The code of an error in Resource Manager's form.
fn code(response: &Response) -> (u16, String) {
    (
        response.status,
        response.json()["error"]["code"]
            .as_str()
            .expect("a code")
            .to_owned(),
    )
}

/// The statuses inside the machine and outside.
fn both(server: &Server) -> (Vec<String>, Vec<String>) {
    let inside = statuses(&document(server))
        .into_iter()
        .map(str::to_owned)
        .collect();
    let status = |row: &Value| {
        row["properties"]["EventStatus"]
            .as_str()
            .expect("a status")
            .to_owned()
    };
    (inside, rows(server).iter().map(status).collect())
}

/// A queue that keeps its messages, and its next answers; after these, it answers with 201.
struct Queue {
    server: TestServer,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Queue {
    fn start(statuses: &[u16]) -> Self {
        let bodies = Arc::<Mutex<Vec<Value>>>::default();
        let (kept, next) = (bodies.clone(), Mutex::new(statuses.to_vec()));
        let server = TestServer::start(move |connection| {
            let mut reader = BufReader::new(&**connection);
            while let Some((line, body)) = read_request(&mut reader) {
                let mut next = next.lock().expect("no panic");
                let is_message = line.starts_with("POST ");
                let status = if is_message && !next.is_empty() {
                    next.remove(0)
                } else {
                    201
                };
                if is_message && status == 201 {
                    kept.lock().expect("no panic").push(content(&body));
                }
                let answer = format!("HTTP/1.1 {status} Status\r\nContent-Length: 0\r\n\r\n");
                if (&**connection).write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
        Self { server, bodies }
    }

    fn config(&self, config: ServerConfig) -> ServerConfig {
        let address = format!("{}/devstoreaccount1/events", self.server.url())
            .parse()
            .expect("an address");
        config.control_plane(ControlPlane::default().queue(address))
    }

    /// Waits until there are this many messages, and returns the statuses of their events.
    fn statuses(&self, count: usize) -> Vec<String> {
        let bodies = eventually::eventually("messages", || {
            let bodies = self.bodies.lock().expect("no panic");
            (bodies.len() >= count).then(|| bodies.clone())
        });
        let status = |body: &Value| {
            body["data"]["resourceInfo"]["properties"]["EventStatus"]
                .as_str()
                .map(str::to_owned)
        };
        bodies
            .iter()
            .map(|body| status(body).expect("a status"))
            .collect()
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<(String, String)> {
    let mut head = Vec::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push(line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head.first()?.clone(), String::from_utf8(body).ok()?))
}

/// The JSON of a message, which is in Base64.
fn content(body: &str) -> Value {
    let text = body
        .split("<MessageText>")
        .nth(1)
        .and_then(|rest| rest.split('<').next())
        .expect("a message");
    let sextet = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bits = text
        .bytes()
        .filter(|byte| *byte != b'=')
        .flat_map(|byte| (0..6).rev().map(move |at| sextet(byte) >> at & 1));
    let mut bytes = Vec::new();
    while let Some(first) = bits.next() {
        let rest: Vec<_> = bits.by_ref().take(7).collect();
        if rest.len() == 7 {
            bytes.push(rest.iter().fold(first, |byte, bit| byte << 1 | bit));
        }
    }
    serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes)))
}

#[test]
fn fact_an_approval_outside_counts_inside() {
    let server = outside(steady());
    let id = event_id(&document(&server), 0);
    let response = acknowledge(&server, SET, &id);
    assert_eq!(
        (response.status, response.text()),
        (200, r#"{"value":"Successfully Approved"}"#)
    );
    assert_eq!(
        both(&server),
        (vec!["Started".to_owned()], vec!["Started".to_owned()])
    );
    // A second approval is without effect, in both places.
    assert_eq!(
        (
            acknowledge(&server, SET, &id.to_lowercase()).status,
            approve(&server, &[&id]).status
        ),
        (200, 200)
    );
}

#[test]
fn fact_an_approval_inside_counts_outside() {
    let server = outside(steady());
    let row = &rows(&server)[0];
    assert_eq!(row["properties"]["EventStatus"], "Scheduled");
    assert_eq!(
        approve(&server, &[row["name"].as_str().expect("an id")]).status,
        200
    );
    assert_eq!(
        both(&server),
        (vec!["Started".to_owned()], vec!["Started".to_owned()])
    );
}

#[test]
fn fact_the_end_is_told_outside_only() {
    for (scenario, end) in [("user-reboot", "Completed"), ("cancelled", "Canceled")] {
        let server = outside(builtin(scenario));
        document(&server);
        while server.step() {}
        assert_eq!(
            both(&server),
            (Vec::new(), vec![end.to_owned()]),
            "{scenario}"
        );
    }
}

#[test]
fn fact_an_event_that_is_approved_automatically_is_never_scheduled() {
    for (event_type, scenario) in [("Reboot", "user-reboot"), ("Redeploy", "user-redeploy")] {
        for (approved, status) in [(event_type, "Started"), ("Freeze", "Scheduled")] {
            let server = outside(builtin(scenario).automatically_approved(approved));
            document(&server);
            assert!(server.step());
            assert_eq!(
                both(&server),
                (vec![status.to_owned()], vec![status.to_owned()]),
                "{scenario}, {approved}"
            );
        }
    }
    // An event of the platform is not a user's.
    let server = outside(builtin("redeploy").automatically_approved("Redeploy"));
    document(&server);
    assert!(server.step());
    assert_eq!(both(&server).0, ["Scheduled"]);
}

#[test]
fn fact_a_list_may_be_approved_in_part() {
    let server = outside(builtin("scale-in"));
    document(&server);
    assert!(server.step());
    let ids: Vec<_> = rows(&server)
        .iter()
        .map(|row| row["name"].as_str().expect("an id").to_owned())
        .collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let unknown = "AAAAAAAA-0000-4000-8000-000000000000";
    let response = acknowledge_list(&server, &[ids[0], unknown, ids[1]]);
    assert_eq!(code(&response), (207, "MultiStatusResponse".to_owned()));
    let details = &response.json()["error"]["details"];
    assert_eq!(details.as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&details[0]["target"], &details[0]["code"]),
        (&json!(unknown), &json!("NotFound"))
    );
    // The known events were approved.
    let response = acknowledge_list(&server, &ids);
    assert_eq!(
        (response.status, response.text()),
        (200, r#"{"value":"Successfully Approved"}"#)
    );
    assert_eq!(
        code(&acknowledge_list(&server, &[unknown])),
        (404, "NotFound".to_owned())
    );
    assert_eq!(
        code(&acknowledge_list(&server, &[ids[0], "7"])),
        (400, "BadRequest".to_owned())
    );
    assert_eq!(
        code(&acknowledge_list(&server, &[])),
        (400, "InvalidRequestContent".to_owned())
    );
}

#[test]
fn an_event_is_approved_at_its_own_resource_only() {
    let server = outside(steady());
    let id = event_id(&document(&server), 0);
    let machine = SET.replace("virtualMachineScaleSets/WestNO", "virtualMachines/WestNO_0");
    for resource in [machine, SET.replace("WestNO", "EastNO")] {
        assert_eq!(
            code(&acknowledge(&server, &resource, &id)),
            (404, "NotFound".to_owned()),
            "{resource}"
        );
    }
    let other = SET.replacen("00000000", "11111111", 1);
    assert_eq!(
        code(&acknowledge(&server, &other, &id)),
        (403, "AuthorizationFailed".to_owned())
    );
    assert_eq!(both(&server).1, ["Scheduled"]);
}

#[test]
fn the_first_query_starts_the_scenario() {
    let server = outside(steady());
    assert!(!server.status().has_started);
    assert_eq!(
        acknowledge(&server, SET, "AAAAAAAA-0000-4000-8000-000000000000").status,
        404
    );
    assert!(!server.status().has_started);
    assert_eq!(rows(&server).len(), 1);
    assert!(server.status().has_started);
    let machine = server
        .requests()
        .last()
        .map(|request| (request.machine, request.method.clone()));
    assert_eq!(machine, Some((1, "POST".to_owned())));
}

#[test]
fn faults_of_requests_outside_meet_nothing_inside() {
    let faults = [
        "arm.status:409@1",
        "arm.status:401@2",
        "arm.reset-mid-body@3",
        "graph.status:429@1",
        "graph.status:403@2",
    ];
    let server = outside(faults.iter().fold(steady(), |config, fault| {
        config.fault(fault.parse().expect(fault))
    }));
    let id = event_id(&document(&server), 0);
    assert_eq!(
        code(&acknowledge(&server, SET, &id)),
        (409, "Conflict".to_owned())
    );
    assert_eq!(
        code(&acknowledge(&server, SET, &id)),
        (401, "InvalidAuthenticationToken".to_owned())
    );
    // The refused requests had no effect.
    assert_eq!(statuses(&document(&server)), ["Scheduled"]);
    let response = graph(&server, EVENT_ROWS);
    assert_eq!(code(&response), (429, "TooManyRequests".to_owned()));
    assert_eq!(
        response.header("x-ms-user-quota-resets-after"),
        Some("00:00:05")
    );
    assert_eq!(
        code(&graph(&server, EVENT_ROWS)),
        (403, "AuthorizationFailed".to_owned())
    );
    // A request whose answer is cut off had its effect.
    let target = format!("{SET}/providers/Microsoft.Maintenance/scheduledevents/{id}/acknowledge");
    let mut stream = connect(address(&server));
    stream
        .write_all(request(&format!("{target}?api-version=2023-10-01-preview"), "").as_bytes())
        .expect("send");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(
        !answer.ends_with(b"}"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert_eq!(
        both(&server),
        (vec!["Started".to_owned()], vec!["Started".to_owned()])
    );
}

#[test]
fn a_fault_of_the_control_plane_is_injected_where_there_is_one() {
    let server = outside(steady());
    let id = event_id(&document(&server), 0);
    assert_eq!(graph(&server, EVENT_ROWS).status, 200);
    server
        .inject_fault(0, "arm.status:503@1".parse().expect("a fault"))
        .expect("it is injected");
    assert_eq!(
        (
            acknowledge(&server, SET, &id).status,
            acknowledge(&server, SET, &id).status
        ),
        (503, 200)
    );
    let error = start(steady())
        .inject_fault(0, "arm.status:503@1".parse().expect("a fault"))
        .expect_err("nowhere");
    assert!(error.to_string().contains("the server has none"), "{error}");
}

#[test]
fn fact_a_queue_gets_a_message_for_each_change() {
    for (scenario, expected) in [
        ("user-reboot", &["Scheduled", "Started", "Completed"][..]),
        ("hardware-failure", &["Started", "Completed"]),
        ("cancelled", &["Scheduled", "Canceled"]),
        (
            "rescheduled",
            &["Scheduled", "Scheduled", "Started", "Completed"],
        ),
    ] {
        let queue = Queue::start(&[]);
        // No client requests a document.
        let server = start(queue.config(builtin(scenario)));
        while server.step() {}
        assert_eq!(queue.statuses(expected.len()), expected, "{scenario}");
        let bodies = queue.bodies.lock().expect("no panic");
        let ids: std::collections::HashSet<_> =
            bodies.iter().map(|body| body["id"].to_string()).collect();
        assert_eq!(
            ids.len(),
            expected.len(),
            "each message has an outer id of its own"
        );
    }
}

#[test]
fn messages_meet_their_faults_and_are_reported() {
    let queue = Queue::start(&[500]);
    let (sender, receiver) = mpsc::channel();
    let config = queue.config(builtin("user-reboot")).observer(sender);
    let server = start(config.fault("message.lost@2".parse().expect("a fault")));
    while server.step() {}
    // The first message is refused at first, so it comes after the last one.
    assert_eq!(queue.statuses(2), ["Completed", "Scheduled"]);
    drop(server);
    let reports: Vec<_> = receiver
        .iter()
        .filter(|event| matches!(event, ReplayEvent::Message { .. }))
        .collect();
    let texts: Vec<_> = reports.iter().map(ToString::to_string).collect();
    let of = |part: &str| texts.iter().filter(|text| text.contains(part)).count();
    assert_eq!(
        (
            of("answers 500"),
            of("is delivered"),
            of("is lost (fault: message.lost@2)")
        ),
        (1, 2, 1),
        "{texts:?}"
    );
}

/// Event Grid delivers at least once, and in any order.
#[test]
fn messages_are_repeated_and_reversed_as_the_fault_says() {
    for (fault, expected, different) in [
        (
            "message.repeated",
            &[
                "Scheduled",
                "Scheduled",
                "Started",
                "Started",
                "Completed",
                "Completed",
            ][..],
            3,
        ),
        (
            "message.new-id",
            &[
                "Scheduled",
                "Scheduled",
                "Started",
                "Started",
                "Completed",
                "Completed",
            ],
            6,
        ),
        (
            "message.reversed:3",
            &["Completed", "Started", "Scheduled"],
            3,
        ),
    ] {
        let queue = Queue::start(&[]);
        let server = start(
            queue
                .config(builtin("user-reboot"))
                .fault(fault.parse().expect(fault)),
        );
        while server.step() {}
        assert_eq!(queue.statuses(expected.len()), expected, "{fault}");
        let bodies = queue.bodies.lock().expect("no panic");
        let different_in = |member: &str| {
            bodies
                .iter()
                .map(|body| body[member].to_string())
                .collect::<std::collections::HashSet<_>>()
                .len()
        };
        assert_eq!(
            (different_in("id"), different_in("data")),
            (different, 3),
            "{fault}"
        );
    }
}

#[test]
fn a_queue_that_nobody_serves_is_found_at_the_start() {
    let free = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    let queue = format!("http://{free}/devstoreaccount1/events")
        .parse()
        .expect("an address");
    let error = Server::start(steady().control_plane(ControlPlane::default().queue(queue)))
        .expect_err("no queue");
    assert!(
        error.kind() == ErrorKind::Other && error.to_string().contains("cannot be reached"),
        "{error}"
    );
}

#[test]
fn a_server_that_begins_again_has_its_control_plane() {
    let queue = Queue::start(&[]);
    let server = start(queue.config(builtin("user-reboot").seed(1)));
    while server.step() {}
    assert_eq!(queue.statuses(3).len(), 3);
    server
        .begin_again(builtin("cancelled").seed(1))
        .expect("it begins again");
    while server.step() {}
    assert_eq!(queue.statuses(5)[3..], ["Scheduled", "Canceled"]);
    let bodies = queue.bodies.lock().expect("no panic");
    let ids: std::collections::HashSet<_> =
        bodies.iter().map(|body| body["id"].to_string()).collect();
    assert_eq!(ids.len(), 5);
}
