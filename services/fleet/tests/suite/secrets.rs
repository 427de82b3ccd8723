//! A marked secret in every field of every configuration: no output contains it.
//!
//! The fields come from the configuration types themselves, which list them when they refuse an
//! unknown one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use scheduled_events_gate::config::Config;
use scheduled_events_node::config::Config as NodeConfig;
use scheduled_events_relay::file::RelayFile;
use scheduled_events_test_support::TestServer;
use tempfile::TempDir;

use crate::fixture::{FLEET_COMMAND, Process};

/// The secret. It is valid wherever a secret is expected, and occurs nowhere else.
const MARK: &str = "c2VjcmV0LW9mLXRoaXMtdGVzdC1vbmx5";

/// The secret in forms in which a server may repeat it.
fn encoded() -> [String; 5] {
    let each = |form: fn(u8) -> String| MARK.bytes().map(form).collect::<Vec<_>>().concat();
    let percent = each(|byte| format!("%{byte:02X}"));
    [
        percent.replace('%', "%25"),
        BASE64_STANDARD.encode(MARK),
        BASE64_STANDARD.encode(format!("k:{MARK}")),
        each(|byte| format!("{byte:02x}")),
        percent,
    ]
}

/// Whether the text has the secret, or the middle of one of its forms.
fn has_mark(text: &str) -> bool {
    let forms = encoded();
    let mut middles = forms.iter().map(|form| &form[8..form.len() - 8]);
    text.contains(MARK) || middles.any(|form| text.contains(form))
}

/// How long a command that does not end by itself may write.
const TIME: Duration = Duration::from_secs(2);

/// How long all of them may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// The kind of a field of a configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A table, whose fields are listed separately.
    Table,
    /// Text, or a value that is written as text.
    Text,
    /// A list of texts.
    List,
    /// A table of texts, whose keys the operator chooses.
    Map,
    /// The file of a secret.
    Secret,
    /// A table of such files.
    Secrets,
}

use Kind::{List, Map, Secret, Secrets, Table, Text};

/// The fields of each table.
const FIELDS: [(&str, &[(&str, Kind)]); 10] = [
    (
        "",
        &[
            ("machine", Text),
            ("engine", Text),
            ("socket", Text),
            ("audit", Text),
            ("metrics_file", Text),
            ("take_over_after", Text),
            ("heartbeat", Text),
            ("silent_after", Text),
            ("return_within", Text),
            ("forget_after", Text),
            ("metadata", Text),
            ("etcd", Table),
            ("blob", Table),
            ("kubernetes", Table),
            ("node", Table),
            ("folder", Table),
            ("group", Table),
            ("relay", Table),
        ],
    ),
    (
        "etcd",
        &[
            ("endpoints", List),
            ("prefix", Text),
            ("ca", Text),
            ("identity", Text),
            ("user", Text),
            ("password_file", Secret),
        ],
    ),
    (
        "blob",
        &[
            ("url", Text),
            ("emulator", Text),
            ("client_id", Text),
            ("sas_file", Secret),
            ("identity_endpoint", Text),
        ],
    ),
    ("kubernetes", &[("namespace", Text)]),
    (
        "node",
        &[
            ("name", Text),
            ("taint", Text),
            ("empty_dir", Text),
            ("exclude_from_load_balancers", Text),
            ("unmanaged", Text),
            ("conditions", List),
            ("on_advice", Text),
            ("at_deadline", Text),
            ("force_before", Text),
            ("margin", Text),
            ("timeout", Text),
            ("ready_timeout", Text),
        ],
    ),
    ("folder", &[("path", Text)]),
    (
        "group",
        &[
            ("name", Text),
            ("machines", List),
            ("max_unavailable", Text),
            ("per_zone", Text),
            ("pause", Text),
            ("windows", Table),
        ],
    ),
    (
        "group.windows",
        &[
            ("days", List),
            ("from", Text),
            ("to", Text),
            ("time_zone", Text),
        ],
    ),
    (
        "relay",
        &[
            ("state", Text),
            ("proxy", Text),
            ("proxy_credentials_file", Secret),
            ("target", Table),
        ],
    ),
    (
        "relay.target",
        &[
            ("name", Text),
            ("kind", Text),
            ("url", Text),
            ("url_file", Secret),
            ("ca", Text),
            ("headers", Map),
            ("header_files", Secrets),
            ("records", List),
            ("scope", Text),
            ("event", List),
            ("start", Text),
            ("format", Text),
            ("template", Text),
            ("content_type", Text),
            ("key_file", Secret),
            ("signals", List),
            ("client_id", Text),
        ],
    ),
];

