//! Parsers that fill serde structures: typed, with every field, with owned and with borrowed texts.

use std::borrow::Cow;
use std::hint::black_box;

use serde::Deserialize;

use super::{Competitor, Reader};
use crate::documents::{Form, Size};
use crate::reading::{Member, Record, digest, fold};

pub const COMPETITORS: [Competitor; 5] = [
    Competitor {
        name: "serde_json owned",
        version: env!("VERSION_serde_json"),
        note: "a String for every text; repeated members found, repeated EventIds not",
        prepare: |body, _, _| {
            reader(body, |body| {
                fold_all(
                    &serde_json::from_slice::<Document<Vec<Event<String, Vec<String>>>>>(body)
                        .ok()?,
                )
            })
        },
    },
    Competitor {
        name: "serde_json borrowed",
        version: env!("VERSION_serde_json"),
        note: "texts borrowed where they have no escapes; repeated members found, repeated EventIds not",
        prepare: |body, _, _| {
            reader(body, |body| {
                fold_all(&serde_json::from_slice::<Borrowed<'_>>(body).ok()?)
            })
        },
    },
    Competitor {
        name: "serde-json-core",
        version: env!("VERSION_serde-json-core"),
        note: "heapless vectors of exactly this document's size, which for XL would overflow a stack of 8 MiB; does not decode escapes",
        prepare: |body, size, form| match size {
            _ if form == Form::Escapes => None,
            Size::S => reader(body, fixed::<1, 2>),
            Size::M => reader(body, fixed::<10, 4>),
            Size::L => reader(body, fixed::<100, 10>),
            Size::X => reader(body, fixed::<1, 1000>),
            Size::Xl => None,
        },
    },
    Competitor {
        name: "sonic-rs",
        version: env!("VERSION_sonic-rs"),
        note: "texts borrowed where they have no escapes; built without -C target-cpu=native, like core",
        prepare: |body, _, _| {
            reader(body, |body| {
                fold_all(&sonic_rs::from_slice::<Borrowed<'_>>(body).ok()?)
            })
        },
    },
    Competitor {
        name: "simd-json",
        version: env!("VERSION_simd-json"),
        note: "texts borrowed; decodes in place, so that each reading includes a copy of the document; keeps its buffers",
        prepare: |body, _, _| {
            let body = body.to_vec();
            let mut scratch = Vec::with_capacity(body.len());
            let mut buffers = simd_json::Buffers::new(body.len());
            Some(Box::new(move || {
                scratch.clear();
                scratch.extend_from_slice(black_box(&body));
                fold_all(
                    &simd_json::serde::from_slice_with_buffers::<Borrowed<'_>>(
                        &mut scratch,
                        &mut buffers,
                    )
                    .ok()?,
                )
            }))
        },
    },
];

type Borrowed<'a> = Document<Vec<Event<Borrow<'a>, Vec<Borrow<'a>>>>>;
type Fixed<'a, const EVENTS: usize, const RESOURCES: usize> =
    Document<heapless::Vec<Event<&'a str, heapless::Vec<&'a str, RESOURCES>>, EVENTS>>;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document<Events> {
    document_incarnation: u64,
    events: Events,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
#[allow(clippy::struct_field_names)] // The names of the wire format.
struct Event<Text, Texts> {
    event_id: Text,
    event_type: Text,
    resource_type: Text,
    resources: Texts,
    event_status: Text,
    not_before: Text,
    description: Text,
    event_source: Text,
    duration_in_seconds: i64,
}

/// Borrowed where the parser allows it. A separate structure, since serde does not borrow inside a list by default.
#[derive(Deserialize)]
struct Borrow<'a>(#[serde(borrow)] Cow<'a, str>);

impl AsRef<str> for Borrow<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[allow(clippy::unnecessary_wraps)] // The signature that Competitor requires.
fn reader(body: &[u8], read: fn(&[u8]) -> Option<u64>) -> Option<Reader> {
    let body = body.to_vec();
    Some(Box::new(move || read(black_box(&body))))
}

#[inline(never)]
fn fixed<const EVENTS: usize, const RESOURCES: usize>(body: &[u8]) -> Option<u64> {
    let (document, used) =
        serde_json_core::from_slice::<Fixed<'_, EVENTS, RESOURCES>>(body).ok()?;
    body.get(used..)?
        .trim_ascii()
        .is_empty()
        .then(|| fold_all(&document))?
}

#[inline(never)]
fn fold_all<Text, Texts, Events>(document: &Document<Events>) -> Option<u64>
where
    Text: AsRef<str>,
    for<'a> &'a Texts: IntoIterator<Item = &'a Text>,
    for<'a> &'a Events: IntoIterator<Item = &'a Event<Text, Texts>>,
{
    let mut sum = 0;
    for event in &document.events {
        let mut record = Record::default();
        record.keep_text(Member::EventId, event.event_id.as_ref());
        record.keep_text(Member::EventType, event.event_type.as_ref());
        record.keep_text(Member::ResourceType, event.resource_type.as_ref());
        record.keep_text(Member::EventStatus, event.event_status.as_ref());
        record.keep_not_before(event.not_before.as_ref())?;
        record.keep_text(Member::Description, event.description.as_ref());
        record.keep_text(Member::EventSource, event.event_source.as_ref());
        record.keep(Member::DurationInSeconds, event.duration_in_seconds as u64);
        let names = event
            .resources
            .into_iter()
            .fold(0, |sum, name| fold(sum, digest(name.as_ref().as_bytes())));
        record.keep(Member::Resources, names);
        sum = record.fold_into(sum);
    }
    Some(fold(sum, document.document_incarnation))
}
