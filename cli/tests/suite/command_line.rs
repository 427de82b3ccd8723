//! The command line: exit codes, messages, and the contents of standard output.

#[cfg(unix)]
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::{
    FakeService, Folder, Reply, Run, VM, command, document, freeze, play, run, wait, with,
};

const SCENARIOS: [&str; 16] = [
    "live-migration",
    "host-maintenance",
    "user-reboot",
    "user-redeploy",
    "redeploy",
    "cancelled",
    "preempt",
    "rebalance",
    "rebalance-withdrawn",
    "terminate",
    "terminate-pair",
    "hardware-failure",
    "rescheduled",
    "reboot-during-freeze",
    "incarnation-reset",
    "scale-in",
];

/// Runs the command, which must exit with this code and print nothing but one line on standard
/// error.
#[track_caller]
fn refused(arguments: &[&str], code: i32) -> String {
    let finished = run(arguments).with_code(code);
    assert_eq!(finished.stdout, "", "{arguments:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    assert!(
        finished.stderr.starts_with("error: "),
        "{}",
        finished.stderr
    );
    finished.stderr.trim_end().to_owned()
}

/// An endpoint that refuses connections: the port is that of the `discard` service.
const NOWHERE: &str = "http://127.0.0.2:9";

#[test]
fn a_usage_error_suggests_what_was_meant() {
    for (arguments, expected) in [
        (&["watch", "--polcy", "sample"][..], "'--policy'"),
        (&["lst"], "'list'"),
        (&["watch", "--max-polls", "0"], "'0'"),
        (&["check", "--now", "tomorrow"], "2022-04-11T22:20:00Z"),
        (&["replay", "preempt", "--speed", "0"], "from 0.001"),
        (
            &["replay", "preempt", "--fault", "statsu:500"],
            "did you mean `status`?",
        ),
        (&["approve"], "<ID>..."),
        (&["watch", "--vm-name", " "], "the name is empty"),
        (&["approve", "a", "--mine"], "cannot be used with"),
        (&["approve", "--others"], "<ID>..."),
        (&["approve", "--mine", "--others"], "cannot be used with"),
        (
            &["approve", "--type", "Freeze,prempt"],
            "did you mean `Preempt`?",
        ),
        (
            &["wait", "--type", "Maintenance"],
            "one or more of Freeze, Reboot, Redeploy, Preempt, Terminate, Other",
        ),
        (&["wait", "--timeout", "0"], "at least 1s"),
    ] {
        let finished = run(arguments).with_code(2);
        assert!(
            finished.stderr.starts_with("error: ") && finished.stderr.contains(expected),
            "{}",
            finished.stderr
        );
        assert_eq!(finished.stdout, "");
    }
    let finished = run::<&str>(&[]).with_code(2);
    assert!(finished.stderr.contains("Usage:"), "{}", finished.stderr);
}

