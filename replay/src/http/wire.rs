//! Writes documents and refusals as the service does (`docs/inside/wire.md`, sections 1 and 2).

use std::mem;
use std::time::{Duration, SystemTime};

use crc::{CRC_32_ISO_HDLC, Crc, Table};
use scheduled_events_core::EventKind;
use serde::Serialize;
use serde_json::{Value, json};

use crate::fault::kind::EventMember;
use crate::timeline::document::{DocumentEvent, EventStatus, ReplayDocument};
use scheduled_events_core::api_version::{Feature, VERSIONS};
use scheduled_events_core::wire::{API_VERSION, UNDERSCORED_API_VERSION};

/// The checksum of gzip.
static CRC_32: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISO_HDLC);

/// A version of the Scheduled Events API. Versions are dates, so they compare as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ApiVersion(&'static str);

/// The versions that a service may have, oldest first.
fn all_versions() -> impl DoubleEndedIterator<Item = &'static str> {
    VERSIONS.iter().map(|(version, _)| *version)
}

/// The versions of `/metadata/instance`, from Microsoft's page about the Instance Metadata Service.
const INSTANCE_VERSIONS: [&str; 30] = [
    "2017-03-01",
    "2017-04-02",
    "2017-08-01",
    "2017-10-01",
    "2017-12-01",
    "2018-02-01",
    "2018-04-02",
    "2018-10-01",
    "2019-02-01",
    "2019-03-11",
    "2019-04-30",
    "2019-06-01",
    "2019-06-04",
    "2019-08-01",
    "2019-08-15",
    "2019-11-01",
    "2020-06-01",
    "2020-07-15",
    "2020-09-01",
    "2020-10-01",
    "2020-12-01",
    "2021-01-01",
    "2021-02-01",
    "2021-03-01",
    "2021-05-01",
    "2021-10-01",
    "2021-11-01",
    "2021-11-15",
    "2021-12-13",
    "2023-07-01",
];

impl ApiVersion {
    /// The newest version of a service by default.
    pub(crate) const STABLE: Self = Self(API_VERSION);

    /// The version of this name that some service has.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        all_versions().find(|known| *known == text).map(Self)
    }

    pub(crate) fn text(self) -> &'static str {
        self.0
    }

    /// All versions that some service has, for a message.
    pub(crate) fn list() -> String {
        all_versions().collect::<Vec<_>>().join(", ")
    }

    fn has(self, feature: Feature) -> bool {
        feature.is_in(self.0)
    }

    pub(crate) fn includes(self, event: &DocumentEvent) -> bool {
        if event.facts.is_advice() {
            return self.has(Feature::Events(EventKind::SpotRebalanceRecommendation));
        }
        match event.facts.event_type.as_str() {
            "Preempt" => self.has(Feature::Events(EventKind::Preempt)),
            "Terminate" => self.has(Feature::Events(EventKind::Terminate)),
            _ => true,
        }
    }
}

/// The version of `/metadata/instance` that the text names.
pub(crate) fn instance_version(text: &str) -> Option<&'static str> {
    INSTANCE_VERSIONS.into_iter().find(|known| *known == text)
}

/// Writes a document as compact JSON in the service's member order; time zero of the timeline is
/// `epoch`.
pub(crate) fn render(document: &ReplayDocument, version: ApiVersion, epoch: SystemTime) -> String {
    let events = document
        .events
        .iter()
        .filter(|event| version.includes(event));
    let body = WireDocument {
        incarnation: document.incarnation,
        events: events
            .map(|event| WireEvent::new(event, event.status(), version, epoch))
            .collect(),
    };
    // Serializing text, numbers and sequences does not fail.
    serde_json::to_string(&body).unwrap_or_default()
}

/// A name that no machine of a server has.
const ANOTHER_VM: &str = "another_vm";

/// A document whose events have these members in place of their own, and before each event, if `ids_repeat`, one of another
/// VM that has the same id. The order of the members changes, which means nothing in JSON.
pub(crate) fn with_invalid_members(
    document: &str,
    members: &[EventMember],
    ids_repeat: bool,
) -> String {
    let Ok(mut document) = serde_json::from_str::<Value>(document) else {
        return document.to_owned();
    };
    if let Some(Value::Array(events)) = document.get_mut("Events") {
        *events = mem::take(events)
            .into_iter()
            .flat_map(|mut event| {
                let before = ids_repeat.then(|| {
                    let mut other = event.clone();
                    other["Resources"] = json!([ANOTHER_VM]);
                    other
                });
                if let Value::Object(event) = &mut event {
                    for EventMember { name, value } in members {
                        match value {
                            Some(value) => event.insert(name.clone(), value.clone()),
                            None => event.remove(name),
                        };
                    }
                }
                before.into_iter().chain([event])
            })
            .collect();
    }
    document.to_string()
}

