//! Secrets: where they are sent, and that no log contains them.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::CertifiedKey;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use scheduled_events_test_support::{TestServer, wait};

use crate::audit_file::change;
use crate::receiver::{Answer, Receiver};
use crate::support::{Fixture, target};

const SECRETS: [&str; 5] = [
    "pathsecret",
    "hs",
    "0123456789routingkey",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "p4ss w0rd+/=1",
];

/// The forms in which a server may repeat a secret; of a short one none, since its forms are parts
/// of other words.
fn encoded(secret: &str) -> Vec<String> {
    if secret.len() < 8 {
        return Vec::new();
    }
    let percent = |text: &str| {
        let encode = |byte: u8| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        text.bytes().map(encode).collect::<String>()
    };
    let hexadecimal = secret.bytes().map(|byte| format!("{byte:02x}"));
    let every_byte = secret.bytes().map(|byte| format!("%{byte:02X}"));
    vec![
        BASE64_STANDARD.encode(secret),
        BASE64_STANDARD.encode(format!("k:{secret}")),
        hexadecimal.collect(),
        every_byte.collect(),
        percent(secret),
        percent(&percent(secret)),
    ]
}

#[test]
fn no_log_and_no_state_has_a_secret_even_if_answers_repeat_it() {
    let fixture = Fixture::new();
    // An answer that repeats the whole request, as some error pages do.
    let server = Receiver::start(|received, _| {
        let body = String::from_utf8_lossy(&received.body);
        let mut text = format!("cannot POST {} {body}", received.target);
        text.extend(
            received
                .headers
                .iter()
                .map(|(name, value)| format!(" {name}={value}")),
        );
        // And in other forms, first.
        let sent = SECRETS.into_iter().filter(|secret| text.contains(secret));
        let forms: Vec<_> = sent.flat_map(encoded).collect();
        let text = format!("{} {text}", forms.join(" "));
        Some(Answer::with(500, &text))
    });
    let secrets = SECRETS;
    let url = fixture.write(
        "url",
        &server.url(&format!("/{}?sig={}", secrets[0], secrets[0])),
    );
    let header = fixture.write("header", secrets[1]);
    let routing_key = fixture.write("routing", secrets[2]);
    let signing_key = fixture.write("signing", secrets[3]);
    let password = fixture.write("password", secrets[4]);
    let with_url = |name: &str, kind: &str, more: &str| {
        format!("[[relay.target]]\nname = {name:?}\nkind = {kind:?}\nurl_file = {url:?}\n{more}\n")
    };
    let header = format!("header_files = {{ x-key = {header:?} }}");
    let targets = [
        with_url("slack", "slack", &header),
        with_url("teams", "teams", ""),
        with_url(
            "hook",
            "webhook",
            &format!("header_files = {{ x-pass = {password:?} }}\nkey_file = {signing_key:?}"),
        ),
        target(
            "pager",
            "pagerduty",
            &server.url("/"),
            &format!("key_file = {routing_key:?}"),
        ),
    ];
    fixture.configure(&targets.concat());
    fixture.audit().append(&change("scheduled", 1));
    let relay = fixture.start();
    for name in ["slack", "teams", "hook", "pager"] {
        relay.wait_for_log(&format!(
            "target {name}: cannot deliver, and tries again: status 500 Internal Server Error\n"
        ));
    }
    relay.terminate();
    let mut texts = fixture.log();
    for entry in fs::read_dir(fixture.path("state")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o077,
            0,
            "{}",
            path.display()
        );
        texts += &fs::read_to_string(path).unwrap();
    }
    for secret in secrets {
        let shown =
            texts.contains(&format!("={secret}")) || (secret.len() > 2 && texts.contains(secret));
        assert!(!shown, "{secret} in {texts}");
        for form in encoded(secret) {
            assert!(!texts.contains(&form), "{form} of {secret} in {texts}");
        }
    }
}

#[test]
fn an_answer_is_logged_only_if_it_is_a_known_word_of_slack() {
    let server = Receiver::start(|received, _| {
        Some(match received.target.as_str() {
            "/known" => Answer::with(404, "no_service\n"),
            "/unknown" => Answer::with(404, "no_service_of_s3cret"),
            _ => Answer::with(
                200,
                r#"{"partialSuccess":{"rejectedLogRecords":1,"errorMessage":"s3cret is too old"}}"#,
            ),
        })
    });
    let fixture = Fixture::new();
    let targets = [
        target("known", "slack", &server.url("/known"), ""),
        target("unknown", "slack", &server.url("/unknown"), ""),
        target("otlp", "otlp", &server.url(""), ""),
    ];
    fixture.configure(&targets.concat());
    fixture.audit().append(&change("scheduled", 1));
    let relay = fixture.start();
    let tries = "cannot deliver, and tries again: status 404 Not Found";
    relay.wait_for_log(&format!("target known: {tries}: no_service\n"));
    relay.wait_for_log(&format!("target unknown: {tries}\n"));
    relay.wait_for_log("rejected a part: its own log has the reason\n");
    relay.terminate();
    assert!(!fixture.log().contains("s3cret"), "{}", fixture.log());
}

