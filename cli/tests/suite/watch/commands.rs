//! The commands that a watcher runs to prepare, to recover and at changes; and hostile text from
//! outside.

use std::time::Duration;

use serde_json::{Value, json};

#[cfg(unix)]
use crate::support::WHILE_TEST_RUNS;
use crate::support::{
    FakeService, Folder, PREPARE_ALL, Run, VM, command, eventually, freeze, helper, in_future,
    lines, preparation_ended, started, together,
};
use crate::support::{about_event_of, with};

/// A folder with a policy that prepares for everything, and a log that commands write.
struct Fixture {
    folder: Folder,
    policy: String,
    log: String,
}

impl Fixture {
    fn new() -> Self {
        let folder = Folder::new();
        let policy = folder.file("policy.toml", PREPARE_ALL);
        let log = folder.path("log");
        Self {
            folder,
            policy,
            log,
        }
    }

    /// A command that logs a word and the event id.
    fn logging(&self, word: &str) -> String {
        helper(&[format!("append {} {word} $EVENT_ID", self.log)])
    }

    fn lines(&self) -> Vec<String> {
        lines(&self.log)
    }

    /// Waits for a line in the log.
    fn line(&self, line: &str) {
        eventually(line, || {
            self.lines().iter().any(|known| known == line).then_some(())
        });
    }
}

#[test]
fn at_most_eight_hooks_of_other_machines_run_at_once_and_own_events_do_not_wait_for_them() {
    let fixture = Fixture::new();
    let service = FakeService::start();
    let go = fixture.folder.path("go");
    let log = &fixture.log;
    let steps = [
        format!("append {log} begin $EVENT_ID"),
        format!("if MINE=false await {go}"),
        format!("append {log} end"),
    ];
    let on = format!("scheduled={}", helper(&steps));
    let other = |number| {
        with(
            freeze(""),
            &json!({ "EventId": format!("other-{number}"), "Resources": ["other"] }),
        )
    };
    let mut events: Vec<_> = (0..40).map(other).collect();
    service.show(2, &events);
    let run = Run::watch(
        &service.url(),
        &["--vm-name", VM, "--on", &on, "--until-idle"],
    );
    service.await_polls(4);
    events.push(freeze("mine"));
    service.show(3, &events);
    fixture.line("begin mine");
    fixture.line("end");
    let begun = |lines: &[String]| {
        lines
            .iter()
            .filter(|line| line.starts_with("begin other-"))
            .count()
    };
    eventually("eight hooks", || {
        (begun(&fixture.lines()) >= 8).then_some(())
    });
    service.await_polls(2);
    assert_eq!(begun(&fixture.lines()), 8, "{:?}", fixture.lines());
    std::fs::write(&go, "").expect("a file");
    service.show(4, &[]);
    // The watcher waits for all of them before it stops.
    run.finish().with_code(0);
    assert_eq!((begun(&fixture.lines()), fixture.lines().len()), (40, 82));
}

/// Fault 29 of `tests/field-faults.md`.
#[test]
fn a_preparation_that_failed_runs_again_and_is_approved_after_its_success() {
    let fixture = Fixture::new();
    let prepare = helper(&[
        format!("append {} prepare $ATTEMPT", fixture.log),
        "if ATTEMPT=1 exit 1".to_owned(),
    ]);
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let arguments = ["--policy", &fixture.policy, "--prepare", &prepare];
    let mut run = Run::watch(
        &service.url(),
        &[&arguments[..], &["--until-idle"]].concat(),
    );
    let approval = run.record("an approval", |record| record["record"] == "approval");
    assert_eq!(approval["status"], 200);
    service.show(3, &[]);
    let finished = run.finish().with_code(0);
    assert_eq!(fixture.lines(), ["prepare 1", "prepare 2"]);
    let outcomes: Vec<_> = finished
        .of_kind("prepare")
        .iter()
        .map(|record| (record["outcome"].clone(), record["attempt"].clone()))
        .collect();
    let expected = [("begun", 1), ("failed", 1), ("begun", 2), ("ready", 2)];
    assert_eq!(
        outcomes,
        expected.map(|(outcome, attempt)| (json!(outcome), json!(attempt)))
    );
    assert_eq!(service.posted(), ["a"]);
}