/// An event as it appears outside the machine, as JSON: the members of a document of the newest
/// version, a status that may be the end, and in a row of Resource Graph the id of the resource
/// that it belongs to.
pub(crate) fn properties(
    event: &DocumentEvent,
    status: EventStatus,
    epoch: SystemTime,
    target: Option<&str>,
) -> String {
    let event = WireEvent {
        target_resource_id: target,
        ..WireEvent::new(event, status, ApiVersion(API_VERSION), epoch)
    };
    // As above.
    serde_json::to_string(&event).unwrap_or_default()
}

/// A time of the timeline as wall time.
///
/// Formatting drops the fraction of a second, so that an event never starts before its published
/// `NotBefore`.
pub(crate) fn wall_time(epoch: SystemTime, offset: Duration) -> SystemTime {
    epoch.checked_add(offset).unwrap_or(epoch)
}

/// A time on a clock that is this many seconds ahead, or behind.
pub(crate) fn shifted(time: SystemTime, seconds: i32) -> SystemTime {
    let by = Duration::from_secs(u64::from(seconds.unsigned_abs()));
    let shifted = if seconds < 0 {
        time.checked_sub(by)
    } else {
        time.checked_add(by)
    };
    shifted.unwrap_or(time)
}

#[derive(Serialize)]
struct WireDocument<'a> {
    #[serde(rename = "DocumentIncarnation")]
    incarnation: u64,
    #[serde(rename = "Events")]
    events: Vec<WireEvent<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct WireEvent<'a> {
    event_id: &'a str,
    event_status: &'static str,
    event_type: &'a str,
    resource_type: &'static str,
    resources: Vec<String>,
    not_before: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_in_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_resource_id: Option<&'a str>,
}

impl<'a> WireEvent<'a> {
    fn new(
        event: &'a DocumentEvent,
        status: EventStatus,
        version: ApiVersion,
        epoch: SystemTime,
    ) -> Self {
        let facts = &event.facts;
        let prefix = if version.0 == UNDERSCORED_API_VERSION {
            "_"
        } else {
            ""
        };
        Self {
            event_id: &facts.event_id,
            event_status: status.word(),
            event_type: &facts.event_type,
            resource_type: "VirtualMachine",
            resources: facts
                .resources
                .iter()
                .map(|name| format!("{prefix}{name}"))
                .collect(),
            not_before: event
                .not_before
                .filter(|_| status == EventStatus::Scheduled)
                .map_or_else(String::new, |offset| {
                    httpdate::fmt_http_date(wall_time(epoch, offset))
                }),
            description: version
                .has(Feature::Description)
                .then_some(&*facts.description),
            event_source: version
                .has(Feature::EventSource)
                .then_some(&*facts.event_source),
            duration_in_seconds: version
                .has(Feature::DurationInSeconds)
                .then_some(facts.duration_in_seconds),
            target_resource_id: None,
        }
    }
}

/// The body of a 400 for a missing `Metadata` header, with the spaces of one captured in public.
pub(crate) const MISSING_HEADER: &str =
    "{ \"error\": \"Bad request: . Required metadata header not specified\" }";

/// The body of a 400 for a missing, repeated or unknown version of instance metadata.
pub(crate) fn bad_instance_version() -> String {
    bad_version(INSTANCE_VERSIONS.into_iter().rev())
}

/// The same for events, of a service whose newest version this is.
pub(crate) fn bad_events_version(newest: ApiVersion) -> String {
    bad_version(all_versions().rev().filter(|version| *version <= newest.0))
}

fn bad_version(versions: impl Iterator<Item = &'static str>) -> String {
    let newest: Vec<_> = versions.take(3).collect();
    written(&serde_json::json!({
        "error": "Bad request. api-version is invalid or was not specified in the request. \
                  For more information refer to aka.ms/azureimds",
        "newest-versions": newest,
    }))
}

/// The body of a refusal.
pub(crate) fn error_body(message: &str) -> String {
    written(&serde_json::json!({ "error": message }))
}

