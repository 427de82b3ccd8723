//! The body that approves events.

use crate::error::BufferTooSmall;
use crate::fixed_str::hex_digit;
use crate::json::Text;
use crate::slice_writer::SliceWriter;

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

impl<'a, Id: WriteDecoded> StartRequests<'a, Id> {
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
        self.fill(SliceWriter::new(buffer)).written().map(<[u8]>::len)
    }

    /// The length of the body in bytes.
    pub fn len(&self) -> usize {
        self.fill(SliceWriter::new(&mut [])).length()
    }

    /// serde-json-core would write the same bytes, but a program that links its serializer carries its panics with it.
    fn fill<'b>(&self, mut room: SliceWriter<'b>) -> SliceWriter<'b> {
        room.bytes(br#"{"StartRequests":["#);
        let mut before: &[u8] = br#"{"EventId":""#;
        for id in self.ids {
            room.bytes(before);
            id.write_decoded(|part| inside_string(&mut room, part));
            room.bytes(br#""}"#);
            before = br#",{"EventId":""#;
        }
        room.bytes(b"]}");
        room
    }

    /// Whether nothing is approved; such a body has no use.
    pub const fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// An id that can be written without [`core::fmt`], which a program that only approves then need not link.
pub trait WriteDecoded {
    /// Tells the id's text, decoded, part by part.
    fn write_decoded(&self, tell: impl FnMut(&str));
}

impl<T: AsRef<str> + ?Sized> WriteDecoded for T {
    fn write_decoded(&self, mut tell: impl FnMut(&str)) {
        tell(self.as_ref());
    }
}

impl WriteDecoded for Text<'_> {
    fn write_decoded(&self, mut tell: impl FnMut(&str)) {
        match self.as_str() {
            Some(text) => tell(text),
            None => self.chars().for_each(|char| tell(char.encode_utf8(&mut [0; 4]))),
        }
    }
}

/// Writes what stands inside a string of JSON.
fn inside_string(room: &mut SliceWriter<'_>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'"' => room.bytes(b"\\\""),
            b'\\' => room.bytes(b"\\\\"),
            b'\x08' => room.bytes(b"\\b"),
            b'\t' => room.bytes(b"\\t"),
            b'\n' => room.bytes(b"\\n"),
            b'\x0c' => room.bytes(b"\\f"),
            b'\r' => room.bytes(b"\\r"),
            0..=0x1f => {
                room.bytes(if byte < 0x10 { b"\\u000" } else { b"\\u001" });
                room.byte(hex_digit(byte));
            }
            _ => room.byte(byte),
        }
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
