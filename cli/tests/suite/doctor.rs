//! `doctor`: each thing that is broken on purpose is found by its check, and nothing is found where
//! nothing is broken. Faults 39 to 41 of `tests/field-faults.md` are found when `watch` starts, too.

use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use scheduled_events_test_support::clock::control_wall_clock;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::support::{
    FakeService, Finished, Folder, PREPARE_ALL, PROGRAM, Reply, Run, Terminal, VM, command,
    eventually, give_away, play, run, together, unprivileged, wrap,
};

/// The checks, in their order.
const CHECKS: [&str; 13] = [
    "service", "name", "clock", "policy", "prepare", "recover", "on", "state", "audit", "metrics",
    "gate", "proxy", "others",
];

const SCENARIO: &str = "about = \"A reboot.\"\n[[event]]\nevent_type = \"Reboot\"\n";

/// `doctor --json` of an endpoint with these options.
pub(crate) fn doctor(endpoint: &str, options: &[&str]) -> Finished {
    let all = [&["doctor", "--json", "--endpoint", endpoint], options].concat();
    run(&all)
}

/// The finding of a check.
#[track_caller]
pub(crate) fn finding(finished: &Finished, check: &str) -> Value {
    let mut found = finished.records();
    found.retain(|finding| finding["check"] == check);
    assert_eq!(found.len(), 1, "{check}: {finished:?}");
    found.remove(0)
}

/// Checks that a finding has this outcome, this text and, unless it is `ok`, advice.
#[track_caller]
pub(crate) fn assert_found(finished: &Finished, check: &str, outcome: &str, text: &str) {
    let finding = finding(finished, check);
    assert_eq!(finding["outcome"], outcome, "{finding}");
    let found = finding["found"].as_str().expect("a text");
    assert!(found.contains(text), "{finding}");
    if outcome != "ok" {
        assert!(
            finding["do"]
                .as_str()
                .is_some_and(|advice| !advice.is_empty()),
            "{finding}"
        );
        assert!(!found.ends_with("; none"), "{finding}");
    }
    if outcome == "fail" {
        assert_eq!(finished.code, Some(1), "{finished:?}");
    }
}

/// A service of this machine, with a clock that is right.
fn service() -> FakeService {
    let service = FakeService::start();
    dated(&service, SystemTime::now);
    service
}

/// Lets the answers have this time as their `Date`.
fn dated(service: &FakeService, now: impl Fn() -> SystemTime + Send + 'static) {
    service.intercept(move |request| {
        let date = format!("Date: {}\r\n", httpdate::fmt_http_date(now()));
        let body = r#"{"DocumentIncarnation":1,"Events":[]}"#;
        request.is_get().then(|| Reply::new(200, &date, body))
    });
}

#[test]
fn nothing_is_broken_and_nothing_is_found() {
    let (service, folder) = (play(SCENARIO, &[]), Folder::new());
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let (state, audit, metrics) = (
        folder.path("state"),
        folder.path("audit"),
        folder.path("x.prom"),
    );
    let mut options = vec![
        "--policy",
        &policy,
        "--prepare",
        "true",
        "--recover",
        "true",
    ];
    options.extend(["--on", "started=echo ok", "--gate", "true", "--vm-name", VM]);
    options.extend([
        "--state",
        &state,
        "--audit",
        &audit,
        "--metrics-file",
        &metrics,
    ]);
    let finished = doctor(&service.url(), &options).with_code(0);
    let records = finished.records();
    let checks: Vec<_> = records
        .iter()
        .map(|finding| finding["check"].clone())
        .collect();
    assert_eq!(checks, CHECKS);
    for finding in &records {
        let members: Vec<_> = finding.as_object().expect("an object").keys().collect();
        assert_eq!(members, ["check", "do", "found", "outcome"]);
        // Room on the disk and other programs, such as a node_exporter, are the machine's.
        if !["audit", "metrics", "others"].contains(&finding["check"].as_str().expect("a word")) {
            assert_eq!(finding["outcome"], "ok", "{finding}");
            assert_eq!(finding["do"], Value::Null, "{finding}");
        }
    }
    assert_found(
        &finished,
        "service",
        "ok",
        "event; the newest that it has are 2020-07-01",
    );
    assert_found(
        &finished,
        "name",
        "ok",
        "WestNO_0: instance of the uniform scale set WestNO",
    );
    assert_found(
        &finished,
        "policy",
        "ok",
        "prepares for any type, and approves then",
    );
    // It looks, and writes nothing.
    assert_eq!(folder.names(), ["policy.toml"]);
    assert!(
        service
            .requests()
            .iter()
            .all(|request| request.method == "GET")
    );
}

