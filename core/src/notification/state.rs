//! How far an event is, as a notification says.

use core::fmt;

use serde::{Serialize, Serializer};

use crate::json::Text;

/// How far an event is. Outside the machine, the end of an event is reported, too.
///
/// ```
/// use scheduled_events_core::{NotificationState, Notifications};
///
/// let body = br#"{"type":"microsoft.maintenance/scheduledevents","properties":{"EventId":"a","EventStatus":"Completed"}}"#;
/// let notification = Notifications::parse(body)?.iter().next().unwrap();
/// assert_eq!(notification.state(), NotificationState::Completed);
/// assert!(notification.state().word() == "completed");
/// assert!(notification.state().is_end());
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotificationState<'a> {
    /// The event is announced. It can be approved.
    Scheduled,
    /// The event is advice, which is never approved.
    Advisory,
    /// The event is in progress.
    Started,
    /// The event is over.
    Completed,
    /// The event is over and did not start.
    Canceled,
    /// A word that this crate does not know; empty if the event has no `EventStatus`, or an invalid one.
    Other(Text<'a>),
}

impl<'a> NotificationState<'a> {
    pub(super) fn new(status: Option<Text<'a>>) -> Self {
        let text = status.unwrap_or(Text::plain(""));
        let known = [
            Self::Scheduled,
            Self::Advisory,
            Self::Started,
            Self::Completed,
            Self::Canceled,
        ];
        let state = known
            .into_iter()
            .find(|state| state.word().is_same_name(&text));
        // Both spellings are known outside.
        let canceled = text
            .eq_ignore_ascii_case("cancelled")
            .then_some(Self::Canceled);
        state.or(canceled).unwrap_or(Self::Other(text))
    }

    /// The state as a word: `scheduled`, `advisory`, `started`, `completed`, `canceled`, or the word of the notification.
    pub const fn word(&self) -> Text<'a> {
        match self {
            Self::Scheduled => Text::plain("scheduled"),
            Self::Advisory => Text::plain("advisory"),
            Self::Started => Text::plain("started"),
            Self::Completed => Text::plain("completed"),
            Self::Canceled => Text::plain("canceled"),
            Self::Other(text) => *text,
        }
    }

    /// Whether the event is over.
    pub const fn is_end(&self) -> bool {
        matches!(self, Self::Completed | Self::Canceled)
    }
}

impl fmt::Display for NotificationState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.word().fmt(f)
    }
}

impl Serialize for NotificationState<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.word().serialize(serializer)
    }
}
