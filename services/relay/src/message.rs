//! Text for people: one line about a record.
//!
//! Text of events comes from outside: this module escapes characters that are unsafe to print, and
//! each target escapes the characters that have a meaning in it.

use std::collections::HashSet;

use scheduled_events_core::record::Printable;

use crate::record::Record;

/// How many names of machines a message has.
const NAMES_MAX: usize = 10;

/// The longest text of an event in a message, in characters.
const TEXT_MAX: usize = 300;

/// One line about a record, such as `Reboot scheduled on WestNO_0, not before
/// 2022-04-11T22:26:58Z`.
pub fn headline(record: &Record, machine: &str) -> String {
    let event = format!(
        "{} {}",
        record.text("event_type").map_or("Event".into(), clean),
        ""
    );
    let event = event.trim();
    match record.kind() {
        "change" => {
            let change = match record.change() {
                Some("started-without-notice") => "started without notice".into(),
                Some(change) => clean(change),
                None => "changed".into(),
            };
            let not_before = record.text("not_before").filter(|_| !record.is_end());
            let not_before = not_before.map_or(String::new(), |time| {
                format!(", not before {}", clean(time))
            });
            format!("{event} {change} on {}{not_before}", clean(machine))
        }
        "gap" => format!(
            "{} records are missing on {}",
            record
                .get("lost")
                .map_or("some".to_owned(), ToString::to_string),
            clean(machine)
        ),
        kind @ ("prepare" | "recover" | "gate") => {
            let outcome = record.text("outcome").map_or("pending".into(), clean);
            let work = match kind {
                "prepare" => "preparation",
                "recover" => "recovery",
                _ => "gate",
            };
            format!("{event} on {}: {work} {outcome}", clean(machine))
        }
        "decision" => {
            let action = record.text("action").map_or("unknown".into(), clean);
            let reason = record
                .text("reason")
                .map_or(String::new(), |reason| format!(" ({})", clean(reason)));
            format!("{event} on {}: {action}{reason}", clean(machine))
        }
        "approval" => format!(
            "approval posted by {}: {}",
            clean(machine),
            record
                .get("status")
                .map_or("no response".to_owned(), |status| format!(
                    "status {status}"
                ))
        ),
        "poll-failed" => {
            format!(
                "poll failed on {}: {}",
                clean(machine),
                record.text("cause").map_or("unknown".into(), clean)
            )
        }
        kind => format!("{} on {}", clean(kind), clean(machine)),
    }
}

/// Whether people want to know about a record at once: events of this machine, and failures.
pub fn is_notable(record: &Record) -> bool {
    match record.kind() {
        "change" => record.change() != Some("updated"),
        "prepare" | "recover" => matches!(record.text("outcome"), Some("failed" | "timed-out")),
        "gap" => true,
        _ => false,
    }
}

/// The details of a record's event for people, as names and values.
pub fn details(record: &Record) -> Vec<(&'static str, String)> {
    let mut details = Vec::new();
    for (name, member) in [
        ("Event", "event_id"),
        ("Source", "event_source"),
        ("Not before", "not_before"),
        ("Description", "description"),
    ] {
        if let Some(text) = record.text(member).filter(|text| !text.is_empty()) {
            details.push((name, clean(text)));
        }
    }
    if let Some(seconds) = record
        .get("duration_in_seconds")
        .and_then(serde_json::Value::as_u64)
    {
        details.push(("Duration", format!("{seconds} s")));
    }
    if let Some(names) = record
        .get("resources")
        .and_then(serde_json::Value::as_array)
    {
        // A machine that is named twice is one machine.
        let mut seen = HashSet::new();
        let names = names.iter().filter_map(|name| name.as_str());
        let names: Vec<_> = names
            .filter(|name| seen.insert(name.to_ascii_lowercase()))
            .collect();
        let shown: Vec<_> = names.iter().copied().take(NAMES_MAX).map(clean).collect();
        let more = names.len().saturating_sub(NAMES_MAX);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        details.push(("Machines", format!("{}{more}", shown.join(", "))));
    }
    details
}

/// How severe an event is for a machine, in the words that PagerDuty and most rules of Prometheus
/// use.
pub fn severity(event_type: Option<&str>, is_started_without_notice: bool) -> &'static str {
    match event_type {
        _ if is_started_without_notice => "critical",
        Some("Freeze") => "info",
        _ => "warning",
    }
}

/// Text from outside on one line, bounded, without characters that are unsafe to print.
pub fn clean(text: &str) -> String {
    let mut clean = String::new();
    let mut count = 0;
    for char in text.chars() {
        let shown = Printable(char.encode_utf8(&mut [0; 4])).to_string();
        count += shown.chars().count();
        if count > TEXT_MAX {
            clean.push('…');
            break;
        }
        clean.push_str(&shown);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Line, Position};

    #[test]
    fn a_machine_that_is_named_twice_counts_once() {
        let line = Line {
            text: r#"{"record":"change","resources":["a","A","b"]}"#.to_owned(),
            position: Position {
                sequence: 1,
                digest: String::new(),
            },
        };
        let machines = ("Machines", "a, b".to_owned());
        assert!(details(&Record::new(&line)).contains(&machines));
    }
}
