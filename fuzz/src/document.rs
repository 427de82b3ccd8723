//! Any bytes as a document, compared with `serde_json` as a strict reader, and each event's fast path with its plain path.
//!
//! Both accept the same documents and read the same, except for bytes that hold `serde_json`'s own token for numbers, which
//! it cannot distinguish from a member of that name. The oracle knows that core accepts a byte order mark, and refuses what is
//! nested deeper than [`MAX_DEPTH`](scheduled_events_core::MAX_DEPTH) and repeated members.

use std::sync::Once;

use scheduled_events_core::{
    Document, Event, Incarnation, Members, NotBefore, ParseErrorKind, Policy, Position, Problem,
    ProblemKind, Text, Tracker, UnixSeconds, VmNames,
};

use scheduled_events_core::record::{
    EXAMPLES, EventMembers, Printable, PrintableJson, Record, is_unsafe_to_print,
};

use crate::oracle::{self, EventReading, NUMBER_TOKEN, Reading};

pub fn run(input: &[u8]) {
    let ours = Document::parse(input);
    if let Ok(document) = &ours {
        check_consistency(document, input);
        document
            .events()
            .for_each(|event| compare_paths(event.object()));
    }
    if let Ok(text) = str::from_utf8(input) {
        compare_paths(text);
        check_printable(text);
    }
    if let Err(error) = &ours {
        assert!(error.offset <= input.len(), "{error:?}");
        let position = error.position(input);
        assert!(position.line >= 1 && position.column >= 1);
        assert!(
            error
                .to_string()
                .ends_with(&format!(" at byte {}", error.offset)),
            "{error}"
        );
        assert_eq!(
            position.to_string(),
            format!("{}:{}", position.line, position.column)
        );
        assert_eq!(Document::parse(input).err(), Some(*error));
        assert!(!error.kind.message().is_empty() && error.kind.word().is_ascii());
        // The input ends too early only at its end.
        if error.kind == ParseErrorKind::UnexpectedEnd {
            assert_eq!(error.offset, input.len(), "{error:?}");
        }
    }
    if input
        .windows(NUMBER_TOKEN.len())
        .any(|window| window == NUMBER_TOKEN.as_bytes())
    {
        return;
    }
    match (ours, oracle::read(input)) {
        (Ok(document), Some(expected)) => {
            assert_eq!(reading(&document), expected);
            document.events().for_each(|event| check_members(&event));
        }
        (Err(_), None) => {}
        (Ok(_), None) => panic!(
            "accepted, but serde_json or the rules refuse it: {:?}",
            oracle_error(input)
        ),
        (Err(error), Some(_)) => panic!("refused, but nothing is wrong with it: {error:?}"),
    }
}

fn oracle_error(input: &[u8]) -> Option<serde_json::Error> {
    serde_json::from_slice::<serde::de::IgnoredAny>(input).err()
}

static EXAMPLES_PASS: Once = Once::new();

/// A record as a line for people has nothing that acts on a terminal.
fn check_line(record: &Record<'_>) {
    let line = record.at(UnixSeconds(0)).to_string();
    let line = line.strip_prefix("1970-01-01T00:00:00Z ").unwrap();
    assert_eq!(line, record.to_string());
    assert!(
        !line.is_empty() && !line.chars().any(is_unsafe_to_print),
        "{line:?}"
    );
}

/// The records of a document, its problems and its events are JSON that any reader accepts.
fn check_records(document: &Document<'_>, input: &[u8]) {
    check_line(&Record::from_document(document));
    // The same for each input.
    EXAMPLES_PASS.call_once(|| EXAMPLES.iter().for_each(check_line));
    let record = serde_json::to_value(Record::from_document(document)).unwrap();
    assert_eq!(record["events"], document.events().len());
    for problem in document.problems() {
        check_line(&Record::from_problem(&problem, Some(input)));
        let record = serde_json::to_value(Record::from_problem(&problem, Some(input))).unwrap();
        assert!(record["line"].is_u64(), "{record}");
    }
    for event in document.events() {
        let record = Record::Event {
            event: EventMembers::from_event(&event, VmNames::new(&["vm"])),
        };
        check_line(&record);
        let json = serde_json::to_string(&EventMembers::from_event(&event, VmNames::new(&["vm"])))
            .unwrap();
        let members: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(members["event_id"], event.event_id().to_string());
        // As it is printed, it has the same value and nothing that acts on a terminal.
        let printed = PrintableJson(&json).to_string();
        assert!(!printed.chars().any(is_unsafe_to_print), "{printed:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&printed).unwrap(),
            members
        );
        assert!(!format!("{event:?}").is_empty());
        let unknown = serde_json::to_value(EventMembers::unknown(event.event_id())).unwrap();
        let known = unknown
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, value)| !value.is_null());
        assert!(known.map(|(name, _)| name).eq(["event_id"]), "{unknown}");
    }
}

/// The members of an event's object, known and unknown, put together again are the object.
fn check_members(event: &Event<'_>) {
    let members = Members::new(event.object());
    let parts: Vec<_> = members
        .map(|(name, value)| format!("{}:{value}", serde_json::json!(name)))
        .collect();
    let rebuilt = format!("{{{}}}", parts.join(","));
    let read = |json: &str| serde_json::from_str::<oracle::Node>(json).unwrap();
    assert_eq!(read(&rebuilt), read(event.object()), "{rebuilt}");
}

