//! A position among the notifications of a body.

use crate::json::Quoted;

/// A position among the notifications of a body, for
/// [`Notifications::next_notification`](crate::Notifications::next_notification). The default is before the first one.
///
/// A cursor borrows nothing and belongs to the notifications that moved it. With others nothing panics, but which
/// notifications are returned is unspecified.
///
/// ```
/// use scheduled_events_core::{NotificationCursor, Notifications};
///
/// let notifications = Notifications::parse(b"[]")?;
/// assert!(notifications.next_notification(&mut NotificationCursor::default()).is_none());
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NotificationCursor {
    /// The end of the last message or row.
    pub(super) offset: usize,
    /// The index of the next one.
    pub(super) index: usize,
    /// The message whose `data.resources` are being read.
    pub(super) batch: Option<Batch>,
}

impl NotificationCursor {
    pub(super) const START: Self = Self {
        offset: 0,
        index: 0,
        batch: None,
    };
}

/// A message of 2023, which has several resources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) message: Message,
    /// The bracket of `data.resources` at first, then the end of the last resource.
    pub(super) offset: usize,
    pub(super) first: bool,
}

/// What surrounds an event in a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) id: Option<Quoted>,
    pub(super) subject: Option<Quoted>,
    pub(super) time: Option<Quoted>,
}