#[test]
fn the_help_of_each_subcommand_has_an_example() {
    let help = run(&["--help"]).with_code(0);
    assert_eq!(help.stderr, "");
    for task in [
        "list",
        "watch",
        "approve",
        "wait",
        "check",
        "replay",
        "scenarios",
        "demo",
    ] {
        assert!(
            help.stdout.contains(&format!("\n  {task}")),
            "{task}: {}",
            help.stdout
        );
        let help = run(&[task, "--help"]).with_code(0);
        let example = format!("Example:  scheduled-events {task}");
        assert!(help.stdout.contains(&example), "{task}: {}", help.stdout);
    }
    for line in [
        "0  success",
        "1  the endpoint cannot be reached",
        "nothing can be approved",
        "2  usage",
        "3  the input",
        "4  wait",
    ] {
        assert!(help.stdout.contains(line), "{line}: {}", help.stdout);
    }
    let version = run(&["--version"]).with_code(0);
    assert_eq!(
        version.stdout,
        format!("scheduled-events {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn an_invalid_policy_file_is_reported_with_file_line_and_column() {
    let folder = Folder::new();
    let document = folder.file("document.json", r#"{"Events":[]}"#);
    for (text, place, expected) in [
        ("[[rule]]\naction = \"aprove\"\n", "2:", "approve"),
        (
            "# ä comment\n[[rule]]\nevents = [\"Freeze\"]\naction = \"hold\"\n",
            "3:1:",
            "events",
        ),
        ("[[rule]\n", "1:", ""),
        ("leader = \"first\"\n", "1:10:", "first-resource"),
    ] {
        let policy = folder.file("policy.toml", text);
        for task in [vec!["check", &document], vec!["watch"]] {
            let refusal = refused(&[&task[..], &["--policy", &policy]].concat(), 2);
            assert!(
                refusal.starts_with(&format!("error: {policy}:{place}")),
                "{refusal}"
            );
            assert!(refusal.contains(expected), "{refusal}");
        }
    }
    let missing = refused(&["watch", "--policy", &folder.path("missing.toml")], 2);
    assert!(
        missing.contains("a policy is `observe`, `sample` or a TOML file"),
        "{missing}"
    );
    let misspelled = refused(&["watch", "--policy", "Sample"], 2);
    assert!(
        misspelled.contains("did you mean `sample`?"),
        "{misspelled}"
    );
}

#[test]
fn an_unreachable_endpoint_is_exit_code_1() {
    for arguments in [
        &["list", "--endpoint", NOWHERE][..],
        &["approve", "some-id", "--endpoint", NOWHERE],
    ] {
        let message = refused(arguments, 1);
        assert!(
            message.contains(NOWHERE) && message.contains("demo"),
            "{message}"
        );
    }
}

#[test]
fn a_foreign_endpoint_needs_allow_endpoint() {
    for (url, expected) in [
        ("http://10.0.0.4", "--allow-endpoint"),
        ("http://metadata.example", "--allow-endpoint"),
        ("https://169.254.169.254", "must start with http://"),
        ("169.254.169.254", "http://"),
        ("http://127.0.0.1/metadata", "a scheme, a host and a port"),
        ("http://127.0.0.1:99999", "a port"),
        ("http://127.0.0.1:80#x", "; try http://127.0.0.1:80"),
        ("", ""),
    ] {
        for task in [&["list"][..], &["approve", "a"], &["watch"]] {
            let refusal = refused(&[task, &["--endpoint", url]].concat(), 2);
            assert!(refusal.contains(expected), "{url}: {refusal}");
        }
    }
}

#[test]
fn a_refusal_is_exit_code_1_and_its_text_is_printed() {
    let server = play(STEADY, &[]);
    let url = server.url();
    let unknown_version = refused(
        &["list", "--endpoint", &url, "--api-version", "2030-01-01"],
        1,
    );
    assert!(
        unknown_version.contains("refused with status 400"),
        "{unknown_version}"
    );
    assert!(
        unknown_version.contains("; try --api-version 2020-07-01"),
        "{unknown_version}"
    );

    for (status, body, expected) in [
        (
            429,
            "Throttle Result: Too Many Requests",
            "Too Many Requests; try again in a minute",
        ),
        (
            500,
            r#"{"error":"Internal"}"#,
            ": Internal; try again in a minute",
        ),
        (
            429,
            r#"{"error":"too_many_requests","error_description":"Retry later"}"#,
            ": too_many_requests: Retry later; try again in a minute",
        ),
        (
            403,
            "",
            "status 403: where the Metadata Security Protocol is enforced, its allowlist has to name this program",
        ),
        (404, "<html>\n<body>lost</body>\n</html>", "status 404"),
    ] {
        let service = FakeService::start();
        service.intercept(move |_| Some(Reply::new(status, "", body)));
        let url = service.url();
        for arguments in [
            &["list", "--endpoint", &url][..],
            &["approve", "a", "--endpoint", &url],
        ] {
            let refusal = refused(&[arguments, &[]].concat(), 1);
            assert!(refusal.contains(expected), "{refusal}");
        }
    }
    let service = FakeService::start();
    service.show_body("");
    assert!(refused(&["list", "--endpoint", &service.url()], 1).contains("empty body"));
    service.show_body("{\"Events\":\n [}");
    let refusal = refused(&["list", "--endpoint", &service.url()], 3);
    assert!(
        refusal.starts_with(&format!("error: {}:2:3: ", service.url())),
        "{refusal}"
    );
}

#[test]
fn what_an_old_api_version_does_not_deliver_is_reported() {
    let server = play(STEADY, &[]);
    let url = server.url();
    let folder = Folder::new();
    let document = folder.file("document.json", document(1, &[freeze("a")]));
    let old = "2019-01-01";
    let warning = "warning: API version 2019-01-01 does not deliver what the policy names: EventSource (rule 1), \
                   DurationInSeconds (rule 2); use --api-version 2020-07-01 or newer\n";
    let watch = [
        "watch",
        "--endpoint",
        &url,
        "--vm-name",
        VM,
        "--max-polls",
        "1",
        "--policy",
        "sample",
    ];
    let check = ["check", &document, "--vm-name", VM, "--policy", "sample"];
    for arguments in [&watch[..], &check] {
        let finished = run(&[arguments, &["--api-version", old]].concat()).with_code(0);
        assert_eq!(finished.stderr, warning, "{arguments:?}");
        assert_eq!(run(arguments).with_code(0).stderr, "", "{arguments:?}");
    }
    let missing = "does not deliver Terminate events; use --api-version 2019-01-01 or newer";
    for (arguments, version, is_warned) in [
        (&["list"][..], "2017-11-01", true),
        (&["list"], old, false),
        (&["wait", "--type", "Freeze"], "2017-11-01", false),
        (&["wait", "--type", "Freeze,Terminate"], "2017-11-01", true),
    ] {
        let finished = run(&[arguments, &["--endpoint", &url, "--api-version", version]].concat());
        assert_eq!(
            finished.stderr.contains(missing),
            is_warned,
            "{arguments:?}: {}",
            finished.stderr
        );
    }
}

/// A freeze that waits for its approval.
const STEADY: &str = r#"
    about = "A freeze of two machines that waits for its approval."
    [[event]]
    event_type = "Freeze"
    description = "Host server is undergoing maintenance."
    duration_in_seconds = 9
    resources = ["{vm}", "{peer:1}"]
    notice = "10h"
    starts_after_approval = "10h"
"#;

#[test]
fn list_prints_a_table_or_records() {
    let server = play(STEADY, &[]);
    let url = server.url();
    let table = run(&["list", "--endpoint", &url]).with_code(0);
    for words in [
        "1 event (incarnation 2)",
        "TYPE",
        "Freeze",
        "Scheduled",
        "9 s",
        "Platform",
        "WestNO_0, WestNO_1",
        "Host server is undergoing maintenance.",
        "* this machine's event",
    ] {
        assert!(table.stdout.contains(words), "{words}: {}", table.stdout);
    }
    assert!(
        !table.stdout.contains('\u{1b}'),
        "colours without a terminal"
    );

    let records = run(&["list", "--endpoint", &url, "--json"]).with_code(0);
    let lines: Vec<_> = records.stdout.lines().collect();
    assert_eq!(
        lines[0],
        r#"{"record":"document","incarnation":2,"events":1,"problems":0}"#
    );
    let event: Value = serde_json::from_str(lines[1]).expect("JSON");
    let (id, not_before) = (
        event["event_id"].as_str().expect("an id"),
        event["not_before"].as_str().expect("a time"),
    );
    assert_eq!(
        lines[1],
        format!(
            r#"{{"record":"event","event_id":"{id}","event_type":"Freeze","event_status":"Scheduled","resource_type":"VirtualMachine","resources":["WestNO_0","WestNO_1"],"not_before":"{not_before}","description":"Host server is undergoing maintenance.","event_source":"Platform","duration_in_seconds":9,"mine":true}}"#
        )
    );
    assert_eq!(lines.len(), 2, "list decides nothing");

    let others = run(&["list", "--endpoint", &url, "--json", "--vm-name", "other"]).with_code(0);
    assert_eq!(others.records()[1]["mine"], false);
}

#[test]
fn list_warns_if_the_machines_name_is_unknown() {
    let service = FakeService::start();
    service.set_name(None);
    service.show(
        2,
        &[
            freeze("a"),
            with(freeze("b"), &json!({ "NotBefore": "soon" })),
        ],
    );
    let finished = run(&["list", "--endpoint", &service.url(), "--json"]).with_code(0);
    assert!(
        finished.stderr.starts_with("warning: "),
        "{}",
        finished.stderr
    );
    let kinds: Vec<_> = finished
        .records()
        .iter()
        .map(|record| record["record"].clone())
        .collect();
    assert_eq!(kinds, ["document", "event", "event", "problem"]);
    assert_eq!(finished.records()[1]["mine"], Value::Null);
    // Without events the name is not needed.
    service.show(3, &[]);
    let finished = run(&["list", "--endpoint", &service.url()]).with_code(0);
    assert!(
        finished.stdout.starts_with("no events (incarnation 3)"),
        "{}",
        finished.stdout
    );
    assert_eq!(finished.stderr, "");
}

#[test]
#[cfg(target_os = "linux")]
fn an_output_that_cannot_be_written_is_an_error() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let url = service.url();
    for arguments in [
        &["list", "--endpoint", &url][..],
        &["list", "--json", "--endpoint", &url],
        &["scenarios"],
    ] {
        let mut command = command(arguments);
        let full = || {
            std::fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .expect("a device")
        };
        let finished = wait::output_of(command.stdout(full()).spawn().expect("the command starts"));
        assert_eq!(finished.status.code(), Some(1), "{arguments:?}");
        let message = String::from_utf8_lossy(&finished.stderr);
        assert!(
            message.contains("error: cannot write to standard output: No space left on device"),
            "{message}"
        );
    }
    // A watcher continues and reports the error once.
    let mut watcher = command(&[
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--vm-name",
        VM,
        "--interval",
        "200ms",
    ]);
    watcher.args(["--max-polls", "4"]).stdout(
        std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("a device"),
    );
    let finished = wait::output_of(watcher.spawn().expect("the command starts"));
    assert_eq!(finished.status.code(), Some(1));
    let message = String::from_utf8_lossy(&finished.stderr);
    assert_eq!(
        message
            .matches("error: cannot write records to standard output")
            .count(),
        1,
        "{message}"
    );
    assert!(
        message.ends_with(
            "error: cannot write to standard output: No space left on device (os error 28)\n"
        ),
        "{message}"
    );
    assert_eq!(
        service
            .requests()
            .iter()
            .filter(|request| request.is_get())
            .count(),
        2 + 4,
        "it polled to the end"
    );
    for arguments in [&["demo", "--speed", "1000"][..], &["replay", "preempt"]] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("a device");
        let finished = wait::output_of(
            command(arguments)
                .stdout(full)
                .spawn()
                .expect("the command starts"),
        );
        assert_eq!(finished.status.code(), Some(1), "{arguments:?}");
        let message = String::from_utf8_lossy(&finished.stderr);
        assert!(
            message.contains("error: cannot write to standard output: No space left"),
            "{arguments:?}: {message}"
        );
    }
}

#[test]
fn a_watcher_whose_reader_is_gone_goes_on_and_ends_with_an_error() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let url = service.url();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut watcher = command(&[
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--vm-name",
        VM,
        "--interval",
        "200ms",
    ]);
    watcher
        .args(["--max-polls", "4", "--policy", "sample"])
        .stdout(writer);
    let finished = wait::output_of(watcher.spawn().expect("the command starts"));
    let message = String::from_utf8_lossy(&finished.stderr);
    assert_eq!(finished.status.code(), Some(1), "{message}");
    let reason = if cfg!(windows) {
        ""
    } else {
        "Broken pipe (os error 32)\n"
    };
    assert!(
        message.contains(&format!("error: cannot write to standard output: {reason}")),
        "{message}"
    );
    assert_eq!(service.posted(), ["a"]);
}

