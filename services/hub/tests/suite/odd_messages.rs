//! A queue whose answers have messages that are no XML, or have members that no queue writes.

use std::fs;
use std::io::{BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use scheduled_events_test_support::{TestServer, wait};

use crate::control::{Control, Request, read_request};
use crate::fixture::{Hub, event_id, message, resource};

/// The requests, without their queries.
type Requests = Arc<Mutex<Vec<String>>>;

/// Answers the first request for messages with these, and accepts all else.
fn queue(messages: String) -> (TestServer, Requests) {
    let (requests, list) = (Requests::default(), Mutex::new(Some(messages)));
    let seen = requests.clone();
    let server = TestServer::start(move |connection| {
        let mut reader = BufReader::new(&**connection);
        while let Some(Request { first, .. }) = read_request(&mut reader) {
            let is_get = first.starts_with("GET");
            let begin = first
                .split(['?', ' '])
                .take(2)
                .collect::<Vec<_>>()
                .join(" ");
            seen.lock().expect("no panic").push(begin);
            let messages = list.lock().expect("no panic").take_if(|_| is_get);
            let (status, body) = if is_get {
                let messages = messages.unwrap_or_default();
                (
                    200,
                    format!(
                        "<?xml version=\"1.0\"?><QueueMessagesList>{messages}</QueueMessagesList>"
                    ),
                )
            } else {
                (204, String::new())
            };
            let _ = write!(
                &**connection,
                "HTTP/1.1 {status} x\r\nx-ms-popreceipt: r\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    (server, requests)
}

#[test]
fn messages_that_are_no_xml_hide_none_that_comes_with_them() {
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    let element = |id: &str, time: &str, count: &str, text: &str| {
        format!(
            "<QueueMessage><MessageId>{id}</MessageId><InsertionTime>{time}</InsertionTime><PopReceipt>r</PopReceipt>\
             <DequeueCount>{count}</DequeueCount><MessageText>{text}</MessageText></QueueMessage>"
        )
    };
    let good = BASE64_STANDARD.encode(message(&machine, &id, "Scheduled", &["db"]).to_string());
    let messages = [
        element("control", "never", "1", "\u{1}&#1;"),
        element("nul", "Sun, 99 Xxx 2026", "2", "\0&#0;"),
        element("type", "", "", "&lt;!DOCTYPE x&gt;"),
        element("good", "today", "-1", &good),
    ];
    let (server, requests) = queue(messages.concat());
    let control = Control::start();
    let mut hub = Hub::new(&control.url(), None, "");
    let config = hub
        .read("hub.toml")
        .replace("source = \"graph\"", "source = \"queue\"")
        + &format!(
            "[queue]\nurl = \"{}/account/events\"\nsas_file = \"{}\"\n",
            server.url(),
            hub.path("sas").display()
        );
    fs::write(hub.path("hub.toml"), config).expect("written");
    fs::write(hub.path("sas"), "sv=2021-08-06&sp=rp&sig=x").expect("written");
    fs::set_permissions(hub.path("sas"), fs::Permissions::from_mode(0o600)).expect("set");
    hub.start();
    hub.await_hook(&format!("prepare-db-{id}"));
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    for name in ["control", "nul", "type", "good"] {
        let request = format!("DELETE /account/events/messages/{name}");
        wait::until(&request, || {
            let requests = requests.lock().expect("no panic");
            requests.contains(&request).then_some(())
        });
    }
    let is_set_aside = |record: &&serde_json::Value| record["record"] == "set-aside";
    assert_eq!(hub.records().iter().filter(is_set_aside).count(), 3);
}
