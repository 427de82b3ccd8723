//! Terminate events of a scale set: several watchers on one replay server, each of which approves
//! its own event only.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use scheduled_events_core::UnixSeconds;
use scheduled_events_replay::{Scenario, Server, ServerConfig};

use crate::support::{Folder, Request, Run, eventually, of_replay};

const APPROVE: &str = "[[rule]]\nevent = \"Terminate\"\naction = \"approve\"\n";

/// One event for each of the first `count` machines, which start together: once all are approved,
/// or at the end of the notice.
fn pair(count: u32, notice: &str) -> Server {
    let text = format!(
        "about = \"Deletions.\"\n[[event]]\nevent_type = \"Terminate\"\nevent_source = \"User\"\n\
         resources = [\"{{peer:index}}\"]\ncount = {count}\nappears = \"30s\"\nnotice = \"{notice}\"\n\
         starts_after_approval = \"120s\"\nstarted_for = \"240s\"\napproval_group = \"set\"\n"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    Server::start(
        ServerConfig::new(scenario)
            .speed(60.0)
            .vm_name("web_0")
            .without_verdict(),
    )
    .expect("a port")
}

/// A watcher on the machine of this name, which approves its own event.
fn watcher(server: &Server, folder: &Folder, name: &str) -> Run {
    let policy = folder.file("terminate.toml", APPROVE);
    Run::watch(
        &server.url(),
        &["--vm-name", name, "--policy", &policy, "--until-idle"],
    )
}

fn posts(server: &Server) -> Vec<Request> {
    of_replay(&server.requests())
        .into_iter()
        .filter(Request::is_post)
        .collect()
}

/// The id of each machine's event, and the start of all of them, as a watcher saw them.
fn events(run: &Run) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let records = run.records();
    let scheduled = records
        .iter()
        .filter(|record| record["change"] == "scheduled");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    scheduled
        .map(|record| {
            (
                (text(&record["resources"][0]), text(&record["event_id"])),
                text(&record["not_before"]),
            )
        })
        .unzip()
}

#[test]
fn each_of_two_watchers_approves_its_own_event_and_neither_starts_before_both_are_approved() {
    let server = pair(2, "1h");
    let folder = Folder::new();
    let mut first = watcher(&server, &folder, "web_0");
    first.record("an approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    let (ids, starts) = events(&first);
    assert_eq!(
        (ids.len(), starts.len()),
        (2, 1),
        "two events, one NotBefore"
    );
    // A start after an approval takes two seconds: nothing starts while the other machine waits.
    let polls = server.requests().len();
    eventually("ten further polls", || {
        (server.requests().len() >= polls + 10).then_some(())
    });
    assert!(
        !first
            .records()
            .iter()
            .any(|record| record["change"] == "started"),
        "{}",
        first.stdout()
    );
    assert_eq!(posts(&server).len(), 1);

    let second = watcher(&server, &folder, "web_1").finish().with_code(0);
    let first = first.finish().with_code(0);
    for (finished, own, other) in [(&first, "web_0", "web_1"), (&second, "web_1", "web_0")] {
        assert_eq!(finished.approved(), [ids[own].as_str()], "{own}");
        assert_eq!(
            finished.changes(&ids[own]),
            ["scheduled", "started", "completed"],
            "{own}"
        );
        assert_eq!(
            finished.changes(&ids[other]),
            ["scheduled", "started", "completed"],
            "{own}"
        );
    }
    let posted: Vec<_> = posts(&server).iter().flat_map(Request::ids).collect();
    assert_eq!(posted, [ids["web_0"].clone(), ids["web_1"].clone()]);
}

#[test]
fn of_a_scale_in_each_watcher_approves_one_event() {
    let server = pair(200, "1h");
    let folder = Folder::new();
    let names = ["web_7", "web_199"];
    let mut runs = names.map(|name| watcher(&server, &folder, name));
    for run in &mut runs {
        run.record("an approval", |record| {
            record["record"] == "approval" && record["status"] == 200
        });
    }
    let polls = server.requests().len();
    eventually("ten further polls", || {
        (server.requests().len() >= polls + 10).then_some(())
    });
    let (ids, starts) = events(&runs[0]);
    assert_eq!((ids.len(), starts.len()), (200, 1));
    let posted: BTreeSet<_> = posts(&server).iter().flat_map(Request::ids).collect();
    assert_eq!(posted, names.map(|name| ids[name].clone()).into());
    assert_eq!(posts(&server).len(), 2);
}

#[test]
fn what_is_not_approved_starts_at_its_not_before_and_nothing_extends_that_time() {
    // Five minutes of the scale set are five seconds here.
    let server = pair(2, "5min");
    let mut run = Run::watch(
        &server.url(),
        &["--vm-name", "web_0", "--policy", "observe", "--until-idle"],
    );
    for name in ["web_0", "web_1"] {
        run.record("an event", |record| {
            record["change"] == "scheduled" && record["resources"][0] == name
        });
    }
    let (ids, _) = events(&run);
    let not_before = |run: &Run| {
        let records = run.records();
        let start = records
            .iter()
            .find(|record| record["change"] == "scheduled")
            .expect("an event")["not_before"]
            .clone();
        UnixSeconds::parse(start.as_str().expect("a time")).expect("a time")
    };
    // A request has no member for a time: one that a client adds has no effect, and neither has an
    // approval of one of the two.
    let body = format!(
        "{{\"StartRequests\":[{{\"EventId\":\"{}\",\"NotBefore\":\"Mon, 11 Apr 2044 22:26:58 GMT\"}}]}}",
        ids["web_1"]
    );
    assert_eq!(post(&server, &body), 200);
    let announced = not_before(&run);
    let finished = run.finish().with_code(0);
    let records = finished.records();
    assert!(
        !records
            .iter()
            .any(|record| record["change"] == "rescheduled"),
        "{}",
        finished.stdout
    );
    let started = records
        .iter()
        .find(|record| record["change"] == "started")
        .expect("a start");
    let started = UnixSeconds::parse(started["time"].as_str().expect("a time")).expect("a time");
    assert!(
        started.since(announced) >= 0,
        "it starts at NotBefore, not before: {}",
        finished.stdout
    );
    assert_eq!(
        finished.changes(&ids["web_0"]),
        ["scheduled", "started", "completed"]
    );
}

/// Posts a body as a client does, and returns the status.
fn post(server: &Server, body: &str) -> u16 {
    use std::io::{Read, Write};

    let mut stream = std::net::TcpStream::connect(server.addr()).expect("the server");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a timeout");
    let head = "POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: 127.0.0.1\r\nMetadata: true\r\n";
    write!(
        stream,
        "{head}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status")
}
