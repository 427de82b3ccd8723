//! The proxy of a configuration, tested with a real one: it forwards requests and opens tunnels.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use scheduled_events_test_support::{TestServer, wait};

use crate::audit_file::change;
use crate::receiver::{Answer, Receiver};
use crate::secrets::tls_server;
use crate::support::{Fixture, target, wait_until};

/// `fleet:pr0xysecret` in base64.
const CREDENTIALS: &str = "Basic ZmxlZXQ6cHIweHlzZWNyZXQ=";

/// A proxy that resolves each name to one server, and refuses requests without its credentials.
struct HttpProxy {
    server: TestServer,
    /// The first lines of the requests that it forwarded.
    passed: Arc<Mutex<Vec<String>>>,
}

impl HttpProxy {
    fn start(server: SocketAddr, credentials: Option<&'static str>) -> Self {
        let passed = Arc::default();
        let log = Arc::clone(&passed);
        let server = TestServer::start(move |connection| {
            let _ = serve(connection, server, credentials, &log);
        });
        Self { server, passed }
    }

    fn url(&self) -> String {
        self.server.url()
    }

    fn passed(&self) -> Vec<String> {
        self.passed.lock().unwrap().clone()
    }
}

/// Serves one connection.
fn serve(
    stream: &TcpStream,
    server: SocketAddr,
    credentials: Option<&str>,
    passed: &Mutex<Vec<String>>,
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .ok()
            .filter(|count| *count > 0)?;
        if line == "\r\n" {
            break;
        }
        head.push(line);
    }
    let header = |name: &str| {
        let mut found = head.iter().filter_map(|line| line.split_once(": "));
        found
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim_end().to_owned())
    };
    let given = header("proxy-authorization");
    if given.as_deref() != credentials {
        // It repeats the received credentials.
        let body = format!("refused {}", given.unwrap_or_default());
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        return reader.get_mut().write_all(answer.as_bytes()).ok();
    }
    passed.lock().unwrap().push(head[0].trim_end().to_owned());
    let mut upstream = TcpStream::connect(server).ok()?;
    if head[0].starts_with("CONNECT ") {
        reader
            .get_mut()
            .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .ok()?;
        let (mut from, mut to) = (stream.try_clone().ok()?, upstream.try_clone().ok()?);
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            to.shutdown(Shutdown::Both)
        });
        return std::io::copy(&mut upstream, reader.get_mut())
            .ok()
            .map(drop);
    }
    // The server receives only the path.
    let target = head[0].split(' ').nth(1)?;
    let path = target
        .strip_prefix("http://")?
        .find('/')
        .map(|start| &target["http://".len() + start..])?;
    let mut request = head[0].replacen(target, path, 1);
    request.extend(
        head[1..]
            .iter()
            .filter(|line| !line.to_ascii_lowercase().starts_with("proxy-"))
            .map(String::as_str),
    );
    let mut body = vec![
        0;
        header("content-length")
            .and_then(|length| length.parse().ok())
            .unwrap_or(0)
    ];
    reader.read_exact(&mut body).ok()?;
    upstream
        .write_all(format!("{request}\r\n").as_bytes())
        .ok()?;
    upstream.write_all(&body).ok()?;
    // The server closes the connection after its answer, and does not wait for another request.
    upstream.shutdown(Shutdown::Write).ok()?;
    std::io::copy(&mut upstream, reader.get_mut())
        .ok()
        .map(drop)
}

#[test]
fn requests_go_through_the_configured_proxy_except_those_to_this_machine() {
    let fixture = Fixture::new();
    let server = Receiver::start(|_, _| Some(Answer::status(200)));
    let proxy = HttpProxy::start(server.address(), Some(CREDENTIALS));
    let credentials = fixture.write("credentials", "fleet:pr0xysecret\n");
    // Only the proxy knows this name.
    let far = target("far", "webhook", "http://hook.example.invalid/far", "");
    let near = target("near", "webhook", &server.url("/near"), "");
    fixture.configure(&format!(
        "proxy = \"{}\"\nproxy_credentials_file = {credentials:?}\n{far}{near}",
        proxy.url()
    ));
    fixture.audit().append(&change("scheduled", 1));
    let relay = fixture.start();
    let received = server.wait("both requests", |received| received.len() == 2);
    relay.terminate();
    let mut targets: Vec<_> = received
        .iter()
        .map(|received| received.target.as_str())
        .collect();
    targets.sort_unstable();
    assert_eq!(targets, ["/far", "/near"]);
    assert_eq!(
        proxy.passed(),
        ["POST http://hook.example.invalid/far HTTP/1.1"]
    );
    assert!(
        received
            .iter()
            .all(|received| received.header("proxy-authorization").is_none())
    );
}

