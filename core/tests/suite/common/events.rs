//! Events, written into documents.

use scheduled_events_core::{EventId, Text, UnixSeconds};

use super::{START, VM};

/// An event to write into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub id: String,
    pub event_type: Option<&'static str>,
    pub status: Option<&'static str>,
    pub resources: Vec<&'static str>,
    /// Seconds after [`START`].
    pub not_before: Option<i64>,
    pub source: Option<&'static str>,
    pub duration: Option<i64>,
    /// A member that is written with a value of the wrong type.
    pub invalid: Option<&'static str>,
}

/// A reboot of this machine by the platform, scheduled for 15 minutes after [`START`].
pub fn event(id: &str) -> Spec {
    Spec {
        id: id.to_owned(),
        event_type: Some("Reboot"),
        status: Some("Scheduled"),
        resources: vec![VM],
        not_before: Some(900),
        source: Some("Platform"),
        duration: None,
        invalid: None,
    }
}

impl Spec {
    pub fn event_type(self, event_type: &'static str) -> Self {
        Self {
            event_type: Some(event_type),
            ..self
        }
    }

    pub fn status(self, status: &'static str) -> Self {
        Self {
            status: Some(status),
            ..self
        }
    }

    pub fn started(self) -> Self {
        Self {
            not_before: None,
            ..self.status("Started")
        }
    }

    pub fn resources(self, resources: &[&'static str]) -> Self {
        Self {
            resources: resources.to_vec(),
            ..self
        }
    }

    pub fn not_before(self, seconds: i64) -> Self {
        Self {
            not_before: Some(seconds),
            ..self
        }
    }

    pub fn source(self, source: &'static str) -> Self {
        Self {
            source: Some(source),
            ..self
        }
    }

    pub fn duration(self, seconds: i64) -> Self {
        Self {
            duration: Some(seconds),
            ..self
        }
    }

    pub fn invalid(self, member: &'static str) -> Self {
        Self {
            invalid: Some(member),
            ..self
        }
    }

    /// Whether `Resources` names one of these machines.
    pub fn names(&self, names: &[&str]) -> bool {
        self.invalid != Some("Resources")
            && self
                .resources
                .iter()
                .any(|resource| names.contains(resource))
    }

    /// Whether the event has no final status.
    pub fn is_open(&self) -> bool {
        self.invalid == Some("EventStatus")
            || !matches!(self.status, Some("Completed" | "Canceled"))
    }

    pub fn is_scheduled(&self) -> bool {
        self.invalid != Some("EventStatus") && self.status == Some("Scheduled")
    }

    /// Whether it is advice, by its type or its status.
    pub fn is_advice(&self) -> bool {
        let is_type = self.event_type == Some("SpotRebalanceRecommendation");
        is_type && self.invalid != Some("EventType")
            || self.status == Some("Advisory") && self.invalid != Some("EventStatus")
    }

    fn wire_id(&self) -> String {
        if self.invalid == Some("EventId") {
            self.id.repeat(80)
        } else {
            self.id.clone()
        }
    }

    /// The id as a session keeps it.
    pub fn tracked_id(&self) -> String {
        EventId::new(&Text::plain(&self.wire_id()))
            .as_str()
            .to_owned()
    }

    fn json(&self) -> String {
        let mut members = vec![format!(r#""EventId":"{}""#, self.wire_id())];
        let mut member = |name: &str, value: Option<String>| {
            if self.invalid == Some(name) {
                members.push(format!(r#""{name}":{{"wrong":true}}"#));
            } else if let Some(value) = value {
                members.push(format!(r#""{name}":{value}"#));
            }
        };
        let quoted = |word: Option<&str>| word.map(|word| format!(r#""{word}""#));
        member("EventStatus", quoted(self.status));
        member("EventType", quoted(self.event_type));
        let names: Vec<_> = self
            .resources
            .iter()
            .map(|name| format!(r#""{name}""#))
            .collect();
        member("Resources", Some(format!("[{}]", names.join(","))));
        let not_before = self
            .not_before
            .map(|seconds| UnixSeconds(START.seconds().0 + seconds).to_string());
        member(
            "NotBefore",
            Some(format!(r#""{}""#, not_before.unwrap_or_default())),
        );
        member("EventSource", quoted(self.source));
        member(
            "DurationInSeconds",
            self.duration.map(|seconds| seconds.to_string()),
        );
        format!("{{{}}}", members.join(","))
    }
}

/// A document of these events.
pub fn document(incarnation: u64, events: &[Spec]) -> String {
    let events: Vec<_> = events.iter().map(Spec::json).collect();
    format!(
        r#"{{"DocumentIncarnation":{incarnation},"Events":[{}]}}"#,
        events.join(",")
    )
}
