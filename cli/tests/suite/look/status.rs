//! `status`: the contents of a watcher's state file, at several moments of its life.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::support::{
    FakeService, Finished, Folder, PREPARE_ALL, Run, VM, eventually, freeze, helper, play, run,
    started, with, write_private,
};

/// The state as `status` prints it, once the record of the event shows this word.
fn await_status(state: &str, waits_for: &str) -> (Value, Value) {
    eventually(waits_for, || {
        let finished = run(&["status", "--json", "--state", state]);
        let waiting = finished
            .of_kind("waiting")
            .into_iter()
            .find(|record| record["waits_for"] == waits_for)?;
        Some((finished.of_kind("status").remove(0), waiting))
    })
}

fn text(state: &str) -> Finished {
    run(&["status", "--state", state]).with_code(0)
}

/// The same once nothing watches.
fn text_of_the_last(state: &str) -> Finished {
    run(&["status", "--state", state]).with_code(1)
}

#[test]
fn shows_each_stage_of_an_event_and_whether_something_watches() {
    let folder = Folder::new();
    let service = FakeService::start();
    let state = folder.path("state");
    let until = |word: &str| {
        let file = folder.path(word);
        helper(&[format!("await {file}")])
    };
    let (prepare, recover) = (until("prepared"), until("recovered"));
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let arguments = [
        "--state",
        &state,
        "--policy",
        &policy,
        "--prepare",
        &prepare,
        "--recover",
        &recover,
        "--vm-name",
        VM,
    ];
    let mut watcher = Run::watch(&service.url(), &arguments);
    service.await_polls(2);
    let idle = text(&state);
    assert!(
        idle.stdout.starts_with("in service\n\nno events\n"),
        "{}",
        idle.stdout
    );

    service.show(2, &[freeze("Event-A")]);
    // A preparation that is due takes the machine out of service once its command starts.
    let (machine, event) = eventually("a machine out of service", || {
        Some(await_status(&state, "preparation"))
            .filter(|(machine, _)| machine["in_service"] == false)
    });
    assert_eq!(machine["watched"], true);
    assert_eq!(machine["process"], watcher.id());
    // Windows does not identify its boots.
    assert_eq!(
        machine["outdated"],
        if cfg!(windows) {
            Value::Null
        } else {
            false.into()
        }
    );
    assert_eq!(
        (&event["event_id"], &event["rule"], &event["action"]),
        (&"Event-A".into(), &1.into(), &"prepare".into())
    );
    assert!(
        event["since"].is_string() && machine["since"].is_string(),
        "{event} {machine}"
    );
    let shown = text(&state).stdout;
    assert!(shown.starts_with("out of service since "), "{shown}");
    assert!(
        shown.contains("the recovery is pending until nothing keeps the machine out of service\n"),
        "{shown}"
    );
    assert!(
        shown.contains("*  Freeze  Scheduled  preparation runs since "),
        "{shown}"
    );
    assert!(
        shown.contains(&format!(
            "process {} watches; last change at ",
            watcher.id()
        )),
        "{shown}"
    );
    // It only reads the file.
    assert!(
        folder.names().iter().all(|name| !name.contains("damaged")),
        "{:?}",
        folder.names()
    );

    folder.file("prepared", "");
    let (_, event) = await_status(&state, "start");
    assert!(event["until"].is_string(), "{event}");
    assert!(text(&state).stdout.contains("approved; starts not before "));
    service.show(3, &[started("Event-A")]);
    await_status(&state, "end");
    service.show(4, &[]);
    let (machine, event) = await_status(&state, "recovery");
    assert_eq!(machine["in_service"], false);
    assert!(
        event["attempt"].is_number() || machine["recovery_attempt"].is_null(),
        "{event} {machine}"
    );
    folder.file("recovered", "");
    watcher.record("a recovery", |record| record["record"] == "recover");
    let shown = eventually("a state without events", || {
        Some(text(&state).stdout).filter(|shown| {
            shown.starts_with("in service since ") && shown.contains("\nno events\n")
        })
    });
    assert!(shown.contains("watches; last change at"), "{shown}");

    service.show(5, &[freeze("b")]);
    await_status(&state, "start");
    // The output shows that a killed watcher saved the state.
    watcher.kill();
    let shown = text_of_the_last(&state).stdout;
    assert!(
        shown.contains("nothing watches; this is what the last watcher saved at "),
        "{shown}"
    );
    assert!(shown.contains("approved; starts not before "), "{shown}");
    let machine = run(&["status", "--json", "--state", &state])
        .with_code(1)
        .of_kind("status")
        .remove(0);
    assert_eq!(
        (&machine["watched"], &machine["process"]),
        (&Value::from(false), &Value::Null)
    );
}

