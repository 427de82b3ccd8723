//! Any bytes as a document, against `serde_json` as a strict reader.
//!
//! The verdicts are the same, and so are the readings, but for what is listed here:
//!
//! * Bytes that hold `serde_json`'s own token for numbers, which it cannot tell from a member of that name.
//! * Repeated ids where a document has more than it promises to tell apart: sixteen repeated ones, or so many events
//!   that the search for them is cut off.
//!
//! That core accepts a byte order mark, and refuses what stands deeper than [`MAX_DEPTH`](scheduled_events_core::MAX_DEPTH)
//! or twice, is in the oracle.

use scheduled_events_core::{
    Document, Event, Incarnation, NotBefore, ParseErrorKind, Policy, Position, Problem, ProblemKind, Text, Tracker,
    UnixSeconds, VmNames,
};

use crate::oracle::{self, EventReading, NAMED_MAX, NUMBER_TOKEN, REPEATS_MAX, Reading};

pub fn run(input: &[u8]) {
    let ours = Document::parse(input);
    if let Ok(document) = &ours {
        holds_together(document, input);
    }
    if let Err(error) = &ours {
        assert!(error.offset <= input.len(), "{error:?}");
        let Position { line, column } = error.position(input);
        assert!(line >= 1 && column >= 1);
        // An error that says the input ends too early is none when the input goes on.
        if error.kind == ParseErrorKind::UnexpectedEnd {
            assert_eq!(error.offset, input.len(), "{error:?}");
        }
    }
    if input.windows(NUMBER_TOKEN.len()).any(|window| window == NUMBER_TOKEN.as_bytes()) {
        return;
    }
    match (ours, oracle::read(input)) {
        (Ok(document), Some(expected)) => compare(&document, &expected),
        (Err(_), None) => {}
        (Ok(_), None) => panic!("accepted, but serde_json or the rules refuse it: {:?}", oracle_error(input)),
        (Err(error), Some(_)) => panic!("refused, but nothing is wrong with it: {error:?}"),
    }
}

fn oracle_error(input: &[u8]) -> Option<serde_json::Error> {
    serde_json::from_slice::<serde::de::IgnoredAny>(input).err()
}

/// What is true of every document, whoever else reads it.
fn holds_together(document: &Document<'_>, input: &[u8]) {
    assert_eq!(document.events().len(), document.events().count());
    let mut shown = Vec::new();
    let read = Document::parse_each(input, &mut [Text::plain(""); 3], |event, bytes, names| {
        let read_again = event.resources().into_iter();
        assert!(names.map_or(event.resources().iter().count() > 3, |names| names.iter().copied().eq(read_again)));
        shown.push((event.event_id(), bytes));
    });
    assert!(read.is_ok());
    assert!(shown.len() >= document.events().len());
    for (id, bytes) in shown {
        let alone = Event::parse(&input[bytes]).expect("an event stands for itself");
        assert_eq!(alone.event_id(), id);
    }
    let names = VmNames::new(&["vm"]);
    let mut last = None;
    for event in document.events() {
        assert!(last < Some(event.index()), "the order of the document");
        last = Some(event.index());
        texts_hold_together(event.event_id());
        for name in event.resources() {
            texts_hold_together(name);
        }
        let decision = Policy::sample().decide(&event, names, UnixSeconds(0));
        if event.unreliable_member().is_some() {
            assert!(decision.approve_after.is_none(), "an event with a problem is held");
        }
        let _ = (names.rank(&event), event.description().map(texts_hold_together));
    }
    for Problem { event, offset, kind, .. } in document.problems() {
        assert!(offset < input.len() && Position::of(input, offset).line >= 1);
        assert!(!input[offset].is_ascii_whitespace());
        assert!(event.is_some() || kind != ProblemKind::Missing);
    }
    let mut tracker = Tracker::<8>::new();
    let mut changes = 0;
    match tracker.observe(document, names, UnixSeconds(0), |_, _| changes += 1) {
        Ok(()) => assert_eq!(changes, tracker.len()),
        Err(full) => assert!(full.needed > 8 && tracker.is_empty()),
    }
}

fn texts_hold_together(text: Text<'_>) {
    let decoded: String = text.chars().collect();
    assert_eq!(text.decoded_len(), decoded.len());
    assert_eq!(text.to_string(), decoded);
    assert!(text == *decoded && text.eq_ignore_ascii_case(&decoded.to_ascii_uppercase()));
    let mut buffer = vec![0; decoded.len()];
    assert_eq!(text.copy_to(&mut buffer), Ok(decoded.as_str()));
    if let Some(short) = decoded.len().checked_sub(1) {
        assert_eq!(text.copy_to(&mut buffer[..short]).unwrap_err().needed, decoded.len());
    }
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
        events: document.events().map(|event| event_reading(&event)).collect(),
        problems: document.problems().map(|problem| (problem.event, problem.member, problem.kind)).collect(),
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
        resources: event.resources().is_present().then(|| event.resources().iter().map(text).collect()),
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

fn compare(document: &Document<'_>, expected: &Reading) {
    let repeated = expected.problems.iter().filter(|(_, _, kind)| *kind == ProblemKind::Repeated).count();
    if repeated > REPEATS_MAX || expected.events.len() + repeated > NAMED_MAX {
        assert!(document.events().len() >= expected.events.len());
        return;
    }
    assert_eq!(reading(document), *expected);
}
