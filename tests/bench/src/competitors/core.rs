//! This project's core, as its users call it.

use std::hint::black_box;

use scheduled_events_core::{Document, Event, Incarnation, Text};

use super::{Competitor, Reader};
use crate::reading::{Member, Record, digest, fold};

pub const COMPETITOR: Competitor = Competitor {
    name: "core",
    version: "this tree",
    note: "Document::parse_each: strict, repeated members and EventIds found; buffers for 16, 128 or 1024 names of Resources, by the document's length",
    prepare: |body, _, _| -> Option<Reader> {
        let body = body.to_vec();
        Some(Box::new(move || read(black_box(&body))))
    },
};

/// Without storage, for callers who iterate over the document's events.
pub const TWICE: Competitor = Competitor {
    name: "core twice",
    version: "this tree",
    note: "Document::parse, then events(): strict, no storage; reads all events but the first a second time, and \
           Resources on demand",
    prepare: |body, _, _| -> Option<Reader> {
        let body = body.to_vec();
        Some(Box::new(move || read_twice(black_box(&body))))
    },
};

pub fn read(body: &[u8]) -> Option<u64> {
    // A caller with a short document does not pay for a buffer of a thousand names.
    match body.len() {
        0..1024 => read_once::<16>(body),
        1024..8192 => read_once::<128>(body),
        _ => read_once::<1024>(body),
    }
}

#[inline(never)]
fn read_once<const NAMES: usize>(body: &[u8]) -> Option<u64> {
    let mut sum = 0;
    let mut buffer = [0; DECODED];
    let document = Document::parse_each(body, &mut [Text::plain(""); NAMES], |event, _, names| {
        sum = record(event, names, &mut buffer).fold_into(sum);
    });
    Some(fold(sum, number(document.ok()?.incarnation())))
}

#[inline(never)]
fn read_twice(body: &[u8]) -> Option<u64> {
    let document = Document::parse(body).ok()?;
    let mut buffer = [0; DECODED];
    let sum = document.events().fold(0, |sum, event| {
        record(&event, None, &mut buffer).fold_into(sum)
    });
    Some(fold(sum, number(document.incarnation())))
}

#[inline(always)]
#[allow(clippy::inline_always)] // Both readers are measured with it inside, as a caller's own loop has it.
fn record(event: &Event<'_>, names: Option<&[Text<'_>]>, buffer: &mut [u8; DECODED]) -> Record {
    let mut decoded = |text| decoded(text, buffer);
    let mut record = Record::default();
    record.keep(Member::EventId, decoded(Some(event.event_id())));
    record.keep(
        Member::EventType,
        decoded(event.event_type().map(|word| word.text())),
    );
    record.keep(Member::ResourceType, decoded(event.resource_type()));
    record.keep(
        Member::EventStatus,
        decoded(event.event_status().map(|word| word.text())),
    );
    record.keep(
        Member::NotBefore,
        event
            .not_before()
            .moment()
            .map_or(0, |moment| moment.0 as u64),
    );
    record.keep(Member::Description, decoded(event.description()));
    record.keep(
        Member::EventSource,
        decoded(event.event_source().map(|word| word.text())),
    );
    record.keep(
        Member::DurationInSeconds,
        event.duration_in_seconds().map_or(-1_i64 as u64, u64::from),
    );
    let resources = match names {
        Some(names) => names
            .iter()
            .fold(0, |sum, name| fold(sum, decoded(Some(*name)))),
        None => event
            .resources()
            .iter()
            .fold(0, |sum, name| fold(sum, decoded(Some(name)))),
    };
    record.keep(Member::Resources, resources);
    record
}

fn number(incarnation: Incarnation<'_>) -> u64 {
    if let Incarnation::Number(number) = incarnation {
        number
    } else {
        0
    }
}

/// The capacity for a decoded text.
const DECODED: usize = 256;

/// A checksum of the decoded text.
fn decoded(text: Option<Text<'_>>, buffer: &mut [u8; DECODED]) -> u64 {
    let Some(text) = text else { return 0 };
    match text.as_str() {
        Some(plain) => digest(plain.as_bytes()),
        None => decoded_copy(text, buffer),
    }
}

/// The other parsers decode while they parse.
#[inline(never)] // Inlined into each member, it would take registers from the texts without escapes.
fn decoded_copy(text: Text<'_>, buffer: &mut [u8; DECODED]) -> u64 {
    text.copy_bytes_to(buffer).map_or(0, digest)
}
