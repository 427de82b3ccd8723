//! The page `docs/faults.md`: printed from the rows and from the constants, and compared with what is committed.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use scheduled_events::clock::STEP_MAX;
use scheduled_events::imds::{BODY_MAX, HEAD_MAX, NAME_TIMEOUT};
use scheduled_events_core::limits;

use super::row::{ALWAYS, ROW, Row};
use super::rows::ROWS;

/// With this in the environment the page is written anew.
const WRITE: &str = "SCHEDULED_EVENTS_WRITE_FAULTS_PAGE";

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/faults.md");

#[test]
fn the_page_says_what_the_tests_check() {
    let mut page = include_str!("page.md.in").to_owned();
    for (place, text) in [("@LIMITS@", limits_table()), ("@ALWAYS@", always_list()), ("@TABLE@", table())] {
        assert_eq!(page.matches(place).count(), 1, "{place}");
        page = page.replace(place, text.trim_end());
    }
    if std::env::var_os(WRITE).is_some() {
        fs::write(PAGE, page).expect("the page is written");
        return;
    }
    let committed = fs::read_to_string(PAGE).expect("docs/faults.md");
    for (number, (wanted, found)) in (1..).zip(page.lines().zip(committed.lines())) {
        assert_eq!(
            wanted, found,
            "line {number} of docs/faults.md is not what the tests check: run `make faults-table`"
        );
    }
    assert_eq!(page.len(), committed.len(), "docs/faults.md has other lines at its end: run `make faults-table`");
}

fn limits_table() -> String {
    let seconds = |milliseconds: u32| format!("{} s", Duration::from_millis(milliseconds.into()).as_secs_f64());
    let rows = [
        ("body of a document", format!("{} MiB", BODY_MAX / 1024 / 1024)),
        ("header fields of an answer", format!("{} KiB", HEAD_MAX / 1024)),
        ("time for the first answer, connecting included", seconds(limits::FIRST_TIMEOUT_MS)),
        ("time for any later answer, and for approvals", seconds(limits::TIMEOUT_MS)),
        ("time for the question for the machine's name", format!("{} s", NAME_TIMEOUT.as_secs())),
        ("shortest time between two polls", seconds(limits::INTERVAL_MIN_MS)),
        ("shortest time between two requests of any kind", seconds(limits::REQUEST_SPACING_MS)),
        ("back-off after the first failure", seconds(limits::BACK_OFF_FIRST_MS)),
        ("longest back-off", seconds(limits::BACK_OFF_MAX_MS)),
        ("longest `Retry-After` that is honoured", format!("{} s", limits::RETRY_AFTER_MAX_S)),
        ("how long an old document is not believed", seconds(limits::STALE_GRACE_MS)),
        ("how far the wall clock may be moved and still be believed", format!("{} min", STEP_MAX.as_secs() / 60)),
        ("events in one approval", limits::BATCH_MAX.to_string()),
    ];
    rows.iter().fold(String::new(), |text, (name, value)| text + &format!("| {name} | {value} |\n"))
}

fn always_list() -> String {
    ALWAYS.iter().fold(String::new(), |text, never| text + &format!("- The client never {}.\n", never.text()))
}

fn table() -> String {
    let mut text =
        "| the service … | what happens | the next poll | on standard error | the client never … | test, and \
                    its `--fault` |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for (name, row) in ROWS {
        let says = code(row.says, "; ");
        let never = row.never.iter().map(|never| never.text()).collect::<Vec<_>>().join("; ");
        let faults = code(row.faults, " ").replace("{witness}", "http://…");
        let cells = [
            row.service.to_owned(),
            happens(row),
            row.again.text(),
            says,
            never,
            format!("**{name}** {faults}").trim_end().to_owned(),
        ];
        let cells = cells.map(|cell| if cell.is_empty() { "–".to_owned() } else { cell.replace('|', "\\|") });
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// What happens, in words, from what the test checks.
fn happens(row: &Row) -> String {
    let mut parts = Vec::new();
    if !row.told.is_empty() {
        parts.push(format!("the poll fails: {}", code(row.told, ", ")));
    }
    if row.changes != ROW.changes {
        parts.push(format!("told: {}", row.changes.join(", ")));
    }
    if !row.runs.is_empty() {
        parts.push(format!("runs {}", row.runs.join(", ")));
    }
    parts.push(match row.posts {
        0 => "no approval".into(),
        1 => "approved with one POST".into(),
        posts if row.events > 1 => format!("all {} approved with {posts} POSTs", row.events),
        posts => format!("the approval fails, and is repeated: {posts} POSTs"),
    });
    parts.join("; ")
}

fn code(words: &[&str], between: &str) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(between)
}
