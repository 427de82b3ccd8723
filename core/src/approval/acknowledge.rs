//! The request that approves events outside the machine.

use core::fmt;

use super::WriteDecoded;
use crate::error::BufferTooSmall;
use crate::json::Text;
use crate::notification::{PROVIDER, ResourceId, is_guid};
use crate::slice_writer::SliceWriter;

/// The API version of the request: in preview.
pub const ACKNOWLEDGE_API_VERSION: &str = "2025-10-01-preview";

/// The request to Azure Resource Manager that approves one event, or several of one resource.
///
/// It counts as an approval inside the machine does: it lets Azure start the events early, **for all their resources**. The
/// path follows `https://management.azure.com`, or the address of another cloud. Nothing can get into it but a GUID as
/// subscription and event, and names that ARM accepts; letters beyond ASCII are percent-encoded.
///
/// ```
/// use scheduled_events_core::approval::{AcknowledgeError, acknowledge};
/// use scheduled_events_core::{ResourceId, Text};
///
/// let resource = "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/web/providers/Microsoft.Compute/virtualMachines/db";
/// let resource = ResourceId::parse(Text::plain(resource))?;
/// let ids = ["743c15d8-a994-46fc-93af-b84ee33f9a14"];
/// let request = acknowledge(resource, &ids)?;
/// let mut path = [0; 400];
/// assert_eq!(request.method(), "POST");
/// assert_eq!(request.write_path(&mut path)?, "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourcegroups/web\
///     /providers/Microsoft.Compute/virtualMachines/db/providers/Microsoft.Maintenance/scheduledevents\
///     /743c15d8-a994-46fc-93af-b84ee33f9a14/acknowledge?api-version=2025-10-01-preview");
/// assert_eq!(request.body_len(), 0); // one event has no body
///
/// // A list has one.
/// let ids = ["743c15d8-a994-46fc-93af-b84ee33f9a14", "3da1b9aa-5204-4335-8c33-c54e315dcffe"];
/// let mut body = [0; 100];
/// let length = acknowledge(resource, &ids)?.write_body(&mut body)?;
/// assert_eq!(&body[..length], br#"{"value":["743c15d8-a994-46fc-93af-b84ee33f9a14","3da1b9aa-5204-4335-8c33-c54e315dcffe"]}"#);
///
/// assert_eq!(acknowledge(resource, &["../../delete"]).unwrap_err(), AcknowledgeError::EventId { index: 0 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`AcknowledgeError`] if there is no event, or an id is not a GUID.
pub fn acknowledge<'a, Id: WriteDecoded>(
    resource: ResourceId<'a>,
    event_ids: &'a [Id],
) -> Result<AcknowledgeRequest<'a, Id>, AcknowledgeError> {
    if event_ids.is_empty() {
        return Err(AcknowledgeError::NoEvent);
    }
    match event_ids.iter().position(|id| guid(id).is_none()) {
        Some(index) => Err(AcknowledgeError::EventId { index }),
        None => Ok(AcknowledgeRequest {
            resource,
            event_ids,
        }),
    }
}

/// The request that [`acknowledge`] makes.
///
/// ```
/// use scheduled_events_core::approval::acknowledge;
/// use scheduled_events_core::{ResourceId, Text};
///
/// let set = "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/web/providers/Microsoft.Compute/virtualMachineScaleSets/front";
/// let ids = ["743c15d8-a994-46fc-93af-b84ee33f9a14", "3da1b9aa-5204-4335-8c33-c54e315dcffe"];
/// let request = acknowledge(ResourceId::parse(Text::plain(set))?, &ids)?;
/// let (mut path, mut body) = (vec![0; request.path_len()], vec![0; request.body_len()]);
/// request.write_body(&mut body)?;
/// let line = format!("{} {}", request.method(), request.write_path(&mut path)?);
/// assert!(line.ends_with("/front/providers/Microsoft.Maintenance/scheduledevents?api-version=2025-10-01-preview"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AcknowledgeRequest<'a, Id> {
    resource: ResourceId<'a>,
    /// GUIDs.
    event_ids: &'a [Id],
}

