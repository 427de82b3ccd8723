//! A real etcd with restricted access: TLS, client certificates, users and passwords.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use scheduled_events_gate::config::EtcdConfig;
use scheduled_events_gate::engine::etcd::EtcdEngine;
use scheduled_events_gate::engine::{Engine, Swap};
use scheduled_events_test_support::{TestServer, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::{EtcdServer, block_on, wait_for};
use crate::three_machines::Machine;

/// An authority, with files for a server and for a client.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key"))
            .expect("an authority");
        let authority = Self {
            folder: TempDir::new().expect("a folder"),
            issuer,
        };
        std::fs::write(authority.ca(), authority.issuer.pem()).expect("written");
        authority
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for this name, and its key: `NAME.pem` and `NAME.key`, and both in
    /// `NAME-identity.pem`.
    fn issue(&self, name: &str) -> [PathBuf; 3] {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        // etcd's gateway is a client of the server itself, with the server's certificate.
        parameters.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let certificate = parameters
            .signed_by(&key, &self.issuer)
            .expect("a certificate")
            .pem();
        let key = key.serialize_pem();
        let files = ["pem", "key", "identity"]
            .map(|kind| self.folder.path().join(format!("{name}.{kind}")));
        for (path, text) in files
            .iter()
            .zip([certificate.clone(), key.clone(), certificate + &key])
        {
            std::fs::write(path, text).expect("written");
        }
        files
    }
}

/// Reads and writes a register, and returns the error if there is one.
fn try_out(config: &EtcdConfig) -> Result<(), String> {
    let engine = EtcdEngine::new(config).map_err(|error| error.to_string())?;
    block_on(async {
        engine
            .read("groups/web")
            .await
            .map_err(|error| error.to_string())?;
        let swap = engine
            .swap("groups/test", None, "1")
            .await
            .map_err(|error| error.to_string())?;
        assert!(matches!(swap, Swap::Done(_)));
        let found = engine
            .read("groups/test")
            .await
            .map_err(|error| error.to_string())?
            .expect("a register");
        assert!(
            engine
                .delete("groups/test", &found.revision)
                .await
                .expect("deleted")
        );
        Ok(())
    })
}

/// A busy machine may need more time than a request has.
fn assert_allowed(config: &EtcdConfig) {
    wait_for("the access", || {
        try_out(config)
            .inspect_err(|error| eprintln!("not yet: {error}"))
            .ok()
    });
}

fn assert_refused(config: &EtcdConfig, expected: &str) {
    wait_for(expected, || {
        let error = try_out(config).expect_err("it is refused");
        eprintln!("refused: {error}");
        error.contains(expected).then_some(())
    });
}

/// A proxy in front of etcd that removes `Date` from its answers.
fn without_date(etcd: &str) -> TestServer {
    let etcd = etcd.trim_start_matches("http://").to_owned();
    TestServer::start(move |client| {
        let _ = forward_without_date(client, &etcd);
    })
}

fn forward_without_date(mut client: &TcpStream, etcd: &str) -> io::Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length = head.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    client.read_exact(&mut body)?;
    let mut server = TcpStream::connect(etcd)?;
    let (first, rest) = head.split_once("\r\n").unwrap_or_default();
    let first = first.replacen("post", "POST", 1).replace("http/", "HTTP/");
    write!(server, "{first}\r\nconnection: close\r\n{rest}")?;
    server.write_all(&body)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let (head, body) = answer.split_at(end.unwrap_or(answer.len()));
    let head = String::from_utf8_lossy(head);
    let kept = head
        .split("\r\n")
        .filter(|line| !line.starts_with("Date: "));
    client.write_all(kept.collect::<Vec<_>>().join("\r\n").as_bytes())?;
    client.write_all(body)
}