#[test]
fn a_service_that_refuses_is_found_with_its_reason() {
    let cases: [(u16, &str, &str, &str); 5] = [
        (401, "", "Metadata Security Protocol", "allowlist"),
        (403, "not you", "not you", "allowlist"),
        (404, "", "status 404", "no scheduled events"),
        (500, r#"{"error":"busy"}"#, "busy", "try again"),
        (429, "", "status 429", "try again"),
    ];
    together(cases, |(status, body, reason, advice)| {
        let service = FakeService::start();
        service.intercept(move |request| request.is_get().then(|| Reply::new(status, "", body)));
        let finished = doctor(&service.url(), &[]);
        assert_found(&finished, "service", "fail", reason);
        let found = finding(&finished, "service");
        assert!(
            found["do"]
                .as_str()
                .is_some_and(|text| text.contains(advice)),
            "{found}"
        );
        // The name is asked for all the same.
        assert_found(&finished, "name", "ok", VM);
    });
}

#[test]
fn what_is_no_document_is_found() {
    let service = FakeService::start();
    service.show_body("<html>login</html>");
    let finished = doctor(&service.url(), &[]);
    assert_found(&finished, "service", "fail", "sent no document: 1:1: ");
}

#[test]
fn an_unknown_version_of_the_api_is_found() {
    let finished = doctor(&play(SCENARIO, &[]).url(), &["--api-version", "2031-01-01"]);
    assert_found(&finished, "service", "fail", "try --api-version 2020-07-01");
    let misspelt = doctor("http://127.0.0.1:1", &["--api-version", "2020/07/01"]);
    assert_found(&misspelt, "service", "fail", "is not an API version");
}

#[test]
fn a_firewall_that_refuses_and_one_that_drops_are_found() {
    let refusing = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", refusing.local_addr().expect("an address"));
    drop(refusing);
    let finished = doctor(&url, &["--vm-name", VM]);
    assert_found(&finished, "service", "fail", "refused");
    assert_found(&finished, "name", "warn", "does not answer");
    assert_found(&finished, "clock", "warn", "does not answer");

    // A queue of one connection, which is taken: the next one is not answered.
    let dropping = TcpListener::bind("127.0.0.1:0").expect("a port");
    rustix::net::listen(&dropping, 0).expect("a queue");
    let address = dropping.local_addr().expect("an address");
    let _taken = TcpStream::connect(address).expect("a connection");
    let finished = doctor(&format!("http://{address}"), &[]);
    assert_found(&finished, "service", "fail", "timeout");
    let advice = finding(&finished, "service")["do"].to_string();
    assert!(
        advice.contains("firewall") && advice.contains("drops"),
        "{advice}"
    );
}

#[test]
fn a_clock_that_is_ahead_or_behind_is_found() {
    let minutes = Duration::from_secs(600);
    let service = FakeService::start();
    dated(&service, move || SystemTime::now() - minutes);
    let ahead = doctor(&service.url(), &[]).with_code(0);
    assert_found(&ahead, "clock", "warn", "s ahead of the metadata service's");
    dated(&service, move || SystemTime::now() + minutes);
    let behind = doctor(&service.url(), &[]).with_code(0);
    assert_found(&behind, "clock", "warn", "s behind the metadata service's");

    // The same by a clock of this machine that is wrong.
    dated(&service, SystemTime::now);
    let folder = Folder::new();
    let shift = folder.file("shift", "-600");
    let mut own = command(&["doctor", "--json", "--endpoint", &service.url()]);
    control_wall_clock(&mut own, Path::new(&shift));
    assert_found(&Run::start(own).finish(), "clock", "warn", "s behind");
}

#[test]
fn a_wrong_name_and_an_unknown_one_are_found() {
    let service = service();
    let finished = doctor(&service.url(), &["--vm-name", "other_7"]);
    let text = "calls this machine WestNO_0, --vm-name other_7: events of WestNO_0 count as another machine's";
    assert_found(&finished, "name", "fail", text);
    let same = doctor(&service.url(), &["--vm-name", "WESTNO_0"]).with_code(0);
    assert_found(&same, "name", "ok", "WestNO_0");
    service.set_name(None);
    let unknown = doctor(&service.url(), &[]);
    assert_found(&unknown, "name", "fail", "does not have it: status 404");
    let given = doctor(&service.url(), &["--vm-name", VM]);
    assert_found(&given, "name", "warn", "as --vm-name has it");
}

#[test]
fn spot_and_its_eviction_are_named() {
    let service = FakeService::start();
    let compute = r#"{"vmScaleSetName":"","priority":"Spot","evictionPolicy":"Deallocate"}"#;
    service.intercept(move |request| {
        let is_compute = request.target.starts_with("/metadata/instance/compute?");
        is_compute.then(|| Reply::new(200, "", compute))
    });
    let finished = doctor(&service.url(), &[]);
    assert_found(
        &finished,
        "name",
        "ok",
        "Spot, deallocated when it is evicted",
    );
}

#[test]
fn a_proxy_in_the_environment_is_found_and_not_used() {
    let service = service();
    let mut command = command(&["doctor", "--json", "--endpoint", &service.url()]);
    command.env("http_proxy", "http://secret@127.0.0.1:1");
    let finished = Run::start(command).finish().with_code(0);
    assert_found(
        &finished,
        "proxy",
        "warn",
        "http_proxy in the environment: not used here",
    );
    assert_found(&finished, "service", "ok", "answered");
    assert!(!finished.stdout.contains("secret"), "{}", finished.stdout);
}

#[test]
fn a_broken_policy_is_found() {
    let (service, folder) = (service(), Folder::new());
    for (text, reason) in [
        (
            "[[rule]]\naction = \"approve\"\nmax_durration = 8\n",
            "3:1: ",
        ),
        ("[[rule]]\naction = \"aprove\"\n", "approve"),
        ("[[rule]]\naction = \"approve\"\nmax_duration = 8s\n", "3:"),
    ] {
        let policy = folder.file("policy.toml", text);
        let finished = doctor(&service.url(), &["--policy", &policy, "--prepare", "true"]);
        assert_found(&finished, "policy", "fail", reason);
        // That it is never run would be said of another policy.
        assert_found(&finished, "prepare", "ok", "--prepare runs ");
    }
    let finished = doctor(&service.url(), &["--policy", "smaple"]);
    assert_found(&finished, "policy", "fail", "did you mean `sample`?");
}

#[test]
fn a_broken_configuration_is_found_and_the_rest_is_checked_all_the_same() {
    let (service, folder) = (service(), Folder::new());
    let (config, report) = (folder.path("watch.toml"), folder.path("report"));
    let state = folder.path("state");
    let check = |text: &str, options: &[&str]| {
        folder.file("watch.toml", text);
        let all = [&["--config", &config], options].concat();
        let finished = doctor(&service.url(), &all).with_code(1);
        assert_eq!(finished.stderr, "", "{text}");
        let checks = finished.records().into_iter();
        let checks: Vec<_> = checks.map(|finding| finding["check"].clone()).collect();
        assert_eq!(checks, CHECKS, "{text}");
        assert_found(&finished, "service", "ok", "answered");
        assert_found(&finished, "name", "ok", VM);
        finished
    };
    // Rules are a part of the file: the options beside them can be checked.
    for (rule, reason) in [
        ("action = \"approve\"\nmax_durration = 8\n", ":4:1: "),
        ("action = \"aprove\"\n", ":3:10: "),
    ] {
        let text = format!("state = {state:?}\n[[rule]]\n{rule}");
        let finished = check(&text, &[]);
        assert_found(&finished, "policy", "fail", &format!("{config}{reason}"));
        assert_found(&finished, "state", "ok", "state does not exist yet");
    }
    for (text, reason) in [
        ("stat = \"x\"\n", ":1:1: unknown key `stat`"),
        ("interval = \"soon\"\n", ":1:12: "),
        ("interval = 8s\n", ":1:"),
    ] {
        let finished = check(text, &["--prepare", "true"]);
        assert_found(&finished, "policy", "fail", &format!("{config}{reason}"));
        assert_found(&finished, "prepare", "ok", "--prepare runs ");
        assert_found(&finished, "state", "warn", "the file cannot be read");
    }
    let all = ["--config", &config, "--report", &report];
    let finished = doctor(&service.url(), &all).with_code(1);
    assert!(finished.stderr.starts_with("note: the report is in "));
    let text = fs::read_to_string(&report).expect("a report");
    assert!(text.contains("FAIL  policy "), "{text}");
    // There is nothing to rehearse with.
    let rehearsed = [&["doctor", "--rehearse", "reboot", "--yes"], &all[..2]].concat();
    let rehearsed = run(&rehearsed).with_code(2);
    let place = format!("error: {config}:1:");
    assert!(rehearsed.stderr.starts_with(&place), "{}", rehearsed.stderr);
}

#[test]
fn hooks_that_cannot_run_are_found() {
    let (service, folder) = (service(), Folder::new());
    let (policy, state) = (
        folder.file("policy.toml", PREPARE_ALL),
        folder.path("state"),
    );
    let plain = folder.file("drain", "#!/bin/sh\n");
    let check = |options: &[&str]| {
        let all = ["--policy", &policy, "--state", &state];
        doctor(&service.url(), &[&all, options].concat())
    };
    let finished = check(&["--prepare", &plain, "--recover", "no-such-program-here x"]);
    assert_found(&finished, "prepare", "fail", "this user may not execute ");
    assert_found(&finished, "prepare", "fail", "(mode 644, of user ");
    assert_found(
        &finished,
        "recover",
        "fail",
        "no program \"no-such-program-here\" in the folders of PATH",
    );
    let finished = check(&["--prepare", "systemctl stop a && systemctl stop b"]);
    assert_found(
        &finished,
        "prepare",
        "fail",
        "passes \"&&\" to \"systemctl\" as an argument",
    );
    assert_found(&finished, "recover", "warn", "no --recover");
    let finished = check(&[
        "--on",
        "completed=echo $HOME | logger",
        "--gate",
        "/no/such/gate",
    ]);
    assert_found(&finished, "on", "fail", "passes \"$HOME\" to \"echo\"");
    assert_found(
        &finished,
        "gate",
        "fail",
        "there is no program \"/no/such/gate\"",
    );
    assert_found(
        &finished,
        "prepare",
        "warn",
        "there is no --prepare COMMAND",
    );
    let unused = doctor(
        &service.url(),
        &["--policy", "sample", "--prepare", "true", "--state", &state],
    );
    assert_found(&unused, "prepare", "warn", "are never run");
}

/// `scheduled-events-fleet`, imitated: it writes its arguments to a file, prints these lines, and ends with this code.
fn fleet_program(folder: &Folder, lines: &str, code: u8) -> String {
    let (arguments, output) = (folder.path("arguments"), folder.file("output", lines));
    let script = format!("#!/bin/sh\necho \"$@\" >{arguments}\ncat {output}\nexit {code}\n");
    let program = folder.file("scheduled-events-fleet", script);
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("a mode");
    program
}

#[test]
fn the_gate_of_the_fleet_and_its_drain_are_asked() {
    let (service, folder) = (service(), Folder::new());
    let lines = r#"{"check":"daemon","outcome":"ok","found":"version 0.1.0 runs for 3 d as WestNO_0","do":null}
{"check":"limits","outcome":"warn","found":"the group web has the limit 1 here and another one at WestNO_7","do":"make it equal","machines":["WestNO_7"]}
"#;
    let program = fleet_program(&folder, lines, 0);
    let gate = format!("{program} --config /etc/f.toml ask");
    let check = |options: &[&str]| doctor(&service.url(), options);
    let report = folder.path("report");
    let finished = check(&["--gate", &gate, "--report", &report]).with_code(0);
    let found = format!(
        "limits: the group web has the limit 1 here and another one at WestNO_7; \
         --gate runs {program}; daemon: version 0.1.0 runs for 3 d as WestNO_0"
    );
    assert_found(&finished, "gate", "warn", &found);
    let gate_line = finding(&finished, "gate");
    assert_eq!(gate_line["do"], "make it equal", "{gate_line}");
    assert_eq!(gate_line["machines"][0], "WestNO_7", "{gate_line}");
    let arguments = || fs::read_to_string(folder.path("arguments")).expect("it ran");
    assert_eq!(arguments(), "--config /etc/f.toml check gate --json\n");
    let report = fs::read_to_string(report).expect("a report");
    assert!(
        report.contains("another one at vm_") && !report.contains("WestNO_7"),
        "{report}"
    );

    let lines = r#"{"check":"node","outcome":"ok","found":"web-0 exists","do":null}
{"check":"right","outcome":"ok","found":"get nodes web-0","do":null}
{"check":"right","outcome":"ok","found":"patch nodes web-0","do":null}
{"check":"right","outcome":"fail","found":"create pods/eviction: not allowed","do":"add to its ClusterRole: ..."}
"#;
    let program = fleet_program(&folder, lines, 1);
    let drain = format!("{program} drain --node web-0");
    let finished = check(&["--prepare", &drain]);
    for found in [
        "right: create pods/eviction: not allowed; ",
        "; node: web-0 exists; Kubernetes allows 2 requests",
    ] {
        assert_found(&finished, "prepare", "fail", found);
    }
    assert_eq!(arguments(), "check node --json --node web-0\n");
}

#[test]
fn a_fleet_program_that_cannot_check_is_found() {
    let (service, folder) = (service(), Folder::new());
    let program = folder.path("scheduled-events-fleet");
    let expected = |message: &'static str| match message {
        "" => "it printed nothing",
        message => message,
    };
    for (message, outcome) in [
        ("error: unrecognized subcommand 'check'", "warn"),
        (
            "error: /etc/scheduled-events/fleet.toml:1:1: unknown field `engin`",
            "fail",
        ),
        ("", "fail"),
    ] {
        fleet_program(&folder, message, 2);
        let script = format!("#!/bin/sh\ncat {} >&2\nexit 2\n", folder.path("output"));
        fs::write(&program, script).expect("written");
        let finished = doctor(&service.url(), &["--gate", &format!("{program} ask")]);
        let found = format!(
            "--gate: scheduled-events-fleet cannot check itself: {}",
            expected(message)
        );
        assert_found(&finished, "gate", outcome, &found);
    }
}

