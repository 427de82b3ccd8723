//! Several events on one machine, events that change during their preparation, several machines,
//! and the gate.

use std::time::Duration;

use serde_json::{Value, json};

#[cfg(unix)]
use crate::support::quoted;
use crate::support::{
    FakeService, Folder, PREPARE_ALL, Reply, Run, VM, eventually, freeze, helper, in_future, lines,
    preparation_ended, started, with,
};
#[cfg(target_os = "linux")]
use crate::support::{STATE_NOT_WRITTEN, command, wrap};

/// A watcher that prepares for every event, and an application that is in service or not.
struct Fixture {
    service: FakeService,
    folder: Folder,
    /// The events on which `--prepare` and `--recover` acted.
    log: String,
}

impl Fixture {
    fn new() -> Self {
        let folder = Folder::new();
        let log = folder.path("log");
        Self {
            service: FakeService::start(),
            folder,
            log,
        }
    }

    /// Watches with these options, in addition to the policy and the commands.
    fn watch(&self, policy: &str, options: &[&str]) -> Run {
        let log = &self.log;
        let policy = self.folder.file("policy.toml", policy);
        let prepare = helper(&[format!("append {log} prepare $EVENT_ID")]);
        let recover = helper(&[format!("append {log} recover $EVENT_IDS")]);
        let base = ["--vm-name", VM, "--policy", &policy, "--recover", &recover];
        let default = ["--prepare", &prepare];
        let prepares: &[&str] = if options.contains(&"--prepare") {
            &[]
        } else {
            &default
        };
        Run::watch(
            &self.service.url(),
            &[&base[..], prepares, options].concat(),
        )
    }

    /// Prepares for an event and has it approved, with this state file, and stops the watcher.
    fn approve_and_stop(&self, state: &str) {
        self.service.show(2, &[freeze("a")]);
        let mut run = self.watch(PREPARE_ALL, &["--state", state]);
        run.record("the approval", is_approval);
        run.stop();
    }

    fn lines(&self) -> Vec<String> {
        lines(&self.log)
    }

    fn await_line(&self, line: &str) {
        eventually(line, || {
            self.lines().iter().any(|known| known == line).then_some(())
        });
    }
}

fn is_approval(record: &Value) -> bool {
    record["record"] == "approval" && record["status"] == 200
}

#[test]
fn the_application_stays_stopped_until_the_last_of_two_reboots_is_over() {
    let fixture = Fixture::new();
    fixture
        .service
        .show(2, &[freeze("first"), freeze("second")]);
    let run = fixture.watch(PREPARE_ALL, &["--until-idle"]);
    eventually("both approvals", || {
        (fixture.service.posted().len() == 2).then_some(())
    });
    fixture.service.show(3, &[started("second")]);
    fixture.service.await_polls(5);
    assert!(
        !fixture
            .lines()
            .iter()
            .any(|line| line.starts_with("recover")),
        "{:?}",
        fixture.lines()
    );
    fixture.service.show(4, &[]);
    let finished = run.finish().with_code(0);
    let recoveries = finished.of_kind("recover");
    assert_eq!(recoveries.len(), 1);
    assert_eq!(recoveries[0]["event_ids"], json!(["second", "first"]));
    assert!(
        fixture
            .lines()
            .ends_with(&["recover second".to_owned(), "first".to_owned()]),
        "{:?}",
        fixture.lines()
    );
}

#[test]
fn a_preparation_that_becomes_due_ends_the_recovery() {
    let fixture = Fixture::new();
    let (beats, log) = (fixture.folder.path("beats"), fixture.log.clone());
    let recover = helper(&[format!("append {log} recovering"), format!("beat {beats}")]);
    fixture.service.show(2, &[freeze("first")]);
    let policy = fixture.folder.file("policy.toml", PREPARE_ALL);
    let prepare = helper(&[format!("append {log} prepare $EVENT_ID")]);
    let options = [
        "--vm-name",
        VM,
        "--policy",
        &policy,
        "--prepare",
        &prepare,
        "--recover",
        &recover,
    ];
    let mut run = Run::watch(&fixture.service.url(), &options);
    run.record("the approval", is_approval);
    fixture.service.show(3, &[]);
    fixture.await_line("recovering");
    fixture.service.show(4, &[freeze("second")]);
    let ended = run.record("the end of the recovery", |record| {
        record["record"] == "recover"
    });
    assert_eq!(ended["outcome"], "cancelled");
    fixture.await_line("prepare second");
    let beat = || lines(&beats);
    let before = beat();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(beat(), before, "the recovery still runs");
    assert_eq!(
        fixture.lines(),
        ["prepare first", "recovering", "prepare second"]
    );
}