#[test]
fn a_scenario_is_followed_from_start_to_end() {
    let folder = Folder::new();
    let state = folder.path("state");
    let scenario =
        scheduled_events_replay::Scenario::builtin_source("redeploy").expect("a scenario");
    let server = play(scenario, &[]);
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let succeeds = helper::<&str>(&[]);
    let commands = [
        "--prepare",
        &succeeds,
        "--recover",
        &succeeds,
        "--until-idle",
    ];
    let arguments = [&["--state", &state, "--policy", &policy][..], &commands].concat();
    let watcher = Run::watch(&server.url(), &arguments);
    await_status(&state, "end");
    watcher.finish().with_code(0);
    let shown = text_of_the_last(&state).stdout;
    assert!(shown.starts_with("in service since "), "{shown}");
    assert!(
        shown.contains("no events\n") && shown.contains("nothing watches"),
        "{shown}"
    );
}

#[test]
fn held_events_name_the_rule_and_other_machines_are_summed_up() {
    let folder = Folder::new();
    let state = folder.path("state");
    let service = FakeService::start();
    let other = |number: usize| {
        with(
            freeze(&format!("other-{number}")),
            &serde_json::json!({ "Resources": ["WestNO_7"] }),
        )
    };
    let policy = folder.file(
        "policy.toml",
        "[[rule]]\nevent = \"Reboot\"\naction = \"ignore\"\n[[rule]]\naction = \"hold\"",
    );
    service.show(2, &[other(1), freeze("own"), other(2)]);
    let _watcher = Run::watch(
        &service.url(),
        &["--state", &state, "--policy", &policy, "--vm-name", VM],
    );
    let (_, event) = await_status(&state, "start-unapproved");
    assert_eq!(
        (&event["event_id"], &event["action"], &event["rule"]),
        (&"own".into(), &"hold".into(), &2.into())
    );
    let shown = text(&state).stdout;
    assert!(
        shown.contains("held by rule 2: a rule matches; starts not before "),
        "{shown}"
    );
    assert!(
        shown.contains("\n2 events of other machines (--json prints them)\n"),
        "{shown}"
    );
}

#[test]
fn a_missing_an_unreadable_and_a_broken_file_are_told_apart() {
    let folder = Folder::new();
    let missing = run(&["status", "--state", &folder.path("none/state")]).with_code(2);
    assert!(
        missing
            .stderr
            .contains("does not exist; give the path of `watch --state FILE` with --state"),
        "{}",
        missing.stderr
    );
    // By default it is the file of the systemd unit, or of the Windows service.
    let config = include_str!("../../../../packaging/system/watch.toml");
    let path = config
        .lines()
        .find_map(|line| line.strip_prefix("state = \"")?.strip_suffix('"'))
        .expect("a path");
    let path = if cfg!(windows) {
        r"C:\ProgramData\scheduled-events\state"
    } else {
        path
    };
    let help = run(&["status", "--help"]).with_code(0).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains(&format!("[default: {path}]")), "{help}");

    let unreadable = run(&[
        "status",
        "--state",
        folder.as_path().to_str().expect("a path"),
    ])
    .with_code(2);
    assert!(
        unreadable.stderr.contains("not a regular file"),
        "{}",
        unreadable.stderr
    );

    let path = folder.path("state");
    write_private(&path, "SEVS\nscheduled-events state 2 00000000\n{}\n");
    let broken = run(&["status", "--state", &path]).with_code(3);
    assert!(
        broken
            .stderr
            .contains("is damaged: its checksum does not match"),
        "{}",
        broken.stderr
    );
    assert_eq!(broken.stdout, "");
    assert_eq!(folder.names(), ["state"], "nothing was moved or locked");
}

