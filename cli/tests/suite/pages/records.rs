//! The page `docs/use/records.md`: generated from the definition of the records, and compared with the
//! committed file.

use std::fmt::Write as _;
use std::fs;

use scheduled_events::record::write_json;
use scheduled_events_core::UnixSeconds;
use scheduled_events_core::record::{EXAMPLES, KINDS, Record, RecordKind};
use scheduled_events_replay::Scenario;

/// With this environment variable, the test writes the page instead of comparing it.
const WRITE: &str = "SCHEDULED_EVENTS_WRITE_RECORDS_PAGE";

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/use/records.md");

/// The time in the examples.
const TIME: UnixSeconds = UnixSeconds(1_649_715_659);

#[test]
fn the_page_describes_the_records_as_they_are_defined() {
    let page = page();
    if std::env::var_os(WRITE).is_some() {
        fs::write(PAGE, page).expect("the page can be written");
        return;
    }
    let committed = fs::read_to_string(PAGE).expect("docs/use/records.md");
    for (number, (expected, found)) in (1..).zip(page.lines().zip(committed.lines())) {
        assert_eq!(
            expected, found,
            "docs/use/records.md, line {number}: run `make records-page`"
        );
    }
    assert_eq!(
        page.len(),
        committed.len(),
        "docs/use/records.md is longer or shorter: run `make records-page`"
    );
}

#[test]
fn the_example_of_a_scenario_is_a_built_in_one() {
    let Some(Record::Scenario { name, about }) = EXAMPLES.last() else {
        panic!("an example of a scenario")
    };
    assert!(
        Scenario::builtins().any(|scenario| scenario == (name, (*about).to_owned())),
        "{name}: {about}"
    );
}

fn page() -> String {
    let mut page = include_str!("records.md.in").to_owned();
    for (kind, record) in KINDS.iter().zip(EXAMPLES) {
        section(&mut page, kind, record);
    }
    page
}

fn section(page: &mut String, kind: &RecordKind, record: &Record<'_>) {
    let mut line = Vec::new();
    if kind.commands.contains("watch") {
        let record = record.at(TIME).of_machine(Some("WestNO_0"), None);
        write_json(&record, &mut line).expect("memory");
    } else {
        write_json(record, &mut line).expect("memory");
    }
    let line = String::from_utf8(line).expect("text");
    let commands = kind
        .commands
        .split(", ")
        .map(|command| format!("`{command}`"))
        .collect::<Vec<_>>()
        .join(", ");
    // Writing to a string does not fail.
    let _ = writeln!(
        page,
        "\n## `{}`\n\n{} Emitted by {commands}.\n",
        kind.name,
        text(kind.about)
    );
    let _ = writeln!(
        page,
        "```json\n{line}```\n\n| member | values | meaning |\n|---|---|---|"
    );
    // The record begins with the id of its event, and ends with the event's other members, which have their own section.
    let event = KINDS.iter().find(|kind| kind.name == "event");
    let event: Vec<_> = event.expect("a kind").members().map(|it| it.name).collect();
    let members: Vec<_> = kind.members().collect();
    let names: Vec<_> = members.iter().map(|member| member.name).collect();
    let shared = if kind.name != "event" && names.ends_with(&event[1..]) {
        event.len() - 1
    } else {
        0
    };
    for member in &members[..members.len() - shared] {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} |",
            member.name,
            member.values,
            text(member.about)
        );
    }
    if shared > 0 {
        let _ = writeln!(
            page,
            "| `{}` to `{}` | | as in [`event`](#event) |",
            event[1],
            event[event.len() - 1]
        );
    }
}

/// A doc comment as one paragraph.
fn text(doc: &str) -> String {
    doc.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}
