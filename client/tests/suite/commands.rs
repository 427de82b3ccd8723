//! The commands that a watch runs: to prepare, to recover, at changes; and text from outside that must do no harm.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::with;
use crate::support::{
    Folder, PREPARE_ALL, Run, Stage, VM, command, eventually, freeze, in_future, lines, started, together,
};

/// A folder with a policy that prepares for everything, and a log that commands write to.
struct Bench {
    folder: Folder,
    policy: String,
    log: String,
}

impl Bench {
    fn new() -> Self {
        let folder = Folder::new();
        let policy = folder.file("policy.toml", PREPARE_ALL);
        let log = folder.path("log");
        Self { folder, policy, log }
    }

    /// A command that notes a word and the event's id.
    fn noting(&self, word: &str) -> String {
        format!("sh -c 'echo \"{word} $SCHEDULED_EVENTS_EVENT_ID\" >> {}'", self.log)
    }

    fn lines(&self) -> Vec<String> {
        lines(&self.log)
    }

    /// Waits for a line in the log.
    fn line(&self, line: &str) {
        eventually(line, || self.lines().iter().any(|known| known == line).then_some(()));
    }
}

#[test]
fn commands_for_a_crowd_of_events_take_turns_and_own_events_do_not_wait_for_them() {
    let bench = Bench::new();
    let stage = Stage::start();
    let go = bench.folder.path("go");
    let log = &bench.log;
    let on = format!(
        "scheduled=sh -c 'echo \"begin $SCHEDULED_EVENTS_EVENT_ID\" >> {log}; while test \"$SCHEDULED_EVENTS_MINE\" = false && ! \
         test -e {go}; do sleep 0.05; done; echo end >> {log}'"
    );
    let other = |number| with(freeze(""), &json!({ "EventId": format!("other-{number}"), "Resources": ["other"] }));
    let mut events: Vec<_> = (0..40).map(other).collect();
    stage.show(2, &events);
    let run = Run::watch(&stage.url(), &["--vm-name", VM, "--on", &on, "--until-idle"]);
    stage.await_polls(4);
    events.push(freeze("mine"));
    stage.show(3, &events);
    bench.line("begin mine");
    bench.line("end");
    let begun = |lines: &[String]| lines.iter().filter(|line| line.starts_with("begin other-")).count();
    eventually("their turn", || (begun(&bench.lines()) >= 8).then_some(()));
    stage.await_polls(2);
    assert_eq!(begun(&bench.lines()), 8, "{:?}", bench.lines());
    std::fs::write(&go, "").expect("a file");
    stage.show(4, &[]);
    // The watch waits for all of them before it ends.
    run.finish().with_code(0);
    assert_eq!((begun(&bench.lines()), bench.lines().len()), (40, 82));
}

#[test]
fn prepare_and_recover_run_once_each_beside_the_polling_and_approval_waits_for_ready() {
    let bench = Bench::new();
    let go = bench.folder.path("go");
    let prepare = format!(
        "sh -c 'echo \"prepare $SCHEDULED_EVENTS_EVENT_ID\" >> {}; while ! test -e {go}; do sleep 0.05; done'",
        bench.log
    );
    let recover = bench.noting("recover");
    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    let arguments = ["--policy", &bench.policy, "--prepare", &prepare, "--recover", &recover, "--until-idle"];
    let mut run = Run::watch(&stage.url(), &arguments);
    bench.line("prepare a");

    // While it prepares the polls go on, another event is told, and nothing is approved.
    stage.show(3, &[freeze("a"), with(freeze("b"), &json!({ "Resources": ["other"] }))]);
    run.change("scheduled", "b");
    stage.await_polls(5);
    assert!(stage.posted().is_empty());

    std::fs::write(&go, "").expect("a file");
    let prepared = run.record("a preparation", |record| record["record"] == "prepare");
    assert_eq!(prepared, json!({"record": "prepare", "event_id": "a", "outcome": "ready", "time": prepared["time"]}));
    run.record("an approval", |record| record["record"] == "approval");

    // The machine is not taken back into service while the event is under way.
    stage.show(4, &[started("a")]);
    run.change("started", "a");
    stage.await_polls(3);
    assert_eq!(bench.lines(), ["prepare a"]);
    stage.show(5, &[]);
    let finished = run.finish().with_code(0);
    assert_eq!(bench.lines(), ["prepare a", "recover a"]);
    assert_eq!(stage.posted(), ["a"]);
    assert_eq!(finished.changes("a"), ["scheduled", "started", "completed"]);
    let recovered = finished.of_kind("recover");
    let expected = json!({
        "record": "recover", "event_id": "a", "event_ids": ["a"], "outcome": "done", "time": recovered[0]["time"]
    });
    assert_eq!(recovered, [expected]);
    assert_eq!(finished.of_kind("prepare").len(), 1);
}

