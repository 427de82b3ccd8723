//! The body and the headers of a webhook's requests.

use base64::Engine as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use scheduled_events_test_support::wait;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::audit_file::change;
use crate::receiver::{Received, Receiver};
use crate::support::{Fixture, target, wait_until};

/// Sends one record with these settings, and returns the request.
fn send(settings: &str, template: &str, record: &Value) -> Received {
    let fixture = Fixture::new();
    let server = Receiver::accepting();
    fixture.write("template", template);
    fixture.write("key", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let settings = settings.replace(
        "FOLDER",
        fixture.path("").to_str().unwrap().trim_end_matches('/'),
    );
    fixture.configure(&target("hook", "webhook", &server.url("/"), &settings));
    fixture.audit().append(record);
    let relay = fixture.start();
    let received = server.wait_for(1).remove(0);
    relay.terminate();
    received
}

fn hostile() -> Value {
    let mut record = change("scheduled", 1);
    record["description"] = "\"}, {{ 7 * 7 }} <script>alert(1)</script> &\u{202e}".into();
    record
}

#[test]
fn a_cloud_event_has_the_attributes_that_the_specification_requires() {
    let received = send("format = \"cloudevents\"", "", &hostile());
    // CloudEvents 1.0.2, JSON event format, structured mode.
    assert_eq!(
        received.header("content-type"),
        Some("application/cloudevents+json")
    );
    let event = received.json();
    let id = event["id"].as_str().unwrap();
    assert_eq!(received.header("webhook-id"), Some(id));
    let mut data = hostile();
    data["sequence"] = 1.into();
    data["machine"] = "WestNO_0".into();
    let expected = json!({
        "specversion": "1.0", "id": id, "source": "/scheduled-events/WestNO_0", "type": "scheduled-events.change.scheduled",
        "subject": "00000000-0000-4000-8000-000000000001", "time": "2026-11-22T22:20:59Z",
        "datacontenttype": "application/json", "data": data,
    });
    assert_eq!(event, expected);
    assert!(id.starts_with("1-") && id.len() == 18, "{id}");
}

#[test]
fn a_signature_covers_the_id_the_time_and_the_body() {
    let received = send("key_file = \"FOLDER/key\"", "", &hostile());
    // Standard Webhooks 1.0: base64 of HMAC-SHA256 over `id.timestamp.body`.
    let key = base64::engine::general_purpose::STANDARD
        .decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        .unwrap();
    let (id, timestamp) = (
        received.header("webhook-id").unwrap(),
        received.header("webhook-timestamp").unwrap(),
    );
    let signature = received
        .header("webhook-signature")
        .unwrap()
        .strip_prefix("v1,")
        .unwrap();
    let signature = base64::engine::general_purpose::STANDARD
        .decode(signature)
        .unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(
        [
            id.as_bytes(),
            b".",
            timestamp.as_bytes(),
            b".",
            &received.body,
        ]
        .concat()
        .as_slice(),
    );
    mac.verify_slice(&signature).unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    assert!(
        timestamp.parse::<u64>().unwrap().abs_diff(now) < 120,
        "{timestamp}"
    );
}

#[test]
fn a_template_escapes_event_text_for_its_type() {
    let json = r#"{"text": {{ headline }}, "about": {{ description }}, "missing": {{ nothing.at.all }}, "on": {{ machine }}}"#;
    let received = send("template = \"FOLDER/template\"", json, &hostile());
    assert_eq!(received.header("content-type"), Some("application/json"));
    let expected = json!({
        "text": "Reboot scheduled on WestNO_0, not before 2026-11-22T22:26:58Z",
        "about": hostile()["description"], "missing": null, "on": "WestNO_0",
    });
    assert_eq!(received.json(), expected);

    let html = "template = \"FOLDER/template\"\ncontent_type = \"text/html; charset=utf-8\"";
    let received = send(
        html,
        "<p>{{ description }}{% if mine %}!{% endif %}</p>",
        &hostile(),
    );
    let body = String::from_utf8(received.body.clone()).unwrap();
    assert_eq!(
        received.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(
        body.contains("&lt;script&gt;") && !body.contains("<script") && body.ends_with("!</p>"),
        "{body}"
    );
    assert!(
        body.contains("{{ 7 * 7 }}"),
        "event text is no template: {body}"
    );
}

#[test]
fn a_template_that_fails_or_never_ends_holds_up_nothing() {
    let fixture = Fixture::new();
    let server = Receiver::accepting();
    fixture.write(
        "loop",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    );
    fixture.write("invalid", "{ {{ description }} }");
    let path = |name: &str| format!("template = {:?}", fixture.path(name));
    let targets = [
        target("loop", "webhook", &server.url("/loop"), &path("loop")),
        target(
            "invalid",
            "webhook",
            &server.url("/invalid"),
            &path("invalid"),
        ),
        target("hook", "webhook", &server.url("/"), ""),
    ];
    fixture.configure(&targets.concat());
    let mut audit = fixture.audit();
    audit.append(&hostile());
    audit.append(&change("started", 1));
    let relay = fixture.start();
    server.wait_for(2);
    let kept = |name: &str| {
        std::fs::read_to_string(fixture.path("state").join(format!("{name}.rejected")))
            .unwrap_or_default()
    };
    wait_until("all records", || {
        kept("loop").lines().count() == 2 && kept("invalid").lines().count() == 2
    });
    relay.terminate();
    assert!(
        server
            .received()
            .iter()
            .all(|received| received.target == "/")
    );
    let log = fixture.log();
    assert!(
        log.contains("the template fails") && log.contains("makes no valid JSON"),
        "{log}"
    );
    // A template with an error is refused at the start.
    fixture.write("loop", "{% for %}");
    let output = wait::output(&mut fixture.command());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && error.contains("loop: syntax error"),
        "{error}"
    );
}
