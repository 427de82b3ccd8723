//! Each target against its service: the real one where Debian has it, a strict fake elsewhere. The
//! first line of each fake states the facts that it is based on.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use serde_json::{Value, json};

use crate::audit_file::change;
use crate::receiver::{Answer, Received, Receiver};
use crate::support::{Fixture, wait_until};

/// Text that has a meaning in every target.
const HOSTILE: &str = "<!channel> <https://evil.example|x> & *b* _i_ [x](https://evil.example) {{DATE(2026-01-01T00:00:00Z,SHORT)}} \
                       {{ 7 * 7 }} <at>all</at> \u{202e}\u{1b}[2J\"\\ \n#";

fn hostile(kind: &str) -> Value {
    let mut record = change(kind, 1);
    for member in ["description", "event_type", "event_source"] {
        record[member] = HOSTILE.into();
    }
    record["resources"] = json!([HOSTILE, "WestNO_0"]);
    record
}

/// All strings of a JSON value.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(strings).collect(),
        Value::Object(members) => members.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

fn assert_is_safe_to_print(received: &Received) {
    for text in strings(&received.json()) {
        let is_unsafe =
            |char: char| char != '\n' && scheduled_events_core::record::is_unsafe_to_print(char);
        assert!(!text.contains(is_unsafe), "{text:?}");
    }
}

/// The members of an object, all of which must be known.
fn members<const N: usize>(value: &Value, known: [&str; N]) {
    for name in value.as_object().unwrap().keys() {
        assert!(known.contains(&name.as_str()), "the unknown member {name}");
    }
}

/// Imitates Slack's incoming webhooks. Held by Slack's reference of Block Kit: a section has text
/// of at most 3000 characters, a context at most 10 elements; `plain_text` has `text` and `emoji`;
/// `&`, `<` and `>` must be escaped; success is 200 with `ok`.
fn slack(received: &Received) -> Answer {
    let body = received.json();
    members(&body, ["text", "blocks", "unfurl_links", "unfurl_media"]);
    let plain = |text: &Value| {
        members(text, ["type", "text", "emoji"]);
        assert_eq!(
            (&text["type"], &text["emoji"]),
            (&"plain_text".into(), &false.into())
        );
        assert!((1..=3000).contains(&text["text"].as_str().unwrap().chars().count()));
    };
    for block in body["blocks"].as_array().unwrap() {
        match block["type"].as_str().unwrap() {
            "section" => {
                members(block, ["type", "text"]);
                plain(&block["text"]);
            }
            "context" => {
                members(block, ["type", "elements"]);
                let elements = block["elements"].as_array().unwrap();
                assert!((1..=10).contains(&elements.len()));
                elements.iter().for_each(plain);
            }
            other => panic!("the block {other}"),
        }
    }
    for text in strings(&body) {
        assert!(!text.contains(['<', '>']), "{text}");
        let escapes = ["amp;", "lt;", "gt;"];
        let is_escape = |rest: &str| escapes.iter().any(|escape| rest.starts_with(escape));
        assert!(text.split('&').skip(1).all(is_escape), "{text}");
    }
    Answer::with(200, "ok")
}