#[test]
fn prepare_and_recover_run_once_beside_the_polling_and_approval_waits_for_ready() {
    let fixture = Fixture::new();
    let go = fixture.folder.path("go");
    let prepare = helper(&[
        format!("append {} prepare $EVENT_ID", fixture.log),
        format!("await {go}"),
    ]);
    let recover = fixture.logging("recover");
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let arguments = [
        "--policy",
        &fixture.policy,
        "--prepare",
        &prepare,
        "--recover",
        &recover,
        "--until-idle",
    ];
    let mut run = Run::watch(&service.url(), &arguments);
    fixture.line("prepare a");

    // Meanwhile polls continue, another event is reported, and nothing is approved.
    service.show(
        3,
        &[
            freeze("a"),
            with(freeze("b"), &json!({ "Resources": ["other"] })),
        ],
    );
    run.change("scheduled", "b");
    service.await_polls(5);
    assert!(service.posted().is_empty());

    std::fs::write(&go, "").expect("a file");
    let prepared = run.record("a preparation", preparation_ended);
    run.record("an approval", |record| record["record"] == "approval");

    // The machine is not taken back into service before the event has ended.
    service.show(4, &[started("a")]);
    run.change("started", "a");
    service.await_polls(3);
    assert_eq!(fixture.lines(), ["prepare a"]);
    service.show(5, &[]);
    let finished = run.finish().with_code(0);
    assert_eq!(fixture.lines(), ["prepare a", "recover a"]);
    assert_eq!(service.posted(), ["a"]);
    assert_eq!(finished.changes("a"), ["scheduled", "started", "completed"]);
    let recovered = finished.of_kind("recover");
    // Each record has the members of the event in the changes.
    let changes: Vec<_> = finished
        .of_kind("change")
        .into_iter()
        .filter(|change| change["event_id"] == "a")
        .collect();
    assert_eq!(changes[0]["resources"], json!([VM]));
    let own = json!({"record": "recover", "event_ids": ["a"], "outcome": "done", "time": recovered[0]["time"]});
    assert_eq!(recovered, [about_event_of(&changes[2], &own)]);
    let preparations = finished.of_kind("prepare");
    let own = |outcome, time| json!({"record": "prepare", "outcome": outcome, "attempt": 1, "time": time});
    let expected = [
        own("begun", &preparations[0]["time"]),
        own("ready", &prepared["time"]),
    ];
    assert_eq!(
        preparations,
        expected.map(|own| about_event_of(&changes[0], &own))
    );
}

#[test]
fn an_event_is_never_approved_after_its_preparation_failed() {
    let fails = helper(&["exit 1"]);
    let commands = [
        (fails.as_str(), "the prepare command failed"),
        ("/no/such/program", "could not be started"),
        ("", "no --prepare"),
    ];
    together(commands, |(prepare, diagnostic)| {
        let fixture = Fixture::new();
        let recover = fixture.logging("recover");
        let service = FakeService::start();
        service.show(2, &[freeze("a")]);
        let mut arguments = vec![
            "--policy",
            &fixture.policy,
            "--recover",
            &recover,
            "--until-idle",
        ];
        if !prepare.is_empty() {
            arguments.extend(["--prepare", prepare]);
        }
        let mut run = Run::watch(&service.url(), &arguments);
        let prepared = run.record("a preparation", preparation_ended);
        assert_ne!(prepared["outcome"], "ready");
        run.wait_for_stderr(diagnostic);
        // Not after the event is rescheduled either.
        service.show(
            3,
            &[with(
                freeze("a"),
                &json!({ "NotBefore": in_future(Duration::from_secs(7200)) }),
            )],
        );
        run.change("rescheduled", "a");
        service.await_polls(5);
        assert!(service.posted().is_empty(), "approved after {prepare:?}");
        service.show(4, &[]);
        let finished = run.finish().with_code(0);
        // A failed preparation leads to a recovery.
        assert_eq!(finished.of_kind("recover").len(), 1);
        assert_eq!(fixture.lines(), ["recover a"]);
    });
}

