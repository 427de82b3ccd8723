//! Writes the table and the picture of `docs/inside/performance.md`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fleet::Outcome;

/// The number of machines, whether the engine had registers in parts, and the outcomes of some seeds.
pub(crate) type Row = (usize, bool, Vec<Outcome>);

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The value in the middle.
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
        "| machines | announced to approved | last one ready to approved | operations for the event | of these refused | per \
         machine | upkeep per machine and minute | bytes per machine |\n\
         | :-- | --: | --: | --: | --: | --: | --: | --: |\n",
    );
    for (machines, has_parts, outcomes) in rows {
        let count = *machines as f64;
        let refused =
            |outcome: &Outcome| (outcome.on_events.conflicts + outcome.on_groups.conflicts) as f64;
        let upkeep = |outcome: &Outcome| {
            let operations = outcome.on_machines.operations() + outcome.on_groups.lists;
            operations as f64 / count / outcome.duration.as_secs_f64() * 60.0
        };
        let bytes = |outcome: &Outcome| {
            (outcome.on_events.bytes + outcome.on_groups.bytes + outcome.on_machines.bytes) as f64
                / count
        };
        let note = if *has_parts || *machines <= 64 {
            ""
        } else {
            ", all marks in one register"
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            table,
            "| {machines}{note} | {:.1} s | {:.2} s | {:.0} | {:.0} | {:.1} | {:.0} | {:.0} KB |",
            middle(outcomes, |outcome| seconds(outcome.announced_to_approved)),
            middle(outcomes, |outcome| seconds(outcome.ready_to_approved)),
            middle(outcomes, operations),
            middle(outcomes, refused),
            middle(outcomes, |outcome| operations(outcome) / count),
            middle(outcomes, upkeep),
            middle(outcomes, bytes) / 1000.0,
        );
    }
    let path = docs().join("inside/performance.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let begin = "<!-- table: fleet -->\n\n";
    let start = page.find(begin).expect("the table's place") + begin.len();
    let end = start
        + page[start..]
            .find("\n<!-- end -->")
            .expect("the table's end");
    std::fs::write(&path, format!("{}{table}{}", &page[..start], &page[end..])).expect("written");
    let in_parts: Vec<&Row> = rows.iter().filter(|(_, has_parts, _)| *has_parts).collect();
    std::fs::write(docs().join("images/fleet-scale.svg"), picture(&in_parts)).expect("written");
}

const WIDTH: f64 = 430.0;
const HEIGHT: f64 = 220.0;

#[allow(clippy::cast_precision_loss)]
fn picture(rows: &[&Row]) -> String {
    let latency: Vec<_> = rows
        .iter()
        .map(|(n, _, o)| {
            (
                *n as f64,
                middle(o, |outcome| seconds(outcome.ready_to_approved)),
            )
        })
        .collect();
    let per_machine: Vec<_> = rows
        .iter()
        .map(|(n, _, o)| {
            (
                *n as f64,
                middle(o, |outcome| operations(outcome) / *n as f64),
            )
        })
        .collect();
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1000 320\" width=\"1000\" height=\"320\" role=\"img\" \
         aria-labelledby=\"title desc\">\n<title id=\"title\">A fleet's approval, by the number of machines</title>\n<desc id=\"desc\">",
    );
    for ((machines, latency), (_, operations)) in latency.iter().zip(&per_machine) {
        let _ = write!(
            svg,
            "{machines} machines: {latency:.2} s, {operations:.1} operations per machine. "
        );
    }
    svg.push_str(
        "</desc>\n<style>svg{--paper:#fff;--ink:#1b1b1f;--soft:#5b5b66;--line:#c9c9d1;--run:#1d4fb3}\
         @media (prefers-color-scheme:dark){svg{--paper:#17171b;--ink:#ececf1;--soft:#a9a9b6;--line:#45454f;--run:#8ab4ef}}\
         text{font:13px sans-serif;fill:var(--ink)}.s{fill:var(--soft)}.m{text-anchor:middle}.e{text-anchor:end}\
         rect{fill:var(--paper)}.g{stroke:var(--line)}.r{stroke:var(--run);fill:none;stroke-width:2}circle{fill:var(--run)}</style>\n\
         <rect width=\"100%\" height=\"100%\"/>\n",
    );
    panel(
        &mut svg,
        50.0,
        "Seconds from the last machine ready to the approval",
        &latency,
    );
    panel(
        &mut svg,
        540.0,
        "Operations of the engine per machine and event",
        &per_machine,
    );
    svg.push_str("</svg>\n");
    svg
}

/// One curve. The number of machines is on a logarithmic scale.
fn panel(svg: &mut String, left: f64, title: &str, points: &[(f64, f64)]) {
    let highest = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    // The next of 1, 2 and 5 times a power of ten.
    let power = 10_f64.powf(highest.log10().floor());
    let top = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|top| *top >= highest)
        .unwrap_or(highest);
    let x = |machines: f64| left + machines.log10() / 3.0 * WIDTH;
    let y = |value: f64| 270.0 - value / top * HEIGHT;
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"26\">{title}</text>");
    for part in 0..=4 {
        let value = top * f64::from(part) / 4.0;
        let (at, right) = (y(value), left + WIDTH);
        let _ = writeln!(
            svg,
            "<line class=\"g\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"s e\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left - 6.0,
            at + 4.0,
            (value * 100.0).round() / 100.0
        );
    }
    for machines in [1.0, 10.0, 100.0, 1000.0] {
        let at = x(machines);
        let _ = writeln!(
            svg,
            "<line class=\"g\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"270\" y2=\"275\"/>\
             <text class=\"s m\" x=\"{at:.1}\" y=\"292\">{machines}</text>"
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"s m\" x=\"{:.1}\" y=\"311\">machines</text>",
        left + WIDTH / 2.0
    );
    let line: Vec<_> = points
        .iter()
        .map(|(machines, value)| format!("{:.1},{:.1}", x(*machines), y(*value)))
        .collect();
    let _ = writeln!(svg, "<polyline class=\"r\" points=\"{}\"/>", line.join(" "));
    for (machines, value) in points {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"/>",
            x(*machines),
            y(*value)
        );
    }
}
