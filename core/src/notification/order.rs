//! Order and repetition: which notifications are news.

use serde::{Deserialize, Serialize};

use super::{Notification, NotificationState};
use crate::event::NotBefore;
use crate::event_id::EventId;
use crate::hash::Hash;
use crate::tracker::digest;

/// What is known of one event from its notifications, which arrive at least once and in any order.
///
/// An event goes from Scheduled to Started to Completed or Canceled, and never back. A notification of an earlier state is
/// late, and so is one that is older than what is known of the same state. Repeated notifications are recognised by their
/// content, whatever their outer id. Keep the order of an event after its end, so that a late notification does not wake it;
/// a [`NotificationOrder`] does so for the last events. It is serializable, to survive a restart.
///
/// ```
/// use scheduled_events_core::{Arrival, EventOrder, Notifications};
///
/// let row = |status: &str| format!(
///     r#"{{"type":"microsoft.maintenance/scheduledevents","properties":{{"EventId":"a","EventStatus":"{status}"}}}}"#
/// );
/// let mut order = EventOrder::default();
/// let mut arrivals = Vec::new();
/// for status in ["Scheduled", "Scheduled", "Completed", "Started"] {
///     let body = row(status);
///     arrivals.push(order.observe(&Notifications::parse(body.as_bytes())?.iter().next().unwrap()));
/// }
/// assert_eq!(arrivals, [Arrival::New, Arrival::Repeated, Arrival::Changed, Arrival::Late]);
/// assert!(order.is_over());
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventOrder {
    stage: Stage,
    /// The time of the newest notification of this stage, in milliseconds; `i64::MIN` if none of them has a time.
    time: i64,
    /// Hash of what the event was then.
    content: u64,
}

/// How far an event is. It never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stage {
    #[default]
    Unseen,
    Scheduled,
    Started,
    Over,
}

/// How a notification relates to those before it.
///
/// ```
/// use scheduled_events_core::Arrival;
///
/// assert!(Arrival::New.is_news() && Arrival::Changed.is_news());
/// assert!(!Arrival::Repeated.is_news() && !Arrival::Late.is_news());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// The first notification of its event.
    New,
    /// The event is further, or another one, than it was known to be.
    Changed,
    /// It says what is known.
    Repeated,
    /// It is older than what is known, or the event is over. It changes nothing.
    Late,
}

impl Arrival {
    /// Whether the notification says something that was not known.
    pub const fn is_news(self) -> bool {
        matches!(self, Self::New | Self::Changed)
    }
}

impl EventOrder {
    /// Records a notification of this event.
    ///
    /// A row of Resource Graph has no time: it counts as newer than what is known of the same state.
    pub fn observe(&mut self, notification: &Notification<'_>) -> Arrival {
        let stage = match notification.state() {
            NotificationState::Scheduled | NotificationState::Advisory => Stage::Scheduled,
            NotificationState::Started => Stage::Started,
            NotificationState::Completed | NotificationState::Canceled => Stage::Over,
            // Azure may add a state. It takes the event no further.
            NotificationState::Other(_) => self.stage.max(Stage::Scheduled).min(Stage::Started),
        };
        let time = notification.time().map_or(i64::MIN, |time| time.0);
        let known = *self;
        if stage < known.stage {
            return Arrival::Late;
        }
        if stage == known.stage {
            let content = content(notification);
            if stage == Stage::Over || content == known.content {
                self.time = known.time.max(time);
                return Arrival::Repeated;
            }
            if time != i64::MIN && time <= known.time {
                return Arrival::Late;
            }
            *self = Self {
                stage,
                time: known.time.max(time),
                content,
            };
            return Arrival::Changed;
        }
        *self = Self {
            stage,
            time,
            content: content(notification),
        };
        if known.stage == Stage::Unseen {
            Arrival::New
        } else {
            Arrival::Changed
        }
    }

    /// Records that the event is over, as a document says that does not have it any more.
    ///
    /// ```
    /// use scheduled_events_core::EventOrder;
    ///
    /// let mut order = EventOrder::default();
    /// order.end();
    /// assert!(order.is_over());
    /// ```
    pub const fn end(&mut self) {
        self.stage = Stage::Over;
    }