#[test]
fn a_preparation_past_its_timeout_is_ended_and_the_event_is_not_approved() {
    let fixture = Fixture::new();
    // It starts another process.
    let beats = fixture.folder.path("beats");
    let prepare = helper(&[format!("child beat {beats}"), "sleep 100".to_owned()]);
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let arguments = [
        "--policy",
        &fixture.policy,
        "--prepare",
        &prepare,
        "--prepare-timeout",
        "15s",
    ];
    let mut run = Run::watch(&service.url(), &arguments);
    let prepared = run.record("a preparation", preparation_ended);
    assert_eq!(prepared["outcome"], "timed-out");
    service.await_polls(4);
    assert!(service.posted().is_empty());
    // The command's child has ended as well.
    assert!(!lines(&beats).is_empty());
    eventually("the end of the child", || {
        let before = lines(&beats);
        std::thread::sleep(Duration::from_millis(500));
        (lines(&beats) == before).then_some(())
    });
}

/// The command's own process ends on SIGTERM, but its child needs a moment.
#[test]
#[cfg(unix)] // It handles a signal.
fn what_a_command_started_has_the_grace_too() {
    let fixture = Fixture::new();
    let child = format!(
        "trap \"sleep 0.5; echo saved >> {log}; exit 0\" TERM; echo start >> {log}; while {WHILE_TEST_RUNS}; do sleep 0.05; done",
        log = fixture.log
    );
    let script = fixture
        .folder
        .file("prepare.sh", format!("sh -c '{child}' &\nwait\n"));
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let prepare = format!("sh {script}");
    let _run = Run::watch(
        &service.url(),
        &["--policy", &fixture.policy, "--prepare", &prepare],
    );
    fixture.line("start");
    service.show(3, &[]);
    fixture.line("saved");
}

#[test]
fn own_events_are_prepared_for_and_approved_independently() {
    let fixture = Fixture::new();
    let log = &fixture.log;
    let steps = [
        format!("append {log} prepare $EVENT_ID"),
        "unless EVENT_ID=good exit 1".to_owned(),
    ];
    let prepare = helper(&steps);
    let recover = fixture.logging("recover");
    let service = FakeService::start();
    service.show(2, &[freeze("bad"), freeze("good")]);
    let arguments = [
        "--policy",
        &fixture.policy,
        "--prepare",
        &prepare,
        "--recover",
        &recover,
        "--until-idle",
    ];
    let mut run = Run::watch(&service.url(), &arguments);
    run.record("an approval", |record| record["record"] == "approval");
    service.await_polls(3);
    assert_eq!(service.posted(), ["good"]);
    service.show(3, &[freeze("bad")]);
    // The other event still keeps the machine out of service.
    service.await_polls(3);
    service.show(4, &[]);
    let finished = run.finish().with_code(0);
    let recovery = finished.of_kind("recover").remove(0);
    assert_eq!(
        (&recovery["event_id"], &recovery["event_ids"]),
        (&json!("bad"), &json!(["bad", "good"]))
    );
    let mut lines = fixture.lines();
    lines.sort();
    assert_eq!(lines, ["prepare bad", "prepare good", "recover bad"]);
}