#[test]
#[cfg(unix)] // Windows does not identify its boots.
fn a_file_from_before_a_reboot_or_from_another_machine_is_reported() {
    let folder = Folder::new();
    let service = FakeService::start();
    let state = folder.path("state");
    service.show(2, &[freeze("a")]);
    let mut watcher = crate::support::command(&[
        "watch",
        "--endpoint",
        &service.url(),
        "--state",
        &state,
        "--vm-name",
        VM,
    ]);
    watcher.env(
        "SCHEDULED_EVENTS_BOOT_ID",
        "0123456789abcdef0123456789abcdef",
    );
    let watcher = Run::start(watcher);
    await_status(&state, "start-unapproved");
    watcher.kill();
    let shown = text_of_the_last(&state).stdout;
    assert!(
        shown.contains("The machine was started since, or the file is another machine's."),
        "{shown}"
    );
    assert_eq!(
        run(&["status", "--json", "--state", &state]).of_kind("status")[0]["outdated"],
        true
    );
    // Once a watcher knows that the file is another machine's, it becomes this machine's again.
    service.set_vm_id("9f0c1a34-52a8-4f4b-8a44-0d3a4d1f3c55");
    service.show(3, &[]);
    let watcher = Run::watch(&service.url(), &["--state", &state, "--vm-name", VM]);
    watcher.wait_for_stderr("the state file cannot be used");
    eventually("a new file", || {
        let shown = run(&["status", "--state", &state]);
        (shown.code == Some(0) && shown.stdout.contains("\nno events\n")).then_some(())
    });
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let folder = Folder::new();
    let service = FakeService::start();
    let state = folder.path("state");
    service.show(2, &[freeze("a")]);
    let policy = folder.file(
        "policy.toml",
        "leader = \"rank\"\n[[rule]]\naction = \"approve\"",
    );
    let mut watcher = Run::watch(
        &service.url(),
        &["--state", &state, "--policy", &policy, "--vm-name", VM],
    );
    crate::support::wait_for_approval(&mut watcher, "a");
    service.await_polls(3);
    let modified = || {
        fs::metadata(&state)
            .and_then(|metadata| metadata.modified())
            .expect("a time")
    };
    let before = modified();
    service.await_polls(5);
    assert_eq!(modified(), before);
    assert!(
        before
            .elapsed()
            .is_ok_and(|elapsed| elapsed < Duration::from_secs(600))
    );
}

#[test]
fn a_file_that_is_only_a_snapshot_is_shown_and_restored_as_what_it_contains() {
    let folder = Folder::new();
    let service = FakeService::start();
    let state = folder.path("state");
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let succeeds = helper::<&str>(&[]);
    let arguments = [
        "--state",
        &state,
        "--policy",
        &policy,
        "--prepare",
        &succeeds,
        "--vm-name",
        VM,
    ];
    service.show(2, &[freeze("a")]);
    let watcher = Run::watch(&service.url(), &arguments);
    await_status(&state, "start");
    watcher.kill();
    // The C library and Python write the start of the file.
    let whole = fs::read(&state).expect("a state file");
    let line = b"\nscheduled-events state ";
    let end = whole
        .windows(line.len())
        .rposition(|window| window == line)
        .expect("the line after the snapshot");
    write_private(&state, &whole[..end]);

    let shown = text(&state).stdout;
    assert!(shown.starts_with("out of service since "), "{shown}");
    assert!(
        shown.contains("*  Freeze  Scheduled  ") && shown.contains("\n   a\n"),
        "{shown}"
    );
    assert!(
        shown.contains("\nthis is the snapshot that a program saved at "),
        "{shown}"
    );
    let records = run(&["status", "--json", "--state", &state]).with_code(0);
    let machine = records.of_kind("status").remove(0);
    assert_eq!(
        (&machine["in_service"], &machine["events"]),
        (&Value::from(false), &Value::from(1))
    );
    assert_eq!(machine["outdated"], Value::Null);
    assert_eq!(records.of_kind("waiting")[0]["event_id"], "a");

    let watcher = Run::watch(&service.url(), &arguments);
    watcher.wait_for_stderr("note: restored the state of the last run: 1 event");
    watcher.kill();
    // A damaged file is not reliable.
    let mut damaged = whole[..end].to_vec();
    damaged[end / 2] ^= 1;
    write_private(&state, damaged);
    let finished = run(&["status", "--state", &state]).with_code(3);
    assert!(
        finished.stderr.contains("is damaged"),
        "{}",
        finished.stderr
    );
}
