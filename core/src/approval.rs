//! The body that approves events.

use core::fmt::{self, Write};

use crate::error::BufferTooSmall;
use crate::json::Text;
use crate::short::hex_digit;

/// A POST body that approves events: `{"StartRequests":[{"EventId":"…"}]}`.
///
/// It lets Azure start the events early, **for all their resources**. Ids are echoed as they were read. Microsoft's page
/// on Scheduled Events, "Start an event", describes it.
///
/// ```
/// use scheduled_events_core::StartRequests;
///
/// let approval = StartRequests::new(&["C7061BAC-AFDC-4513-B24B-AA5F13A16123"]);
/// let mut body = [0; 80];
/// let length = approval.write(&mut body)?;
/// assert_eq!(&body[..length], br#"{"StartRequests":[{"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123"}]}"#);
/// assert_eq!(approval.len(), length);
/// # Ok::<(), scheduled_events_core::BufferTooSmall>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StartRequests<'a, Id> {
    ids: &'a [Id],
}

impl<'a, Id: Spell> StartRequests<'a, Id> {
    /// Approves these events. Whatever spells the id will do: a [`Text`], an [`EventId`](crate::EventId), a
    /// `&str`.
    pub const fn new(ids: &'a [Id]) -> Self {
        Self { ids }
    }

    /// Writes the body to the front of `buffer` and tells its length in bytes.
    ///
    /// # Errors
    /// [`BufferTooSmall`] when it does not fit; it tells the bytes needed.
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = buffer.len();
        let needed = self.write_to(Writer { buffer, length: 0 });
        if needed > room { Err(BufferTooSmall { needed }) } else { Ok(needed) }
    }

    /// The length of the body in bytes.
    pub fn len(&self) -> usize {
        self.write_to(Writer { buffer: &mut [], length: 0 })
    }

    /// Writes what has room, and tells how much room all of it takes.
    fn write_to(&self, mut writer: Writer<'_>) -> usize {
        let mut before = r#"{"StartRequests":["#;
        for id in self.ids {
            writer.raw(before);
            writer.raw(r#"{"EventId":""#);
            id.spell(|part| {
                // What does not fit is counted, so this does not fail.
                let _ = writer.write_str(part);
            });
            writer.raw(r#""}"#);
            before = ",";
        }
        if self.ids.is_empty() {
            writer.raw(before);
        }
        writer.raw("]}");
        writer.length
    }

    /// Whether nothing is approved; such a body has no use.
    pub const fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// An id that can be written without [`core::fmt`], which a program that only approves then need not link.
pub trait Spell {
    /// Tells the id's text, decoded, part by part.
    fn spell(&self, tell: impl FnMut(&str));
}

impl<T: AsRef<str> + ?Sized> Spell for T {
    fn spell(&self, mut tell: impl FnMut(&str)) {
        tell(self.as_ref());
    }
}

impl Spell for Text<'_> {
    fn spell(&self, mut tell: impl FnMut(&str)) {
        match self.as_str() {
            Some(text) => tell(text),
            None => self.chars().for_each(|char| tell(char.encode_utf8(&mut [0; 4]))),
        }
    }
}

/// Writes while there is room, and counts all the same; what is written with [`fmt::Write`] stands inside a string of
/// JSON.
///
/// serde-json-core would write the same bytes, but a program that links its serializer carries its panics with it.
struct Writer<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl Writer<'_> {
    fn byte(&mut self, byte: u8) {
        if let Some(slot) = self.buffer.get_mut(self.length) {
            *slot = byte;
        }
        self.length = self.length.saturating_add(1);
    }

    fn raw(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.byte(byte));
    }
}

impl fmt::Write for Writer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            match byte {
                b'"' => self.raw("\\\""),
                b'\\' => self.raw("\\\\"),
                b'\x08' => self.raw("\\b"),
                b'\t' => self.raw("\\t"),
                b'\n' => self.raw("\\n"),
                b'\x0c' => self.raw("\\f"),
                b'\r' => self.raw("\\r"),
                0..=0x1f => {
                    self.raw(if byte < 0x10 { "\\u000" } else { "\\u001" });
                    self.byte(hex_digit(byte));
                }
                _ => self.byte(byte),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;
    use std::vec::Vec;

    use proptest::prelude::*;
    use serde::Serialize;

    use super::*;

    /// The same body as serde writes it.
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Body<'a> {
        start_requests: Vec<Request<'a>>,
    }

    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Request<'a> {
        event_id: &'a str,
    }

    proptest! {
        #[test]
        fn the_length_is_told_exactly_and_the_ids_come_back(ids in proptest::collection::vec(any::<String>(), 0..5)) {
            let approval = StartRequests::new(&ids);
            let needed = approval.len();
            let mut buffer = std::vec![0; needed];
            prop_assert_eq!(approval.write(&mut buffer), Ok(needed));
            let read: serde_json::Value = serde_json::from_slice(&buffer).unwrap();
            let requests = read["StartRequests"].as_array().unwrap();
            let back: Vec<_> = requests.iter().map(|request| request["EventId"].as_str().unwrap()).collect();
            prop_assert_eq!(back, ids.iter().map(String::as_str).collect::<Vec<_>>());

            // Two other writers agree, to the byte.
            let body = Body { start_requests: ids.iter().map(|event_id| Request { event_id }).collect() };
            let mut theirs = std::vec![0; needed];
            prop_assert_eq!(serde_json_core::to_slice(&body, &mut theirs), Ok(needed));
            prop_assert_eq!(serde_json::to_vec(&body).unwrap(), theirs.clone());
            prop_assert_eq!(theirs, buffer.clone());
            if let Some(short) = needed.checked_sub(1) {
                prop_assert_eq!(approval.write(&mut buffer[..short]), Err(BufferTooSmall { needed }));
            }
        }
    }
}