#[test]
fn the_option_endpoint_overrides_the_environment() {
    let service = FakeService::start();
    let mut from_environment = command(&["list"]);
    from_environment.env("SCHEDULED_EVENTS_ENDPOINT", service.url());
    Run::start(from_environment).finish().with_code(0);
    let mut given = command(&["list", "--endpoint", &service.url()]);
    given.env("SCHEDULED_EVENTS_ENDPOINT", NOWHERE);
    Run::start(given).finish().with_code(0);
    assert_eq!(service.polls(), 2);
}

#[test]
fn scenarios_lists_all_scenarios() {
    let table = run(&["scenarios"]).with_code(0);
    let records = run(&["scenarios", "--json"]).with_code(0).records();
    assert_eq!(records.len(), SCENARIOS.len());
    for name in SCENARIOS {
        assert!(
            table
                .stdout
                .lines()
                .any(|line| line.split_whitespace().next() == Some(name)),
            "{name}"
        );
        let record = records
            .iter()
            .find(|record| record["name"] == name)
            .expect(name);
        assert_eq!(record["record"], "scenario");
        assert!(
            record["about"]
                .as_str()
                .is_some_and(|about| about.len() > 20),
            "{record}"
        );
    }
}

/// The endpoint that `replay` prints on its first line.
fn first_line(run: &Run) -> String {
    let line = crate::support::eventually("the first line", || {
        run.stdout()
            .split_once('\n')
            .map(|(line, _)| line.to_owned())
    });
    line.strip_prefix("listening on ")
        .unwrap_or_else(|| panic!("{line}"))
        .to_owned()
}