/// What holds for every document without a comparison.
fn check_consistency(document: &Document<'_>, input: &[u8]) {
    assert_eq!(document.events().len(), document.events().count());
    check_records(document, input);
    let mut visited = Vec::new();
    let read = Document::parse_each(input, &mut [Text::plain(""); 3], |event, bytes, names| {
        let read_again = event.resources().into_iter();
        assert!(names.map_or(event.resources().iter().count() > 3, |names| {
            names.iter().copied().eq(read_again)
        }));
        visited.push((event.event_id(), bytes));
    });
    assert!(read.is_ok());
    assert!(visited.len() >= document.events().len());
    for (id, bytes) in visited {
        let alone = Event::parse(&input[bytes]).expect("the object of an event is an event");
        assert_eq!(alone.event_id(), id);
    }
    let names = VmNames::new(&["vm"]);
    let mut last = None;
    for event in document.events() {
        assert!(
            last < Some(event.index()),
            "events are in the document's order"
        );
        last = Some(event.index());
        check_text(event.event_id());
        assert_eq!(
            event_reading(&event.layout().event(event.object())),
            event_reading(&event)
        );
        for name in event.resources() {
            check_text(name);
        }
        let decision = Policy::sample().decide(&event, names, UnixSeconds(0));
        if event.unreliable_member().is_some() {
            assert!(
                decision.approve_after.is_none(),
                "an event with a problem is held"
            );
        }
        let _ = (names.rank(&event), event.description().map(check_text));
    }
    for Problem {
        event,
        offset,
        kind,
        ..
    } in document.problems()
    {
        assert!(offset < input.len() && Position::of(input, offset).line >= 1);
        assert!(!input[offset].is_ascii_whitespace());
        assert!(event.is_some() || kind != ProblemKind::Missing);
    }
    let mut tracker = Tracker::<8>::new();
    let mut changes = 0;
    match tracker.observe(document, names, UnixSeconds(0), |_, _| changes += 1) {
        Ok(_) => assert_eq!(changes, tracker.len()),
        Err(full) => assert!(full.needed > 8 && tracker.is_empty()),
    }
}

fn check_text(text: Text<'_>) {
    let decoded: String = text.chars().collect();
    assert_eq!(text.decoded_len(), decoded.len());
    assert_eq!(text.to_string(), decoded);
    check_printable(&decoded);
    assert!(text == *decoded && text.eq_ignore_ascii_case(&decoded.to_ascii_uppercase()));
    let mut buffer = vec![0; decoded.len()];
    assert_eq!(text.copy_to(&mut buffer), Ok(decoded.as_str()));
    if let Some(short) = decoded.len().checked_sub(1) {
        assert_eq!(
            text.copy_to(&mut buffer[..short]).unwrap_err().needed,
            decoded.len()
        );
    }
}

/// For people, text is printed without what acts on a terminal, and unchanged if there is nothing of it.
fn check_printable(text: &str) {
    let printed = Printable(text).to_string();
    assert!(
        !printed
            .chars()
            .any(|char| char.is_control() || is_unsafe_to_print(char)),
        "{printed:?}"
    );
    assert_eq!(
        printed == text,
        !text.chars().any(is_unsafe_to_print),
        "{text:?}"
    );
}

/// The reading of a document in the form of the oracle's.
#[must_use]
pub fn reading(document: &Document<'_>) -> Reading {
    Reading {
        incarnation: match document.incarnation() {
            Incarnation::Number(number) => oracle::Incarnation::Number(number),
            Incarnation::Text(text) => oracle::Incarnation::Text(text.to_string()),
            Incarnation::Absent => oracle::Incarnation::Absent,
        },
        events: document
            .events()
            .map(|event| event_reading(&event))
            .collect(),
        problems: document
            .problems()
            .map(|problem| (problem.event, problem.member, problem.kind))
            .collect(),
    }
}

fn event_reading(event: &Event<'_>) -> EventReading {
    let text = |text: Text<'_>| text.to_string();
    EventReading {
        index: event.index(),
        id: text(event.event_id()),
        event_type: event.event_type().map(|word| text(word.text())),
        status: event.event_status().map(|word| text(word.text())),
        resource_type: event.resource_type().map(text),
        resources: event
            .resources()
            .is_present()
            .then(|| event.resources().iter().map(text).collect()),
        not_before: match event.not_before() {
            NotBefore::Unset => oracle::NotBefore::Unset,
            NotBefore::At(moment) => oracle::NotBefore::At(moment),
            NotBefore::Unreadable(_) => oracle::NotBefore::Unreadable,
        },
        description: event.description().map(text),
        source: event.event_source().map(|word| text(word.text())),
        duration: event.duration_in_seconds(),
    }
}

/// Compares the fast path with the plain path: a leading member that is unknown makes core read the others member by
/// member. The rest of the text is the same, so that readings, and the kinds and places of errors, must be, too.
fn compare_paths(object: &str) {
    const UNKNOWN: &str = "\"?\":0,";
    let Some(members) = object.strip_prefix('{') else {
        return;
    };
    if !members
        .trim_start_matches([' ', '\t', '\r', '\n'])
        .starts_with('"')
    {
        return;
    }
    let plain = format!("{{{UNKNOWN}{members}");
    match (
        Event::parse(object.as_bytes()),
        Event::parse(plain.as_bytes()),
    ) {
        (Ok(fast), Ok(plain)) => {
            assert_eq!(event_reading(&fast), event_reading(&plain), "{object}");
            assert_eq!(
                fast.unreliable_member(),
                plain.unreliable_member(),
                "{object}"
            );
        }
        (Err(fast), Err(plain)) => {
            assert_eq!(
                (fast.kind, fast.offset + UNKNOWN.len()),
                (plain.kind, plain.offset),
                "{object}"
            );
        }
        (fast, plain) => panic!("{fast:?}, but {plain:?}: {object}"),
    }
}
