//! `check`: a saved document, and what would be decided.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use scheduled_events_core::{Action, Decision, Document, UnixSeconds, VmNames};

use super::Failure;
use super::look::{self, BAD, BOLD, CAUTION, DIM, GOOD, PLAIN, Table, shown};
use super::options::Check;
use crate::policy_file;
use crate::record::{EventRecord, Record};
use crate::watch::names_for;

pub(super) fn check(options: &Check) -> Result<(), Failure> {
    let policy = policy_file::load(&options.rules.policy).map_err(Failure::usage)?;
    let (name, body) = read(&options.file)?;
    let document = Document::parse(&body)
        .map_err(|error| Failure::document(format!("{name}:{}: {}", error.position(&body), error.kind.message())))?;
    let names = options.machine.names();
    let names = names_for(&names, &options.api_version);
    let now = options.now.unwrap_or_else(now);
    let decisions: Vec<_> = document.events().map(|event| policy.decide(&event, names, now)).collect();
    print(&document, &body, names, now, options.output.json, Some(&decisions))
}

pub(super) fn now() -> UnixSeconds {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixSeconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

fn read(file: &Path) -> Result<(String, Vec<u8>), Failure> {
    let (name, read) = if file == Path::new("-") {
        let mut body = Vec::new();
        ("<stdin>".to_owned(), io::stdin().lock().read_to_end(&mut body).map(|_| body))
    } else {
        (file.display().to_string(), fs::read(file))
    };
    let body = read.map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    Ok((name, body))
}

/// Prints a document, as records or as a table, with decisions where there are any.
pub(super) fn print(
    document: &Document<'_>,
    body: &[u8],
    names: VmNames<'_>,
    now: UnixSeconds,
    json: bool,
    decisions: Option<&[Decision]>,
) -> Result<(), Failure> {
    let events: Vec<_> = document.events().map(|event| EventRecord::new(&event, names)).collect();
    let problems: Vec<_> = document.problems().map(|problem| Record::problem(&problem, body)).collect();
    if json {
        let decided = decisions.into_iter().flatten().zip(&events);
        let decided = decided.map(|(decision, event)| Record::decision(decision, &event.event_id));
        let records = std::iter::once(Record::document(document))
            .chain(events.iter().cloned().map(Record::Event))
            .chain(problems)
            .chain(decided);
        for record in records {
            look::answer_record(&record)?;
        }
        return Ok(());
    }
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = readable(document, &events, &problems, now, decisions, &mut text);
    look::answer(&text)
}

fn readable(
    document: &Document<'_>,
    events: &[EventRecord],
    problems: &[Record],
    now: UnixSeconds,
    decisions: Option<&[Decision]>,
    output: &mut impl io::Write,
) -> io::Result<()> {
    let incarnation = match serde_json::to_value(document.incarnation()) {
        Ok(serde_json::Value::String(text)) => shown(&text),
        Ok(serde_json::Value::Null) | Err(_) => "none".into(),
        Ok(number) => number.to_string(),
    };
    let count = match events.len() {
        0 => "no events: nothing is announced".to_owned(),
        1 => "1 event".to_owned(),
        count => format!("{count} events"),
    };
    writeln!(output, "{BOLD}{count}{BOLD:#} {DIM}(incarnation {incarnation}){DIM:#}")?;
    if !events.is_empty() {
        writeln!(output)?;
        let mut table = Table::default();
        let heads = ["", "TYPE", "STATUS", "STARTS", "DURATION", "SOURCE", "RESOURCES"];
        table.row(heads.into_iter().chain(decisions.map(|_| "DECISION")).map(|head| (head.to_owned(), DIM)));
        for (index, event) in events.iter().enumerate() {
            let decision = decisions.and_then(|decisions| decisions.get(index));
            table.row(row(event, now).into_iter().chain(decision.map(decided)));
            table.below(shown(&event.event_id));
            if let Some(description) = event.description.as_deref().filter(|text| !text.is_empty()) {
                table.below(shown(description));
            }
        }
        table.print(&mut *output)?;
        writeln!(output)?;
        if events.iter().any(|event| event.mine.is_none()) {
            writeln!(output, "{DIM}? whose events they are is not known without --vm-name{DIM:#}")?;
        } else {
            writeln!(output, "{DIM}* this machine's{DIM:#}")?;
        }
    }
    for problem in problems {
        if let Record::Problem { event, member, kind, line, column } = problem {
            let place = event.map_or("the document".to_owned(), |event| format!("event {event}"));
            let member = member.map_or(String::new(), |member| format!(", {member}"));
            writeln!(output, "{CAUTION}problem:{CAUTION:#} {line}:{column}: {place}{member}: {}", kind.word())?;
        }
    }
    Ok(())
}

fn row(event: &EventRecord, now: UnixSeconds) -> [(String, anstyle::Style); 7] {
    let text = |text: &Option<String>| shown(text.as_deref().unwrap_or("-"));
    let mark = match event.mine {
        Some(true) => "*",
        Some(false) => "",
        None => "?",
    };
    let starts = match event.not_before {
        Some(moment) => look::from_now(moment, now),
        None if event.event_status.as_deref() == Some("Started") => "started".into(),
        None => "unknown".into(),
    };
    let duration = event.duration_in_seconds.map_or("unknown".into(), |seconds| look::span(seconds.into()));
    [
        (mark.to_owned(), BOLD),
        (text(&event.event_type), BOLD),
        (text(&event.event_status), PLAIN),
        (starts, PLAIN),
        (duration, PLAIN),
        (text(&event.event_source), PLAIN),
        (resources(event), PLAIN),
    ]
}

/// The names of the machines, the first few of them.
pub(super) fn resources(event: &EventRecord) -> String {
    const FEW: usize = 3;
    let names = event.resources.as_deref().unwrap_or_default();
    let mut list: Vec<_> = names.iter().take(FEW).map(|name| shown(name)).collect();
    if names.len() > FEW {
        list.push(format!("and {} more", names.len() - FEW));
    }
    if list.is_empty() { "-".into() } else { list.join(", ") }
}

fn decided(decision: &Decision) -> (String, anstyle::Style) {
    let style = style_of(decision.action);
    let rule = decision.rule.map_or(String::new(), |rule| format!(", rule {rule}"));
    (format!("{} ({}{rule})", decision.action.word(), decision.reason), style)
}

pub(super) fn style_of(action: Action) -> anstyle::Style {
    match action {
        Action::Approve => GOOD,
        Action::Prepare => CAUTION,
        Action::Hold => BAD,
        Action::Ignore => DIM,
    }
}