#[test]
fn slack_gets_what_people_want_to_know_and_reads_no_markup_in_it() {
    let fixture = Fixture::new();
    let server = Receiver::start(|received, _| Some(slack(received)));
    let url_file = fixture.write(
        "slack-url",
        &format!("{}\n", server.url("/services/T000/B000/sEcReT")),
    );
    fixture.configure(&format!(
        "[[relay.target]]\nname = \"slack\"\nkind = \"slack\"\nurl_file = {url_file:?}\n"
    ));
    let mut audit = fixture.audit();
    audit.append(&change("scheduled", 1));
    audit.append(&change("updated", 1));
    audit.append(
        &json!({"record": "prepare", "event_id": "x", "outcome": "failed", "event_type": "Reboot", "mine": true}),
    );
    audit.append(
        &json!({"record": "prepare", "event_id": "x", "outcome": "ready", "event_type": "Reboot", "mine": true}),
    );
    audit.append(&hostile("started"));
    let relay = fixture.start();
    let received = server.wait_for(3);
    relay.terminate();
    let texts: Vec<_> = received
        .iter()
        .map(|received| received.json()["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        texts[0],
        "Reboot scheduled on WestNO_0, not before 2026-11-22T22:26:58Z"
    );
    assert_eq!(texts[1], "Reboot on WestNO_0: preparation failed");
    assert!(texts[2].starts_with("&lt;!channel&gt; "), "{}", texts[2]);
    received.iter().for_each(assert_is_safe_to_print);
    assert_eq!(received.len(), 3);
    assert_eq!(received[0].target, "/services/T000/B000/sEcReT");
    assert_eq!(fixture.log(), "");
}

/// Imitates a workflow of Teams that a webhook starts. Held by Microsoft's description of its body,
/// one adaptive card in `attachments`, by the used part of the schema of adaptive cards 1.4, by the
/// limit of 28 KB, and by the answer 202.
fn teams(received: &Received) -> Answer {
    assert!(received.body.len() <= 28 * 1024, "{}", received.body.len());
    let body = received.json();
    members(&body, ["type", "attachments"]);
    assert_eq!(body["type"], "message");
    let [attachment] = body["attachments"].as_array().unwrap().as_slice() else {
        panic!("one attachment")
    };
    members(attachment, ["contentType", "contentUrl", "content"]);
    assert_eq!(
        attachment["contentType"],
        "application/vnd.microsoft.card.adaptive"
    );
    let card = &attachment["content"];
    members(card, ["$schema", "type", "version", "body"]);
    assert_eq!(
        (&card["type"], &card["version"]),
        (&"AdaptiveCard".into(), &"1.4".into())
    );
    for element in card["body"].as_array().unwrap() {
        // A TextBlock interprets Markdown.
        members(element, ["type", "inlines", "spacing"]);
        assert_eq!(element["type"], "RichTextBlock");
        for run in element["inlines"].as_array().unwrap() {
            members(run, ["type", "text", "weight"]);
            assert_eq!(run["type"], "TextRun");
            assert!(!run["text"].as_str().unwrap().contains("{{"), "{run}");
        }
    }
    Answer::status(202)
}

#[test]
fn teams_gets_cards_without_markdown() {
    let fixture = Fixture::new();
    let server = Receiver::start(|received, count| {
        let answer = teams(received);
        let refused = "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429 with";
        Some(if count == 0 {
            Answer::with(200, refused)
        } else {
            answer
        })
    });
    let url_file = fixture.write("teams-url", &server.url("/workflows/x?sig=sEcReT"));
    fixture.configure(&format!(
        "[[relay.target]]\nname = \"teams\"\nkind = \"teams\"\nurl_file = {url_file:?}\n"
    ));
    let mut audit = fixture.audit();
    let mut large = hostile("scheduled");
    // About the longest line that a watcher writes.
    large["description"] = "\u{202e}<b>".repeat(10_000).into();
    large["resources"] = vec!["\u{202e}".repeat(1000); 300].into();
    audit.append(&change("scheduled", 1));
    audit.append(&large);
    let relay = fixture.start();
    // The first one twice: its 200 was no success.
    let received = server.wait_for(3);
    relay.terminate();
    assert_eq!(received[0].body, received[1].body);
    received.iter().for_each(assert_is_safe_to_print);
    let card = received[1].json()["attachments"][0]["content"].to_string();
    assert!(
        card.contains("Reboot scheduled on WestNO_0, not before 2026-11-22T22:26:58Z"),
        "{card}"
    );
}

/// Imitates PagerDuty's Events API, version 2. Held by its reference: the required members, the
/// words of `event_action` and `severity`, at most 255 characters in `dedup_key` and 1024 in
/// `summary`; 202 with `status`; one alert for each key, which `resolve` closes, and which a later
/// `trigger` opens again.
struct PagerDuty {
    alerts: Mutex<BTreeMap<String, bool>>,
}

impl PagerDuty {
    fn answer(&self, received: &Received) -> Answer {
        assert_eq!(
            (received.method.as_str(), received.target.as_str()),
            ("POST", "/v2/enqueue")
        );
        let body = received.json();
        members(
            &body,
            [
                "routing_key",
                "event_action",
                "dedup_key",
                "payload",
                "client",
            ],
        );
        if body["routing_key"] != "0123456789abcdef0123456789abcdef" {
            return Answer::with(400, "{\"status\":\"invalid event\"}");
        }
        let key = body["dedup_key"].as_str().unwrap();
        assert!((1..=255).contains(&key.chars().count()), "{key}");
        let is_open = match body["event_action"].as_str().unwrap() {
            "trigger" => {
                let payload = &body["payload"];
                members(
                    payload,
                    [
                        "summary",
                        "source",
                        "severity",
                        "timestamp",
                        "component",
                        "class",
                        "custom_details",
                    ],
                );
                assert!((1..=1024).contains(&payload["summary"].as_str().unwrap().chars().count()));
                assert!(!payload["source"].as_str().unwrap().is_empty());
                assert!(
                    ["critical", "error", "warning", "info"]
                        .contains(&payload["severity"].as_str().unwrap())
                );
                true
            }
            "resolve" => false,
            other => panic!("the action {other}"),
        };
        self.alerts.lock().unwrap().insert(key.to_owned(), is_open);
        Answer::with(
            202,
            "{\"status\":\"success\",\"message\":\"Event processed\"}",
        )
    }
}

#[test]
fn pagerduty_has_one_alert_for_an_event_of_several_machines_and_resolves_it() {
    let pager_duty: &'static PagerDuty = Box::leak(Box::new(PagerDuty {
        alerts: Mutex::default(),
    }));
    let server = Receiver::start(|received, _| Some(pager_duty.answer(received)));
    let machines: Vec<_> = (0..2)
        .map(|number| {
            let fixture = Fixture::new();
            let key = fixture.write("key", "0123456789abcdef0123456789abcdef\n");
            let url = server.url("/v2/enqueue");
            fixture.configure(&format!(
                "[[relay.target]]\nname = \"pager\"\nkind = \"pagerduty\"\nurl = {url:?}\nkey_file = {key:?}\n"
            ));
            let mut audit = fixture.audit();
            let mut record = change("scheduled", 7);
            if number == 1 {
                // Ids are compared without case.
                record["event_id"] = record["event_id"].as_str().unwrap().to_uppercase().into();
            }
            audit.append(&record);
            let relay = fixture.start();
            (fixture, audit, relay)
        })
        .collect();
    server.wait_for(2);
    let alerts = || pager_duty.alerts.lock().unwrap().clone();
    let key = "azure-scheduled-event/00000000-0000-4000-8000-000000000007".to_owned();
    assert_eq!(alerts(), BTreeMap::from([(key.clone(), true)]));
    let mut machines = machines;
    machines[0].1.append(&change("started", 7));
    machines[0].1.append(&change("completed", 7));
    server.wait_for(4);
    assert_eq!(alerts(), BTreeMap::from([(key, false)]));
    machines[1].1.append(&hostile("started-without-notice"));
    let received = server.wait_for(5);
    received.iter().for_each(assert_is_safe_to_print);
    assert_eq!(received[4].json()["payload"]["severity"], "critical");
}