/// A user who cannot write everywhere, unlike root.
const USER: &str = "65534";

/// `doctor` as that user, started in the place of the program.
fn doctor_as_user(program: &str, endpoint: &str, options: &[&str]) -> Finished {
    let mut wrapper = unprivileged(USER);
    let instead = format!("shift; exec {program} \"$@\"");
    wrapper.extend(["sh", "-c", &instead, "sh"].map(str::to_owned));
    let all = [&["doctor", "--json", "--endpoint", endpoint], options].concat();
    Run::start(wrap(&wrapper, &command(&all))).finish()
}

#[test]
fn what_the_user_may_not_run_or_ask_is_found() {
    let (service, folder) = (service(), Folder::new());
    let (program, private) = give_away(&folder, USER);
    let secret = folder.file("secret", "#!/bin/sh\n");
    fs::set_permissions(&secret, Permissions::from_mode(0o700)).expect("a mode");
    let is_root = rustix::process::geteuid().is_root();
    let state = format!("{private}/state");
    let options = [
        "--state",
        &state,
        "--prepare",
        &secret,
        "--recover",
        "systemctl start app",
        "--on",
        "completed=sh -c 'systemctl restart x && sync'",
    ];
    let finished = doctor_as_user(&program, &service.url(), &options);
    // This user's own file, if the tests do not run as root.
    let outcome = if is_root { "fail" } else { "warn" };
    assert_eq!(
        finding(&finished, "prepare")["outcome"],
        outcome,
        "{finished:?}"
    );
    if Path::new("/usr/bin/systemctl").exists() {
        let text =
            "whether polkit allows `systemctl start app.service` is unknown: only root may ask";
        assert_found(&finished, "recover", "warn", text);
    }
    let in_shell = "whether polkit allows `systemctl restart x.service` is unknown";
    assert_found(&finished, "on", "warn", in_shell);
}

