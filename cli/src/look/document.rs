//! Prints a document for `list` and `check`: as records, or as a table.

use std::io::{self, Write};

use anstyle::Style;
use scheduled_events_core::record::{EventMembers, ResourceList};
use scheduled_events_core::{
    Decision, Document, Event, Incarnation, Position, Positions, Problem, Text, UnixSeconds,
    VmNames,
};

use crate::error::CommandError;
use crate::event_filter::EventFilter;
use crate::output::format::{cell, count, duration, from_now, names, sentence};
use crate::output::style::{BOLD, CAUTION, DIM, PLAIN, action_style};
use crate::output::table::Table;
use crate::output::terminal;
use crate::output::{print, print_record};
use scheduled_events::record::Record;

/// A document, and the facts for printing it.
pub(crate) struct Listing<'a> {
    pub(crate) document: &'a Document<'a>,
    /// The body that the document was parsed from.
    pub(crate) body: &'a [u8],
    /// This machine's names.
    pub(crate) names: VmNames<'a>,
    /// The time that the table's times are relative to.
    pub(crate) now: UnixSeconds,
    /// One decision for each event, if the command shows decisions.
    pub(crate) decisions: Option<Vec<Decision>>,
    /// Which events to print.
    pub(crate) filter: EventFilter,
}

impl Listing<'_> {
    /// Prints the document to standard output.
    pub(crate) fn print(&self, json: bool) -> Result<(), CommandError> {
        if json {
            return self.print_records();
        }
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = self.write_table(&mut text);
        print(&text)
    }

    /// The events to print, each with its decision if there are any.
    fn events(&self) -> impl Iterator<Item = (Event<'_>, Option<&Decision>)> {
        let decision = |index| {
            self.decisions
                .as_ref()
                .and_then(|decisions| decisions.get(index))
        };
        let events = self
            .document
            .events_for(self.names)
            .enumerate()
            .map(move |(index, event)| (event, decision(index)));
        events.filter(|(event, _)| self.filter.matches(event, self.names))
    }

    /// The problems with their positions, which one pass computes.
    fn problems(&self) -> impl Iterator<Item = (Problem, Position)> {
        let mut positions = Positions::new(self.body);
        self.document
            .problems()
            .map(move |problem| (problem, positions.of(problem.offset)))
    }

    fn print_records(&self) -> Result<(), CommandError> {
        print_record(&Record::from_document(self.document))?;
        for (event, _) in self.events() {
            print_record(&Record::Event {
                event: EventMembers::from_event(&event, self.names),
            })?;
        }
        for (problem, Position { line, column, .. }) in self.problems() {
            let Problem {
                event,
                member,
                kind,
                ..
            } = problem;
            print_record(&Record::Problem {
                event,
                member,
                kind,
                line: Some(line),
                column: Some(column),
            })?;
        }
        for (event, decision) in self.events() {
            if let Some(decision) = decision {
                let event = EventMembers::from_event(&event, self.names);
                print_record(&Record::from_decision(decision, event))?;
            }
        }
        Ok(())
    }

    fn write_table(&self, output: &mut impl Write) -> io::Result<()> {
        let events: Vec<_> = self.events().collect();
        let incarnation = match self.document.incarnation() {
            Incarnation::Number(number) => number.to_string(),
            Incarnation::Text(word) => cell(&word.to_string()),
            Incarnation::Absent => "none".into(),
        };
        let title = self.title(events.len());
        writeln!(
            output,
            "{BOLD}{title}{BOLD:#} {DIM}(incarnation {incarnation}){DIM:#}"
        )?;
        if !events.is_empty() {
            writeln!(output)?;
            self.table(&events)
                .print(&mut *output, terminal::output_width())?;
            let legend = if self.names.is_unknown() {
                "? this machine's name is unknown; --vm-name NAME marks its events"
            } else {
                "* this machine's event"
            };
            writeln!(output, "\n{DIM}{legend}{DIM:#}")?;
        }
        for (problem, Position { line, column, .. }) in self.problems() {
            let place = problem
                .event
                .map_or("the document".to_owned(), |event| format!("event {event}"));
            let member = problem
                .member
                .map_or(String::new(), |member| format!(", {member}"));
            writeln!(
                output,
                "{CAUTION}problem:{CAUTION:#} {line}:{column}: {place}{member}: {}",
                problem.kind.word()
            )?;
        }
        Ok(())
    }

    /// `2 events`, or `1 event of this machine, of 2` if others are left out.
    fn title(&self, shown: usize) -> String {
        let title = if shown == 0 {
            "no events".to_owned()
        } else {
            count(shown, "event")
        };
        let all = self.document.events().len();
        let restriction = self.filter.describe();
        if restriction.is_empty() || all == 0 {
            title
        } else {
            format!("{title}{restriction}, of {all}")
        }
    }

    fn table(&self, events: &[(Event<'_>, Option<&Decision>)]) -> Table {
        let headings = [
            "",
            "TYPE",
            "STATUS",
            "STARTS",
            "DURATION",
            "SOURCE",
            "RESOURCES",
        ];
        let decision_heading = self.decisions.as_ref().map(|_| "DECISION");
        let mut table = Table::with_headings(headings.into_iter().chain(decision_heading));
        for (event, decision) in events {
            let event = EventMembers::from_event(event, self.names);
            table.row(
                cells(&event, self.now)
                    .into_iter()
                    .chain(decision.map(decision_cell)),
            );
            table.below(sentence(&event.event_id.to_string()), DIM);
            if let Some(description) = event.description.filter(|text| !text.is_empty()) {
                table.below(sentence(&description.to_string()), DIM);
            }
        }
        table
    }
}

fn cells(event: &EventMembers<'_>, now: UnixSeconds) -> [(String, Style); 7] {
    let word = |word: Option<Text<'_>>| word.map_or("-".to_owned(), |word| cell(&word.to_string()));
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
    let seconds = event
        .duration_in_seconds
        .map_or("unknown".into(), |seconds| duration(seconds.into()));
    [
        (mark.to_owned(), BOLD),
        (word(event.event_type), BOLD),
        (word(event.event_status), PLAIN),
        (starts, PLAIN),
        (seconds, PLAIN),
        (word(event.event_source), PLAIN),
        (
            names(event.resources.iter().flat_map(ResourceList::iter)),
            PLAIN,
        ),
    ]
}

fn decision_cell(decision: &Decision) -> (String, Style) {
    let rule = decision
        .rule
        .map_or(String::new(), |rule| format!(", rule {rule}"));
    (
        format!("{} ({}{rule})", decision.action.word(), decision.reason),
        action_style(decision.action),
    )
}
