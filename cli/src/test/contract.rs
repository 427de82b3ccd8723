//! `contract`: judges the service by a capture.

use std::fmt::Write as _;

use serde::Serialize;

use crate::args::ContractArgs;
use crate::audit_lines::read_audit;
use crate::error::CommandError;
use crate::output::format::{cell, count, duration, sentence};
use crate::output::style::{BAD, BOLD, DIM, GOOD, PLAIN};
use crate::output::table::{Table, wrap};
use crate::output::{diagnose, print, print_record, terminal};
use scheduled_events_replay::contract::{Contract, ObservedEvent, ServiceRule, Sighting};

/// The evidence of a rule that is printed for people.
const EVIDENCE_SHOWN: usize = 3;

pub(crate) fn contract(args: &ContractArgs) -> Result<(), CommandError> {
    let mut contract = Contract::default();
    let name = read_audit(&args.file, &mut |line| contract.add(line))?;
    for (number, text) in [
        (contract.lost, "were lost when it was written"),
        (contract.unreadable, "are no exchange, and were left out"),
    ] {
        if number > 0 {
            diagnose("warning", &format!("{name}: {number} lines {text}"));
        }
    }
    if contract.exchanges == 0 {
        return Err(CommandError::document(format!(
            "{name}: it has no exchange; expected the file of `capture --to`"
        )));
    }
    if args.output.json {
        print_records(&contract)?;
    } else {
        let mut text = Vec::new();
        write_table(&contract, &mut text);
        print(&text)?;
    }
    if contract.is_clean() {
        Ok(())
    } else {
        Err(CommandError::printed())
    }
}

/// A record of `--json`.
#[derive(Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum ContractRecord<'a> {
    Rule {
        rule: &'a str,
        outcome: &'a str,
        /// The exchange that contradicts it first, or that shows it first.
        exchange: Option<u64>,
        found: Option<&'a str>,
        seen: u64,
        contradicted: u64,
        section: u8,
        item: &'a str,
        about: &'a str,
    },
    Observed {
        event_id: &'a str,
        event_type: &'a str,
        exchange: u64,
        first_seen: String,
        notice_seconds: Option<i64>,
        start_after_approval_seconds: Option<i64>,
        started: Option<String>,
        gone: Option<String>,
    },
}

fn print_records(contract: &Contract) -> Result<(), CommandError> {
    for rule in ServiceRule::ALL {
        let evidence = contract.evidence(*rule).first();
        print_record(&ContractRecord::Rule {
            rule: rule.id(),
            outcome: contract.sighting(*rule).word(),
            exchange: evidence.map_or(contract.first_seen(*rule), |first| Some(first.exchange)),
            found: evidence.map(|first| first.message.as_str()),
            seen: contract.times_seen(*rule),
            contradicted: contract.times_contradicted(*rule),
            section: rule.section(),
            item: rule.item(),
            about: rule.about(),
        })?;
    }
    for event in contract.events() {
        print_record(&ContractRecord::Observed {
            event_id: &event.event_id,
            event_type: &event.event_type,
            exchange: event.exchange,
            first_seen: event.first_seen.to_string(),
            notice_seconds: event.notice(),
            start_after_approval_seconds: event.start_after_approval(),
            started: event.started.map(|time| time.to_string()),
            gone: event.gone.map(|time| time.to_string()),
        })?;
    }
    Ok(())
}

fn write_table(contract: &Contract, output: &mut Vec<u8>) {
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
        let _ = write!(text, ", started {} after its approval", spoken(after));
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