#[test]
fn a_recovery_that_fails_is_run_again() {
    let fixture = Fixture::new();
    let log = &fixture.log;
    let again = fixture.folder.path("again");
    let steps = [
        format!("append {log} try"),
        format!("if-file {again} exit 0"),
        format!("touch {again}"),
    ];
    let recover = helper(&[&steps[..], &["exit 1".to_owned()]].concat());
    let succeeds = helper::<&str>(&[]);
    fixture.service.show(2, &[freeze("a")]);
    let policy = fixture.folder.file("policy.toml", PREPARE_ALL);
    let options = [
        "--vm-name",
        VM,
        "--policy",
        &policy,
        "--prepare",
        &succeeds,
        "--recover",
        &recover,
        "--until-idle",
    ];
    let mut run = Run::watch(&fixture.service.url(), &options);
    run.record("the approval", is_approval);
    fixture.service.show(3, &[]);
    let finished = run.finish().with_code(0);
    let outcomes = finished.of_kind("recover");
    assert_eq!(
        outcomes
            .iter()
            .map(|record| record["outcome"].clone())
            .collect::<Vec<_>>(),
        ["failed", "done"]
    );
}

#[test]
fn ready_for_a_freeze_is_not_ready_for_a_redeploy() {
    let fixture = Fixture::new();
    let (go, log) = (fixture.folder.path("go"), &fixture.log);
    let prepare = helper(&[format!("append {log} $EVENT_TYPE"), format!("await {go}")]);
    fixture.service.show(2, &[freeze("a")]);
    let mut run = fixture.watch(PREPARE_ALL, &["--prepare", &prepare]);
    fixture.await_line("Freeze");
    fixture
        .service
        .show(3, &[with(freeze("a"), &json!({ "EventType": "Redeploy" }))]);
    let first = run.record("the end of the first preparation", preparation_ended);
    assert_eq!(first["outcome"], "cancelled");
    fixture.await_line("Redeploy");
    assert!(fixture.service.posted().is_empty());
    fixture.folder.file("go", "");
    run.record("the approval", is_approval);
    assert_eq!(fixture.lines(), ["Freeze", "Redeploy"]);
}

#[test]
fn an_event_of_several_machines_is_not_approved_without_gate_or_leader() {
    let shared = || with(freeze("a"), &json!({ "Resources": [VM, "other"] }));
    let fixture = Fixture::new();
    fixture.service.show(2, &[shared()]);
    let mut run = fixture.watch(PREPARE_ALL, &[]);
    let decision = run.record("a decision", |record| record["record"] == "decision");
    assert_eq!(
        decision["reason"],
        "not approved: several VMs, set a gate or leader"
    );
    fixture.await_line("prepare a");
    fixture.service.await_polls(8);
    assert!(fixture.service.posted().is_empty());
    drop(run);
    let mut run = fixture.watch(&format!("leader = \"first-resource\"\n{PREPARE_ALL}"), &[]);
    run.record("the approval", is_approval);
}

#[test]
fn an_event_far_ahead_is_prepared_for_when_its_time_comes() {
    let fixture = Fixture::new();
    let policy = "[[rule]]\naction = \"prepare\"\nprepare_before = \"20m\"\n";
    let at = |after: u64| {
        with(
            freeze("a"),
            &json!({ "NotBefore": in_future(Duration::from_secs(after)) }),
        )
    };
    fixture.service.show(2, &[at(7 * 86_400)]);
    let mut run = fixture.watch(policy, &[]);
    run.record("a decision", |record| {
        record["record"] == "decision" && record["action"] == "prepare"
    });
    fixture.service.await_polls(5);
    assert!(fixture.lines().is_empty() && fixture.service.posted().is_empty());
    fixture.service.show(3, &[at(20 * 60 + 2)]);
    run.record("the approval", is_approval);
}