#[test]
fn hooks_get_every_member_as_a_variable_and_the_event_on_standard_input() {
    let fixture = Fixture::new();
    let (variables, input) = (
        fixture.folder.path("variables"),
        fixture.folder.path("input"),
    );
    let on = format!(
        "scheduled={}",
        helper(&[format!("variables {variables}"), format!("input {input}")])
    );
    let ended = format!("ended={}", fixture.logging("ended"));
    let never = format!("started={}", fixture.logging("started"));
    let service = FakeService::start();
    service.show(
        2,
        &[with(freeze("a"), &json!({ "Resources": [VM, "other"] }))],
    );
    let url = service.url();
    let arguments = [
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--policy",
        "sample",
        "--until-idle",
    ];
    let mut watch = command(
        &[
            &arguments[..],
            &["--on", &on, "--on", &ended, "--on", &never],
        ]
        .concat(),
    );
    // As from a user's shell, or from another watcher's command.
    watch
        .env("SCHEDULED_EVENTS_STILL_OPEN", "inherited")
        .env("SCHEDULED_EVENTS_ENDPOINT", "inherited");
    let mut run = Run::start(watch);
    run.record("an approval", |record| record["record"] == "approval");
    let event = eventually("the input", || {
        serde_json::from_str::<Value>(&lines(&input).concat()).ok()
    });
    service.show(3, &[]);
    // The watcher waits for the hook of the last change.
    run.finish().with_code(0);
    assert_eq!(fixture.lines(), ["ended a"]);

    let not_before = event["not_before"].as_str().expect("a time").to_owned();
    let mut variables = lines(&variables);
    let command_id = variables.remove(1);
    assert!(
        command_id.starts_with("SCHEDULED_EVENTS_COMMAND_ID="),
        "{command_id}"
    );
    assert_eq!(
        variables,
        [
            "SCHEDULED_EVENTS_CHANGE=scheduled",
            "SCHEDULED_EVENTS_DESCRIPTION=Host server is undergoing maintenance.",
            "SCHEDULED_EVENTS_DURATION_IN_SECONDS=5",
            "SCHEDULED_EVENTS_EVENT_ID=a",
            "SCHEDULED_EVENTS_EVENT_SOURCE=Platform",
            "SCHEDULED_EVENTS_EVENT_STATUS=Scheduled",
            "SCHEDULED_EVENTS_EVENT_TYPE=Freeze",
            "SCHEDULED_EVENTS_MINE=true",
            &format!("SCHEDULED_EVENTS_NOT_BEFORE={not_before}"),
            "SCHEDULED_EVENTS_RESOURCES=WestNO_0,other",
            "SCHEDULED_EVENTS_RESOURCE_TYPE=VirtualMachine",
        ]
    );
    assert_eq!(event["event_id"], "a");
    assert_eq!(event["resources"], json!([VM, "other"]));
    assert_eq!(event["duration_in_seconds"], 5);
}

/// Text that would have an effect on a shell, a terminal or a log reader.
const HOSTILE: &str = "$(touch PWNED) `touch PWNED`; touch PWNED | '\"\\\n error: all is well\r\u{1b}[2J\u{1b}]0;title\u{7}\
                       \u{9b}2J\u{202e}gnirts\u{0}";

/// Whether the text has no effect on a terminal.
fn is_harmless(text: &str) -> bool {
    text.chars()
        .all(|char| char == '\n' || !(char.is_control() || matches!(char, '\u{202a}'..='\u{202e}')))
}

#[test]
fn hostile_event_text_is_neither_executed_nor_printed_unescaped() {
    together([false, true], |json| {
        let fixture = Fixture::new();
        let hostile = HOSTILE.replace("PWNED", &fixture.folder.path("pwned"));
        // An id has at most 64 bytes.
        let id = "$(touch pwned)'\"\\\n\u{1b}[2J\u{202e}";
        let event = json!({
            "EventId": id, "EventStatus": "Scheduled", "EventType": hostile, "ResourceType": hostile,
            "Resources": [VM, hostile], "NotBefore": in_future(Duration::from_secs(3600)), "Description": hostile,
            "EventSource": hostile, "DurationInSeconds": 5, hostile.clone(): hostile,
        });
        // The event names another machine, too.
        let policy = fixture.folder.file(
            "policy.toml",
            format!("leader = \"everyone\"\n{PREPARE_ALL}"),
        );
        let service = FakeService::start();
        service.show(
            2,
            &[
                event,
                with(freeze("invalid"), &json!({ "NotBefore": hostile })),
            ],
        );
        // The commands print their input, so that it reaches the log.
        let shows = &helper(&["print $DESCRIPTION", "complain $EVENT_ID", "copy"]);
        let on = format!("scheduled={shows}");
        let url = service.url();
        let mut arguments = vec![
            "watch",
            "--endpoint",
            &url,
            "--policy",
            &policy,
            "--interval",
            "200ms",
        ];
        arguments.extend([
            "--prepare",
            shows,
            "--recover",
            shows,
            "--on",
            &on,
            "--until-idle",
            "--vm-name",
            VM,
        ]);
        if json {
            arguments.push("--json");
        }
        let mut watch = command(&arguments);
        watch.current_dir(fixture.folder.as_path());
        let run = Run::start(watch);
        eventually("both approvals", || {
            (service.posted().len() == 2).then_some(())
        });
        assert!(
            service.posted().iter().any(|posted| posted == id),
            "the id is sent back unchanged: {:?}",
            service.posted()
        );
        service.show(3, &[]);
        let finished = run.finish().with_code(0);
        assert!(is_harmless(&finished.stdout), "{:?}", finished.stdout);
        assert!(is_harmless(&finished.stderr), "{:?}", finished.stderr);
        assert!(
            !finished.stderr.contains("\n error: all is well"),
            "{}",
            finished.stderr
        );
        assert_eq!(
            fixture.folder.names(),
            ["policy.toml"],
            "something was executed"
        );
        if json {
            assert_eq!(finished.changes(id), ["scheduled", "ended"]);
        }
    });
}