impl<Id: WriteDecoded> AcknowledgeRequest<'_, Id> {
    /// The method.
    pub const fn method(&self) -> &'static str {
        "POST"
    }

    /// Writes the path and the query to the front of `buffer`.
    ///
    /// # Errors
    /// [`BufferTooSmall`] with the number of bytes needed.
    pub fn write_path<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b str, BufferTooSmall> {
        let mut writer = SliceWriter::new(buffer);
        self.path(&mut writer);
        // It is ASCII.
        writer
            .written()
            .map(|path| core::str::from_utf8(path).unwrap_or_default())
    }

    /// The length of the path and the query in bytes.
    pub fn path_len(&self) -> usize {
        let mut writer = SliceWriter::new(&mut []);
        self.path(&mut writer);
        writer.length()
    }

    /// Writes the body to the front of `buffer` and returns its length in bytes: 0 for one event. A body is JSON, so that its
    /// `Content-Type` is `application/json`.
    ///
    /// # Errors
    /// [`BufferTooSmall`] with the number of bytes needed.
    pub fn write_body(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let mut writer = SliceWriter::new(buffer);
        self.body(&mut writer);
        writer.written().map(<[u8]>::len)
    }

    /// The length of the body in bytes: 0 for one event.
    pub fn body_len(&self) -> usize {
        let mut writer = SliceWriter::new(&mut []);
        self.body(&mut writer);
        writer.length()
    }

    fn path(&self, writer: &mut SliceWriter<'_>) {
        let resource = &self.resource;
        for (before, name) in [
            ("/subscriptions/", resource.subscription()),
            ("/resourcegroups/", resource.resource_group()),
            ("/providers/", Text::plain(PROVIDER)),
            ("/", Text::plain(resource.kind().word())),
            ("/", resource.name()),
        ] {
            writer.bytes(before.as_bytes());
            write_encoded(writer, name);
        }
        writer.bytes(b"/providers/Microsoft.Maintenance/scheduledevents");
        if let [id] = self.event_ids {
            writer.byte(b'/');
            writer.bytes(&guid(id).unwrap_or([0; GUID_LENGTH]));
            writer.bytes(b"/acknowledge");
        }
        writer.bytes(b"?api-version=");
        writer.bytes(ACKNOWLEDGE_API_VERSION.as_bytes());
    }

    fn body(&self, writer: &mut SliceWriter<'_>) {
        if self.event_ids.len() == 1 {
            return;
        }
        writer.bytes(br#"{"value":["#);
        let mut separator: &[u8] = b"\"";
        for id in self.event_ids {
            writer.bytes(separator);
            writer.bytes(&guid(id).unwrap_or([0; GUID_LENGTH]));
            separator = br#"",""#;
        }
        writer.bytes(br#""]}"#);
    }
}

/// Writes a name of a resource, whose ASCII characters need no encoding.
fn write_encoded(writer: &mut SliceWriter<'_>, name: Text<'_>) {
    for char in name.chars() {
        for &byte in char.encode_utf8(&mut [0; 4]).as_bytes() {
            if byte.is_ascii() {
                writer.byte(byte);
            } else {
                let digit = |bits: u8| crate::fixed_str::hex_digit(bits).to_ascii_uppercase();
                writer.bytes(&[b'%', digit(byte >> 4), digit(byte)]);
            }
        }
    }
}

const GUID_LENGTH: usize = 36;

/// A GUID without braces.
type Guid = [u8; GUID_LENGTH];

/// The id as a GUID; `None` if it is none.
fn guid(id: &impl WriteDecoded) -> Option<Guid> {
    let mut guid = [0; GUID_LENGTH];
    let mut length: usize = 0;
    id.write_decoded(|part| {
        for byte in part.bytes() {
            if let Some(place) = guid.get_mut(length) {
                *place = byte;
            }
            length = length.saturating_add(1);
        }
    });
    let text = core::str::from_utf8(&guid).ok()?;
    (length == GUID_LENGTH && is_guid(&Text::plain(text))).then_some(guid)
}

/// Why there is no request.
///
/// ```
/// use scheduled_events_core::approval::AcknowledgeError;
///
/// let error = AcknowledgeError::EventId { index: 1 };
/// assert_eq!(error.to_string(), "the id of event 2 is not a GUID: send the ids as notifications and documents have them");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcknowledgeError {
    /// The list of events is empty.
    NoEvent,
    /// An id is not a GUID.
    EventId {
        /// Its index in the list.
        index: usize,
    },
}

impl fmt::Display for AcknowledgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEvent => f.write_str("there is no event to approve: expected at least one id"),
            Self::EventId { index } => {
                let number = index.saturating_add(1);
                write!(
                    f,
                    "the id of event {number} is not a GUID: send the ids as notifications and documents have them"
                )
            }
        }
    }
}

impl core::error::Error for AcknowledgeError {}