/// Debian's Alertmanager, with its data in the test's folder, which sends its notifications to
/// `server`.
struct Alertmanager {
    process: Child,
    url: String,
}

impl Alertmanager {
    fn start(fixture: &Fixture, server: &Receiver, listen: &str) -> Self {
        let configuration = format!(
            "route:\n  receiver: test\n  group_by: [event_id]\n  group_wait: 0s\n  group_interval: 1s\n\
             receivers:\n- name: test\n  webhook_configs:\n  - url: {}\n    send_resolved: true\n",
            server.url("/notified")
        );
        let file = fixture.write("alertmanager.yml", &configuration);
        let mut process = Command::new("prometheus-alertmanager")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.path={}",
                fixture.path("alertmanager").display()
            ))
            .args([
                &format!("--web.listen-address={listen}"),
                "--cluster.listen-address=",
                "--log.format=json",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("prometheus-alertmanager: install Debian's package of that name");
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line: Value = serde_json::from_str(&line.ok()?).ok()?;
            (line["msg"] == "Listening on").then(|| line["address"].as_str().unwrap().to_owned())
        });
        thread::spawn(move || lines.for_each(drop));
        Self {
            process,
            url: format!("http://{}", address.expect("an address")),
        }
    }

    /// Its alerts.
    fn alerts(&self) -> Vec<Value> {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).unwrap();
        stream
            .write_all(b"GET /api/v2/alerts HTTP/1.0\r\nHost: x\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(" 200 "), "{head}");
        serde_json::from_str(body).unwrap()
    }
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn alertmanager_notifies_about_open_events_resolves_those_that_are_over_and_learns_again_what_it_forgot()
 {
    let fixture = Fixture::new();
    let server = Receiver::accepting();
    let manager = Alertmanager::start(&fixture, &server, "127.0.0.1:0");
    let url = manager.url.clone();
    fixture.configure(&format!(
        "[[relay.target]]\nname = \"alerts\"\nkind = \"alertmanager\"\nurl = {url:?}\n"
    ));
    let mut audit = fixture.audit();
    let relay = fixture.start();
    audit.append(&change("scheduled", 1));
    let mut second = hostile("scheduled");
    second["event_id"] = "00000000-0000-4000-8000-000000000002".into();
    audit.append(&second);
    server.wait("two alerts", |received| received.len() >= 2);
    let alerts = manager.alerts();
    assert_eq!(alerts.len(), 2);
    let alert = alerts
        .iter()
        .find(|alert| alert["labels"]["event_type"] == "Reboot")
        .unwrap();
    assert_eq!(
        alert["labels"],
        json!({
            "alertname": "ScheduledEvent", "instance": "WestNO_0", "event_type": "Reboot", "event_source": "User",
            "event_id": "00000000-0000-4000-8000-000000000001", "severity": "warning",
        })
    );
    assert_eq!(
        alert["annotations"]["summary"],
        "Reboot scheduled on WestNO_0"
    );
    assert_eq!(alert["annotations"]["not_before"], "2026-11-22T22:26:58Z");
    // An event that started and ended at once is no longer an alert.
    audit.append(&change("started", 1));
    audit.append(&change("completed", 1));
    server.wait("a resolved alert", |received| {
        received.iter().any(|received| {
            let body = received.json();
            body["status"] == "resolved"
                && body["groupLabels"]["event_id"] == "00000000-0000-4000-8000-000000000001"
        })
    });
    wait_until("one alert", || manager.alerts().len() == 1);
    // Alertmanager restarts, and forgets. The relay restarts, too, and first repeats the open
    // events.
    let address = url.trim_start_matches("http://").to_owned();
    drop(manager);
    relay.kill();
    let manager = Alertmanager::start(&fixture, &server, &address);
    assert!(manager.alerts().is_empty());
    let relay = fixture.start();
    wait_until("the open event", || manager.alerts().len() == 1);
    assert_eq!(
        manager.alerts()[0]["labels"]["event_id"],
        "00000000-0000-4000-8000-000000000002"
    );
    relay.terminate();
}