#[test]
fn a_secret_that_is_missing_or_would_be_sent_in_the_clear_is_refused_at_the_start() {
    let fixture = Fixture::new();
    let url = fixture.write("url", "http://192.0.2.1/secret");
    let key = fixture.write("key", "two\nlines");
    let from = |file: &std::path::Path| format!("url_file = {file:?}");
    let kind = |kind: &str, more: &str| {
        format!("[[relay.target]]\nname = \"x\"\nkind = {kind:?}\n{more}\n")
    };
    for (target, expected) in [
        (
            kind("slack", &from(&url)),
            "the address begins with `http`, and the request has a secret: expected `https`",
        ),
        (
            kind("slack", &from(&fixture.path("none"))),
            "cannot read the secret",
        ),
        (
            kind("slack", "url_file = \"slack-url\""),
            "names a systemd credential, and CREDENTIALS_DIRECTORY is not set",
        ),
        (kind("webhook", ""), "expected `url` or `url_file`"),
        (
            kind("webhook", "url = \"https://a:b@example.com/\""),
            "the address has a user or a password",
        ),
        (
            kind(
                "webhook",
                "url = \"https://example.com/\"\nclient_id = \"x\"",
            ),
            "`client_id` has no effect",
        ),
        (
            kind(
                "webhook",
                "url = \"https://example.com/\"\nrecords = [\"chang\"]",
            ),
            "found \"chang\" in `records`",
        ),
        (kind("pagerduty", ""), "expected `key_file`"),
        (
            kind("pagerduty", &format!("key_file = {key:?}")),
            "is no secret: expected one line",
        ),
        (
            kind("pagerduty", "key_file = \"/dev/zero\""),
            "is no secret",
        ),
        (
            kind(
                "alertmanager",
                "url = \"http://example.com\"\nrecords = [\"change\"]",
            ),
            "`records` has no effect",
        ),
        (
            kind("event-hubs", "url = \"http://example.com/hub\""),
            "expected `https`",
        ),
        (
            kind("otlp", "url = \"http://example.com\"\nsignals = []"),
            "`signals` is empty",
        ),
        (
            kind(
                "webhook",
                "url = \"https://example.com/\"\nca = \"/dev/null\"",
            ),
            "has no certificate",
        ),
    ] {
        fixture.configure(&target);
        let output = wait::output(fixture.command().env_remove("CREDENTIALS_DIRECTORY"));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        // With 2 the unit does not start it again. A file may appear.
        let code = if expected.starts_with("cannot read") {
            1
        } else {
            2
        };
        assert_eq!(output.status.code(), Some(code), "{target}: {error}");
        assert!(
            error.starts_with("error: ") && error.contains(expected),
            "{target}: {error}"
        );
    }
}

#[test]
fn a_secret_can_be_a_systemd_credential_and_be_replaced_while_the_relay_runs() {
    let fixture = Fixture::new();
    let server = Receiver::start(|received, _| {
        Some(Answer::status(
            if received.header("authorization") == Some("Bearer new") {
                200
            } else {
                401
            },
        ))
    });
    fixture.write("token", "Bearer old\n");
    fixture.configure(&target(
        "hook",
        "webhook",
        &server.url("/"),
        "header_files = { Authorization = \"token\" }",
    ));
    fixture.audit().append(&change("scheduled", 1));
    let mut command = fixture.command();
    let child = command
        .env("CREDENTIALS_DIRECTORY", fixture.path("."))
        .stderr(fs::File::create(fixture.path("log")).unwrap());
    let mut child = child.spawn().unwrap();
    server.wait_for(1);
    fixture.write("token", "Bearer new\n");
    server.wait("success", |received| {
        received.iter().any(|received| received.status == 200)
    });
    child.kill().unwrap();
    wait::ended(&mut child);
    assert!(!fixture.log().contains("old"), "{}", fixture.log());
}

/// A server with TLS and this certificate, which counts its requests.
pub(crate) fn tls_server(
    certified: &CertifiedKey<rcgen::KeyPair>,
) -> (TestServer, Arc<AtomicUsize>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let server = TestServer::start(move |connection| {
        let mut stream = StreamOwned::new(
            ServerConnection::new(Arc::clone(&config)).unwrap(),
            &**connection,
        );
        let mut length = 0;
        let mut reader = BufReader::new(&mut stream);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        if length > 0 && reader.read_exact(&mut vec![0; length]).is_ok() {
            counter.fetch_add(1, Ordering::SeqCst);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    (server, count)
}

#[test]
fn certificates_are_verified() {
    let fixture = Fixture::new();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (server, count) = tls_server(&certified);
    let other = rcgen::generate_simple_self_signed(["example.com".to_owned()]).unwrap();
    let (other_server, other_count) = tls_server(&other);
    let [url, other_url] = [&server, &other_server]
        .map(|server| format!("https://localhost:{}/", server.address().port()));
    let ca = fixture.write("ca.pem", &(certified.cert.pem() + &other.cert.pem()));
    let targets = [
        target("unknown", "webhook", &url, ""),
        target("other-name", "webhook", &other_url, &format!("ca = {ca:?}")),
        target("known", "webhook", &url, &format!("ca = {ca:?}")),
    ];
    fixture.configure(&targets.concat());
    fixture.audit().append(&change("scheduled", 1));
    let relay = fixture.start();
    relay.wait_for_log("target unknown: cannot deliver");
    relay.wait_for_log("target other-name: cannot deliver");
    crate::support::wait_until("the request", || count.load(Ordering::SeqCst) == 1);
    relay.terminate();
    assert_eq!(
        (
            count.load(Ordering::SeqCst),
            other_count.load(Ordering::SeqCst)
        ),
        (1, 0)
    );
    assert!(fixture.log().contains("certificate"), "{}", fixture.log());
}
