//! `contract`: judges the service by a capture. `sightings` writes the table.

use serde::Serialize;

use super::sightings::write_table;
use crate::args::ContractArgs;
use crate::audit_lines::{read_audit, warn_of_missing_lines};
use crate::error::CommandError;
use crate::output::{print, print_record};
use scheduled_events_replay::contract::{Contract, ServiceRule};

pub(crate) fn contract(args: &ContractArgs) -> Result<(), CommandError> {
    let mut contract = Contract::default();
    let name = read_audit(&args.file, &mut |line| contract.add(line))?;
    warn_of_missing_lines(&name, contract.lost, contract.unreadable);
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
