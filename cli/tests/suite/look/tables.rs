//! The tables of `list`, `check` and `scenarios`: hostile text, wide characters, and terminals of
//! any width.

use scheduled_events_core::record::is_unsafe_to_print;
use serde_json::json;

use crate::support::{Finished, document, freeze, run_with_input, with};

fn check(body: &str) -> Finished {
    run_with_input(
        &["check", "--vm-name", "vm", "--now", "2022-04-11T22:20:00Z"],
        body.as_bytes(),
    )
    .with_code(0)
}

#[test]
fn cells_are_cut_at_40_columns() {
    let long = "x".repeat(70_000);
    let event = with(
        freeze("a"),
        &json!({
            "EventType": long, "EventSource": long, "Resources": [long, "vm", "日".repeat(70_000)], "Description": long,
        }),
    );
    let body = document(1, &[event, freeze("b")]);
    let finished = check(&body);
    let cut = format!("{}…", "x".repeat(39));
    let row = finished
        .stdout
        .lines()
        .find(|line| line.contains(&cut))
        .expect("a cut cell");
    assert_eq!(
        row.matches(&cut).count(),
        3,
        "type, source and a name: {row}"
    );
    assert!(row.contains(&format!("{}…", "日".repeat(19))), "{row}");
    assert!(
        finished
            .stdout
            .lines()
            .all(|line| line.chars().count() <= 420),
        "{}",
        finished.stdout
    );
    // Records have the whole text.
    let records = run_with_input(&["check", "--json"], body.as_bytes()).with_code(0);
    assert_eq!(records.of_kind("event")[0]["description"], long.as_str());
}

#[test]
fn columns_are_aligned_by_the_width_of_characters() {
    let event = with(
        freeze("a"),
        &json!({ "EventType": "停止", "EventSource": "e\u{301}" }),
    );
    let finished = check(&document(1, &[event, freeze("b")]));
    assert!(
        finished.stdout.contains("停止    Scheduled"),
        "{}",
        finished.stdout
    );
    assert!(
        finished.stdout.contains("e\u{301}         WestNO_0"),
        "{}",
        finished.stdout
    );
}

#[test]
fn invisible_and_bidirectional_characters_are_escaped() {
    let hidden = "\u{1b}[2J\u{200b}\u{202e}\u{2066}\u{fe0f}\u{3164}\u{e0041}\u{7f}\u{85}\n";
    let members = json!({ "EventId": hidden, "EventType": hidden, "EventSource": hidden, "Resources": [hidden],
        "Description": hidden, "EventStatus": hidden });
    let finished = check(&document(1, &[with(freeze("a"), &members)]));
    let is_unsafe = |char| char != '\n' && is_unsafe_to_print(char);
    assert!(
        !finished.stdout.contains(is_unsafe),
        "{:?}",
        finished.stdout
    );
    assert!(
        finished
            .stdout
            .contains(r"\u{1b}[2J\u{200b}\u{202e}\u{2066}\u{fe0f}"),
        "{}",
        finished.stdout
    );
    let records = run_with_input(
        &["check", "--json"],
        document(1, &[with(freeze("a"), &members)]).as_bytes(),
    );
    let records = records.with_code(0);
    assert!(!records.stdout.contains(is_unsafe), "{:?}", records.stdout);
    assert_eq!(records.of_kind("event")[0]["description"], hidden);
}

#[test]
fn the_positions_of_many_problems_take_one_pass() {
    // Wine takes a millisecond for each line.
    const PROBLEMS: usize = if cfg!(windows) { 6_000 } else { 60_000 };
    let events = vec![r#"{"EventId":7}"#; PROBLEMS].join(",\n");
    // Counting from the beginning for each problem takes minutes.
    let finished = check(&format!("{{\"Events\":[\n{events}]}}"));
    let problems: Vec<_> = finished
        .stdout
        .lines()
        .filter(|line| line.starts_with("problem:"))
        .collect();
    assert_eq!(problems.len(), PROBLEMS);
    let last = format!(
        "problem: {}:12: event {}, EventId: wrong-type",
        PROBLEMS + 1,
        PROBLEMS - 1
    );
    assert_eq!(problems[PROBLEMS - 1], last);
}

#[cfg(unix)]
mod on_a_terminal {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::support::{Folder, Terminal, command};

    #[test]
    fn no_line_of_a_table_is_longer_than_the_terminal() {
        let folder = Folder::new();
        let members =
            json!({ "Resources": ["machine_000001", "machine_000002", "vm"], "NotBefore": "soon" });
        let file = folder.file(
            "document.json",
            document(1, &[with(freeze("a"), &members), freeze("b")]),
        );
        for columns in [60, 80, 200] {
            for arguments in [
                &["check", &file, "--vm-name", "vm", "--policy", "sample"][..],
                &["scenarios"],
            ] {
                let mut command = command(arguments);
                command.env("NO_COLOR", "1");
                let shown = Terminal::new(columns).run(command);
                let longest = shown
                    .lines()
                    .map(UnicodeWidthStr::width)
                    .max()
                    .expect("lines");
                assert!(
                    longest <= usize::from(columns),
                    "{columns} columns, {arguments:?}:\n{shown}"
                );
            }
        }
        let mut command = command(&["check", &file, "--vm-name", "vm"]);
        command.env("NO_COLOR", "1");
        let narrow = Terminal::new(60).run(command);
        for words in [
            "resources: machine_000001, machine_000002, vm",
            "decision: hold (the policy only observes)",
        ] {
            assert!(narrow.contains(words), "{words}:\n{narrow}");
        }
    }
}