#[test]
fn replay_prints_its_address_and_serves_there() {
    let replay = Run::start(command(&[
        "replay",
        "user-reboot",
        "--vm-name",
        "spot_3",
        "--speed",
        "60",
    ]));
    let url = first_line(&replay);
    let address: std::net::SocketAddr = url
        .strip_prefix("http://")
        .expect("a URL")
        .parse()
        .expect("an address");
    assert!(address.ip().is_loopback());
    let finished = Run::watch(&url, &["--policy", "sample", "--until-idle"])
        .finish()
        .with_code(0);
    assert_eq!(finished.approved().len(), 1);
    assert!(
        finished.stderr.contains("this machine is spot_3"),
        "{}",
        finished.stderr
    );
    assert!(
        replay.stdout().contains("is approved"),
        "{}",
        replay.stdout()
    );
}

#[test]
fn replay_reports_a_used_port_and_an_invalid_scenario() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("an address").to_string();
    let message = refused(&["replay", "preempt", "--listen", &taken], 2);
    assert!(
        message.contains(&taken) && message.contains("port 0 takes a free one"),
        "{message}"
    );

    for task in ["replay", "demo"] {
        let message = refused(&[task, "preemt"], 2);
        assert!(
            message.contains("did you mean \"preempt\"?")
                && message.contains("`scenarios` lists all scenarios"),
            "{message}"
        );
        let message = refused(&[task, "xyzzy"], 2);
        assert!(!message.contains("did you mean"), "{message}");
    }
    let folder = Folder::new();
    let scenario = folder.file(
        "invalid.toml",
        "about = \"A test.\"\n[[event]]\nevent_typ = \"Freeze\"\n",
    );
    let message = refused(&["replay", &scenario], 2);
    assert!(
        message.starts_with(&format!("error: {scenario}:3:1: "))
            && message.contains("`event_type`"),
        "{message}"
    );
}