/// The first line of a table.
fn opening(table: &str) -> String {
    match table {
        "" => String::new(),
        "group" | "relay.target" => format!("[[{table}]]\n"),
        "group.windows" => "[[group]]\n[[group.windows]]\n".to_owned(),
        table => format!("[{table}]\n"),
    }
}

/// The fields that the configuration types have in a table.
fn known_fields(table: &str) -> Vec<String> {
    let text = format!("{}no_field = 1\n", opening(table));
    // Each part of the program reads its own table.
    let read = match table.split('.').next() {
        Some("node") => NodeConfig::parse(&text).map(|_| ()),
        Some("relay") => RelayFile::read(&text).map(|_| ()),
        _ => Config::parse(&text).map(|_| ()),
    };
    let (_, error) = read.expect_err("an unknown field");
    let (_, known) = error
        .split_once("unknown field `no_field`, expected ")
        .unwrap_or_else(|| panic!("{error}"));
    let mut known: Vec<_> = known
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    known.sort();
    known
}

#[test]
fn each_field_of_the_configuration_types_is_covered() {
    for (table, fields) in FIELDS {
        let mut covered: Vec<_> = fields.iter().map(|(name, _)| (*name).to_owned()).collect();
        covered.sort();
        assert_eq!(
            covered,
            known_fields(table),
            "the table `{table}`: list its fields in this file"
        );
        for (name, _) in fields.iter().filter(|(_, kind)| *kind == Table) {
            let below = if table.is_empty() {
                (*name).to_owned()
            } else {
                format!("{table}.{name}")
            };
            assert!(
                FIELDS.iter().any(|(table, _)| *table == below),
                "list the fields of `{below}` in this file"
            );
        }
    }
}

/// How a server treats requests.
#[derive(Clone, Copy, Debug)]
enum Server {
    /// It repeats them in an answer with this status.
    Repeats(u16),
    /// It first asks for a password, and repeats that.
    AsksForPassword,
    /// It answers with a redirect that repeats them.
    Redirects,
    /// It does not use TLS.
    NoTls,
    /// There is no server.
    Unreachable,
}

/// Starts a server, and returns it with its address.
fn start(server: Server) -> (Option<TestServer>, String) {
    let running = TestServer::start(move |connection| {
        let mut stream = &**connection;
        let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        // Until the client pauses.
        while let Ok(count) = stream.read(&mut buffer)
            && count > 0
        {
            request.extend_from_slice(&buffer[..count]);
        }
        let mut request = String::from_utf8_lossy(&request).into_owned();
        // A request for a token has no secret.
        if request.contains(MARK) && !request.contains("/metadata/identity/") {
            // First: of a long answer only the beginning is shown.
            request = format!("{}\n{request}", encoded().join(" "));
        }
        let (status, location) = match server {
            Server::Repeats(status) => (status, String::new()),
            Server::AsksForPassword => (
                if request.contains("authenticate") {
                    500
                } else {
                    401
                },
                String::new(),
            ),
            _ => (
                302,
                format!("Location: http://user:{MARK}@127.0.0.1:1/?sig={MARK}\r\n"),
            ),
        };
        let length = request.len();
        let head = format!(
            "HTTP/1.1 {status} x\r\n{location}Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let _ = stream.write_all((head + &request).as_bytes());
    });
    let scheme = if matches!(server, Server::NoTls) {
        "https"
    } else {
        "http"
    };
    let address = format!("{scheme}://{}", running.address());
    (
        (!matches!(server, Server::Unreachable)).then_some(running),
        address,
    )
}

/// A valid configuration: the values by table and field.
type Values = BTreeMap<String, BTreeMap<String, String>>;

fn set(values: &mut Values, table: &str, field: &str, value: &str) {
    values
        .entry(table.to_owned())
        .or_default()
        .insert(field.to_owned(), value.to_owned());
}

/// The configuration that uses a table, with secrets in all files, and this server.
fn configuration(folder: &Path, table: &str, kind: &str, server: &str) -> Values {
    let secret = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("written");
        format!("{:?}", path.to_str().expect("text"))
    };
    let mut values = Values::new();
    let mut put = |table: &str, field: &str, value: &str| set(&mut values, table, field, value);
    let engine = if ["etcd", "blob", "kubernetes"].contains(&table) {
        table
    } else {
        "folder"
    };
    put("", "engine", &format!("{engine:?}"));
    for (field, value) in [
        ("machine", "a"),
        ("socket", "socket"),
        ("audit", "audit"),
        ("metrics_file", "metrics"),
    ] {
        put("", field, &format!("{value:?}"));
    }
    put("", "metadata", &format!("{server:?}"));
    fs::create_dir_all(folder.join("registers")).expect("a folder");
    put("folder", "path", "\"registers\"");
    put("etcd", "endpoints", &format!("[{server:?}]"));
    put("etcd", "user", "\"fleet\"");
    put("etcd", "password_file", &secret("password", MARK));
    put("blob", "url", &format!("\"{server}/account/container\""));
    put(
        "blob",
        "sas_file",
        &secret("sas", &format!("sv=2021-08-06&sig={MARK}")),
    );
    put("group", "name", "\"web\"");
    put("group", "machines", "[\"a\"]");
    put("group", "max_unavailable", "1");
    if table == "group.windows" {
        put("group.windows", "from", "\"00:00\"");
        put("group.windows", "to", "\"01:00\"");
    }
    put("relay", "state", "\"state\"");
    put("relay.target", "name", "\"target\"");
    put("relay.target", "kind", &format!("{kind:?}"));
    if kind == "webhook" {
        put(
            "relay.target",
            "url_file",
            &secret("url", &format!("{server}/{MARK}?sig={MARK}")),
        );
        put(
            "relay.target",
            "headers",
            &format!("{{ x-inline = \"{MARK}\" }}"),
        );
    } else {
        put("relay.target", "url", &format!("\"{server}/?sig={MARK}\""));
    }
    put(
        "relay.target",
        "header_files",
        &format!("{{ x-key = {} }}", secret("header", MARK)),
    );
    if ["webhook", "pagerduty"].contains(&kind) {
        put("relay.target", "key_file", &secret("key", MARK));
    }
    values
}

