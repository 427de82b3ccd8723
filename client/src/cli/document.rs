//! Prints a document for `list` and `check`: as records, or as a table.

use std::io::{self, Write};

use anstyle::Style;
use scheduled_events_core::record::{EventMembers, ResourceList};
use scheduled_events_core::{Decision, Document, Incarnation, Position, Text, UnixSeconds, VmNames};

use super::error::CommandError;
use super::format::{BOLD, CAUTION, DIM, PLAIN, Table, action_style, count, duration, from_now, names, printable};
use super::output::{print, print_record};
use crate::record::Record;

/// A document, and what is needed to print it.
pub(super) struct Listing<'a> {
    pub(super) document: &'a Document<'a>,
    /// What the document was parsed from.
    pub(super) body: &'a [u8],
    /// This machine's names.
    pub(super) names: VmNames<'a>,
    /// The time that the table's times are relative to.
    pub(super) now: UnixSeconds,
    /// One decision for each event, if they are wanted.
    pub(super) decisions: Option<Vec<Decision>>,
}

impl Listing<'_> {
    /// Prints the document to standard output.
    pub(super) fn print(&self, json: bool) -> Result<(), CommandError> {
        if json {
            return self.print_records();
        }
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = self.write_table(&mut text);
        print(&text)
    }

    fn print_records(&self) -> Result<(), CommandError> {
        print_record(&Record::from_document(self.document))?;
        for event in self.document.events() {
            print_record(&Record::Event { event: EventMembers::from_event(&event, self.names) })?;
        }
        for problem in self.document.problems() {
            print_record(&Record::from_problem(&problem, Some(self.body)))?;
        }
        for (decision, event) in self.decisions.iter().flatten().zip(self.document.events()) {
            print_record(&Record::from_decision(decision, event.event_id()))?;
        }
        Ok(())
    }

    fn write_table(&self, output: &mut impl Write) -> io::Result<()> {
        let events = self.document.events().map(|event| EventMembers::from_event(&event, self.names));
        let events: Vec<_> = events.collect();
        let incarnation = match self.document.incarnation() {
            Incarnation::Number(number) => number.to_string(),
            Incarnation::Text(word) => text(word),
            Incarnation::Absent => "none".into(),
        };
        let title = if events.is_empty() { "no events".to_owned() } else { count(events.len(), "event") };
        writeln!(output, "{BOLD}{title}{BOLD:#} {DIM}(incarnation {incarnation}){DIM:#}")?;
        if !events.is_empty() {
            writeln!(output)?;
            self.table(&events).print(&mut *output)?;
            let legend = if self.names.is_unknown() {
                "? this machine's name is unknown; --vm-name NAME marks its events"
            } else {
                "* this machine's event"
            };
            writeln!(output, "\n{DIM}{legend}{DIM:#}")?;
        }
        for problem in self.document.problems() {
            let Position { line, column, .. } = Position::of(self.body, problem.offset);
            let place = problem.event.map_or("the document".to_owned(), |event| format!("event {event}"));
            let member = problem.member.map_or(String::new(), |member| format!(", {member}"));
            writeln!(output, "{CAUTION}problem:{CAUTION:#} {line}:{column}: {place}{member}: {}", problem.kind.word())?;
        }
        Ok(())
    }

    fn table(&self, events: &[EventMembers<'_>]) -> Table {
        let mut table = Table::default();
        let heads = ["", "TYPE", "STATUS", "STARTS", "DURATION", "SOURCE", "RESOURCES"];
        let decision_head = self.decisions.as_ref().map(|_| "DECISION");
        table.row(heads.into_iter().chain(decision_head).map(|head| (head.to_owned(), DIM)));
        for (index, event) in events.iter().enumerate() {
            let decision = self.decisions.as_ref().and_then(|decisions| decisions.get(index));
            table.row(cells(event, self.now).into_iter().chain(decision.map(decision_cell)));
            table.below(text(event.event_id));
            if let Some(description) = event.description.filter(|text| !text.is_empty()) {
                table.below(text(description));
            }
        }
        table
    }
}

fn cells(event: &EventMembers<'_>, now: UnixSeconds) -> [(String, Style); 7] {
    let word = |word: Option<Text<'_>>| text(word.unwrap_or(Text::plain("-")));
    let mark = match event.mine {
        Some(true) => "*",
        Some(false) => "",
        None => "?",
    };
    let starts = match event.not_before {
        Some(time) => from_now(time, now),
        None if event.event_status.is_some_and(|status| status == "Started") => "started".into(),
        None => "unknown".into(),
    };
    let seconds = event.duration_in_seconds.map_or("unknown".into(), |seconds| duration(seconds.into()));
    [
        (mark.to_owned(), BOLD),
        (word(event.event_type), BOLD),
        (word(event.event_status), PLAIN),
        (starts, PLAIN),
        (seconds, PLAIN),
        (word(event.event_source), PLAIN),
        (names(event.resources.iter().flat_map(ResourceList::iter)), PLAIN),
    ]
}

fn decision_cell(decision: &Decision) -> (String, Style) {
    let rule = decision.rule.map_or(String::new(), |rule| format!(", rule {rule}"));
    (format!("{} ({}{rule})", decision.action.word(), decision.reason), action_style(decision.action))
}

fn text(text: Text<'_>) -> String {
    printable(&text.to_string())
}
