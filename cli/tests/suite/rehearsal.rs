//! `doctor --rehearse`: what a rehearsal runs, asks and shows, in a shell and as a unit runs it; and `doctor --unit`, with programs in place
//! of systemd's.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use unicode_width::UnicodeWidthStr;

use crate::doctor::{assert_found, doctor, finding};
use crate::support::{
    FakeService, Finished, Folder, PREPARE_ALL, PROGRAM, Run, Terminal, VM, command, run,
};

/// `doctor --rehearse` with these options, which asks no service for the name.
fn rehearse(scenario: &str, options: &[&str]) -> Finished {
    let all = ["--vm-name", VM, "--rehearse", scenario, "--yes"];
    doctor("http://127.0.0.1:1", &[&all, options].concat())
}

#[test]
fn a_rehearsal_runs_the_commands_from_the_announcement_to_the_recovery() {
    let folder = Folder::new();
    let (policy, log) = (folder.file("policy.toml", PREPARE_ALL), folder.path("log"));
    let note = |what: &str| {
        format!("sh -c 'echo {what} $SCHEDULED_EVENTS_RESOURCES >> {log}; echo {what} printed'")
    };
    let (prepare, recover) = (note("prepare"), note("recover"));
    let on = format!("completed={}", note("completed"));
    let (state, audit) = (folder.path("state"), folder.path("audit"));
    let options = [
        "--policy",
        &policy,
        "--prepare",
        &prepare,
        "--recover",
        &recover,
        "--on",
        &on,
        "--state",
        &state,
        "--audit",
        &audit,
    ];
    let finished = rehearse("Reboot", &options).with_code(0);
    assert_found(&finished, "prepare", "ok", "--prepare: ready after ");
    assert_found(&finished, "prepare", "ok", " of a notice of 15 min");
    assert_found(&finished, "recover", "ok", "--recover: done after ");
    assert_found(&finished, "policy", "ok", "the event was approved");
    assert_found(&finished, "on", "ok", "1 change had commands");
    let mut lines = crate::support::lines(&log);
    // The command for the end of the event runs beside the recovery.
    lines[1..].sort();
    assert_eq!(
        lines,
        ["prepare WestNO_0", "completed WestNO_0", "recover WestNO_0"]
    );
    assert!(
        finished.stderr.contains("prepare: prepare printed\n"),
        "{}",
        finished.stderr
    );
    // The files of a watcher that may run are left alone.
    assert_eq!(folder.names(), ["log", "policy.toml"]);
}

#[test]
fn a_rehearsal_shows_what_fails_and_recovers_all_the_same() {
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let options = [
        "--policy",
        &policy,
        "--prepare",
        "sh -c 'exit 3'",
        "--recover",
        "true",
    ];
    let finished = rehearse("live-migration", &options).with_code(1);
    assert_found(&finished, "prepare", "fail", "--prepare: failed after ");
    assert_found(&finished, "recover", "ok", "--recover: done after ");
    assert!(
        finished.stderr.contains("exit status: 3"),
        "{}",
        finished.stderr
    );
    let options = [
        "--policy",
        &policy,
        "--prepare",
        "true",
        "--recover",
        "false",
    ];
    let finished = rehearse("user-reboot", &options).with_code(1);
    assert_found(&finished, "recover", "fail", "--recover: failed after ");
}

#[test]
fn a_rehearsal_without_a_command_says_which_one_to_add() {
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let recovered = rehearse("preempt", &["--policy", &policy, "--prepare", "true"]).with_code(0);
    assert_found(&recovered, "prepare", "ok", "--prepare: ready after ");
    assert_found(
        &recovered,
        "recover",
        "warn",
        "there is --prepare, but no --recover",
    );
    let prepared = rehearse("preempt", &["--policy", &policy, "--recover", "true"]).with_code(1);
    let found = "there is no --prepare: the event was held";
    assert_found(&prepared, "prepare", "fail", found);
    let advice = &finding(&prepared, "prepare")["do"];
    assert_eq!(advice, "add --prepare COMMAND");
    let without = rehearse("preempt", &["--policy", &policy]).with_code(1);
    assert_found(&without, "prepare", "fail", found);
    assert_found(&without, "recover", "ok", "none");
}

#[test]
fn a_rehearsal_of_an_event_that_is_held_runs_nothing() {
    let folder = Folder::new();
    let prepare = format!("touch {}", folder.path("ran"));
    let finished = rehearse("preempt", &["--prepare", &prepare]).with_code(0);
    assert_found(
        &finished,
        "policy",
        "warn",
        "the event was not approved (hold: the policy only observes)",
    );
    assert_found(&finished, "prepare", "warn", "--prepare did not run");
    assert!(folder.names().is_empty());
}

#[test]
fn a_rehearsal_asks_before_it_runs_commands() {
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let prepare = format!("touch {}", folder.path("ran"));
    let options = [
        "doctor",
        "--policy",
        &policy,
        "--prepare",
        &prepare,
        "--rehearse",
        "reboot",
    ];
    let refused = run(&options).with_code(2);
    assert!(
        refused.stderr.contains("add --yes if that is wanted"),
        "{}",
        refused.stderr
    );
    let unknown = run(&["doctor", "--rehearse", "rebot", "--yes"]).with_code(2);
    assert!(unknown.stderr.starts_with("error: "), "{}", unknown.stderr);
    run(&["doctor", "--yes"]).with_code(2);
    assert_eq!(folder.names(), ["policy.toml"]);
}