#[test]
fn a_hook_that_would_gain_rights_where_none_can_is_found() {
    let service = service();
    let url = service.url();
    let options = [
        "doctor",
        "--json",
        "--endpoint",
        &url,
        "--on",
        "completed=su -c drain",
    ];
    let wrapper = ["setpriv", "--no-new-privs", "--"].map(str::to_owned);
    let finished = Run::start(wrap(&wrapper, &command(&options))).finish();
    let text = "--on completed=: su gains no rights here: NoNewPrivileges is set";
    assert_found(&finished, "on", "fail", text);
    assert!(!run(&options).stdout.contains("NoNewPrivileges"));
}

#[test]
fn a_folder_for_the_state_that_is_missing_read_only_or_anothers_is_found() {
    let (service, folder) = (service(), Folder::new());
    let (program, private) = give_away(&folder, USER);
    let missing = folder.path("no/state");
    let finished = doctor(
        &service.url(),
        &[
            "--state",
            &missing,
            "--audit",
            &missing.replace("state", "audit"),
        ],
    );
    assert_found(&finished, "state", "fail", "/no does not exist");
    assert_found(&finished, "audit", "fail", "/no does not exist");

    let state = format!("{private}/state");
    fs::set_permissions(&private, Permissions::from_mode(0o555)).expect("a mode");
    let finished = doctor_as_user(&program, &service.url(), &["--state", &state]);
    assert_found(&finished, "state", "fail", "Permission denied");
    fs::set_permissions(&private, Permissions::from_mode(0o755)).expect("a mode");

    if rustix::process::geteuid().is_root() {
        let other = folder.path("other");
        fs::create_dir(&other).expect("a folder");
        std::os::unix::fs::chown(&other, Some(1), Some(1)).expect("a folder to give away");
        let finished = doctor_as_user(
            &program,
            &service.url(),
            &["--state", &format!("{other}/state")],
        );
        assert_found(&finished, "state", "fail", "belongs to the user 1");
    }
}

