//! The body that approves events.

use core::fmt::{self, Display, Write};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::error::BufferTooSmall;

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

impl<'a, Id: Display> StartRequests<'a, Id> {
    /// Approves these events. Whatever displays as the id will do: a [`Text`](crate::Text), an
    /// [`EventId`](crate::EventId), a `&str`.
    pub const fn new(ids: &'a [Id]) -> Self {
        Self { ids }
    }

    /// Writes the body to the front of `buffer` and tells its length in bytes.
    ///
    /// # Errors
    /// [`BufferTooSmall`] when it does not fit; it tells the bytes needed.
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        serde_json_core::to_slice(self, buffer).map_err(|_| BufferTooSmall { needed: self.len() })
    }

    /// The length of the body in bytes.
    pub fn len(&self) -> usize {
        let frame = r#"{"StartRequests":[]}"#.len();
        let mut counter = EscapedLength(frame.saturating_add(self.ids.len().saturating_sub(1)));
        for id in self.ids {
            counter.0 = counter.0.saturating_add(r#"{"EventId":""}"#.len());
            // Counting never fails.
            let _ = write!(counter, "{id}");
        }
        counter.0
    }

    /// Whether nothing is approved; such a body has no use.
    pub const fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

impl<Id: Display> Serialize for StartRequests<'_, Id> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Requests<'a, Id>(&'a [Id]);

        impl<Id: Display> Serialize for Requests<'_, Id> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.iter().map(StartRequest))
            }
        }

        let mut body = serializer.serialize_struct("StartRequests", 1)?;
        body.serialize_field("StartRequests", &Requests(self.ids))?;
        body.end()
    }
}

struct StartRequest<'a, Id>(&'a Id);

impl<Id: Display> Serialize for StartRequest<'_, Id> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Shown<'a, Id>(&'a Id);

        impl<Id: Display> Serialize for Shown<'_, Id> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self.0)
            }
        }

        let mut request = serializer.serialize_struct("StartRequest", 1)?;
        request.serialize_field("EventId", &Shown(self.0))?;
        request.end()
    }
}

/// Counts the bytes that text takes inside a JSON string, as serde-json-core escapes it.
struct EscapedLength(usize);

impl fmt::Write for EscapedLength {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            self.0 = self.0.saturating_add(match char {
                '"' | '\\' | '\u{8}' | '\t' | '\n' | '\u{c}' | '\r' => 2,
                '\0'..='\u{1f}' => 6,
                _ => char.len_utf8(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

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
            if let Some(short) = needed.checked_sub(1) {
                prop_assert_eq!(approval.write(&mut buffer[..short]), Err(BufferTooSmall { needed }));
            }
        }
    }
}
