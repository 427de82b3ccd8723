//! The values of members that are words, open to new ones, and `NotBefore`.

use core::fmt;

use serde::{Serialize, Serializer};

use crate::json::Text;
use crate::time::UnixSeconds;

/// The longest known word has so many bytes: a longer text with escapes is another word.
const LONGEST_WORD: usize = "SpotRebalanceRecommendation".len();

/// An open enumeration: the known words, and any other.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $word:ident),+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name<'a> {
            $($(#[$doc])* $word,)+
            /// A word that this crate does not know.
            Other(Text<'a>),
        }

        impl<'a> $name<'a> {
            pub(crate) fn new(text: Text<'a>) -> Self {
                let mut buffer = [0; LONGEST_WORD];
                match text.as_str().or_else(|| text.copy_to(&mut buffer).ok().map(|word| &*word)) {
                    $(Some(stringify!($word)) => Self::$word,)+
                    _ => Self::Other(text),
                }
            }

            /// The word as the document has it.
            pub const fn text(&self) -> Text<'a> {
                match self {
                    $(Self::$word => Text::plain(stringify!($word)),)+
                    Self::Other(text) => *text,
                }
            }
        }

        impl fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.text().fmt(f)
            }
        }

        impl Serialize for $name<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.text().serialize(serializer)
            }
        }
    };
}

words! {
    /// The impact that an event will have.
    ///
    /// Words are compared with case, as Azure writes them: `freeze` and `spotrebalancerecommendation` are other words, which only
    /// rules without `event` match, and which are no advice. So are words of [`EventStatus`] and [`EventSource`].
    ///
    /// ```
    /// use scheduled_events_core::{Document, EventType};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","EventType":"Reboot"},{"EventId":"b","EventType":"Cool"}]}"#)?;
    /// let types: Vec<_> = document.events().filter_map(|event| event.event_type()).collect();
    /// assert_eq!(types[0], EventType::Reboot);
    /// // A type that Azure may add later is kept.
    /// assert!(matches!(types[1], EventType::Other(word) if word == "Cool"));
    /// assert_eq!(types[1].text().as_str(), Some("Cool"));
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    EventType {
        /// The machine pauses for a few seconds; memory, open files and connections survive.
        Freeze,
        /// The machine restarts; memory is lost.
        Reboot,
        /// The machine moves to another host; memory and temporary disks are lost.
        Redeploy,
        /// The spot machine is evicted; temporary disks are lost. Notice: 30 seconds at least.
        Preempt,
        /// The machine is deleted.
        Terminate,
        /// Advice: the spot machine may be evicted soon, or not at all. See [`Event::is_advice`](crate::Event::is_advice).
        SpotRebalanceRecommendation
    }
}

words! {
    /// The progress of an event.
    ///
    /// ```
    /// use scheduled_events_core::{Document, EventStatus};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","EventStatus":"Started"}]}"#)?;
    /// let status = document.events().next().and_then(|event| event.event_status()).unwrap();
    /// assert_eq!(status, EventStatus::Started);
    /// assert_eq!(status.text().as_str(), Some("Started"));
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    EventStatus {
        /// Announced: it can be approved.
        Scheduled,
        /// In progress.
        Started,
        /// Advice, which never starts. See [`Event::is_advice`](crate::Event::is_advice).
        Advisory
    }
}

impl EventStatus<'_> {
    /// Whether the event has ended: `Completed` or `Canceled`. The metadata service has no word for it, Event Grid and test
    /// servers do.
    ///
    /// ```
    /// use scheduled_events_core::{EventStatus, Text};
    ///
    /// assert!(EventStatus::Other(Text::plain("Completed")).is_over());
    /// assert!(!EventStatus::Started.is_over());
    /// ```
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Other(text) if *text == *"Completed") || self.is_cancelled()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(self, Self::Other(text) if *text == *"Canceled" || *text == *"Cancelled")
    }
}

words! {
    /// Who caused an event.
    ///
    /// ```
    /// use scheduled_events_core::{Document, EventSource};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","EventSource":"User"}]}"#)?;
    /// let source = document.events().next().and_then(|event| event.event_source()).unwrap();
    /// assert_eq!(source, EventSource::User);
    /// assert_eq!(source.text().as_str(), Some("User"));
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    EventSource {
        /// Azure itself.
        Platform,
        /// A person or program with rights on the machine.
        User
    }
}

/// A longer text is not read as a time. The limit is that of the buffer for texts with escapes, and holds for all.
const LONGEST_TIME: usize = 64;

/// When an event can start.
///
/// ```
/// use scheduled_events_core::{Document, NotBefore, UnixSeconds};
///
/// let body = br#"{"Events":[{"EventId":"a","NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT"},
///     {"EventId":"b","NotBefore":""},{"EventId":"c","NotBefore":"soon"}]}"#;
/// let document = Document::parse(body)?;
/// let times: Vec<_> = document.events().map(|event| event.not_before()).collect();
/// assert_eq!(times[0], NotBefore::At(UnixSeconds(1_649_716_018)));
/// assert_eq!(times[1], NotBefore::Unset);
/// assert!(matches!(times[2], NotBefore::Unreadable(text) if text == "soon"));
/// assert_eq!(times[2].moment(), None);
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBefore<'a> {
    /// Not before this moment.
    At(UnixSeconds),
    /// Blank, null or absent, as after the event has started.
    Unset,
    /// A value that is not a time, or has more than 64 bytes: treat it as unknown.
    Unreadable(Text<'a>),
}

impl<'a> NotBefore<'a> {
    pub(crate) fn new(text: Text<'a>) -> Self {
        let moment = match text.as_str() {
            Some(text) if text.len() <= LONGEST_TIME => UnixSeconds::parse(text),
            Some(_) => None,
            None => Self::parse_escaped(&text),
        };
        match moment {
            Some(moment) => Self::At(moment),
            None if text.chars().all(|char| char == ' ' || char == '\t') => Self::Unset,
            None => Self::Unreadable(text),
        }
    }

    #[cold]
    fn parse_escaped(text: &Text<'_>) -> Option<UnixSeconds> {
        text.copy_to(&mut [0; LONGEST_TIME])
            .ok()
            .and_then(UnixSeconds::parse)
    }

    /// The time, if it is known.
    pub const fn moment(&self) -> Option<UnixSeconds> {
        match self {
            Self::At(moment) => Some(*moment),
            Self::Unset | Self::Unreadable(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn a_time_of_more_than_64_bytes_is_unreadable_with_or_without_escapes() {
        for digits in [44, 45] {
            let plain = format!("2018-04-12T16:58:30.{}", "5".repeat(digits));
            let escaped = plain.replacen('T', "\\u0054", 1);
            for text in [Text::plain(&plain), Text::from_raw(&escaped, true)] {
                assert_eq!(
                    NotBefore::new(text).moment().is_some(),
                    digits == 44,
                    "{text}"
                );
            }
        }
    }
}