#[test]
fn a_place_for_the_metrics_that_nobody_reads_is_found() {
    let (service, folder) = (service(), Folder::new());
    let finished = doctor(
        &service.url(),
        &["--metrics-file", &folder.path("no/x.prom")],
    );
    assert_found(&finished, "metrics", "fail", "there is no folder ");
    let finished = doctor(&service.url(), &["--metrics-file", &folder.path("x.txt")]).with_code(0);
    assert_found(
        &finished,
        "metrics",
        "warn",
        "reads only files that end in .prom",
    );
}

#[test]
fn another_watcher_is_found_with_its_process_and_its_last_document() {
    let (service, folder) = (service(), Folder::new());
    let (state, audit) = (folder.path("state"), folder.path("audit"));
    let options = ["--state", &state, "--audit", &audit];
    let watcher = Run::watch(&service.url(), &options);
    service.await_polls(3);
    eventually("a report", || {
        folder.names().contains(&"state.sight".into()).then_some(())
    });
    let finished = doctor(&service.url(), &options).with_code(0);
    let text = format!("process {} uses it: another watcher", watcher.id());
    assert_found(&finished, "state", "warn", &text);
    assert_found(&finished, "audit", "warn", &text);
    assert_found(&finished, "state", "warn", "last document ");
    // The watcher of the unit in question may use its files.
    let process = format!("--unit-process={}", watcher.id());
    let own = doctor(&service.url(), &[&options[..], &[&process]].concat()).with_code(0);
    assert_found(&own, "state", "ok", "in use by the unit's watcher");
    watcher.stop();
    let after = doctor(&service.url(), &options).with_code(0);
    assert_found(&after, "state", "ok", "saved ");
    // It has not taken the lock away from anybody, nor left anything.
    let again = [&options[..], &["--max-polls", "1"]].concat();
    Run::watch(&service.url(), &again).finish().with_code(0);
}