/// A value as JSON. Its `Display` would also link a writer with indentation.
pub(crate) fn written(value: &serde_json::Value) -> String {
    // A value cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

/// Wraps data in a gzip file without compressing it.
pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for block in data.chunks(usize::from(u16::MAX)) {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
    out.extend_from_slice(&CRC_32.checksum(data).to_le_bytes());
    // The format stores the length modulo 2^32.
    #[allow(clippy::cast_possible_truncation)]
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::scenario::ADVICE;
    use crate::timeline::document::EventFacts;

    fn document(event_type: &str, started: bool) -> ReplayDocument {
        let facts = EventFacts {
            event_id: "C7061BAC-AFDC-4513-B24B-AA5F13A16123".into(),
            event_type: event_type.into(),
            event_source: "Platform".into(),
            description: "A \"quoted\" text.".into(),
            duration_in_seconds: 5,
            resources: vec!["WestNO_0".into(), "WestNO_1".into()],
            is_advisory: event_type == ADVICE,
        };
        let not_before = (!started).then_some(Duration::from_millis(1500));
        ReplayDocument {
            incarnation: 2,
            events: vec![DocumentEvent {
                facts: Arc::new(facts),
                started,
                not_before,
            }],
        }
    }

    fn written(event_type: &str, started: bool, version: &str) -> String {
        let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(1_649_716_017);
        render(
            &document(event_type, started),
            ApiVersion::parse(version).expect(version),
            epoch,
        )
    }

    #[test]
    fn the_newest_version_has_every_member_in_the_order_of_the_service() {
        assert_eq!(
            written("Freeze", false, "2020-07-01"),
            r#"{"DocumentIncarnation":2,"Events":[{"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["WestNO_0","WestNO_1"],"NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","Description":"A \"quoted\" text.","EventSource":"Platform","DurationInSeconds":5}]}"#
        );
    }

    #[test]
    fn older_versions_omit_members_and_types() {
        let started = written("Freeze", true, "2017-03-01");
        assert!(
            started.ends_with(r#""Resources":["_WestNO_0","_WestNO_1"],"NotBefore":""}]}"#),
            "{started}"
        );
        for (version, description, source, duration) in [
            ("2017-08-01", false, false, false),
            ("2019-01-01", false, false, false),
            ("2019-04-01", true, false, false),
            ("2019-08-01", true, true, false),
            ("2020-07-01", true, true, true),
        ] {
            let text = written("Freeze", false, version);
            assert!(text.contains("[\"WestNO_0\""), "{version}");
            assert_eq!(text.contains("Description"), description, "{version}");
            assert_eq!(text.contains("EventSource"), source, "{version}");
            assert_eq!(text.contains("DurationInSeconds"), duration, "{version}");
        }
        for (event_type, hidden, shown) in [
            ("Preempt", "2017-08-01", "2017-11-01"),
            ("Terminate", "2017-11-01", "2019-01-01"),
            (ADVICE, "2020-07-01", "2024-07-09"),
        ] {
            assert!(written(event_type, false, hidden).ends_with("\"Events\":[]}"));
            assert!(written(event_type, false, shown).contains(event_type));
        }
    }

    #[test]
    fn parses_only_known_versions() {
        assert_eq!(ApiVersion::parse("2020-07-02"), None);
        assert_eq!(ApiVersion::parse(""), None);
        assert!(
            instance_version("2021-02-01").is_some() && instance_version("2021-02-02").is_none()
        );
        assert!(
            bad_events_version(ApiVersion::STABLE)
                .ends_with(r#""newest-versions":["2020-07-01","2019-08-01","2019-04-01"]}"#)
        );
        let preview = ApiVersion::parse("2024-07-09").expect("known");
        assert!(
            bad_events_version(preview)
                .ends_with(r#""newest-versions":["2024-07-09","2020-07-01","2019-08-01"]}"#)
        );
        assert!(INSTANCE_VERSIONS.is_sorted());
    }

    #[test]
    fn gzip_stores_the_data() {
        // `curl --compressed` accepts the file.
        let packed = gzip(b"ab");
        assert_eq!(packed[10..17], [0, 2, 0, 0xfd, 0xff, b'a', b'b']);
        assert_eq!(packed.len(), 10 + 7 + 5 + 8);
        assert_eq!(packed[packed.len() - 4..], [2, 0, 0, 0]);
    }
}
