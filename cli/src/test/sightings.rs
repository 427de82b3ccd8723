//! What `contract` prints for people: the rules as a table, and what was seen of each event.

use std::fmt::Write as _;

use crate::output::format::{cell, count, duration, sentence};
use crate::output::style::{BAD, BOLD, DIM, GOOD, PLAIN};
use crate::output::table::{Table, wrap};
use crate::output::terminal;
use scheduled_events_replay::contract::{Contract, ObservedEvent, ServiceRule, Sighting};

/// The evidence against a rule that is printed.
const EVIDENCE_SHOWN: usize = 3;

pub(super) fn write_table(contract: &Contract, output: &mut Vec<u8>) {
    let mut table = Table::with_headings(["RULE", "OUTCOME", "LINE", "WHAT THE SERVICE DOES"]);
    for rule in ServiceRule::ALL {
        let sighting = contract.sighting(*rule);
        let (style, line) = match sighting {
            Sighting::Seen => (GOOD, contract.first_seen(*rule)),
            Sighting::Contradicted => {
                let first = contract.evidence(*rule).first();
                (BAD, first.map(|evidence| evidence.exchange))
            }
            Sighting::NotSeen => (DIM, None),
        };
        let line = line.map_or("-".to_owned(), |line| line.to_string());
        table.row([
            (rule.id().to_owned(), BOLD),
            (sighting.word().to_owned(), style),
            (line, PLAIN),
            (
                rule.about().to_owned(),
                if sighting == Sighting::NotSeen {
                    DIM
                } else {
                    PLAIN
                },
            ),
        ]);
        let evidence = contract.evidence(*rule);
        for found in evidence.iter().take(EVIDENCE_SHOWN) {
            let text = format!("line {}: {}", found.exchange, sentence(&found.message));
            table.below(text, BAD);
        }
        let more = contract.times_contradicted(*rule) - evidence.len().min(EVIDENCE_SHOWN) as u64;
        if more > 0 {
            table.below(format!("and {more} more"), BAD);
        }
    }
    let width = terminal::output_width();
    // Writing to memory does not fail.
    let _ = table.print(&mut *output, width);
    let number = |sighting| {
        let rules = ServiceRule::ALL.iter();
        rules
            .filter(|rule| contract.sighting(**rule) == sighting)
            .count()
    };
    let mut text = String::from("\n");
    for event in contract.events() {
        for line in wrap(&observed(event), width) {
            let _ = writeln!(text, "{line}");
        }
    }
    let exchanges = usize::try_from(contract.exchanges).unwrap_or(usize::MAX);
    let sums = format!(
        "{}: {} rules seen, {} contradicted, {} not seen. docs/inside/wire.md has the rules; a line's number is its `sequence`.",
        count(exchanges, "exchange"),
        number(Sighting::Seen),
        number(Sighting::Contradicted),
        number(Sighting::NotSeen)
    );
    for line in wrap(&sums, width) {
        let _ = writeln!(text, "{line}");
    }
    output.extend_from_slice(text.as_bytes());
}

/// What was seen of an event, in a sentence.
fn observed(event: &ObservedEvent) -> String {
    let spoken = |seconds: i64| duration(seconds.unsigned_abs());
    let mut text = format!("{} {}", cell(&event.event_type), cell(&event.event_id));
    match event.notice() {
        Some(notice) if notice >= 0 => {
            let _ = write!(text, ": seen {} before NotBefore", spoken(notice));
        }
        Some(notice) => {
            let _ = write!(text, ": seen {} after NotBefore", spoken(notice));
        }
        None => text.push_str(": seen without NotBefore"),
    }
    if let Some(after) = event.start_after_approval() {
        let order = if after < 0 { "before" } else { "after" };
        let _ = write!(text, ", started {} {order} its approval", spoken(after));
    } else if event.started.is_some() {
        text.push_str(", started");
    }
    if let (Some(started), Some(gone)) = (event.started, event.gone) {
        let _ = write!(text, ", gone {} after that", spoken(gone.since(started)));
    } else if event.gone.is_some() {
        text.push_str(", gone");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduled_events_core::UnixSeconds;

    #[test]
    fn an_approval_that_comes_after_the_start_is_shown_so() {
        let mut event = ObservedEvent::default();
        event.started = Some(UnixSeconds(100));
        for (approved, words) in [
            (93, ", started 7 s after its approval"),
            (107, ", started 7 s before its approval"),
        ] {
            event.approved = Some(UnixSeconds(approved));
            assert!(observed(&event).ends_with(words), "{}", observed(&event));
        }
    }
}