#[test]
fn hooks_without_state_are_found() {
    let finished = doctor(
        &service().url(),
        &["--prepare", "true", "--policy", "sample"],
    );
    let text = "there is no --state FILE: what was prepared for before a restart is not recovered from after it";
    assert_found(&finished, "state", "warn", text);
}

#[test]
fn the_output_for_people_fits_the_terminal() {
    let service = service();
    for columns in [80, 120] {
        let command = command(&[
            "doctor",
            "--endpoint",
            &service.url(),
            "--vm-name",
            "other_7",
            "--color",
            "never",
            "--prepare",
            "systemctl stop a && systemctl stop b",
            "--state",
            "/no/such/folder/state",
        ]);
        let text = Terminal::new(columns).run(command);
        assert!(
            text.lines()
                .all(|line| line.width() <= usize::from(columns)),
            "{text}"
        );
        assert!(
            text.starts_with("ok    service  http://127.0.0.1:"),
            "{text}"
        );
        assert!(
            text.contains("\nFAIL  name     the metadata service calls this machine WestNO_0, "),
            "{text}"
        );
        assert!(
            text.contains("\n               -> leave --vm-name out\n"),
            "{text}"
        );
        assert!(text.contains("13 checks, 3 failures, "), "{text}");
    }
}

#[test]
fn a_unit_is_read_by_root_alone_and_excludes_options() {
    let refused = run(&["doctor", "--unit", "x", "--policy", "sample"]).with_code(2);
    assert!(
        refused.stderr.contains("cannot be used with"),
        "{}",
        refused.stderr
    );
    let missing = run(&["doctor", "--unit", "no-such-unit-here"]).with_code(2);
    assert!(missing.stderr.starts_with("error: "), "{}", missing.stderr);
    assert!(Path::new(PROGRAM).exists());
}