#[test]
fn the_gate_is_asked_before_the_preparation_and_before_the_approval() {
    let fixture = Fixture::new();
    let (open, log) = (fixture.folder.path("open"), &fixture.log);
    let passes = [
        "if PHASE=prepare exit 0".to_owned(),
        format!("if-file {open} exit 0"),
        "exit 75".to_owned(),
    ];
    let gate = helper(&[&[format!("append {log} $PHASE")], &passes[..]].concat());
    fixture.service.show(
        2,
        &[with(freeze("a"), &json!({ "Resources": ["other", VM] }))],
    );
    let mut run = fixture.watch(PREPARE_ALL, &["--gate", &gate]);
    let answer = run.record("the gate", |record| {
        record["record"] == "gate" && record["phase"] == "approve"
    });
    assert_eq!(answer["outcome"], "another-approves");
    fixture.service.await_polls(4);
    assert!(fixture.service.posted().is_empty());
    assert_eq!(fixture.lines(), ["prepare", "prepare a", "approve"]);
    fixture.folder.file("open", "");
    let answer = run.record("the gate again", |record| {
        record["record"] == "gate" && record["outcome"] == "open" && record["phase"] == "approve"
    });
    assert_eq!(answer["event_id"], "a");
    run.record("the approval", is_approval);
}