#[test]
fn replay_prints_the_faults_it_injects() {
    let replay = Run::start(command(&[
        "replay",
        "preempt",
        "--fault",
        "status:503@1",
        "--fault",
        "empty@2",
    ]));
    let url = first_line(&replay);
    refused(&["list", "--endpoint", &url], 1);
    refused(&["list", "--endpoint", &url], 1);
    run(&["list", "--endpoint", &url]).with_code(0);
    crate::support::eventually("what it did", || {
        replay
            .stdout()
            .contains("-> 503 (fault: status:503@1)")
            .then_some(())
    });
}

#[test]
fn demo_prints_an_event_from_its_announcement_to_the_recovery() {
    let finished = run(&["demo"]).with_code(0);
    let story = [
        "scheduled",
        "prepare",
        "prepared",
        "approved",
        "started",
        "completed",
        "recovered",
        "All events have ended.",
    ];
    let mut rest = finished.stdout.as_str();
    for word in story {
        let (_, after) = rest
            .split_once(word)
            .unwrap_or_else(|| panic!("no {word} there: {}", finished.stdout));
        rest = after;
    }
    assert_eq!(finished.stderr, "");
}

#[test]
fn demo_is_slow_enough_to_prepare_for_an_eviction() {
    let finished = run(&["demo", "preempt", "--json"]).with_code(0);
    let story: Vec<_> = finished
        .records()
        .iter()
        .map(|record| {
            record
                .get("change")
                .unwrap_or(&record["record"])
                .as_str()
                .expect("a word")
                .to_owned()
        })
        .filter(|word| word != "decision")
        .collect();
    assert_eq!(
        story,
        [
            "scheduled",
            "prepare",
            "prepare",
            "approval",
            "started",
            "completed",
            "recover"
        ]
    );
    let outcomes = ["prepare", "recover"]
        .map(|kind| finished.of_kind(kind))
        .concat();
    let outcomes: Vec<_> = outcomes.iter().map(|record| &record["outcome"]).collect();
    assert_eq!(outcomes, ["begun", "ready", "done"]);
}

#[test]
fn demo_approves_a_short_freeze_without_preparation() {
    let finished = run(&["demo", "live-migration", "--speed", "300", "--json"]).with_code(0);
    let changes: Vec<_> = finished
        .of_kind("change")
        .iter()
        .map(|record| record["change"].clone())
        .collect();
    assert_eq!(changes, ["scheduled", "started", "completed"]);
    assert_eq!(finished.approved().len(), 1);
    assert!(finished.of_kind("prepare").is_empty());
}