#[test]
fn an_event_is_never_approved_after_its_preparation_failed() {
    let commands =
        [("false", "the prepare command failed"), ("/no/such/program", "could not be started"), ("", "no --prepare")];
    together(commands, |(prepare, said)| {
        let bench = Bench::new();
        let recover = bench.noting("recover");
        let stage = Stage::start();
        stage.show(2, &[freeze("a")]);
        let mut arguments = vec!["--policy", &bench.policy, "--recover", &recover, "--until-idle"];
        if !prepare.is_empty() {
            arguments.extend(["--prepare", prepare]);
        }
        let mut run = Run::watch(&stage.url(), &arguments);
        let prepared = run.record("a preparation", |record| record["record"] == "prepare");
        assert_ne!(prepared["outcome"], "ready");
        run.says(said);
        // Nor when the document changes, nor when the event is put off.
        stage.show(3, &[with(freeze("a"), &json!({ "NotBefore": in_future(Duration::from_secs(7200)) }))]);
        run.change("rescheduled", "a");
        stage.await_polls(5);
        assert!(stage.posted().is_empty(), "approved after {prepare:?}");
        stage.show(4, &[]);
        let finished = run.finish().with_code(0);
        // Whatever was begun is recovered from.
        assert_eq!(finished.of_kind("recover").len(), 1);
        assert_eq!(bench.lines(), ["recover a"]);
    });
}

#[test]
fn a_preparation_that_runs_out_of_time_is_ended_and_the_event_is_not_approved() {
    let bench = Bench::new();
    let prepare = format!("sh -c 'sleep 600 & echo $! > {}; wait'", bench.log);
    let stage = Stage::start();
    stage.show(2, &[with(freeze("a"), &json!({ "NotBefore": in_future(Duration::from_secs(3)) }))]);
    let mut run = Run::watch(&stage.url(), &["--policy", &bench.policy, "--prepare", &prepare]);
    let prepared = run.record("a preparation", |record| record["record"] == "prepare");
    assert_eq!(prepared["outcome"], "timed-out");
    stage.await_polls(4);
    assert!(stage.posted().is_empty());
    // What the command had started is gone as well.
    let sleeper = format!("/proc/{}/stat", bench.lines()[0]);
    eventually("the end of the sleep", || {
        std::fs::read_to_string(&sleeper).map_or(true, |stat| stat.contains(") Z ")).then_some(())
    });
}

#[test]
fn two_own_events_are_prepared_for_and_approved_each_by_itself() {
    let bench = Bench::new();
    let (fail, note) = (bench.folder.path("fail"), &bench.log);
    let prepare = format!(
        "sh -c 'echo \"prepare $SCHEDULED_EVENTS_EVENT_ID\" >> {note}; test $SCHEDULED_EVENTS_EVENT_ID = good || exit 1'"
    );
    let recover = bench.noting("recover");
    let stage = Stage::start();
    stage.show(2, &[freeze("bad"), freeze("good")]);
    let arguments = ["--policy", &bench.policy, "--prepare", &prepare, "--recover", &recover, "--until-idle"];
    let mut run = Run::watch(&stage.url(), &arguments);
    run.record("an approval", |record| record["record"] == "approval");
    stage.await_polls(3);
    assert_eq!(stage.posted(), ["good"]);
    stage.show(3, &[freeze("bad")]);
    bench.line("recover good");
    stage.show(4, &[]);
    run.finish().with_code(0);
    let mut noted = bench.lines();
    noted.sort();
    assert_eq!(noted, ["prepare bad", "prepare good", "recover bad", "recover good"]);
    assert!(!Path::new(&fail).exists());
}