#[test]
fn a_proxy_that_removes_the_date_of_etcds_answers_is_named() {
    let (root, mut etcd) = (TempDir::new().expect("a folder"), EtcdServer::start());
    let proxy = without_date(&etcd.url);
    etcd.url = proxy.url();
    let mut machines =
        ["WestNO_0", "WestNO_1"].map(|name| Machine::new(name, root.path(), &etcd, &etcd.url));
    machines.iter_mut().for_each(Machine::start_daemon);
    let machine = &machines[1];
    let output = |arguments: &[&str]| {
        let output = wait::output(machine.fleet().args(arguments));
        let all = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&all).into_owned(),
        )
    };
    wait_for("two heartbeats", || {
        output(&["status"]).1.contains("WestNO_1").then_some(())
    });
    let cause = "the answers of the store have no `Date`";
    let (code, text) = output(&["status"]);
    assert!(code == Some(1) && text.contains(cause), "{code:?}: {text}");
    wait_for("the daemon's problem", || {
        let text = output(&["check", "--json"]).1;
        println!("{text}");
        text.contains(&format!("the heartbeat: {cause}"))
            .then_some(())
    });
    std::fs::remove_file(machine.folder.join("socket")).expect("removed");
    let (_, text) = output(&["check", "--json"]);
    assert!(text.contains(cause), "without a daemon: {text}");
}

#[test]
fn certificates_are_verified_on_both_sides() {
    let (authority, other) = (Authority::new("Fleet"), Authority::new("Other"));
    let [certificate, key, _] = authority.issue("127.0.0.1");
    let [_, _, client] = authority.issue("WestNO-0");
    let [_, _, stranger] = other.issue("WestNO-0");
    let ca = authority.ca();
    let file = |path: &'static str| OsStr::new(path);
    let arguments = [
        file("--cert-file"),
        certificate.as_os_str(),
        file("--key-file"),
        key.as_os_str(),
        file("--trusted-ca-file"),
        ca.as_os_str(),
        file("--client-cert-auth"),
    ];
    let config = |url: &str| EtcdConfig {
        ca: Some(authority.ca()),
        identity: Some(client.clone()),
        ..EtcdServer::config_of(&[url])
    };
    let server = EtcdServer::start_with("https", &arguments, &config);
    let good = config(&server.url);
    assert_allowed(&good);

    let system =
        "no authority of `etcd.ca` (without it, of the system) has signed the server's certificate";
    assert_refused(
        &EtcdConfig {
            ca: Some(other.ca()),
            ..good.clone()
        },
        system,
    );
    let namesake = Authority::new("Fleet");
    assert_refused(
        &EtcdConfig {
            ca: Some(namesake.ca()),
            ..good.clone()
        },
        system,
    );
    assert_refused(
        &EtcdConfig {
            ca: None,
            ..good.clone()
        },
        system,
    );
    assert_refused(
        &EtcdConfig {
            identity: None,
            ..good.clone()
        },
        "the server may want a client certificate: set `etcd.identity`",
    );
    assert_refused(
        &EtcdConfig {
            identity: Some(stranger),
            ..good.clone()
        },
        "the server may not accept the client certificate of `etcd.identity`",
    );
    let name = server.url.replace("127.0.0.1", "localhost");
    let expected = "the server's certificate is not for the host in `etcd.endpoints`";
    assert_refused(
        &EtcdConfig {
            endpoints: vec![name],
            ..good.clone()
        },
        expected,
    );
    // A file that is none is refused before anything is sent.
    assert_refused(
        &EtcdConfig {
            identity: Some(authority.ca()),
            ..good.clone()
        },
        "has no certificate with its key",
    );
    assert_refused(
        &EtcdConfig {
            ca: Some(Path::new("/none").into()),
            ..good
        },
        "cannot read /none",
    );
}

/// A call of etcd's gateway that sets users up.
fn call(url: &str, path: &str, body: &Value) {
    call_as(None, url, path, body);
}