#[test]
fn a_tunnel_leads_to_a_server_whose_certificate_is_verified() {
    let fixture = Fixture::new();
    let certified =
        rcgen::generate_simple_self_signed(["hook.example.invalid".to_owned()]).unwrap();
    let (server, count) = tls_server(&certified);
    let proxy = HttpProxy::start(server.address(), None);
    let ca = fixture.write("ca.pem", &certified.cert.pem());
    let ca = format!("ca = {ca:?}");
    let targets = [
        target(
            "known",
            "webhook",
            "https://hook.example.invalid/?sig=pr0xysecret",
            &ca,
        ),
        target(
            "other",
            "webhook",
            "https://other.example.invalid/?sig=pr0xysecret",
            &ca,
        ),
    ];
    fixture.configure(&format!(
        "proxy = \"{}\"\n{}",
        proxy.url(),
        targets.concat()
    ));
    fixture.audit().append(&change("scheduled", 1));
    let relay = fixture.start();
    wait_until("the request", || {
        count.load(std::sync::atomic::Ordering::SeqCst) == 1
    });
    let through = format!(
        "https://other.example.invalid through the proxy {}: ",
        proxy.url()
    );
    relay.wait_for_log(&format!(
        "target other: cannot deliver, and tries again: {through}"
    ));
    relay.terminate();
    assert!(
        proxy
            .passed()
            .contains(&"CONNECT hook.example.invalid:443 HTTP/1.1".to_owned()),
        "{:?}",
        proxy.passed()
    );
    assert!(
        fixture.log().contains("certificate") && !fixture.log().contains("pr0xysecret"),
        "{}",
        fixture.log()
    );
}

#[test]
fn a_proxy_that_refuses_is_reported_without_its_credentials() {
    let fixture = Fixture::new();
    let server = Receiver::start(|_, _| Some(Answer::status(200)));
    let proxy = HttpProxy::start(server.address(), Some("Basic other"));
    let credentials = fixture.write("credentials", "fleet:pr0xysecret");
    let targets = [
        target("plain", "webhook", "http://hook.example.invalid/", ""),
        target("tunnel", "webhook", "https://hook.example.invalid/", ""),
    ];
    let proxy_lines = format!(
        "proxy = \"{}\"\nproxy_credentials_file = {credentials:?}\n",
        proxy.url()
    );
    fixture.configure(&(proxy_lines + &targets.concat()));
    fixture.audit().append(&change("scheduled", 1));
    let relay = fixture.start();
    relay.wait_for_log(
        "target plain: cannot deliver, and tries again: status 407 Proxy Authentication Required\n",
    );
    relay.wait_for_log(
        "target tunnel: cannot deliver, and tries again: https://hook.example.invalid through the proxy ",
    );
    relay.terminate();
    for secret in ["pr0xysecret", "ZmxlZXQ6"] {
        assert!(!fixture.log().contains(secret), "{}", fixture.log());
    }
    assert_eq!(proxy.passed(), [""; 0]);
}

#[test]
fn credentials_of_a_proxy_are_in_a_file_and_not_sent_in_clear() {
    let fixture = Fixture::new();
    let file = fixture.write("credentials", "pr0xysecret");
    let file = format!("proxy_credentials_file = {file:?}\n");
    for (lines, expected) in [
        (
            "proxy = \"http://fleet:pr0xysecret@10.0.0.4:3128\"\n".to_owned(),
            "`relay.proxy` is \"http://***@10.0.0.4:3128\"",
        ),
        (
            "proxy = \"pr0xysecret@10.0.0.4:3128\"\n".to_owned(),
            "`relay.proxy` is \"***\"",
        ),
        (
            "proxy = \"socks5://10.0.0.4:3128\"\n".to_owned(),
            "it begins with neither http:// nor https://",
        ),
        (
            format!("proxy = \"http://10.0.0.4:3128\"\n{file}"),
            "the credentials would be sent in clear: expected https",
        ),
        (
            format!("proxy = \"http://127.0.0.1:3128\"\n{file}"),
            "`relay.proxy_credentials_file` has no USER:PASSWORD",
        ),
        (
            file.clone(),
            "`relay.proxy_credentials_file` needs a `proxy`",
        ),
    ] {
        fixture.configure(&(lines.clone() + &target("x", "webhook", "https://example.com/", "")));
        let output = wait::output(&mut fixture.command());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && error.contains(expected) && !error.contains("pr0xysecret"),
            "{lines}: {error}"
        );
    }
}