/// Programs in place of systemd's: `systemctl` keeps the state of one unit in a file and prints the text of another, and
/// `systemd-run` runs its command as it is. Returns the variable `PATH` that has them first.
fn systemd(folder: &Folder, unit: &str) -> String {
    let bin = folder.path("bin");
    fs::create_dir(&bin).expect("a folder");
    let (state, text) = (folder.file("state", "active\n"), folder.file("unit", unit));
    let systemctl = format!(
        "case $1 in is-active) cat {state};; stop) echo inactive >{state};; start) echo active >{state};; cat) cat {text};; esac"
    );
    let run = "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"";
    for (name, script) in [("systemctl", systemctl.as_str()), ("systemd-run", run)] {
        let path = folder.file(&format!("bin/{name}"), format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a mode");
    }
    format!("{bin}:{}", std::env::var("PATH").expect("a path"))
}

/// The command line of a rehearsal for people, with these programs of systemd.
fn shown(path: &str, options: &[&str]) -> Command {
    let first = ["doctor", "--color", "never", "--rehearse", "reboot"];
    let mut rehearsal = command(&[&first, options].concat());
    rehearsal.env("PATH", path);
    rehearsal
}

#[test]
fn whether_recovery_left_a_unit_as_it_was_is_said() {
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let path = systemd(&folder, "");
    let rehearsed = |recover: &str| {
        let options = ["--json", "--yes", "--vm-name", VM, "--policy", &policy];
        let hooks = [
            "--prepare",
            "sh -c 'systemctl stop app && true'",
            "--recover",
            recover,
        ];
        Run::start(shown(&path, &[&options[..], &hooks].concat())).finish()
    };
    let same = rehearsed("systemctl start app").with_code(0);
    assert_found(&same, "recover", "ok", "app.service is active, as before");
    let differs = rehearsed("true").with_code(1);
    assert_found(
        &differs,
        "recover",
        "fail",
        "app.service was active and is inactive",
    );
    let advice = finding(&differs, "recover")["do"].to_string();
    assert!(advice.contains("systemctl start app.service"), "{advice}");
}

#[test]
fn a_rehearsal_fits_the_terminal() {
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let options = [
        "--vm-name",
        VM,
        "--policy",
        &policy,
        "--prepare",
        "true",
        "--recover",
        "false",
        "--yes",
    ];
    for columns in [80, 120] {
        let text =
            Terminal::new(columns).run(shown(&std::env::var("PATH").expect("a path"), &options));
        // The line of the status is rewritten.
        let lines = text
            .lines()
            .map(|line| line.rsplit('\r').next().unwrap_or(line));
        for line in lines {
            assert!(line.width() <= usize::from(columns), "{line:?}: {text}");
        }
        assert!(
            text.starts_with("rehearsing reboot as WestNO_0: nothing is sent to Azure"),
            "{text}"
        );
        assert!(text.contains("a rule matches (rule 1)\n"), "{text}");
        assert!(
            text.contains("\nFAIL  recover  --recover: failed after "),
            "{text}"
        );
    }
}

#[test]
fn a_rehearsal_asks_on_the_terminal() {
    let folder = Folder::new();
    let (policy, ran) = (folder.file("policy.toml", PREPARE_ALL), folder.path("ran"));
    let prepare = format!("touch {ran}");
    let plain = [
        "--vm-name",
        VM,
        "--policy",
        &policy,
        "--prepare",
        &prepare,
        "--recover",
        "true",
    ];
    let unit = format!(
        "[Service]\nUser=root\nExecStart={PROGRAM} watch --vm-name {VM} --policy {policy} --prepare '{prepare}' --recover true\n"
    );
    let path = systemd(&folder, &unit);
    for (options, question) in [
        (
            &plain[..],
            "A rehearsal runs the commands of the options on this machine, now.\n  --prepare touch ",
        ),
        (
            &["--unit", "app"][..],
            "A rehearsal runs the commands of the unit app on this machine, now.\nRun them? [y/N] ",
        ),
    ] {
        let answered = |answer: &str| {
            let terminal = Terminal::new(200);
            let mut rehearsal = shown(&path, options);
            terminal.connect_input(&mut rehearsal);
            terminal.enter(answer);
            let text = terminal.run(rehearsal);
            assert!(text.contains(question), "{text}");
            text
        };
        let refused = answered("n");
        assert!(refused.contains("error: nothing was run\n"), "{refused}");
        assert!(!fs::exists(&ran).expect("a folder"), "{refused}");
        let done = answered("y");
        assert!(done.contains("--prepare: ready after "), "{done}");
        fs::remove_file(&ran).expect("it ran");
        // Without a terminal, nobody can answer.
        let unasked = Run::start(shown(&path, options)).finish().with_code(2);
        assert!(
            unasked.stderr.contains("add --yes if that is wanted"),
            "{}",
            unasked.stderr
        );
    }
}

#[test]
fn a_unit_whose_file_has_a_mistake_is_checked_all_the_same() {
    let (service, folder) = (FakeService::start(), Folder::new());
    let config = folder.file("watch.toml", "stat = \"x\"\n");
    let unit = format!(
        "[Service]\nUser=root\nReadWritePaths=/srv/%i\nExecStart={PROGRAM} watch --config {config} --endpoint {}\n",
        service.url()
    );
    let mut checks = command(&["doctor", "--json", "--unit", "app"]);
    checks.env("PATH", systemd(&folder, &unit));
    let finished = Run::start(checks).finish().with_code(1);
    let mistake = format!("{config}:1:1: unknown key `stat`; did you mean `state`?");
    assert_found(&finished, "policy", "fail", &mistake);
    assert_found(&finished, "service", "ok", "answered");
    let left_out = "app.service: checked as root, without ReadWritePaths, ";
    assert_found(&finished, "unit", "warn", left_out);
}
