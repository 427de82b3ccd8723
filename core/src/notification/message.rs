//! Finds the notifications in the forms in which Azure writes them.
//!
//! The text was checked as JSON before. Each message is read member by member, then what its `data` holds: at most seven
//! times over the same bytes, whatever the message holds.

use super::cursor::{Batch, Message, NotificationCursor};
use super::object::{self, Member};
use super::{Notification, Notifications};
use crate::error::ParseError;
use crate::event::{EVENT_DEPTH, Event, NameBuffer};
use crate::json::{Quoted, Scanner, Text};
use crate::time::UnixMillis;

/// The event types of messages about Scheduled Events, case ignored. The older one has two spellings that differ in case.
const EVENT_TYPES: [&str; 2] = [
    "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted",
    "microsoft.maintenance/scheduledevents/write",
];

/// The type of the resource that an event is, case ignored.
const RESOURCE_TYPE: &str = "microsoft.maintenance/scheduledevents";

/// The provider of AKS, whose maintenance has the same event type.
const OTHER_PROVIDER: &str = "microsoft.containerservice";

/// What the id of every event contains, case ignored.
const EVENTS: &str = "scheduledevents";

const VALIDATION: &str = "Microsoft.EventGrid.SubscriptionValidationEvent";

/// What a message or a row is.
enum Item<'a> {
    Notification(Notification<'a>),
    /// It is not about an event of a machine.
    LeftOut,
    /// Event Grid asks whether the receiver wants its messages.
    Validation(Option<Text<'a>>),
}

impl<'a> Notifications<'a> {
    /// Returns the notification at `cursor` and moves the cursor to the next one, or returns `None` after the last one.
    ///
    /// This is [`iter`](Self::iter) for a caller that keeps the view and the position apart, such as a binding to another
    /// language.
    ///
    /// ```
    /// use scheduled_events_core::{NotificationCursor, Notifications};
    ///
    /// let row = r#"{"type":"microsoft.maintenance/scheduledevents","properties":{"EventId":"a"}}"#;
    /// let body = format!("[{row},{row}]");
    /// let notifications = Notifications::parse(body.as_bytes())?;
    /// let mut cursor = NotificationCursor::default();
    /// assert!(notifications.next_notification(&mut cursor).is_some());
    /// assert!(notifications.next_notification(&mut cursor).is_some());
    /// assert!(notifications.next_notification(&mut cursor).is_none());
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    pub fn next_notification(&self, cursor: &mut NotificationCursor) -> Option<Notification<'a>> {
        // The body was checked when it was parsed, so reading it again does not fail.
        while let Ok(Some(item)) = self.next_item(cursor) {
            if let Item::Notification(notification) = item {
                return Some(notification);
            }
        }
        None
    }

    /// Reads the whole body and counts what is in it.
    pub(super) fn count(&mut self) -> Result<(), ParseError> {
        let mut cursor = NotificationCursor::START;
        while let Some(item) = self.next_item(&mut cursor)? {
            match item {
                Item::Notification(_) => self.count = self.count.saturating_add(1),
                Item::LeftOut => self.left_out = self.left_out.saturating_add(1),
                Item::Validation(code) => {
                    self.left_out = self.left_out.saturating_add(1);
                    self.validation_code = self.validation_code.or(code);
                }
            }
        }
        Ok(())
    }

    /// The bracket of the rows if the body is an answer of Resource Graph.
    pub(super) fn rows(&self) -> Result<Option<usize>, ParseError> {
        let mut scanner = Scanner::new(self.text, self.at, 0);
        let [event_type, kind, data] = object::read(&mut scanner, &["eventType", "type", "data"])?;
        let rows =
            data.filter(|data| event_type.or(kind).is_none() && data.starts_with(self.text, b'['));
        Ok(rows.map(|rows| rows.at))
    }

    /// Reads what follows the cursor.
    #[inline(never)] // It has two callers.
    fn next_item(&self, cursor: &mut NotificationCursor) -> Result<Option<Item<'a>>, ParseError> {
        loop {
            if let Some(batch) = &mut cursor.batch {
                let index = cursor.index.saturating_sub(1);
                match self.next_of_batch(batch, index)? {
                    Some(item) => return Ok(Some(item)),
                    None => cursor.batch = None,
                }
            }
            let Some(mut scanner) = self.next_message(cursor)? else {
                return Ok(None);
            };
            let index = cursor.index;
            cursor.index = index.saturating_add(1);
            let item = if scanner.peek() == Some(b'{') {
                self.read_message(&mut scanner, index, &mut cursor.batch)?
            } else {
                scanner.value()?;
                Some(Item::LeftOut)
            };
            cursor.offset = scanner.offset();
            if item.is_some() {
                return Ok(item);
            }
        }
    }

    /// The scanner at the next message or row.
    fn next_message(&self, cursor: &NotificationCursor) -> Result<Option<Scanner<'a>>, ParseError> {
        let mut first = cursor.index == 0;
        if !self.is_list {
            return Ok(first.then(|| Scanner::new(self.text, self.at, 0)));
        }
        let mut scanner = Scanner::new(self.text, self.at, 0);
        if first {
            scanner.open_array()?;
        } else {
            scanner = Scanner::new(self.text, cursor.offset, 1);
        }
        Ok(scanner.next_element(&mut first)?.then_some(scanner))
    }

    /// Reads the message or row that starts here. `None` if what it holds is to be read as a batch.
    fn read_message(
        &self,
        scanner: &mut Scanner<'a>,
        index: usize,
        batch: &mut Option<Batch>,
    ) -> Result<Option<Item<'a>>, ParseError> {
        let names = [
            "id",
            "subject",
            "eventType",
            "type",
            "eventTime",
            "time",
            "data",
            "properties",
        ];
        let [
            id,
            subject,
            event_type,
            kind,
            event_time,
            time,
            data,
            properties,
        ] = object::read(scanner, &names)?;
        let word = self.text(event_type).or(self.text(kind));
        let is_word = |known: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(known));
        let message = Message {
            id: quoted(id),
            subject: quoted(subject),
            time: quoted(event_time).or(quoted(time)),
        };
        let data = data.filter(|data| data.starts_with(self.text, b'{'));
        if EVENT_TYPES.into_iter().any(is_word) {
            let Some(data) = data else {
                return Ok(Some(Item::LeftOut));
            };
            return self.read_data(message, data.at, index, batch);
        }
        if is_word(VALIDATION) {
            let Some(data) = data else {
                return Ok(Some(Item::LeftOut));
            };
            let [code] = object::read(
                &mut Scanner::new(self.text, data.at, 0),
                &["validationCode"],
            )?;
            return Ok(Some(Item::Validation(self.text(code))));
        }
        if is_word(RESOURCE_TYPE)
            || word.is_none() && self.text(id).is_some_and(|id| contains(&id, EVENTS))
        {
            let row = Message {
                id: None,
                subject: None,
                time: None,
            };
            return self
                .notification(row, self.text(id), None, properties, index)
                .map(Some);
        }
        Ok(Some(Item::LeftOut))
    }

    /// Reads the `data` of a message.
    fn read_data(
        &self,
        message: Message,
        at: usize,
        index: usize,
        batch: &mut Option<Batch>,
    ) -> Result<Option<Item<'a>>, ParseError> {
        let names = ["resourceInfo", "operationalInfo", "resources"];
        let [info, operation, resources] =
            object::read(&mut Scanner::new(self.text, at, 0), &names)?;
        if let Some(info) = info.filter(|info| info.starts_with(self.text, b'{')) {
            let mut changed = None;
            if let Some(operation) =
                operation.filter(|operation| operation.starts_with(self.text, b'{'))
            {
                [changed] = object::read(
                    &mut Scanner::new(self.text, operation.at, 0),
                    &["resourceEventTime"],
                )?;
            }
            return self
                .read_resource(message, info.at, changed, index)
                .map(Some);
        }
        let Some(resources) = resources.filter(|resources| resources.starts_with(self.text, b'['))
        else {
            return Ok(Some(Item::LeftOut));
        };
        let mut inside = Scanner::new(self.text, resources.at, 0);
        inside.open_array()?;
        if !inside.next_element(&mut true)? {
            return Ok(Some(Item::LeftOut));
        }
        *batch = Some(Batch {
            message,
            offset: resources.at,
            first: true,
        });
        Ok(None)
    }

    /// Reads the next resource of a message of 2023.
    fn next_of_batch(
        &self,
        batch: &mut Batch,
        index: usize,
    ) -> Result<Option<Item<'a>>, ParseError> {
        let mut scanner = Scanner::new(self.text, batch.offset, u32::from(!batch.first));
        if batch.first {
            scanner.open_array()?;
        }
        if !scanner.next_element(&mut batch.first)? {
            return Ok(None);
        }
        if scanner.peek() != Some(b'{') {
            scanner.value()?;
            batch.offset = scanner.offset();
            return Ok(Some(Item::LeftOut));
        }
        let names = ["resourceId", "armResource", "resourceEventTime"];
        let [id, resource, changed] = object::read(&mut scanner, &names)?;
        batch.offset = scanner.offset();
        let Some(resource) = resource.filter(|resource| resource.starts_with(self.text, b'{'))
        else {
            return Ok(Some(Item::LeftOut));
        };
        let message = Message {
            subject: quoted(id).or(batch.message.subject),
            ..batch.message
        };
        self.read_resource(message, resource.at, changed, index)
            .map(Some)
    }

    /// Reads the event as a resource of Azure Resource Manager: an object with `id`, `type` and `properties`.
    fn read_resource(
        &self,
        message: Message,
        at: usize,
        changed: Option<Member>,
        index: usize,
    ) -> Result<Item<'a>, ParseError> {
        let [id, kind, properties] = object::read(
            &mut Scanner::new(self.text, at, 0),
            &["id", "type", "properties"],
        )?;
        if self
            .text(kind)
            .is_some_and(|kind| !kind.eq_ignore_ascii_case(RESOURCE_TYPE))
        {
            return Ok(Item::LeftOut);
        }
        self.notification(
            message,
            self.text(id),
            self.text(changed),
            properties,
            index,
        )
    }

    /// Reads the event in `properties`. It is left out if it cannot be identified, or is not of a machine.
    #[inline(never)] // It has two callers.
    fn notification(
        &self,
        message: Message,
        id: Option<Text<'a>>,
        changed: Option<Text<'a>>,
        properties: Option<Member>,
        index: usize,
    ) -> Result<Item<'a>, ParseError> {
        let Some(properties) =
            properties.filter(|properties| properties.starts_with(self.text, b'{'))
        else {
            return Ok(Item::LeftOut);
        };
        let mut scanner = Scanner::new(self.text, properties.at, EVENT_DEPTH);
        let mut event = Event::unread(&scanner, index);
        event.read(&mut scanner, &mut NameBuffer::new(&mut []))?;
        let text = |quoted: Option<Quoted>| quoted.map(|quoted| scanner.quoted(quoted));
        let resource_id = id.or(text(message.subject)).unwrap_or(Text::plain(""));
        if !event.has_id() || contains(&resource_id, OTHER_PROVIDER) {
            return Ok(Item::LeftOut);
        }
        let time = changed
            .and_then(moment)
            .or(text(message.time).and_then(moment));
        Ok(Item::Notification(Notification {
            id: text(message.id),
            time,
            resource_id,
            event,
        }))
    }

    fn text(&self, member: Option<Member>) -> Option<Text<'a>> {
        Some(Scanner::new(self.text, 0, 0).quoted(member?.text?))
    }
}

fn quoted(member: Option<Member>) -> Option<Quoted> {
    member?.text
}

fn moment(text: Text<'_>) -> Option<UnixMillis> {
    text.copy_to(&mut [0; 64]).ok().and_then(UnixMillis::parse)
}

/// Whether the text contains these letters, case ignored.
fn contains(text: &Text<'_>, letters: &str) -> bool {
    let mut rest = text.raw().as_bytes();
    while let Some(start) = rest.get(..letters.len()) {
        if start.eq_ignore_ascii_case(letters.as_bytes()) {
            return true;
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    false
}