/// The spans of all received requests.
fn spans(received: &[Received]) -> Vec<(String, opentelemetry_proto::tonic::trace::v1::Span)> {
    let requests = received
        .iter()
        .filter(|received| received.target == "/v1/traces");
    let requests = requests.map(|received| {
        serde_json::from_slice::<ExportTraceServiceRequest>(&received.body).unwrap()
    });
    let mut spans = Vec::new();
    for resource in requests.flat_map(|request| request.resource_spans) {
        let attributes = resource.resource.unwrap().attributes;
        let host = attributes
            .iter()
            .find(|attribute| attribute.key == "host.name")
            .unwrap()
            .value
            .clone();
        let Some(AnyValue::StringValue(host)) = host.unwrap().value else {
            panic!("no text")
        };
        let found = resource
            .scope_spans
            .into_iter()
            .flat_map(|scope| scope.spans);
        spans.extend(found.map(|span| (host.clone(), span)));
    }
    spans
}

#[test]
fn opentelemetry_gets_logs_and_one_trace_for_an_event_of_several_machines() {
    // A receiver of OpenTelemetry's protocol, version 1: it decodes bodies with the types of
    // opentelemetry-proto.
    let server = Receiver::start(|received, count| {
        assert_eq!(received.header("content-type"), Some("application/json"));
        Some(match count {
            0 => Answer::status(503),
            1 => Answer::with(
                200,
                r#"{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"too old\n"}}"#,
            ),
            _ => Answer::with(200, "{}"),
        })
    });
    let mut fixtures = Vec::new();
    for number in 0..2 {
        let fixture = Fixture::new();
        fixture.configure(&format!(
            "[[relay.target]]\nname = \"otlp\"\nkind = \"otlp\"\nurl = {:?}\n",
            server.url("")
        ));
        let text = fs::read_to_string(fixture.path("fleet.toml")).unwrap();
        fixture.write(
            "fleet.toml",
            &text.replace("\"WestNO_0\"", &format!("\"WestNO_{number}\"")),
        );
        let mut audit = fixture.audit();
        let at = |record: &mut Value, time: &str| record["time"] = time.into();
        for (kind, time) in [
            ("scheduled", "22:20:59"),
            ("started", "22:27:00"),
            ("completed", "22:29:30"),
        ] {
            let mut record = change(kind, 7);
            at(&mut record, &format!("2026-11-22T{time}Z"));
            audit.append(&record);
        }
        // The clock steps back while an event is open.
        let mut record = hostile("scheduled");
        at(&mut record, "2026-11-22T22:20:59Z");
        audit.append(&record);
        let mut record = hostile("cancelled");
        at(&mut record, "2026-11-22T20:00:00Z");
        audit.append(&record);
        let relay = fixture.start();
        server.wait("two spans of each event", |received| {
            let count = spans(received)
                .iter()
                .filter(|(host, _)| host == &format!("WestNO_{number}"))
                .count();
            count == 5
        });
        relay.terminate();
        fixtures.push(fixture);
    }
    let spans = spans(&server.accepted());
    let trace = [0, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 7];
    let event: Vec<_> = spans
        .iter()
        .filter(|(_, span)| span.trace_id == trace)
        .collect();
    let mut ids: Vec<_> = event.iter().map(|(_, span)| span.span_id.clone()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6, "three spans of each machine");
    for host in ["WestNO_0", "WestNO_1"] {
        let own = |name: &str| {
            &event
                .iter()
                .find(|(found, span)| found == host && span.name == name)
                .unwrap()
                .1
        };
        let (whole, notice, interruption) = (own("Reboot"), own("notice"), own("interruption"));
        assert!(whole.parent_span_id.is_empty());
        assert_eq!(
            (&notice.parent_span_id, &interruption.parent_span_id),
            (&whole.span_id, &whole.span_id)
        );
        let seconds = |span: &opentelemetry_proto::tonic::trace::v1::Span| {
            (span.end_time_unix_nano - span.start_time_unix_nano) / 1_000_000_000
        };
        assert_eq!(
            (seconds(whole), seconds(notice), seconds(interruption)),
            (511, 361, 150)
        );
        let steps: Vec<_> = whole
            .events
            .iter()
            .map(|event| event.name.as_str())
            .collect();
        assert_eq!(
            steps,
            ["change.scheduled", "change.started", "change.completed"]
        );
    }
    assert!(
        spans
            .iter()
            .all(|(_, span)| span.end_time_unix_nano >= span.start_time_unix_nano)
    );
    let logs: Vec<_> = server
        .accepted()
        .into_iter()
        .filter(|received| received.target == "/v1/logs")
        .collect();
    let decoded: ExportLogsServiceRequest = serde_json::from_slice(&logs[0].body).unwrap();
    let record = &decoded.resource_logs[0].scope_logs[0].log_records[0];
    assert_eq!(
        (record.trace_id.as_slice(), record.time_unix_nano),
        (&trace[..], 1_795_386_059_000_000_000)
    );
    assert_eq!(record.event_name, "azure.scheduled_event.change");
    let Some(AnyValue::StringValue(body)) = &record.body.as_ref().unwrap().value else {
        panic!("no text")
    };
    assert_eq!(
        body,
        "Reboot scheduled on WestNO_0, not before 2026-11-22T22:26:58Z"
    );
    let log = fixtures[0].log();
    assert!(
        log.contains("rejected a part: its own log has the reason"),
        "{log}"
    );
}

