//! A server that repeats in its errors what the hub has sent.

use std::fs;
use std::io::{BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use scheduled_events_test_support::{TestServer, wait};
use serde_json::json;

use crate::control::read_request;
use crate::fixture::{Hub, event_id, resource};

const TOKEN: &str = "t0ken+/of=the-hub";
const SIGNATURE: &str = "s1gnature+/of=the-queue";

/// A secret as it is, percent-encoded, and in Base64.
fn forms(secret: &str) -> [String; 3] {
    let percent = secret
        .replace('+', "%2B")
        .replace('/', "%2F")
        .replace('=', "%3D");
    [secret.to_owned(), percent, BASE64_STANDARD.encode(secret)]
}

/// Refuses all requests, with the token or the SAS in the reason.
fn repeating() -> TestServer {
    TestServer::start(|connection| {
        let mut reader = BufReader::new(&**connection);
        while let Some(request) = read_request(&mut reader) {
            let is_queue = request.first.contains("/account/events");
            let words = forms(if is_queue { SIGNATURE } else { TOKEN }).join(" and ");
            let why = format!("found {words}, not known");
            let (kind, body) = if is_queue {
                let code = "<Code>AuthenticationFailed</Code>";
                let message = format!("<Message>{why}</Message>");
                ("xml", format!("<Error>{code}{message}</Error>"))
            } else {
                let error = json!({"error": {"code": "InvalidToken", "message": why}});
                ("json", error.to_string())
            };
            let _ = write!(
                &**connection,
                "HTTP/1.1 403 Forbidden\r\nContent-Type: application/{kind}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    })
}

#[test]
fn a_server_that_repeats_the_token_and_the_sas_gets_them_into_no_output() {
    let server = repeating();
    let mut hub = Hub::new(&server.url(), None, "");
    let path = |name: &str| hub.path(name).display().to_string();
    let config = hub
        .read("hub.toml")
        .replace("source = \"graph\"", "source = \"queue\"")
        .replace("kind = \"emulator\"", "kind = \"az\"")
        + &format!(
            "[queue]\nurl = \"{}/account/events\"\nsas_file = \"{}\"\n",
            server.url(),
            path("sas")
        );
    fs::write(hub.path("hub.toml"), config).expect("written");
    let [_, signature, _] = forms(SIGNATURE);
    let sas = format!("sv=2021-08-06&sp=rp&se=2099-01-01T00:00:00Z&sig={signature}");
    let az = format!(
        "#!/bin/sh\necho '{{\"accessToken\": \"{TOKEN}\", \"expiresOn\": \"2039-01-01 00:00:00.000000\", \
         \"expires_on\": 2177452800, \"subscription\": \"x\", \"tenant\": \"x\", \"tokenType\": \"Bearer\"}}'\n"
    );
    for (name, text, mode) in [("sas", sas, 0o600), ("az", az, 0o755)] {
        fs::write(hub.path(name), text).expect("written");
        fs::set_permissions(hub.path(name), fs::Permissions::from_mode(mode)).expect("set");
    }
    let environment = format!(
        "{}:{}",
        hub.folder.path().display(),
        std::env::var("PATH").expect("a path")
    );
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    let mut outputs = Vec::new();
    for arguments in [
        &["check"][..],
        &["events"],
        &["approve", "--yes", &machine, &id],
    ] {
        let mut command = hub.command();
        let output = wait::output(command.args(arguments).env("PATH", &environment));
        let text = [output.stdout, output.stderr].concat();
        outputs.push((arguments[0], String::from_utf8(text).expect("text")));
    }
    hub.start_with(&[("PATH", &environment)]);
    wait::until("both refusals", || {
        let log = hub.read("log");
        (log.contains("Resource Graph") && log.contains("cannot read the queue")).then_some(())
    });
    outputs.push(("run", hub.read("log")));
    for (command, text) in outputs {
        assert!(text.contains("403"), "{command} names the refusal: {text}");
        for secret in [forms(TOKEN), forms(SIGNATURE)].concat() {
            let (text, secret) = (text.to_lowercase(), secret.to_lowercase());
            assert!(!text.contains(&secret), "{command}: {secret} in {text}");
        }
    }
}
