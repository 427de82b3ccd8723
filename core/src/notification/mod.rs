//! Notifications: what Azure says about events outside the machine.
//!
//! Event Grid delivers a message for each change of an event, and Resource Graph has a row for each event. Read the files
//! in this order:
//!
//! - `mod` (this file): the notifications of one body, and what each of them says.
//! - `message`: finds them in the forms in which Azure writes them, from a position on that `cursor` keeps; `object` reads the members
//!   of one object.
//! - `state`: how far an event is; `order`: which notifications are news.
//! - `resource_id`: the id of the resource that an event is of; `machine_id`: the id of each machine that it affects.

mod cursor;
mod machine_id;
mod message;
mod object;
mod order;
mod resource_id;
mod state;

use core::fmt;

pub use cursor::NotificationCursor;
pub use machine_id::MachineId;
pub use order::{Arrival, EventOrder, NotificationOrder};
pub(crate) use resource_id::{PROVIDER, is_guid};
pub use resource_id::{ResourceId, ResourceIdError, ResourceKind};
pub use state::NotificationState;

use crate::error::{ParseError, ParseErrorKind};
use crate::event::{Event, Member};
use crate::json::{Scanner, Text};
use crate::time::UnixMillis;

/// The notifications in one body: a view of the caller's bytes, checked once.
///
/// The body can be a message of Event Grid in its own schema or in the form of `CloudEvents` 1.0, an array of either, a row of Resource
/// Graph's table `maintenanceresources`, or an answer of Resource Graph with such rows. A Storage queue holds messages in
/// Base64, which the caller decodes.
///
/// As with a [`Document`](crate::Document), parsing is strict about form and tolerant about meaning: the bytes must be one
/// JSON text that repeats no known member, and everything else is data. What is no Scheduled Event of a machine is left out
/// and counted: other topics, the maintenance of AKS, which has the same event type, and Event Grid's request for a
/// [`validation_code`](Self::validation_code).
///
/// Azure publishes these in preview (2026). `docs/inside/wire.md` describes them.
///
/// ```
/// use scheduled_events_core::{NotificationState, Notifications, UnixMillis};
///
/// let body = br#"{"id":"6e9f8439-8bf5-48f1-805d-ad8ab7cd1951","eventTime":"2024-12-04T18:01:13.2675752Z",
///     "topic":"/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955",
///     "eventType":"Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted",
///     "subject":"/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/web/providers/Microsoft.Compute/virtualMachineScaleSets/web",
///     "data":{"resourceInfo":{"type":"microsoft.maintenance/scheduledevents","properties":{"EventId":"743c15d8-a994-46fc-93af-b84ee33f9a14",
///     "EventType":"Freeze","EventStatus":"Started","Resources":["web_1","web_2"]}}}}"#;
/// let notifications = Notifications::parse(body)?;
/// assert_eq!((notifications.len(), notifications.left_out()), (1, 0));
/// let notification = notifications.iter().next().unwrap();
/// assert!(notification.id().is_some_and(|id| id == "6e9f8439-8bf5-48f1-805d-ad8ab7cd1951"));
/// assert_eq!(notification.time(), Some(UnixMillis(1_733_335_273_267)));
/// assert_eq!(notification.state(), NotificationState::Started);
/// assert!(notification.event().event_id() == "743c15d8-a994-46fc-93af-b84ee33f9a14");
/// let machines: Vec<_> = notification.machines()?.map(|machine| machine.unwrap().to_string()).collect();
/// assert_eq!(machines[0], "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/web\
///     /providers/Microsoft.Compute/virtualMachineScaleSets/web/virtualMachines/1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Notifications<'a> {
    text: &'a str,
    /// Of the message, or of the bracket of the array of messages or rows.
    at: usize,
    is_list: bool,
    count: usize,
    left_out: usize,
    validation_code: Option<Text<'a>>,
}

impl<'a> Notifications<'a> {
    /// Checks `input` and keeps a view of it.
    ///
    /// # Errors
    /// [`ParseError`] with kind and offset if `input` is not JSON, neither an object nor an array, or repeats a known member
    /// of an object.
    pub fn parse(input: &'a [u8]) -> Result<Self, ParseError> {
        let error = match core::str::from_utf8(input) {
            Ok(text) => return Self::read(text),
            Err(error) => error,
        };
        // An error in the text before the first wrong byte comes first.
        let offset = error.valid_up_to();
        let valid = input
            .get(..offset)
            .and_then(|valid| core::str::from_utf8(valid).ok())
            .unwrap_or_default();
        match Self::read(valid) {
            Err(error) if error.kind != ParseErrorKind::UnexpectedEnd => Err(error),
            _ => Err(ParseError::found(
                ParseErrorKind::InvalidUtf8,
                offset,
                input.get(offset).copied(),
            )),
        }
    }