/// Imitates an Event Hub and the metadata service's tokens. Held by Microsoft's reference of "Send
/// event": POST to `/HUB/messages` with an api-version, the content type, `BrokerProperties` in
/// JSON, a bearer token; 201 on success, 401 for an invalid token; and by that of managed
/// identities: GET with `Metadata: true`, api-version 2018-02-01, a resource, numbers as strings.
#[derive(Default)]
struct EventHub {
    tokens: Mutex<u32>,
}

impl EventHub {
    fn answer(&self, received: &Received) -> Answer {
        let (path, query) = received.target.split_once('?').unwrap();
        let query: BTreeMap<_, _> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let mut tokens = self.tokens.lock().unwrap();
        if path == "/metadata/identity/oauth2/token" {
            assert_eq!(
                (received.method.as_str(), received.header("metadata")),
                ("GET", Some("true"))
            );
            assert_eq!(query["api-version"], "2018-02-01");
            assert_eq!(query["resource"], "https%3A%2F%2Feventhubs.azure.net");
            assert_eq!(query["client_id"], "5f3c1e9a");
            *tokens += 1;
            if *tokens == 1 {
                return Answer::with(429, "{\"error\":\"too_many_requests\"}");
            }
            let body = json!({"access_token": format!("eyJ0.sEcReT.{tokens}"), "expires_in": "86399", "token_type": "Bearer"});
            return Answer::with(200, &body.to_string());
        }
        assert_eq!((received.method.as_str(), path), ("POST", "/hub/messages"));
        assert_eq!(query["api-version"], "2014-01");
        assert_eq!(
            received.header("content-type"),
            Some("application/atom+xml;type=entry;charset=utf-8")
        );
        let properties: Value =
            serde_json::from_str(received.header("brokerproperties").unwrap()).unwrap();
        assert_eq!(properties, json!({"PartitionKey": "WestNO_0"}));
        let authorization = received.header("authorization").unwrap();
        // The second token is revoked with the third record.
        let is_revoked =
            authorization.ends_with(".2") && received.json()["sequence"].as_u64() >= Some(3);
        let is_valid = authorization.starts_with("Bearer eyJ0.sEcReT.") && !is_revoked;
        Answer::with(
            if is_valid { 201 } else { 401 },
            if is_valid { "" } else { authorization },
        )
    }
}

