//! Approving events: the request body for the metadata service, and the request for Azure Resource Manager.
//!
//! This file has the former, [`StartRequests`]; `acknowledge` has the latter.

mod acknowledge;

pub use acknowledge::{ACKNOWLEDGE_API_VERSION, AcknowledgeError, AcknowledgeRequest, acknowledge};

use crate::error::BufferTooSmall;
use crate::fixed_str::hex_digit;
use crate::json::Text;
use crate::slice_writer::SliceWriter;

/// The body of a POST request that approves events: `{"StartRequests":[{"EventId":"…"}]}`.
///
/// It lets Azure start the events early, **for all their resources**. Ids are sent as they were received. `docs/inside/wire.md`,
/// section 1, describes the request.
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
    /// Approves these events. An id can be a [`Text`], an [`EventId`](crate::EventId) or a `&str`.
    pub const fn new(ids: &'a [Id]) -> Self {
        Self { ids }
    }

    /// Writes the body to the front of `buffer` and returns its length in bytes.
    ///
    /// # Errors
    /// [`BufferTooSmall`] with the number of bytes needed.
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        self.write_to(SliceWriter::new(buffer))
            .written()
            .map(<[u8]>::len)
    }

    /// The length of the body in bytes.
    pub fn len(&self) -> usize {
        self.write_to(SliceWriter::new(&mut [])).length()
    }

    /// serde-json-core would write the same bytes, but its serializer contains panics.
    fn write_to<'b>(&self, mut writer: SliceWriter<'b>) -> SliceWriter<'b> {
        writer.bytes(br#"{"StartRequests":["#);
        let mut start: &[u8] = br#"{"EventId":""#;
        for id in self.ids {
            writer.bytes(start);
            id.write_decoded(|part| write_escaped(&mut writer, part));
            writer.bytes(br#""}"#);
            start = br#",{"EventId":""#;
        }
        writer.bytes(b"]}");
        writer
    }

    /// Whether the body approves no event.
    ///
    /// ```
    /// use scheduled_events_core::StartRequests;
    ///
    /// assert!(StartRequests::<&str>::new(&[]).is_empty());
    /// ```
    pub const fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// An id that can be written without [`core::fmt`], so that a program that only approves does not link that.
///
/// ```
/// use scheduled_events_core::{Text, WriteDecoded};
///
/// let mut id = String::new();
/// Text::from_raw(r"a\u002fb", true).write_decoded(|part| id.push_str(part));
/// assert_eq!(id, "a/b");
/// ```
pub trait WriteDecoded {
    /// Calls `write` with the parts of the id's decoded text, in order.
    fn write_decoded(&self, write: impl FnMut(&str));
}

impl<T: AsRef<str> + ?Sized> WriteDecoded for T {
    fn write_decoded(&self, mut write: impl FnMut(&str)) {
        write(self.as_ref());
    }
}

impl WriteDecoded for Text<'_> {
    fn write_decoded(&self, mut write: impl FnMut(&str)) {
        match self.as_str() {
            Some(text) => write(text),
            None => self
                .chars()
                .for_each(|char| write(char.encode_utf8(&mut [0; 4]))),
        }
    }
}

/// Writes the inside of a JSON string.
fn write_escaped(writer: &mut SliceWriter<'_>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'"' => writer.bytes(b"\\\""),
            b'\\' => writer.bytes(b"\\\\"),
            b'\x08' => writer.bytes(b"\\b"),
            b'\t' => writer.bytes(b"\\t"),
            b'\n' => writer.bytes(b"\\n"),
            b'\x0c' => writer.bytes(b"\\f"),
            b'\r' => writer.bytes(b"\\r"),
            0..=0x1f => {
                writer.bytes(if byte < 0x10 { b"\\u000" } else { b"\\u001" });
                writer.byte(hex_digit(byte));
            }
            _ => writer.byte(byte),
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

    /// The same body for serde.
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
        fn the_length_is_exact_and_json_readers_find_the_ids(ids in proptest::collection::vec(any::<String>(), 0..5)) {
            let approval = StartRequests::new(&ids);
            let needed = approval.len();
            let mut buffer = std::vec![0; needed];
            prop_assert_eq!(approval.write(&mut buffer), Ok(needed));
            let read: serde_json::Value = serde_json::from_slice(&buffer).unwrap();
            let requests = read["StartRequests"].as_array().unwrap();
            let back: Vec<_> = requests.iter().map(|request| request["EventId"].as_str().unwrap()).collect();
            prop_assert_eq!(back, ids.iter().map(String::as_str).collect::<Vec<_>>());

            // Two other writers produce the same bytes.
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
