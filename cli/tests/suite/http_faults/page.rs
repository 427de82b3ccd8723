//! Writes `docs/inside/faults.md` from the rows and the limits, and compares it with the committed page.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use scheduled_events::limits::{BODY_MAX, CLOCK_STEP_MAX, HEAD_MAX, NAME_TIMEOUT};
use scheduled_events_core::limits;
use scheduled_events_replay::fault::{KINDS, MESSAGE_KINDS};

use super::row::{ALWAYS, ROW, Row};
use super::rows::ROWS;

/// With this environment variable, the test writes the page.
const WRITE: &str = "SCHEDULED_EVENTS_WRITE_FAULTS_PAGE";

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/inside/faults.md");

#[test]
fn the_page_matches_the_tests() {
    let mut page = include_str!("page.md.in").to_owned();
    let parts = [
        ("@LIMITS@", limits_table()),
        ("@ALWAYS@", always_list()),
        ("@TABLE@", table()),
        ("@KINDS@", kinds_table(KINDS)),
        ("@MESSAGE_KINDS@", kinds_table(MESSAGE_KINDS)),
    ];
    for (place, text) in parts {
        assert_eq!(page.matches(place).count(), 1, "{place}");
        page = page.replace(place, text.trim_end());
    }
    if std::env::var_os(WRITE).is_some() {
        fs::write(PAGE, page).expect("the page is written");
        return;
    }
    let committed = fs::read_to_string(PAGE).expect("docs/inside/faults.md");
    for (number, (wanted, found)) in (1..).zip(page.lines().zip(committed.lines())) {
        assert_eq!(
            wanted, found,
            "line {number} of docs/inside/faults.md differs from the tests: run `make faults-table`"
        );
    }
    assert_eq!(
        page.len(),
        committed.len(),
        "docs/inside/faults.md has more or fewer lines: run `make faults-table`"
    );
}

fn limits_table() -> String {
    let seconds = |milliseconds: u32| {
        format!(
            "{} s",
            Duration::from_millis(milliseconds.into()).as_secs_f64()
        )
    };
    let rows = [
        (
            "size of a document",
            format!("{} MiB", BODY_MAX / 1024 / 1024),
        ),
        (
            "size of a response's header",
            format!("{} KiB", HEAD_MAX / 1024),
        ),
        (
            "time for the first response, including the connection",
            seconds(limits::FIRST_TIMEOUT_MS),
        ),
        (
            "time for a later response, and for approvals",
            seconds(limits::TIMEOUT_MS),
        ),
        ("time for a connection", seconds(limits::CONNECT_TIMEOUT_MS)),
        (
            "time for the request for the VM's name",
            format!("{} s", NAME_TIMEOUT.as_secs()),
        ),
        (
            "shortest time between two polls",
            seconds(limits::INTERVAL_MIN_MS),
        ),
        (
            "shortest time between two requests of any kind",
            seconds(limits::REQUEST_SPACING_MS),
        ),
        (
            "back-off after the first failure",
            seconds(limits::BACK_OFF_FIRST_MS),
        ),
        ("longest back-off", seconds(limits::BACK_OFF_MAX_MS)),
        (
            "longest time from one poll to the next, also with a longer `Retry-After`",
            seconds(limits::POLL_GAP_MAX_MS),
        ),
        (
            "time during which an old document is ignored",
            seconds(limits::STALE_GRACE_MS),
        ),
        (
            "largest change of the wall clock that is accepted",
            format!("{} min", CLOCK_STEP_MAX.as_secs() / 60),
        ),
        ("events in one POST", limits::BATCH_MAX.to_string()),
    ];
    rows.iter().fold(String::new(), |text, (name, value)| {
        text + &format!("| {name} | {value} |\n")
    })
}

fn always_list() -> String {
    ALWAYS.iter().fold(String::new(), |text, never| {
        text + &format!("- The client never {}.\n", never.text())
    })
}

fn table() -> String {
    let mut text =
        "| The service … | result | next poll | test and its `--fault` |\n|---|---|---|---|\n"
            .to_owned();
    for (name, row) in ROWS {
        let faults = code(row.faults, " ").replace("{witness}", "http://…");
        let cells = [
            row.service.to_owned(),
            result(row),
            row.retry.text(),
            format!("**{name}** {faults}").trim_end().to_owned(),
        ];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// The result in words, from the values that the test checks.
fn result(row: &Row) -> String {
    let mut parts = Vec::new();
    if !row.causes.is_empty() {
        parts.push(code(row.causes, ", "));
    }
    if row.changes != ROW.changes {
        parts.push(format!("changes: {}", row.changes.join(", ")));
    }
    if !row.hooks.is_empty() {
        parts.push(format!("hooks: {}", row.hooks.join(", ")));
    }
    parts.push(match row.posts {
        0 => "no approval".into(),
        1 => "approved".into(),
        posts if row.events > 1 => format!("all {} approved with {posts} POSTs", row.events),
        posts => format!("approved by POST {posts}"),
    });
    parts.extend(
        row.never
            .iter()
            .map(|never| format!("never {}", never.text())),
    );
    parts.join("; ")
}

fn code(words: &[&str], between: &str) -> String {
    words
        .iter()
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(between)
}

fn kinds_table(kinds: &[(&str, &str)]) -> String {
    kinds.iter().fold(String::new(), |text, (syntax, about)| {
        text + &format!("| `{syntax}` | {about} |\n")
    })
}