#[test]
fn an_event_hub_gets_every_record_with_the_token_of_the_managed_identity() {
    let fixture = Fixture::new();
    let hub = EventHub::default();
    let server = Receiver::start(move |received, _| Some(hub.answer(received)));
    let (url, metadata) = (server.url("/hub"), server.url("/"));
    fixture.configure(&format!(
        "[[relay.target]]\nname = \"hub\"\nkind = \"event-hubs\"\nurl = {url:?}\nclient_id = \"5f3c1e9a\"\n"
    ));
    let text = fs::read_to_string(fixture.path("fleet.toml")).unwrap();
    fixture.write("fleet.toml", &format!("metadata = {metadata:?}\n{text}"));
    let mut audit = fixture.audit();
    audit.append(&change("scheduled", 1));
    audit.append(
        &json!({"record": "poll-failed", "cause": "timeout", "retry_in_ms": 1000, "time": "2026-11-22T22:20:59Z"}),
    );
    audit.append(&hostile("started"));
    let relay = fixture.start();
    server.wait("three records", |received| {
        received
            .iter()
            .filter(|received| received.status == 201)
            .count()
            == 3
    });
    relay.terminate();
    let accepted = server.accepted();
    let records: Vec<_> = accepted
        .iter()
        .filter(|received| received.status == 201)
        .map(Received::json)
        .collect();
    let sequences: Vec<_> = records
        .iter()
        .map(|record| record["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(sequences, [1, 2, 3]);
    assert!(records.iter().all(|record| record["machine"] == "WestNO_0"));
    let tokens = accepted
        .iter()
        .filter(|received| received.method == "GET")
        .count();
    assert_eq!(tokens, 2, "a token is kept until it is refused");
    let log = fixture.log();
    assert!(
        log.contains("status 401") && log.contains("status 429") && !log.contains("sEcReT"),
        "{log}"
    );
}
