//! `scenarios --show`, and the page `docs/use/scenarios.md`: generated from the scenario files, and
//! compared with the committed file.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use scheduled_events_replay::Scenario;
use scheduled_events_replay::scenario::EventScript;

use crate::support::{Folder, run};

/// With this environment variable, the test writes the page instead of comparing it.
const WRITE: &str = "SCHEDULED_EVENTS_WRITE_SCENARIOS_PAGE";

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/use/scenarios.md");

#[test]
fn the_page_describes_the_scenarios_as_they_are_defined() {
    let page = page();
    if std::env::var_os(WRITE).is_some() {
        fs::write(PAGE, page).expect("the page can be written");
        return;
    }
    let committed = fs::read_to_string(PAGE).expect("docs/use/scenarios.md");
    for (number, (expected, found)) in (1..).zip(page.lines().zip(committed.lines())) {
        assert_eq!(
            expected, found,
            "docs/use/scenarios.md, line {number}: run `make scenarios-page`"
        );
    }
    assert_eq!(
        page.len(),
        committed.len(),
        "docs/use/scenarios.md is longer or shorter: run `make scenarios-page`"
    );
}

#[test]
fn show_prints_the_file_of_a_scenario() {
    for (name, _) in Scenario::builtins() {
        let shown = run(&["scenarios", "--show", name]).with_code(0);
        assert_eq!(
            Some(shown.stdout.as_str()),
            Scenario::builtin_source(name),
            "{name}"
        );
        assert_eq!(shown.stderr, "");
    }
    // The printed scenario can be played.
    let copy = Folder::new();
    let file = copy.file(
        "my.toml",
        run(&["scenarios", "--show", "user-reboot"]).stdout,
    );
    run(&["demo", &file, "--speed", "300"]).with_code(0);

    let refused = run(&["scenarios", "--show", "Prempt"]).with_code(2);
    assert_eq!(
        refused.stderr,
        "error: there is no scenario \"Prempt\"; did you mean \"preempt\"? `scenarios` lists all scenarios\n"
    );
    let refused = run(&["scenarios", "--show", "xyzzy"]).with_code(2);
    assert!(
        !refused.stderr.contains("did you mean"),
        "{}",
        refused.stderr
    );
}

fn page() -> String {
    let mut page = include_str!("scenarios.md.in").to_owned();
    for (name, about) in Scenario::builtins() {
        let scenario = Scenario::builtin(name).expect(name);
        // Writing to a string does not fail.
        let _ = writeln!(page, "\n## `{name}`\n\n{about}\n");
        let remarks = remarks(Scenario::builtin_source(name).expect(name));
        if !remarks.is_empty() {
            let _ = writeln!(page, "{remarks}\n");
        }
        let _ = writeln!(page, "| when | what happens |\n|---|---|");
        for event in &scenario.events {
            for (when, what) in timeline(event) {
                let _ = writeln!(page, "| {when} | {what} |");
            }
        }
        if let Some(reset) = scenario.incarnation_reset {
            let _ = writeln!(
                page,
                "| {} | `DocumentIncarnation` starts again at {} |",
                at(reset.after),
                reset.to
            );
        }
    }
    page
}

/// The comment at the beginning of a scenario file, as a paragraph.
fn remarks(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix('#'));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The course of an event, step by step.
fn timeline(event: &EventScript) -> Vec<(String, String)> {
    let (mut subject, object) = (
        format!("`{}` of {}", event.event_type, machines(event)),
        pronoun(event),
    );
    if event.event_source == "User" {
        subject += ", caused by a user,";
    }
    let interruption = match event.duration_in_seconds {
        -1 => "of unknown duration".to_owned(),
        0 => "without interruption".to_owned(),
        seconds => format!("for {seconds} s"),
    };
    let appears = at(event.appears);
    if event.is_advice() {
        let withdrawn = event.cancelled_after.map(|after| {
            let when = format!("{} after it appears", words(after));
            (when, format!("{object} leaves the document"))
        });
        let advice = (appears, format!("{subject} is `Advisory`"));
        return [advice].into_iter().chain(withdrawn).collect();
    }
    if event.without_notice {
        let gone = (
            format!("{} later", words(event.started_for)),
            format!("{object} is over"),
        );
        return vec![
            (appears, format!("{subject} is `Started`, {interruption}")),
            gone,
        ];
    }
    let mut steps = vec![(
        appears,
        format!(
            "{subject} is `Scheduled`, {interruption}, {} ahead",
            words(event.notice)
        ),
    )];
    if let Some(change) = event.reschedule {
        let what = format!(
            "{object} is postponed: `NotBefore` is {} ahead again",
            words(change.notice)
        );
        steps.push((format!("{} after it appears", words(change.after)), what));
    }
    if let Some(cancelled) = event.cancelled_after {
        let what = format!("{object} leaves the document: Azure cancelled it");
        steps.push((format!("{} after it appears", words(cancelled)), what));
        return steps;
    }
    let approval = if event.approval_group.is_some() {
        "approval of all these events"
    } else {
        "approval"
    };
    let early = format!(
        "{} after the {approval}, or at `NotBefore`",
        words(event.starts_after_approval)
    );
    steps.push((early, format!("{object} is `Started`")));
    steps.push((
        format!("{} later", words(event.started_for)),
        format!("{object} is over"),
    ));
    steps
}

fn pronoun(event: &EventScript) -> &'static str {
    if event.count > 1 { "each" } else { "it" }
}

fn machines(event: &EventScript) -> String {
    if event.count > 1 {
        return format!("each of {} VMs, this one among them", event.count);
    }
    let name = |name: &String| match name.as_str() {
        "{vm}" => "this VM",
        "{peer:1}" => "a neighbour",
        other => panic!("a phrase for {other}"),
    };
    event
        .resources
        .iter()
        .map(name)
        .collect::<Vec<_>>()
        .join(" and ")
}

fn at(time: Duration) -> String {
    format!("after {}", words(time))
}

fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds >= 60 && seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds if seconds > 60 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{seconds} s"),
    }
}
