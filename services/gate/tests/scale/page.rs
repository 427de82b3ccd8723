//! Writes the table of `docs/inside/performance.md`.

use std::fmt::Write as _;
use std::time::Duration;

use crate::fleet::Outcome;

/// The number of machines, and the outcomes of some seeds.
pub(crate) type Row = (usize, Vec<Outcome>);

/// The median.
fn middle<T: Copy + PartialOrd>(outcomes: &[Outcome], value: impl Fn(&Outcome) -> T) -> T {
    let mut values: Vec<T> = outcomes.iter().map(value).collect();
    values.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    values[values.len() / 2]
}

fn seconds(time: Option<Duration>) -> f64 {
    time.expect("the event was approved").as_secs_f64()
}

/// Operations for the event and for its slots.
#[allow(clippy::cast_precision_loss)] // They are small.
fn operations(outcome: &Outcome) -> f64 {
    let lists = outcome.on_groups.lists;
    (outcome.on_events.operations() + outcome.on_groups.operations() - lists) as f64
}

#[allow(clippy::cast_precision_loss)]
pub(crate) fn write(rows: &[Row]) {
    let mut table = String::from(
        "| machines | announced to approved | last one ready to approved | operations per machine | bytes per machine |\n\
         | :-- | --: | --: | --: | --: |\n",
    );
    for (machines, outcomes) in rows {
        let count = *machines as f64;
        let bytes = |outcome: &Outcome| {
            (outcome.on_events.bytes + outcome.on_groups.bytes + outcome.on_machines.bytes) as f64
                / count
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            table,
            "| {machines} | {:.1} s | {:.2} s | {:.1} | {:.0} KB |",
            middle(outcomes, |outcome| seconds(outcome.announced_to_approved)),
            middle(outcomes, |outcome| seconds(outcome.ready_to_approved)),
            middle(outcomes, |outcome| operations(outcome) / count),
            middle(outcomes, bytes) / 1000.0,
        );
    }
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/inside/performance.md"
    );
    let page = std::fs::read_to_string(path).expect("the page");
    let begin = "<!-- table: fleet -->\n\n";
    let start = page.find(begin).expect("the table's place") + begin.len();
    let end = start
        + page[start..]
            .find("\n<!-- end -->")
            .expect("the table's end");
    std::fs::write(path, format!("{}{table}{}", &page[..start], &page[end..])).expect("written");
}
