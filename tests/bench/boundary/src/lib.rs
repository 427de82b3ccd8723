//! The Rust side of bench.c.

use scheduled_events_core::{Document, Event, Text};

fn sum_of(text: Option<Text<'_>>) -> u64 {
    text.map_or(0, |text| {
        text.raw().len() as u64 + u64::from(text.raw().as_bytes().first().copied().unwrap_or(0))
    })
}

fn sum_of_event(event: &Event<'_>) -> u64 {
    sum_of(Some(event.event_id()))
        + sum_of(event.event_type().map(|word| word.text()))
        + sum_of(event.event_status().map(|word| word.text()))
        + sum_of(event.event_source().map(|word| word.text()))
        + sum_of(event.resource_type())
        + sum_of(event.description())
        + event
            .not_before()
            .moment()
            .map_or(0, |moment| moment.0 as u64)
        + u64::from(event.duration_in_seconds().unwrap_or(0))
}

/// Reads every field of every event of a document and adds them up.
///
/// # Safety
/// `data` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn core_read(data: *const u8, len: usize) -> u64 {
    // SAFETY: guaranteed by the caller.
    let Ok(document) = Document::parse(unsafe { core::slice::from_raw_parts(data, len) }) else {
        return 0;
    };
    let mut sum = 0;
    for event in document.events() {
        sum += sum_of_event(&event);
        for name in event.resources() {
            sum += sum_of(Some(name));
        }
    }
    sum
}