/// The same with a token, and its answer.
fn call_as(token: Option<&str>, url: &str, path: &str, body: &Value) -> Value {
    let client = scheduled_events_common::http::client(Duration::from_secs(10)).expect("a client");
    let mut request = client.post(format!("{url}/v3/auth/{path}")).json(body);
    if let Some(token) = token {
        request = request.header("Authorization", token);
    }
    let (status, text) = block_on(async {
        let response = request.send().await.expect("an answer");
        (response.status(), response.text().await.expect("text"))
    });
    assert!(status.is_success(), "{path}: {status} {text}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_user_with_a_password() {
    let server = EtcdServer::start();
    let prefix = BASE64_STANDARD.encode("/scheduled-events/");
    let end = BASE64_STANDARD.encode("/scheduled-events0");
    for (user, password) in [("root", "user name"), ("fleet", "correct horse")] {
        call(
            &server.url,
            "user/add",
            &json!({ "name": user, "password": password }),
        );
        call(&server.url, "role/add", &json!({ "name": user }));
        call(
            &server.url,
            "user/grant",
            &json!({ "user": user, "role": user }),
        );
    }
    let permission = json!({ "permType": "READWRITE", "key": prefix, "range_end": end });
    call(
        &server.url,
        "role/grant",
        &json!({ "name": "fleet", "perm": permission }),
    );
    call(&server.url, "enable", &json!({}));

    let folder = TempDir::new().expect("a folder");
    let password = |text: &str| {
        let path = folder.path().join(text.len().to_string());
        std::fs::write(&path, text).expect("written");
        Some(path)
    };
    let good = EtcdConfig {
        user: Some("fleet".into()),
        password_file: password("correct horse\n"),
        ..EtcdServer::config_of(&[&server.url])
    };
    assert_allowed(&good);
    // etcd's own messages contain this password.
    assert_allowed(&EtcdConfig {
        user: Some("root".into()),
        password_file: password("user name"),
        ..good.clone()
    });
    assert_refused(
        &EtcdConfig {
            password_file: password("wrong"),
            ..good.clone()
        },
        "invalid user ID or password",
    );
    let nobody = EtcdServer::config_of(&[&server.url]);
    assert_refused(
        &nobody,
        "it asks for a user: set `etcd.user` and `etcd.password_file`",
    );
    // The role covers only the fleet's keys.
    assert_refused(
        &EtcdConfig {
            prefix: "/other/".into(),
            ..good.clone()
        },
        "permission denied",
    );
    // A password is not sent without TLS.
    let far = EtcdConfig {
        endpoints: vec!["http://10.0.0.4:2379".into()],
        ..good.clone()
    };
    assert_refused(
        &far,
        "to which the password would be sent in clear: expected https",
    );
    let named = EtcdConfig {
        endpoints: vec!["https://fleet:hunter2@10.0.0.4:2379".into()],
        ..good.clone()
    };
    assert_refused(
        &named,
        "has \"https://***@10.0.0.4:2379\": it has a user or a password",
    );
    assert_refused(
        &EtcdConfig {
            password_file: None,
            ..good
        },
        "are given together",
    );
}

/// A signed token names the revision of etcd's users at which it was issued, and is refused once
/// that has changed.
#[test]
fn users_that_change_need_no_restart() {
    let folder = TempDir::new().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, KeyPair::generate().expect("a key").serialize_pem()).expect("written");
    let tokens = format!("jwt,priv-key={},sign-method=ES256,ttl=10m", key.display());
    // The least work for a password, so that a login takes no longer than a request may on a busy
    // machine.
    let options = ["--bcrypt-cost", "4", "--auth-token", &tokens].map(OsStr::new);
    let server = EtcdServer::start_with("http", &options, &|url| EtcdServer::config_of(&[url]));
    let password = folder.path().join("password");
    std::fs::write(&password, "correct horse").expect("written");
    call(
        &server.url,
        "user/add",
        &json!({ "name": "root", "password": "correct horse" }),
    );
    call(&server.url, "role/add", &json!({ "name": "root" }));
    call(
        &server.url,
        "user/grant",
        &json!({ "user": "root", "role": "root" }),
    );
    call(&server.url, "enable", &json!({}));
    let config = EtcdConfig {
        user: Some("root".into()),
        password_file: Some(password),
        ..EtcdServer::config_of(&[&server.url])
    };
    assert_allowed(&config);
    let engine = EtcdEngine::new(&config).expect("an engine");
    read_in_time(&engine);
    // An administrator adds another user.
    let administrator = json!({ "name": "root", "password": "correct horse" });
    let answer = call_as(None, &server.url, "authenticate", &administrator);
    call_as(
        answer["token"].as_str(),
        &server.url,
        "user/add",
        &json!({ "name": "other", "password": "x" }),
    );
    read_in_time(&engine);
}

/// Reads again if an attempt takes too long, as on a busy machine; any other error is returned.
fn read_in_time(engine: &EtcdEngine) {
    wait_for("a read", || match block_on(engine.read("groups/web")) {
        Ok(_) => Some(()),
        Err(error) if error.to_string().contains("timed out") => None,
        Err(error) => panic!("{error}"),
    });
}