#[test]
fn a_watcher_continues_when_its_reader_exits() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let url = service.url();
    let arguments = [
        "watch",
        "--endpoint",
        &url,
        "--policy",
        "sample",
        "--interval",
        "200ms",
        "--vm-name",
        VM,
    ];
    let mut watcher = command(&arguments);
    let mut child = watcher.spawn().expect("the command starts");
    drop((child.stdout.take(), child.stderr.take()));
    crate::support::eventually("an approval", || {
        (!service.posted().is_empty()).then_some(())
    });
    service.await_polls(2);
    assert!(
        child.try_wait().expect("a child").is_none(),
        "the watcher exited"
    );
    child.kill().expect("a running child");
    wait::ended(&mut child);
}

#[test]
#[cfg(unix)]
fn dropped_records_are_counted_and_reported() {
    const EVENTS: usize = 900;
    let service = FakeService::start();
    let resources: Vec<_> = (0..20)
        .map(|number| format!("WestNO_{}", 1_000 + number))
        .collect();
    // More than the pipe and the queue hold: each event is announced, and then rescheduled three
    // times.
    let show = |incarnation: u64, not_before: &str| {
        let event = |number: usize| {
            let members = json!({ "EventId": number.to_string(), "Resources": resources, "NotBefore": not_before });
            with(freeze(""), &members)
        };
        service.show_body(&document(
            incarnation,
            &(0..EVENTS).map(event).collect::<Vec<_>>(),
        ));
    };
    let url = service.url();
    let arguments = [
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
    ];
    show(2, "2099-01-01T00:00:00Z");
    let mut watcher = command(&arguments).spawn().expect("the command starts");
    service.await_polls(3);
    for hour in 1..4 {
        show(2 + hour, &format!("2099-01-01T0{hour}:00:00Z"));
        service.await_polls(3);
    }
    // From here on, a reader reads.
    let mut stdout = BufReader::new(watcher.stdout.take().expect("a pipe"));
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).expect("text");
        text
    });
    let mut stderr = BufReader::new(watcher.stderr.take().expect("a pipe"));
    let dropped: usize = wait::join(std::thread::spawn(move || {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(
                stderr.read_line(&mut line).expect("a line") > 0,
                "the watcher exited"
            );
            if let Some(rest) = line.strip_prefix("warning: dropped ") {
                assert!(
                    rest.ends_with(" records, because nothing read standard output\n"),
                    "{line}"
                );
                break rest
                    .split(' ')
                    .next()
                    .expect("a number")
                    .parse()
                    .expect("a number");
            }
        }
    }));
    watcher.kill().expect("a running child");
    wait::ended(&mut watcher);
    let text = wait::join(reader);
    let records = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a whole record"));
    // A change for each announcement and each new time, and a decision for each event.
    assert_eq!(records.count() + dropped, EVENTS * 5);
}

#[test]
fn options_whose_files_are_the_same_are_refused_before_anything_is_created() {
    let folder = crate::support::Folder::new();
    let policy = folder.file("policy.toml", "[[rule]]\naction = \"hold\"\n");
    let path = |name: &str| folder.path(name);
    let service = FakeService::start();
    let url = service.url();
    let watch = |options: &[&str]| {
        run(&[&["watch", "--endpoint", &url, "--max-polls", "1"], options].concat())
    };
    let mut refused = vec![watch(&["--state", &policy, "--policy", &policy])];
    for audit in ["x", "x.tmp", "x.lock"] {
        refused.push(watch(&["--state", &path("x"), "--audit", &path(audit)]));
    }
    refused.push(watch(&["--state", &path("x.2"), "--audit", &path("x")]));
    if cfg!(unix) {
        for lock in ["x", "x.lock", "x.phase", "x.tmp"] {
            let (state, lock) = (path("x"), path(lock));
            refused.push(run(&[
                "run",
                "--endpoint",
                &url,
                "--state",
                &state,
                "--lock",
                &lock,
                "--",
                "true",
            ]));
        }
    }
    for finished in refused {
        let finished = finished.with_code(2);
        assert!(
            finished.stderr.contains("both use the file "),
            "{}",
            finished.stderr
        );
        assert!(
            finished.stderr.contains("--state ") && finished.stderr.matches("--").count() == 2,
            "{}",
            finished.stderr
        );
    }
    assert_eq!(folder.names(), ["policy.toml"]);
    assert!(service.requests().is_empty());
}