    fn read(text: &'a str) -> Result<Self, ParseError> {
        let start = if text.starts_with('\u{feff}') {
            '\u{feff}'.len_utf8()
        } else {
            0
        };
        let mut scanner = Scanner::new(text, start, 0);
        scanner.skip_space();
        let (at, is_array) = (scanner.offset(), scanner.peek() == Some(b'['));
        // Everything is checked before anything is looked for.
        if is_array {
            scanner.value()?;
        } else {
            scanner.expect_object()?;
            scanner.value()?;
        }
        scanner.expect_end()?;
        let mut read = Self {
            text,
            at,
            is_list: is_array,
            count: 0,
            left_out: 0,
            validation_code: None,
        };
        if !is_array && let Some(rows) = read.rows()? {
            (read.at, read.is_list) = (rows, true);
        }
        read.count()?;
        Ok(read)
    }

    /// The notifications, in the order of the body.
    pub const fn iter(&self) -> NotificationIter<'a> {
        NotificationIter {
            notifications: *self,
            cursor: NotificationCursor::START,
            left: self.count,
        }
    }

    /// How many notifications there are.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no notification.
    ///
    /// ```
    /// use scheduled_events_core::Notifications;
    ///
    /// // A message of another topic.
    /// let notifications = Notifications::parse(br#"{"eventType":"Microsoft.Storage.BlobCreated","data":{}}"#)?;
    /// assert!(notifications.is_empty());
    /// assert_eq!(notifications.left_out(), 1);
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many messages and rows are not about a Scheduled Event of a machine, or have none that can be identified.
    pub const fn left_out(&self) -> usize {
        self.left_out
    }

    /// The code of a `Microsoft.EventGrid.SubscriptionValidationEvent`: a web hook returns `{"validationResponse": code}`.
    ///
    /// ```
    /// use scheduled_events_core::Notifications;
    ///
    /// let body = br#"[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":"512d38b6"}}]"#;
    /// let notifications = Notifications::parse(body)?;
    /// assert!(notifications.validation_code().is_some_and(|code| code == "512d38b6"));
    /// assert_eq!((notifications.len(), notifications.left_out()), (0, 1));
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub const fn validation_code(&self) -> Option<Text<'a>> {
        self.validation_code
    }
}

impl<'a> IntoIterator for &Notifications<'a> {
    type Item = Notification<'a>;
    type IntoIter = NotificationIter<'a>;

    fn into_iter(self) -> NotificationIter<'a> {
        self.iter()
    }
}

/// Iterator over [`Notifications`].
///
/// ```
/// use scheduled_events_core::Notifications;
///
/// let notifications = Notifications::parse(b"[]")?;
/// assert_eq!(notifications.iter().len(), 0);
/// assert!(notifications.iter().next().is_none());
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NotificationIter<'a> {
    notifications: Notifications<'a>,
    cursor: NotificationCursor,
    left: usize,
}

impl<'a> Iterator for NotificationIter<'a> {
    type Item = Notification<'a>;

    fn next(&mut self) -> Option<Notification<'a>> {
        let next = self.notifications.next_notification(&mut self.cursor)?;
        self.left = self.left.saturating_sub(1);
        Some(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for NotificationIter<'_> {
    // The provided method compares both bounds, and could panic as far as the compiler knows.
    fn len(&self) -> usize {
        self.left
    }
}

/// One notification: that an event is in some state.
///
/// See [`Notifications`] for an example. Notifications arrive at least once and in any order: an
/// [`EventOrder`] says which of them are news.
///
/// ```
/// use scheduled_events_core::{NotificationState, Notifications};
///
/// let body = br#"{"id":"6e9f8439","type":"microsoft.maintenance/scheduledevents/write","time":"2024-12-04T18:01:13Z",
///     "subject":"/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/web/providers/Microsoft.Compute/virtualMachines/db",
///     "data":{"resourceInfo":{"properties":{"EventId":"743c15d8","EventStatus":"Scheduled","Resources":["db"]}}}}"#;
/// let notification = Notifications::parse(body)?.iter().next().unwrap();
/// assert!(notification.id().is_some_and(|id| id == "6e9f8439"));
/// assert_eq!(notification.time().map(|time| time.seconds().to_string()).as_deref(), Some("2024-12-04T18:01:13Z"));
/// assert_eq!(notification.state(), NotificationState::Scheduled);
/// assert!(notification.event().event_id() == "743c15d8");
/// for machine in notification.machines()? {
///     assert_eq!(machine?.to_string(), notification.resource_id().to_string());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Notification<'a> {
    id: Option<Text<'a>>,
    time: Option<UnixMillis>,
    resource_id: Text<'a>,
    event: Event<'a>,
}