fn text(values: &Values) -> String {
    let mut text = String::new();
    for (table, _) in FIELDS {
        let Some(fields) = values.get(table) else {
            continue;
        };
        // The group's window is open.
        text += &if table == "group.windows" {
            "[[group.windows]]\n".to_owned()
        } else {
            opening(table)
        };
        text.extend(
            fields
                .iter()
                .map(|(field, value)| format!("{field} = {value}\n")),
        );
    }
    text
}

/// Runs all commands with a configuration until they have written the expected texts, and returns
/// their output.
fn outputs(folder: &Path, configuration: &str, expected: &[&str]) -> String {
    let file = folder.join("fleet.toml");
    fs::write(&file, configuration).expect("written");
    let record = r#"{"record":"change","change":"scheduled","event_id":"e","event_type":"Reboot","resources":["a"],"mine":true,"time":"2026-11-22T22:20:59Z","sequence":1}"#;
    fs::write(folder.join("audit"), format!("{record}\n")).expect("written");
    let log = File::options()
        .append(true)
        .create(true)
        .open(folder.join("output"))
        .expect("a log");
    let mut running = Vec::new();
    for arguments in [
        &["run"][..],
        &["relay"],
        &["status"],
        &["status", "--json"],
        &["ask"],
        &["free", "a", "--force"],
        &["drain"],
    ] {
        let mut command = Command::new(FLEET_COMMAND);
        command
            .arg("--config")
            .arg(&file)
            .args(arguments)
            .current_dir(folder)
            .env_clear();
        command
            .stdout(log.try_clone().expect("a log"))
            .stderr(log.try_clone().expect("a log"))
            .stdin(Stdio::null());
        running.push(Process::start(&mut command));
    }
    let started = Instant::now();
    loop {
        let mut live = running
            .iter_mut()
            .map(|process| process.0.try_wait().expect("a state").is_none());
        // The first two end only if the configuration is invalid.
        let (live, is_live) = (
            [live.next(), live.next()].contains(&Some(true)),
            live.any(|is_live| is_live),
        );
        let output = fs::read_to_string(folder.join("output")).expect("the log");
        let is_complete = !is_live && expected.iter().all(|text| output.contains(text));
        if is_complete && (!live || started.elapsed() > TIME) || started.elapsed() > PATIENCE {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    drop(running);
    let mut text = String::new();
    for name in ["output", "metrics", "audit"] {
        text += &fs::read_to_string(folder.join(name)).unwrap_or_default();
    }
    for entry in fs::read_dir(folder.join("state"))
        .into_iter()
        .flatten()
        .flatten()
    {
        text += &fs::read_to_string(entry.path()).unwrap_or_default();
    }
    text
}

/// The values with a secret for a field, in TOML, and the content of the file that they name.
fn marked(folder: &Path, kind: Kind) -> Vec<String> {
    let addresses = [
        format!("http://user:{MARK}@127.0.0.1:1/x?sig={MARK}"),
        format!("https://127.0.0.1:1/x?sv=1&sig={MARK}"),
        format!("user:{MARK}@127.0.0.1"),
    ];
    // The last one is no address that a message could be searched for. Settings that are neither an
    // address nor a secret contain it unchanged.
    let quoted: Vec<_> = addresses
        .iter()
        .map(|address| format!("{address:?}"))
        .collect();
    match kind {
        Table => Vec::new(),
        Text => quoted[..2].to_vec(),
        List => quoted[..2]
            .iter()
            .map(|value| format!("[{value}]"))
            .collect(),
        Map => quoted
            .iter()
            .map(|value| format!("{{ x-marked = {value} }}"))
            .collect(),
        Secret | Secrets => {
            let path = folder.join("marked");
            fs::write(&path, format!("{MARK}\n{MARK}\n")).expect("written");
            let mut values = vec![
                format!("{path:?}"),
                format!("{MARK:?}"),
                format!("\"relative/{MARK}\""),
            ];
            values.extend(quoted);
            if kind == Secrets {
                values = values
                    .iter()
                    .map(|value| format!("{{ x-marked = {value} }}"))
                    .collect();
            }
            values
        }
    }
}

#[test]
fn no_output_has_a_secret_whatever_field_it_is_in() {
    let (_running, server) = start(Server::Repeats(500));
    let mut fields = Vec::new();
    for (table, names) in FIELDS {
        fields.extend(
            names
                .iter()
                .filter(|(_, kind)| *kind != Table)
                .map(|(name, kind)| (table, *name, *kind)),
        );
    }
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some((table, field, kind)) =
                    fields.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let values = marked(TempDir::new().expect("a folder").path(), *kind).len();
                    for index in 0..values {
                        let folder = TempDir::new().expect("a folder");
                        let target = match *field {
                            "key_file" if *table == "relay.target" => "pagerduty",
                            "client_id" => "event-hubs",
                            "signals" => "otlp",
                            _ => "webhook",
                        };
                        let mut values = configuration(folder.path(), table, target, &server);
                        if *field == "url" && *table == "relay.target" {
                            values
                                .get_mut("relay.target")
                                .expect("a target")
                                .remove("url_file");
                        }
                        set(
                            &mut values,
                            table,
                            field,
                            &marked(folder.path(), *kind)[index],
                        );
                        let configuration = text(&values);
                        let output = outputs(folder.path(), &configuration, &[]);
                        if has_mark(&output) || output.is_empty() {
                            failures
                                .lock()
                                .expect("a list")
                                .push(format!("{table}.{field}: {configuration}\n{output}"));
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("a list");
    assert!(
        failures.is_empty(),
        "{} of them: {}",
        failures.len(),
        failures.join("\n---\n")
    );
}

/// An operator still sees which server, and which setting or target, is concerned.
#[test]
fn errors_of_servers_name_them_and_no_secret() {
    let servers = [
        Server::Repeats(500),
        Server::AsksForPassword,
        Server::Repeats(403),
        Server::Repeats(400),
        Server::Repeats(404),
        Server::Repeats(200),
        Server::Redirects,
        Server::NoTls,
        Server::Unreachable,
    ];
    let kinds = [
        ("etcd", "slack"),
        ("blob", "pagerduty"),
        ("folder", "event-hubs"),
        ("etcd", "teams"),
        ("folder", "otlp"),
    ];
    thread::scope(|scope| {
        for server in servers {
            scope.spawn(move || {
                let (_running, address) = start(server);
                for (table, kind) in kinds {
                    let folder = TempDir::new().expect("a folder");
                    let mut values = configuration(folder.path(), table, kind, &address);
                    if kind == "event-hubs" {
                        // The metadata service is asked for it then.
                        values.get_mut("").expect("settings").remove("machine");
                    }
                    let is_accepted =
                        matches!(server, Server::Repeats(200)) && kind != "event-hubs";
                    let mut expected = Vec::new();
                    // The store's server, or the metadata service.
                    if table != "folder" || kind == "event-hubs" {
                        expected.push(address.as_str());
                    }
                    if !is_accepted {
                        expected.push("target target: cannot deliver");
                    }
                    let output = outputs(folder.path(), &text(&values), &expected);
                    assert!(!has_mark(&output), "{server:?} {kind}: {output}");
                    for text in expected {
                        assert!(
                            output.contains(text),
                            "{server:?} {kind}: no {text} in {output}"
                        );
                    }
                }
            });
        }
    });
}
