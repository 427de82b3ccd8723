//! `check` without a document: what a policy or a configuration does, in words.

use crate::support::{Folder, run, run_with_input};
#[cfg(unix)]
use crate::support::{Run, Terminal, command};

const CONFIG: &str = "prepare = \"systemctl stop 'the app'\"\nrecover = [\"systemctl\", \"start\", \"the app\"]\n\
    [on]\nscheduled = \"logger ahead\"\n\
    [[rule]]\nevent = \"Freeze\"\nmax_duration = \"8s\"\naction = \"approve\"\n\
    [[rule]]\nevent = \"Reboot\"\nsource = \"User\"\naction = \"hold\"\n\
    [[rule]]\nevent = [\"Freeze\", \"Reboot\"]\nmin_notice = \"5m\"\naction = \"prepare\"\n";

/// The cells of the row or the line that starts with these words.
#[track_caller]
fn row<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let line = text
        .lines()
        .find(|line| line.starts_with(start))
        .unwrap_or_else(|| panic!("no row {start:?}: {text}"));
    line.split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect()
}

#[test]
fn a_configuration_is_described_without_a_document() {
    let folder = Folder::new();
    let config = folder.file("watch.toml", CONFIG);
    let text = run(&["check", "--config", &config]).with_code(0).stdout;
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = text.lines().map(squeezed).collect();
    let freeze = [
        "EVENT SOURCE WHAT IS DONE",
        "Freeze any duration at most 8s: approve (rule 1)",
        "duration over 8s or unknown, notice under 5m: report only: no rule matches",
        "duration over 8s or unknown, notice at least 5m: prepare, then approve (rule 3)",
        "duration over 8s or unknown, notice unknown: report only: no rule matches",
    ];
    assert_eq!(lines[..freeze.len()], freeze);
    assert!(
        lines.contains(&"User report only (rule 2)".to_owned()),
        "{text}"
    );
    assert_eq!(
        row(&text, "Terminate")[1..],
        ["any", "report only: no rule matches"]
    );
    assert_eq!(
        row(&text, "  rule 1")[1],
        "approved by the first machine in Resources alone"
    );
    assert_eq!(
        row(&text, "  rule 3")[1],
        "prepared for, not approved: no gate, no leader"
    );
    assert_eq!(
        row(&text, "  events of several machines")[1],
        "prepared for, not approved: no gate, no leader"
    );
    assert_eq!(
        row(&text, "  SpotRebalanceRecommendation")[1],
        "advice: no rule names it"
    );
    assert_eq!(
        row(&text, "  Redeploy, Preempt, Terminate, any other type")[1],
        "no rule matches"
    );
    assert_eq!(
        row(&text, "  prepare ")[1],
        "[\"systemctl\", \"stop\", \"the app\"]"
    );
    assert_eq!(
        row(&text, "  recover ")[1],
        "[\"systemctl\", \"start\", \"the app\"]"
    );
    assert_eq!(row(&text, "  on scheduled ")[1], "[\"logger\", \"ahead\"]");
}

#[test]
fn a_gate_and_a_leader_change_who_approves_events_of_several_machines() {
    let folder = Folder::new();
    for (start, words) in [
        (
            "gate = \"ask\"",
            "approved once the gate says yes, which decides for all of them",
        ),
        (
            "leader = \"everyone\"",
            "approved by each machine as soon as it is ready",
        ),
        (
            "leader = \"rank\"",
            "approved by the first machine in Resources, and by each later one if those before it have not",
        ),
        (
            "leader = \"first-resource\"",
            "prepared for on each machine, approved by the first in Resources alone, once that one is ready",
        ),
    ] {
        let text = format!("{start}\nprepare = \"true\"\n[[rule]]\naction = \"prepare\"\n");
        let config = folder.file("watch.toml", text);
        let text = run(&["check", "--config", &config]).with_code(0).stdout;
        assert_eq!(row(&text, "  rule 1")[1], words, "{start}");
        assert!(!text.contains("  events of several machines"), "{text}");
    }
    let config = folder.file("watch.toml", "[[rule]]\naction = \"prepare\"\n");
    let finished = run(&["check", "--config", &config]).with_code(0);
    assert_eq!(
        row(&finished.stdout, "Reboot")[2],
        "report only: there is no `prepare` command (rule 1)"
    );
    assert_eq!(
        row(&finished.stdout, "  Freeze, Reboot")[1],
        "there is no `prepare` command"
    );
    assert!(finished.stdout.contains("\n  none is approved\n"));
    // Windows does not tell an empty device from a file.
    #[cfg(unix)]
    {
        let observed = run(&["check", "--policy", "observe"]).with_code(0).stdout;
        assert_eq!(
            row(&observed, "  every event")[1],
            "the policy only observes"
        );
    }
    assert!(
        finished
            .stderr
            .contains("but there is no --prepare COMMAND"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_policy_is_described_unless_a_document_is_on_standard_input() {
    // Windows does not tell an empty device from a file.
    #[cfg(unix)]
    {
        let text = run(&["check", "--policy", "sample"]).with_code(0).stdout;
        assert!(
            text.starts_with("EVENT ") && !text.contains("Commands"),
            "{text}"
        );
    }
    let text = run_with_input(&["check", "--policy", "sample"], br#"{"Events":[]}"#)
        .with_code(0)
        .stdout;
    assert!(text.starts_with("no events"), "{text}");
    // A pipe whose other end has failed.
    run_with_input(&["check", "--policy", "sample"], b"").with_code(3);
    run(&["check"]).with_code(3);
}

#[test]
fn a_configuration_decides_about_a_document() {
    let folder = Folder::new();
    let config = folder.file(
        "watch.toml",
        "vm_name = \"vm\"\n[[rule]]\naction = \"ignore\"\n",
    );
    let document = r#"{"Events":[{"EventId":"a","EventType":"Reboot","EventStatus":"Scheduled","Resources":["vm"]}]}"#;
    let finished = run_with_input(
        &["check", "--json", "--config", &config, "-"],
        document.as_bytes(),
    )
    .with_code(0);
    assert_eq!(finished.of_kind("decision")[0]["action"], "ignore");
    assert_eq!(finished.stderr, "");
    let wrong = folder.file("wrong.toml", "vm_nam = \"vm\"\n");
    let finished = run(&["check", "--config", &wrong]).with_code(2);
    assert!(
        finished
            .stderr
            .starts_with(&format!("error: {wrong}:1:1: unknown key")),
        "{}",
        finished.stderr
    );
}

#[test]
#[cfg(unix)]
fn the_table_fits_terminals_and_a_terminal_gets_no_silent_wait() {
    let folder = Folder::new();
    let config = folder.file("watch.toml", CONFIG);
    for columns in [80, 120] {
        let text = Terminal::new(columns)
            .run(command(&["--color", "never", "check", "--config", &config]));
        // A warning is a line, which the terminal wraps.
        let lines = text.lines().filter(|line| !line.starts_with("warning: "));
        let widest = lines.map(|line| line.chars().count()).max();
        assert!(
            widest.is_some_and(|widest| widest <= columns.into()),
            "{text}"
        );
    }
    let terminal = Terminal::new(80);
    let mut waiting = command(&["check"]);
    terminal.connect_input(&mut waiting);
    let run = Run::start(waiting);
    run.wait_for_stderr("note: waiting for a document on standard input");
    run.kill();
}