impl<'a> Notification<'a> {
    /// A notification that is not from a body: the event as it was at this time, without an id and of no known resource.
    ///
    /// A host that keeps events rather than messages makes one for [`NotificationOrder::observe`] and
    /// [`Session::on_notification`](crate::Session::on_notification), which need no more.
    ///
    /// ```
    /// use scheduled_events_core::{Document, Notification, NotificationState};
    ///
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","EventStatus":"Started"}]}"#)?;
    /// let notification = Notification::new(document.events().next().unwrap(), None);
    /// assert_eq!(notification.state(), NotificationState::Started);
    /// assert!(notification.id().is_none() && notification.resource().is_err());
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub const fn new(event: Event<'a>, time: Option<UnixMillis>) -> Self {
        Self {
            id: None,
            time,
            resource_id: Text::plain(""),
            event,
        }
    }

    /// The id of the message. A message that is delivered again has the same one. `None` for a row of Resource Graph.
    pub const fn id(&self) -> Option<Text<'a>> {
        self.id
    }

    /// When the event changed, or if that is unknown, when the message was sent; `None` for a row of Resource Graph.
    pub const fn time(&self) -> Option<UnixMillis> {
        self.time
    }

    /// The resource that the event is of: a machine, or the scale set or availability set that its machines are in, with or
    /// without the event after it. As received, empty if it is absent: [`resource`](Self::resource) checks it.
    pub const fn resource_id(&self) -> Text<'a> {
        self.resource_id
    }

    /// The resource that the event is of.
    ///
    /// # Errors
    /// [`ResourceIdError`] if the notification does not say it, or not as an id of Azure Resource Manager.
    ///
    /// ```
    /// use scheduled_events_core::{Notifications, ResourceKind};
    ///
    /// let body = br#"{"id":"/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourcegroups/db/providers/microsoft.compute/virtualmachines/db-1/providers/microsoft.maintenance/scheduledevents/743c15d8-a994-46fc-93af-b84ee33f9a14",
    ///     "type":"microsoft.maintenance/scheduledevents","properties":{"EventId":"743c15d8-a994-46fc-93af-b84ee33f9a14"}}"#;
    /// let notification = Notifications::parse(body)?.iter().next().unwrap();
    /// let resource = notification.resource()?;
    /// assert_eq!(resource.kind(), ResourceKind::VirtualMachine);
    /// assert!(resource.name() == "db-1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resource(&self) -> Result<ResourceId<'a>, ResourceIdError> {
        ResourceId::parse(self.resource_id)
    }

    /// The id of each machine that the event affects, in the order of its `Resources`: put together from the subscription
    /// and the resource group of [`resource_id`](Self::resource_id), and the name in `Resources`.
    ///
    /// # Errors
    /// [`ResourceIdError`] as [`resource`](Self::resource); and for each name that no machine can have.
    pub fn machines(
        &self,
    ) -> Result<
        impl Iterator<Item = Result<MachineId<'a>, ResourceIdError>> + use<'a>,
        ResourceIdError,
    > {
        let resource = self.resource()?;
        Ok(self
            .event
            .resources()
            .iter()
            .map(move |name| resource.machine(name)))
    }

    /// How far the event is: [`NotificationState::Advisory`] for [advice](Event::is_advice) that is not over, whatever its status.
    pub fn state(&self) -> NotificationState<'a> {
        let state = NotificationState::new(self.event.text(Member::EventStatus));
        if self.event.is_advice() && !state.is_end() {
            NotificationState::Advisory
        } else {
            state
        }
    }

    /// The event, with the members that it has in a document. Its [`index`](Event::index) is that of the message or row.
    pub const fn event(&self) -> &Event<'a> {
        &self.event
    }
}

impl fmt::Debug for Notification<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notification")
            .field("id", &self.id)
            .field("time", &self.time)
            .field("resource_id", &self.resource_id)
            .field("event", &self.event)
            .finish()
    }
}