#[test]
fn a_report_says_what_was_found_and_not_whose_machine_it_is() {
    let (service, folder) = (play(SCENARIO, &[]), Folder::new());
    let (report, audit) = (folder.path("report"), folder.path("audit"));
    let url = service.url();
    Run::watch(
        &url,
        &[
            "--vm-name",
            VM,
            "--audit",
            &audit,
            "--policy",
            "sample",
            "--until-idle",
        ],
    )
    .finish()
    .with_code(0);
    let finished = doctor(
        &url,
        &[
            "--audit",
            &audit,
            "--vm-name",
            VM,
            "--report",
            &report,
            "--metrics-file",
            "/no/x.prom",
        ],
    )
    .with_code(1);
    let note = format!(
        "note: the report is in {report}, without names, ids and addresses; look at it before you send it\n"
    );
    assert_eq!(finished.stderr, note);
    let text = fs::read_to_string(&report).expect("a report");
    for part in [
        "== Versions\nscheduled-events ",
        "== Findings\n",
        "FAIL  metrics  there is no folder /no",
        "== Last records\n{\"",
        "\"event_type\":\"Reboot\"",
        "vm_1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let record = crate::support::lines(&audit)[0].clone();
    let record: Value = serde_json::from_str(&record).expect("a record");
    let id = record["event_id"].as_str().expect("an id");
    for secret in [VM, "WestNO", id] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let mode = fs::metadata(&report)
        .expect("a report")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let nowhere = doctor(&url, &["--report", "/no/such/folder/report"]).with_code(2);
    assert!(
        nowhere
            .stderr
            .starts_with("error: cannot write the report "),
        "{}",
        nowhere.stderr
    );
    doctor(&url, &["--report", &report]).with_code(0);
}

#[test]
fn a_report_replaces_nothing_but_an_earlier_report() {
    let service = service();
    let folder = Folder::new();
    let other = folder.path("other");
    let link = folder.path("link");
    fs::write(&other, "what matters").expect("a file");
    std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
    for path in [&other, &link, &folder.path("."), &"/dev/null".to_owned()] {
        let finished = doctor(&service.url(), &["--report", path]).with_code(2);
        let reason = "is there, and is no earlier report; write another path after --report\n";
        assert!(finished.stderr.ends_with(reason), "{}", finished.stderr);
    }
    assert_eq!(fs::read_to_string(&other).expect("a file"), "what matters");
    assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
}

#[test]
fn checks_inside_a_unit_leave_what_only_root_can_do_to_root() {
    let service = service();
    let options = [
        "--unit-process=0",
        "--on",
        "completed=systemctl start app",
        "--audit",
        "/no/audit",
        "--vm-name",
        VM,
    ];
    let finished = doctor(&service.url(), &options).with_code(1);
    let last = finished.records().pop().expect("a record");
    assert_eq!(
        last.to_string(),
        r#"{"asking":[{"check":"on","option":"--on completed=","question":{"units":["app.service"],"verb":"start"}}],"audit":"/no/audit","metrics_file":null,"names":["WestNO_0"]}"#
    );
}

#[test]
fn fault_39_a_name_that_is_not_the_metadatas_is_reported_at_the_start() {
    let service = service();
    let wrong = Run::watch(&service.url(), &["--vm-name", "other_7"]);
    let right = Run::watch(&service.url(), &["--vm-name", "_westno_0"]);
    wrong.wait_for_stderr(
        "warning: the metadata service calls this machine WestNO_0, --vm-name other_7: events of WestNO_0 count as another machine's; leave --vm-name out\n",
    );
    eventually("both requests for the name", || {
        let mut requests = service.requests();
        requests.retain(crate::support::Request::is_name);
        (requests.len() == 2).then_some(())
    });
    service.await_polls(4);
    wrong.stop();
    let stderr = right.stop().stderr;
    assert!(!stderr.contains("calls this machine"), "{stderr}");
}

#[test]
fn fault_40_a_command_that_needs_a_shell_is_reported_at_the_start() {
    let (service, folder) = (service(), Folder::new());
    let state = folder.path("state");
    let options = [
        "--max-polls",
        "1",
        "--state",
        &state,
        "--prepare",
        "true && false",
    ];
    let finished = Run::watch(&service.url(), &options).finish().with_code(0);
    let text = "warning: --prepare passes \"&&\" to \"true\" as an argument: commands are run without a shell; write --prepare \"sh -c '...'\", or a script\n";
    assert!(finished.stderr.contains(text), "{}", finished.stderr);
}

#[test]
fn fault_41_hooks_without_a_state_file_are_reported_at_the_start() {
    let (service, folder) = (service(), Folder::new());
    let state = folder.path("state");
    let text = "warning: there is no --state FILE: what was prepared for before a restart is not recovered from after it; add --state FILE\n";
    let started = |more: &[&str]| {
        let options = [&["--max-polls", "1", "--prepare", "true"], more].concat();
        Run::watch(&service.url(), &options)
            .finish()
            .with_code(0)
            .stderr
    };
    assert!(started(&[]).contains(text));
    assert!(!started(&["--state", &state]).contains("--state FILE"));
}