#[test]
fn commands_for_changes_get_every_member_in_the_environment_and_the_event_on_standard_input() {
    let bench = Bench::new();
    let (variables, input) = (bench.folder.path("variables"), bench.folder.path("input"));
    let on = format!("scheduled=sh -c 'env | grep ^SCHEDULED_EVENTS_ | sort > {variables}; cat > {input}'");
    let ended = format!("ended={}", bench.noting("ended"));
    let never = format!("started={}", bench.noting("started"));
    let stage = Stage::start();
    stage.show(2, &[with(freeze("a"), &json!({ "Resources": [VM, "other"] }))]);
    let arguments = ["--policy", "sample", "--until-idle", "--on", &on, "--on", &ended, "--on", &never];
    let mut run = Run::watch(&stage.url(), &arguments);
    run.record("an approval", |record| record["record"] == "approval");
    let event = eventually("the input", || serde_json::from_str::<Value>(&lines(&input).concat()).ok());
    stage.show(3, &[]);
    // The command for the last change is awaited, too.
    run.finish().with_code(0);
    assert_eq!(bench.lines(), ["ended a"]);

    let not_before = event["not_before"].as_str().expect("a time").to_owned();
    assert_eq!(
        lines(&variables),
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

/// Text that would do something if a shell, a terminal or a log reader obeyed it.
const HOSTILE: &str = "$(touch PWNED) `touch PWNED`; touch PWNED | '\"\\\n error: all is well\r\u{1b}[2J\u{1b}]0;title\u{7}\
                       \u{9b}2J\u{202e}gnirts\u{0}";

/// Whether a terminal would obey some of this.
fn is_harmless(text: &str) -> bool {
    text.chars().all(|char| char == '\n' || !(char.is_control() || matches!(char, '\u{202a}'..='\u{202e}')))
}

#[test]
fn hostile_event_text_is_neither_obeyed_nor_printed_raw() {
    together([false, true], |json| {
        let bench = Bench::new();
        let hostile = HOSTILE.replace("PWNED", &bench.folder.path("pwned"));
        // An id has 64 bytes at most.
        let id = "$(touch pwned)'\"\\\n\u{1b}[2J\u{202e}";
        let event = json!({
            "EventId": id, "EventStatus": "Scheduled", "EventType": hostile, "ResourceType": hostile,
            "Resources": [VM, hostile], "NotBefore": in_future(Duration::from_secs(3600)), "Description": hostile,
            "EventSource": hostile, "DurationInSeconds": 5, hostile.clone(): hostile,
        });
        let stage = Stage::start();
        stage.show(2, &[event, with(freeze("odd"), &json!({ "NotBefore": hostile }))]);
        // The commands print what they got, so that it goes through the log.
        let shows = "sh -c 'printenv SCHEDULED_EVENTS_DESCRIPTION; printenv SCHEDULED_EVENTS_EVENT_ID >&2; cat'";
        let on = format!("scheduled={shows}");
        let url = stage.url();
        let mut arguments = vec!["watch", "--endpoint", &url, "--policy", &bench.policy, "--interval", "200ms"];
        arguments.extend(["--prepare", shows, "--recover", shows, "--on", &on, "--until-idle", "--vm-name", VM]);
        if json {
            arguments.push("--json");
        }
        let mut watch = command(&arguments);
        watch.current_dir(bench.folder.as_path());
        let run = Run::start(watch);
        eventually("both approvals", || (stage.posted().len() == 2).then_some(()));
        assert!(stage.posted().iter().any(|posted| posted == id), "the id goes back as it came: {:?}", stage.posted());
        stage.show(3, &[]);
        let finished = run.finish().with_code(0);
        assert!(is_harmless(&finished.stdout), "{:?}", finished.stdout);
        assert!(is_harmless(&finished.stderr), "{:?}", finished.stderr);
        assert!(!finished.stderr.contains("\n error: all is well"), "{}", finished.stderr);
        assert_eq!(bench.folder.names(), ["policy.toml"], "something was obeyed");
        if json {
            assert_eq!(finished.changes(id), ["scheduled", "ended"]);
        }
    });
}

#[test]
fn hostile_bytes_of_a_status_line_or_an_error_body_do_not_reach_the_terminal() {
    let stage = Stage::start();
    stage.intercept(|_| {
        Some(crate::support::Reply::new(
            403,
            "X-Odd: \u{1b}[2J\r\n",
            "{\"error\":\"\u{1b}[2J\\u001b[2J\u{202e}no\\nerror: fine\"}",
        ))
    });
    let url = stage.url();
    for arguments in [
        vec!["list", "--endpoint", &url],
        vec!["approve", "a", "--endpoint", &url],
        vec!["watch", "--endpoint", &url, "--max-polls", "1"],
    ] {
        let finished = crate::support::run(&arguments).with_code(1);
        assert!(is_harmless(&finished.stderr) && is_harmless(&finished.stdout), "{finished:?}");
        assert!(!finished.stderr.contains("\nerror: fine"), "{}", finished.stderr);
    }
}

#[test]
fn an_event_too_large_for_an_environment_still_gets_its_command() {
    let bench = Bench::new();
    let size = bench.folder.path("size");
    let prepare = format!("sh -c 'echo \"prepare $SCHEDULED_EVENTS_EVENT_ID\" >> {}; wc -c > {size}'", bench.log);
    let stage = Stage::start();
    // The system takes 128 KiB a variable.
    let names: Vec<_> =
        [VM.to_owned()].into_iter().chain((0..999).map(|index| format!("{}_{index}", "n".repeat(200)))).collect();
    let event = with(freeze("a"), &json!({ "Resources": names, "Description": "d".repeat(300_000) }));
    stage.show(2, &[event]);
    let mut run = Run::watch(&stage.url(), &["--policy", &bench.policy, "--prepare", &prepare]);
    let prepared = run.record("a preparation", |record| record["record"] == "prepare");
    assert_eq!(prepared["outcome"], "ready", "{}", run.stderr());
    assert_eq!(bench.lines(), ["prepare a"]);
    let size: usize = lines(&size)[0].trim().parse().expect("a number");
    assert!(size > 500_000, "standard input held {size} bytes");
}

#[test]
fn an_event_with_an_id_too_long_to_approve_still_gets_its_commands() {
    let bench = Bench::new();
    let on = format!("scheduled={}", bench.noting("scheduled"));
    let id = "x".repeat(100);
    let stage = Stage::start();
    stage.show(2, &[freeze(&id)]);
    let mut run = Run::watch(&stage.url(), &["--policy", "sample", "--on", &on]);
    let decision = run.record("a decision", |record| record["record"] == "decision");
    assert_eq!(decision["action"], "hold");
    bench.line(&format!("scheduled {id}"));
    stage.await_polls(2);
    assert!(stage.posted().is_empty());
}

#[test]
fn a_command_that_prints_without_end_or_does_not_read_stops_nothing() {
    let bench = Bench::new();
    let stage = Stage::start();
    stage.show(2, &[with(freeze("a"), &json!({ "Description": "d".repeat(100_000) }))]);
    // It never reads its input, and prints a line without an end.
    let prepare = "sh -c 'exec 0<&-; head -c 3000000 /dev/zero'";
    let mut run = Run::watch(&stage.url(), &["--policy", &bench.policy, "--prepare", prepare]);
    let prepared = run.record("a preparation", |record| record["record"] == "prepare");
    assert_eq!(prepared["outcome"], "ready");
    run.record("an approval", |record| record["record"] == "approval");
    assert!(is_harmless(&run.stderr()));
}

#[test]
fn a_preparation_gets_more_time_when_its_event_is_put_off() {
    let bench = Bench::new();
    let go = bench.folder.path("go");
    let prepare = format!("sh -c 'echo prepare >> {}; while ! test -e {go}; do sleep 0.05; done'", bench.log);
    let stage = Stage::start();
    stage.show(2, &[with(freeze("a"), &json!({ "NotBefore": in_future(Duration::from_secs(3)) }))]);
    let mut run = Run::watch(&stage.url(), &["--policy", &bench.policy, "--prepare", &prepare]);
    bench.line("prepare");
    stage.show(3, &[with(freeze("A"), &json!({ "NotBefore": in_future(Duration::from_secs(3600)) }))]);
    run.record("a change", |record| record["change"] == "rescheduled");
    // Past the five seconds that it had at first.
    std::thread::sleep(Duration::from_millis(5_500));
    std::fs::write(&go, "").expect("a file");
    let prepared = run.record("a preparation", |record| record["record"] == "prepare");
    assert_eq!(prepared["outcome"], "ready");
    assert_eq!(bench.lines(), ["prepare"]);
    run.record("an approval", |record| record["record"] == "approval");
}

#[test]
fn a_command_line_that_cannot_be_split_or_names_no_change_is_refused_at_once() {
    for arguments in [
        ["--prepare", "drain 'now"],
        ["--recover", ""],
        ["--on", "finished=true"],
        ["--on", "completed"],
        ["--on", "completed="],
    ] {
        let finished = crate::support::run(&["watch", arguments[0], arguments[1]]).with_code(2);
        assert!(finished.stderr.starts_with("error: invalid value"), "{}", finished.stderr);
    }
}

#[test]
fn a_command_for_a_change_that_the_last_poll_told_is_let_finish() {
    let bench = Bench::new();
    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    let on = format!("scheduled=sh -c 'sleep 0.5; echo done >> {}'", bench.log);
    Run::watch(&stage.url(), &["--max-polls", "1", "--on", &on]).finish().with_code(0);
    assert_eq!((bench.lines(), stage.polls()), (vec!["done".to_owned()], 1));
}
