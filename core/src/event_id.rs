//! An event's id that outlives its document.

use core::fmt;

use serde::Serialize;

use crate::fixed_str::{self, from_utf8, hex_digit};
use crate::hash::Hash;
use crate::json::Text;

/// The longest `EventId` that is kept whole, in UTF-8 bytes. Azure's ids are GUIDs of 36 bytes.
pub const EVENT_ID_MAX: usize = 64;

/// How much of a longer id is kept: `prefix`, `~`, 16 hexadecimal digits.
const PREFIX: usize = EVENT_ID_MAX - 17;

/// An event's id that outlives its document. It keeps its case, and is compared without ASCII case.
///
/// Of an id longer than [`EVENT_ID_MAX`] bytes it keeps the beginning, `~` and a hash, so that the event can be tracked and
/// reported. Such an event has a [`Problem`](crate::Problem) and is never approved.
///
/// ```
/// use scheduled_events_core::{EventId, Text};
///
/// let id = EventId::new(&Text::plain("c7061bac-afdc-4513-b24b-aa5f13a16123"));
/// assert_eq!(id, EventId::new(&Text::plain("C7061BAC-AFDC-4513-B24B-AA5F13A16123")));
/// assert_eq!(id.as_str(), "c7061bac-afdc-4513-b24b-aa5f13a16123");
/// assert_eq!(EventId::new(&Text::plain(&"x".repeat(100))).as_str().len(), 64);
///
/// // As a key of a map, too, it has no case.
/// let seen = std::collections::HashSet::from([id]);
/// assert!(seen.contains(&EventId::new(&Text::plain("C7061BAC-AFDC-4513-B24B-AA5F13A16123"))));
/// ```
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct EventId {
    text: heapless::String<EVENT_ID_MAX, u8>,
}

impl EventId {
    /// Copies the decoded text.
    pub fn new(id: &Text<'_>) -> Self {
        let (text, whole) = fixed_str::truncated(id, EVENT_ID_MAX);
        if whole {
            Self { text }
        } else {
            Self::shortened(id)
        }
    }

    /// Whether the decoded text is short enough to be kept whole.
    pub(crate) fn keeps_whole(id: &Text<'_>) -> bool {
        id.raw().len() <= EVENT_ID_MAX || id.decoded_len() <= EVENT_ID_MAX
    }

    /// Copies an id that was an `EventId` before; `None` if it is too long to be one.
    pub(crate) fn from_str(id: &str) -> Option<Self> {
        fixed_str::from_str(id).map(|text| Self { text })
    }

    fn shortened(id: &Text<'_>) -> Self {
        let digits = Hash::of_id(id)
            .to_be_bytes()
            .into_iter()
            .flat_map(|byte| [hex_digit(byte >> 4), hex_digit(byte)]);
        let (prefix, _) = fixed_str::truncated::<EVENT_ID_MAX>(id, PREFIX);
        let mut bytes = [0; EVENT_ID_MAX];
        let mut length: usize = 0;
        // The prefix leaves 17 bytes for the mark and the digits.
        for (to, from) in bytes
            .iter_mut()
            .zip(prefix.bytes().chain([b'~']).chain(digits))
        {
            *to = from;
            length = length.saturating_add(1);
        }
        Self {
            text: from_utf8(bytes, length),
        }
    }

    /// The id, in the case in which it was first seen.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Hash of the id without ASCII case.
    pub(crate) fn hash(&self) -> u64 {
        Hash::of_id(&Text::plain(&self.text))
    }
}

impl PartialEq for EventId {
    fn eq(&self, other: &Self) -> bool {
        self.text.eq_ignore_ascii_case(&other.text)
    }
}

impl Eq for EventId {}

/// Without ASCII case, as ids are compared: equal ids have equal hashes.
impl core::hash::Hash for EventId {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.text
            .bytes()
            .for_each(|byte| state.write_u8(byte.to_ascii_lowercase()));
        state.write_u8(0xff);
    }
}

impl AsRef<str> for EventId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn a_long_id_is_shortened_to_its_beginning_and_a_hash() {
        let long = format!("{}é{}", "x".repeat(46), "y".repeat(60));
        let expected = format!(
            "{}~{:016x}",
            "x".repeat(46),
            Hash::of_id(&Text::plain(&long))
        );
        assert_eq!(EventId::new(&Text::plain(&long)).as_str(), expected);
        assert_eq!(
            EventId::new(&Text::plain(&long.to_uppercase()))
                .as_str()
                .len(),
            46 + 17
        );
        let whole = "z".repeat(EVENT_ID_MAX);
        assert_eq!(EventId::new(&Text::plain(&whole)).as_str(), whole);
        assert_eq!(
            EventId::new(&Text::plain(&format!("{whole}z")))
                .as_str()
                .len(),
            EVENT_ID_MAX
        );
        assert!(EventId::from_str(&format!("{whole}z")).is_none());
    }

    #[test]
    fn the_length_limit_applies_to_the_decoded_id() {
        for (raw, whole) in [
            ("z".repeat(64), true),
            ("z".repeat(65), false),
            (r"\u007a".repeat(64), true),
            (r"\u007a".repeat(65), false),
            (r"\u00e9".repeat(32), true),
            (r"\u00e9".repeat(33), false),
        ] {
            let id = Text::from_raw(&raw, raw.contains('\\'));
            assert_eq!(EventId::keeps_whole(&id), whole, "{raw}");
            let kept = EventId::new(&id);
            assert_eq!(id == *kept.as_ref(), whole, "{raw}");
        }
    }
}
