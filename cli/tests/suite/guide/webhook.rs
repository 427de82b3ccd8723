//! The script for one webhook in `docs/use/hooks.md` is that of the example, and tries again.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use crate::pages::documentation::read;
use crate::support::wait;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/notify/webhook.sh");

/// Reads a request, and answers it with this status. Returns what was sent.
fn answer(mut connection: TcpStream, status: &str) -> String {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.ends_with(b"}") {
        let length = connection.read(&mut buffer).expect("a request");
        assert!(length > 0, "the request ends: {request:?}");
        request.extend_from_slice(&buffer[..length]);
    }
    let reply = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    connection.write_all(reply.as_bytes()).expect("an answer");
    String::from_utf8(request).expect("text")
}

#[test]
fn the_script_for_one_webhook_tries_again() {
    let script = std::fs::read_to_string(SCRIPT).expect("the script");
    assert!(read("docs/use/hooks.md").contains(&format!("```sh\n{script}```\n")));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let server = thread::spawn(move || {
        ["503 Service Unavailable", "403 Forbidden", "200 OK"].map(|status| {
            let (connection, _) = listener.accept().expect("a connection");
            answer(connection, status)
        })
    });
    let mut hook = Command::new(SCRIPT)
        .arg(&url)
        .env("no_proxy", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the script");
    let event = r#"{"event_id":"a"}"#;
    let mut input = hook.stdin.take().expect("standard input");
    input.write_all(event.as_bytes()).expect("the event");
    drop(input);
    let status = wait::ended(&mut hook);
    assert!(status.success(), "{status}");
    for request in wait::join(server) {
        assert!(
            request.starts_with("POST /hook ") && request.ends_with(event),
            "{request}"
        );
    }
}