    /// Whether the event is over.
    pub const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }
}

/// Hash of what a notification says about its event, apart from the order of its members and what is unknown.
fn content(notification: &Notification<'_>) -> u64 {
    let event = notification.event();
    let mut hash = Hash::new();
    hash.bytes(&digest(event).to_le_bytes());
    match event.not_before() {
        NotBefore::At(moment) => hash.bytes(&moment.0.to_le_bytes()),
        NotBefore::Unset => hash.byte(0),
        NotBefore::Unreadable(text) => hash.text(&text),
    }
    hash.text(&notification.state().word());
    hash.finish()
}

/// The [`EventOrder`] of the last `N` events, in fixed memory.
///
/// If there are more, those that are over are forgotten first, and of these the ones that were observed longest ago. A
/// session that follows an event keeps it in order without this, too; what is lost is the memory of an end.
///
/// ```
/// use scheduled_events_core::{Arrival, NotificationOrder, Notifications};
///
/// let row = |id: &str, status: &str| format!(
///     r#"{{"type":"microsoft.maintenance/scheduledevents","properties":{{"EventId":"{id}","EventStatus":"{status}"}}}}"#
/// );
/// let mut order = NotificationOrder::<16>::new();
/// let mut observe = |body: String| {
///     let notifications = Notifications::parse(body.as_bytes()).unwrap();
///     order.observe(&notifications.iter().next().unwrap())
/// };
/// // The end comes first.
/// assert_eq!(observe(row("a", "Completed")), Arrival::New);
/// assert_eq!(observe(row("A", "Scheduled")), Arrival::Late);
/// assert_eq!(observe(row("b", "Scheduled")), Arrival::New);
/// ```
#[derive(Clone, Debug, Default)]
pub struct NotificationOrder<const N: usize> {
    known: heapless::Vec<Known, N>,
    /// How many notifications were observed.
    observed: u64,
}

#[derive(Clone, Debug)]
struct Known {
    event_id: EventId,
    order: EventOrder,
    /// The number of the last observation.
    observed: u64,
}

impl<const N: usize> NotificationOrder<N> {
    /// Creates an order that knows no event.
    pub const fn new() -> Self {
        const { assert!(N > 0, "an order holds at least one event") };
        Self {
            known: heapless::Vec::new(),
            observed: 0,
        }
    }

    /// Records a notification, and returns how it relates to those of the same event before it. It takes time linear in `N`.
    pub fn observe(&mut self, notification: &Notification<'_>) -> Arrival {
        let event_id = EventId::new(&notification.event().event_id());
        self.with(event_id, |order| order.observe(notification))
    }

    /// Records that an event is over, as a document says that does not have it any more. A host that reads documents, too,
    /// calls it for each [`Change`](crate::Change) that is an end.
    ///
    /// ```
    /// use scheduled_events_core::{Arrival, EventId, NotificationOrder, Notifications, Text};
    ///
    /// let mut order = NotificationOrder::<16>::new();
    /// order.end(&EventId::new(&Text::plain("a")));
    /// let late = br#"{"type":"microsoft.maintenance/scheduledevents","properties":{"EventId":"a","EventStatus":"Started"}}"#;
    /// assert_eq!(order.observe(&Notifications::parse(late)?.iter().next().unwrap()), Arrival::Late);
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub fn end(&mut self, event_id: &EventId) {
        self.with(event_id.clone(), EventOrder::end);
    }

    fn with<T>(&mut self, event_id: EventId, work: impl FnOnce(&mut EventOrder) -> T) -> T {
        self.observed = self.observed.wrapping_add(1);
        let observed = self.observed;
        if let Some(known) = self
            .known
            .iter_mut()
            .find(|known| known.event_id == event_id)
        {
            known.observed = observed;
            return work(&mut known.order);
        }
        let mut order = EventOrder::default();
        let result = work(&mut order);
        let new = Known {
            event_id,
            order,
            observed,
        };
        if let Err(new) = self.known.push(new)
            && let Some(oldest) = self
                .known
                .iter_mut()
                .min_by_key(|known| (!known.order.is_over(), known.observed))
        {
            *oldest = new;
        }
        result
    }
}