/// Whatever the gate does, the machine prepares by its last call, and nothing is approved without
/// the gate's yes.
#[test]
fn a_machine_prepares_by_its_last_call_whatever_its_gate_does() {
    let missing = Folder::new().path("missing");
    let gates = [
        ("missing", missing),
        ("closed", helper(&["exit 1"])),
        ("another approves", helper(&["exit 75"])),
        ("hanging", helper(&["sleep 600"])),
    ];
    crate::support::together(gates, |(what, gate)| {
        let fixture = Fixture::new();
        let (state, audit) = (fixture.folder.path("state"), fixture.folder.path("audit"));
        let metrics = fixture.folder.path("metrics.prom");
        let notice = Duration::from_secs(3600);
        fixture.service.show(
            2,
            &[with(
                freeze("a"),
                &json!({ "NotBefore": in_future(notice) }),
            )],
        );
        let prepare = helper(&[format!("append {} last call: $LAST_CALL", fixture.log)]);
        // Three seconds after the event is first seen.
        let options = [
            "--prepare",
            &prepare,
            "--gate",
            &gate,
            "--last-call",
            "59m57s",
            "--state",
            &state,
            "--audit",
            &audit,
            "--metrics-file",
            &metrics,
        ];
        let mut run = fixture.watch(PREPARE_ALL, &options);
        let call = run.record("the last call", |record| {
            record["record"] == "gate" && record["outcome"] == "last-call"
        });
        assert_eq!(
            (&call["event_id"], &call["phase"]),
            (&json!("a"), &json!("prepare")),
            "{what}"
        );
        run.record("the preparation", |record| {
            record["record"] == "prepare" && record["outcome"] == "ready"
        });
        assert_eq!(fixture.lines(), ["last call: 1"], "{what}");
        fixture.service.await_polls(4);
        assert!(
            fixture.service.posted().is_empty(),
            "{what}: it was approved"
        );
        let order: Vec<_> = run
            .records()
            .iter()
            .filter(|record| {
                ["gate", "prepare"].contains(&record["record"].as_str().expect("a kind"))
            })
            .map(|record| record["outcome"].as_str().expect("a word").to_owned())
            .filter(|word| word != "closed")
            .collect();
        assert_eq!(order[..3], ["last-call", "begun", "ready"], "{what}");
        let recorded = std::fs::read_to_string(&audit).expect("the audit file");
        assert!(
            recorded.contains(r#""outcome":"last-call""#)
                && recorded.contains(r#""outcome":"begun""#),
            "{recorded}"
        );
        eventually("the metric", || {
            let text = std::fs::read_to_string(&metrics).unwrap_or_default();
            text.contains("scheduled_events_last_calls_total 1\n")
                .then_some(())
        });
        let status = crate::support::run(&["status", "--json", "--state", &state]).with_code(0);
        assert_eq!(status.of_kind("waiting")[0]["last_call"], true, "{what}");
        let status = crate::support::run(&["status", "--state", &state]).with_code(0);
        assert!(
            status
                .stdout
                .contains("prepared by the last call, without the gate"),
            "{}",
            status.stdout
        );
    });
}

#[test]
fn a_preempt_does_not_wait_for_its_gate_and_never_waits_for_ever() {
    for (options, expected) in [(&[][..], true), (&["--last-call", "never"], false)] {
        let fixture = Fixture::new();
        let gate = helper(&["sleep 600"]);
        let preempt =
            json!({ "EventType": "Preempt", "NotBefore": in_future(Duration::from_secs(30)) });
        fixture.service.show(2, &[with(freeze("a"), &preempt)]);
        let run = fixture.watch(PREPARE_ALL, &[&["--gate", &gate], options].concat());
        if expected {
            fixture.await_line("prepare a");
        } else {
            fixture.service.await_polls(6);
            assert!(fixture.lines().is_empty());
        }
        drop(run);
        assert!(fixture.service.posted().is_empty());
    }
}

/// The begin of a preparation is on the disk before its command starts: a watcher that is killed
/// then has left it there.
#[test]
#[cfg(unix)] // The command is a shell script.
fn the_begin_of_a_preparation_is_in_the_audit_file_before_its_command_runs() {
    let fixture = Fixture::new();
    let (audit, copy) = (fixture.folder.path("audit"), fixture.folder.path("copy"));
    let prepare = format!("cp {} {}", quoted(&audit), quoted(&copy));
    fixture.service.show(2, &[freeze("a")]);
    let mut run = fixture.watch(PREPARE_ALL, &["--audit", &audit, "--prepare", &prepare]);
    run.record("the preparation", crate::support::preparation_ended);
    let seen = std::fs::read_to_string(&copy).expect("a copy");
    assert!(
        seen.contains(r#""record":"prepare","event_id":"a","outcome":"begun""#),
        "{seen}"
    );
}

/// Two machines share a folder: each takes a lock in it before it goes out of service, and releases
/// it when it has recovered. So one of them is always in service.
#[test]
#[cfg(unix)] // The gate is a shell script.
fn a_gate_with_a_lock_in_a_shared_folder_keeps_one_of_two_machines_in_service() {
    let shared = Folder::new();
    let (lock, log) = (shared.path("lock"), shared.path("log"));
    let script = quoted(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/gate/lock.sh"
    ));
    let services = [FakeService::start(), FakeService::start()];
    let policy = shared.file("policy.toml", PREPARE_ALL);
    let mut runs = Vec::new();
    for (name, service) in ["one", "two"].into_iter().zip(&services) {
        service.show(2, &[with(freeze(name), &json!({ "Resources": [name] }))]);
        let gate = format!("{script} take {lock} {name}");
        let prepare = format!("sh -c 'echo out {name} >> {log}'");
        let recover = format!(
            "sh -c {}",
            quoted(&format!(
                "echo in {name} >> {log}; {script} release {lock} {name}"
            ))
        );
        let options = [
            "--vm-name",
            name,
            "--policy",
            &policy,
            "--gate",
            &gate,
            "--prepare",
            &prepare,
        ];
        runs.push(Run::watch(
            &service.url(),
            &[&options[..], &["--recover", &recover, "--until-idle"]].concat(),
        ));
    }
    let mut order = Vec::new();
    for _ in 0..2 {
        let posted = |service: &FakeService| service.posted().first().cloned();
        let fresh = |name: &String| !order.contains(name);
        let name = eventually("an approval", || {
            services.iter().filter_map(posted).find(fresh)
        });
        let service = &services[usize::from(name == "two")];
        service.show(3, &[]);
        eventually("the recovery", || {
            lines(&log)
                .iter()
                .any(|line| *line == format!("in {name}"))
                .then_some(())
        });
        order.push(name);
    }
    for run in runs {
        run.finish().with_code(0);
    }
    let [first, second] = [&order[0], &order[1]];
    assert_eq!(
        lines(&log),
        [
            format!("out {first}"),
            format!("in {first}"),
            format!("out {second}"),
            format!("in {second}")
        ]
    );
}

#[test]
fn a_started_event_without_notice_is_recovered_from_only_if_that_was_chosen() {
    for (options, expected) in [
        (&["--until-idle"][..], 0),
        (&["--until-idle", "--recover-all"], 1),
    ] {
        let fixture = Fixture::new();
        fixture.service.show(2, &[started("a")]);
        let mut run = fixture.watch(PREPARE_ALL, options);
        run.change("started-without-notice", "a");
        fixture.service.show(3, &[]);
        run.finish().with_code(0);
        assert_eq!(fixture.lines().len(), expected, "{:?}", fixture.lines());
    }
}

#[test]
fn a_clone_of_the_machine_does_not_recover_from_its_events() {
    let fixture = Fixture::new();
    let state = fixture.folder.path("state");
    fixture.approve_and_stop(&state);
    // The disk was copied to another machine, which has no event.
    fixture
        .service
        .set_vm_id("0f0e0d0c-0b0a-4908-8706-050403020100");
    fixture.service.show(3, &[]);
    let finished = fixture
        .watch(PREPARE_ALL, &["--state", &state, "--max-polls", "3"])
        .finish()
        .with_code(0);
    assert!(
        finished
            .stderr
            .contains("the snapshot is of another machine"),
        "{}",
        finished.stderr
    );
    assert_eq!(fixture.lines(), ["prepare a"]);
    assert!(finished.records().is_empty(), "{}", finished.stdout);
}

#[test]
fn a_clone_is_noticed_even_if_its_id_is_known_only_later() {
    let fixture = Fixture::new();
    let state = fixture.folder.path("state");
    fixture.approve_and_stop(&state);
    fixture
        .service
        .set_vm_id("0f0e0d0c-0b0a-4908-8706-050403020100");
    let mut refused = 0;
    fixture.service.intercept(move |request| {
        refused += u32::from(request.target.contains("vmId"));
        (refused == 1 && request.target.contains("vmId")).then(|| Reply::new(500, "", "{}"))
    });
    let run = fixture.watch(PREPARE_ALL, &["--state", &state]);
    run.wait_for_stderr("cannot determine this machine's vmId (status 500)");
    run.wait_for_stderr("the snapshot is of another machine");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_at_the_start_delays_saving_and_ends_nothing() {
    let fixture = Fixture::new();
    let state = fixture.folder.path("state");
    fixture.approve_and_stop(&state);
    // No file can grow beyond a few bytes, so the state cannot be written.
    fixture.service.show(3, &[freeze("a"), freeze("b")]);
    let url = fixture.service.url();
    let (policy, log) = (fixture.folder.path("policy.toml"), &fixture.log);
    let prepare = format!("sh -c 'echo prepare $SCHEDULED_EVENTS_EVENT_ID >> {log}'");
    let options = [
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
        "--state",
        &state,
    ];
    let watch = command(&[&options[..], &["--policy", &policy, "--prepare", &prepare]].concat());
    let mut run = Run::start(wrap(&["prlimit", "--fsize=64:64"], &watch));
    run.wait_for_stderr(STATE_NOT_WRITTEN);
    run.record("the approval", is_approval);
    assert_eq!(
        fixture.service.posted(),
        ["a", "b"],
        "what was approved before is known"
    );
}

#[test]
fn an_id_with_a_line_feed_is_one_line_among_the_ids() {
    let fixture = Fixture::new();
    let ids = fixture.folder.path("ids");
    let recover = helper(&[format!("append {ids} $EVENT_IDS")]);
    let succeeds = helper::<&str>(&[]);
    fixture.service.show(2, &[freeze("one\ntwo\u{202e}")]);
    let policy = fixture.folder.file("policy.toml", PREPARE_ALL);
    let options = [
        "--vm-name",
        VM,
        "--policy",
        &policy,
        "--prepare",
        &succeeds,
        "--recover",
        &recover,
        "--until-idle",
    ];
    let mut run = Run::watch(&fixture.service.url(), &options);
    run.record("the approval", is_approval);
    fixture.service.show(3, &[]);
    run.finish().with_code(0);
    assert_eq!(lines(&ids), ["one\\u{a}two\\u{202e}"]);
}