#[test]
fn hostile_bytes_in_headers_and_error_bodies_do_not_reach_the_terminal() {
    let service = FakeService::start();
    service.intercept(|_| {
        Some(crate::support::Reply::new(
            403,
            "X-Test: \u{1b}[2J\r\n",
            "{\"error\":\"\u{1b}[2J\\u001b[2J\u{202e}no\\nerror: fine\"}",
        ))
    });
    let url = service.url();
    for arguments in [
        vec!["list", "--endpoint", &url],
        vec!["approve", "a", "--endpoint", &url],
        vec!["watch", "--endpoint", &url, "--max-polls", "1"],
    ] {
        let finished = crate::support::run(&arguments).with_code(1);
        assert!(
            is_harmless(&finished.stderr) && is_harmless(&finished.stdout),
            "{finished:?}"
        );
        assert!(
            !finished.stderr.contains("\nerror: fine"),
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn an_event_too_large_for_environment_variables_still_runs_its_command() {
    let fixture = Fixture::new();
    let size = fixture.folder.path("size");
    let prepare = helper(&[
        format!("append {} prepare $EVENT_ID", fixture.log),
        format!("input-size {size}"),
    ]);
    let service = FakeService::start();
    // Linux accepts variables below 128 KiB.
    let names: Vec<_> = [VM.to_owned()]
        .into_iter()
        .chain((0..999).map(|index| format!("{}_{index}", "n".repeat(200))))
        .collect();
    let event = with(
        freeze("a"),
        &json!({ "Resources": names, "Description": "d".repeat(300_000) }),
    );
    service.show(2, &[event]);
    // A record of its output may be left out if the test does not read half a megabyte at once.
    let audit = fixture.folder.path("audit");
    let run = Run::watch(
        &service.url(),
        &[
            "--policy",
            &fixture.policy,
            "--prepare",
            &prepare,
            "--audit",
            &audit,
        ],
    );
    let prepared = eventually("a preparation", || {
        let whole = std::fs::read_to_string(&audit).unwrap_or_default();
        let records = whole
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        records
            .map(|line| serde_json::from_str::<Value>(line).expect("a record"))
            .find(preparation_ended)
    });
    assert_eq!(prepared["outcome"], "ready", "{}", run.stderr());
    assert_eq!(fixture.lines(), ["prepare a"]);
    let size: usize = lines(&size)[0].trim().parse().expect("a number");
    assert!(size > 500_000, "standard input held {size} bytes");
}

#[test]
fn an_event_with_an_id_too_long_to_approve_still_runs_its_hooks() {
    let fixture = Fixture::new();
    let on = format!("scheduled={}", fixture.logging("scheduled"));
    let id = "x".repeat(100);
    let service = FakeService::start();
    service.show(2, &[freeze(&id)]);
    let mut run = Run::watch(&service.url(), &["--policy", "sample", "--on", &on]);
    let decision = run.record("a decision", |record| record["record"] == "decision");
    assert_eq!(decision["action"], "hold");
    fixture.line(&format!("scheduled {id}"));
    service.await_polls(2);
    assert!(service.posted().is_empty());
}

#[test]
fn a_command_that_prints_much_or_ignores_its_input_delays_nothing() {
    let fixture = Fixture::new();
    let service = FakeService::start();
    service.show(
        2,
        &[with(
            freeze("a"),
            &json!({ "Description": "d".repeat(100_000) }),
        )],
    );
    // It does not read its input, and prints one long line.
    let prepare = helper(&["much 500000"]);
    let mut run = Run::watch(
        &service.url(),
        &["--policy", &fixture.policy, "--prepare", &prepare],
    );
    let prepared = run.record("a preparation", preparation_ended);
    assert_eq!(prepared["outcome"], "ready");
    run.record("an approval", |record| record["record"] == "approval");
    assert!(is_harmless(&run.stderr()));
}

#[test]
fn a_preparation_gets_more_time_when_its_event_is_rescheduled() {
    let fixture = Fixture::new();
    let go = fixture.folder.path("go");
    let prepare = helper(&[
        format!("append {} prepare", fixture.log),
        format!("await {go}"),
    ]);
    let service = FakeService::start();
    service.show(
        2,
        &[with(
            freeze("a"),
            &json!({ "NotBefore": in_future(Duration::from_secs(3)) }),
        )],
    );
    let mut run = Run::watch(
        &service.url(),
        &["--policy", &fixture.policy, "--prepare", &prepare],
    );
    fixture.line("prepare");
    service.show(
        3,
        &[with(
            freeze("A"),
            &json!({ "NotBefore": in_future(Duration::from_secs(3600)) }),
        )],
    );
    run.record("a change", |record| record["change"] == "rescheduled");
    // Past its first deadline: a command gets at least five seconds.
    std::thread::sleep(Duration::from_millis(5_500));
    std::fs::write(&go, "").expect("a file");
    let prepared = run.record("a preparation", preparation_ended);
    assert_eq!(prepared["outcome"], "ready");
    assert_eq!(fixture.lines(), ["prepare"]);
    run.record("an approval", |record| record["record"] == "approval");
}

#[test]
fn of_changes_that_wait_for_their_command_only_the_latest_of_a_kind_runs() {
    let fixture = Fixture::new();
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let go = fixture.folder.path("go");
    let steps = [
        format!("append {} $NOT_BEFORE", fixture.log),
        format!("await {go}"),
    ];
    let on = format!("rescheduled={}", helper(&steps));
    let mut run = Run::watch(&service.url(), &["--vm-name", VM, "--on", &on]);
    run.change("scheduled", "a");
    let mut last = Value::Null;
    for number in 1..=14 {
        let later = in_future(Duration::from_secs(3600 + number * 60));
        service.show(
            2 + number,
            &[with(freeze("a"), &json!({ "NotBefore": later }))],
        );
        last = run.record("a new time", |record| {
            record["change"] == "rescheduled" && record["not_before"].as_str() > last.as_str()
        })["not_before"]
            .clone();
    }
    eventually("eight commands", || {
        (fixture.lines().len() == 8).then_some(())
    });
    fixture.folder.file("go", "");
    eventually("the last command", || {
        fixture
            .lines()
            .iter()
            .any(|line| last == line.as_str())
            .then_some(())
    });
    service.await_polls(3);
    assert_eq!(fixture.lines().len(), 9, "{:?}", fixture.lines());
    run.stop();
}

#[test]
fn invalid_commands_and_unknown_changes_are_usage_errors() {
    for arguments in [
        ["--prepare", "drain 'now"],
        ["--recover", ""],
        ["--on", "finished=true"],
        ["--on", "completed"],
        ["--on", "completed="],
    ] {
        let finished = crate::support::run(&["watch", arguments[0], arguments[1]]).with_code(2);
        assert!(
            finished.stderr.starts_with("error: invalid value"),
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn the_watcher_waits_for_the_hooks_of_the_last_poll() {
    let fixture = Fixture::new();
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let on = format!(
        "scheduled={}",
        helper(&[
            "sleep 0.5".to_owned(),
            format!("append {} done", fixture.log)
        ])
    );
    Run::watch(&service.url(), &["--max-polls", "1", "--on", &on])
        .finish()
        .with_code(0);
    assert_eq!(
        (fixture.lines(), service.polls()),
        (vec!["done".to_owned()], 1)
    );
}
