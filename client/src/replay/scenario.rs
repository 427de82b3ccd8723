//! Scenarios: what happens to a VM, as a TOML file.
//!
//! A scenario is a list of events and their timing. For example:
//!
//! ```
//! use scheduled_events::replay::Scenario;
//!
//! let scenario = Scenario::parse(
//!     r#"
//!     about = "Maintenance of the host pauses this VM for nine seconds."
//!
//!     [[event]]
//!     event_type = "Freeze"
//!     description = "Host server is undergoing maintenance."
//!     duration_in_seconds = 9
//!     appears = "10s"       # after the first document
//!     notice = "15min"      # from appearing to NotBefore
//!     started_for = "10min" # from Started to its end
//!     "#,
//! )?;
//! assert_eq!(scenario.events[0].resources, ["{vm}"]);
//! # Ok::<(), scheduled_events::replay::ScenarioError>(())
//! ```
//!
//! | Member of `[[event]]` | Default | Meaning |
//! |---|---|---|
//! | `event_type` | none, required | `Freeze`, `Reboot`, `Redeploy`, `Preempt`, `Terminate`, or any other word |
//! | `event_source` | `Platform` | `Platform`, `User`, or any other word |
//! | `description` | empty | |
//! | `duration_in_seconds` | -1 | -1: unknown, 0: no interruption |
//! | `resources` | `["{vm}"]` | names with the placeholders `{vm}`, `{peer:N}`, `{peer:index}`, `{index}` |
//! | `count` | 1 | the number of such events; `{index}` is the number of the copy |
//! | `appears` | `0s` | after the first document |
//! | `notice` | by type | from appearing to `NotBefore` |
//! | `starts_after_approval` | `5s` | from the approval to Started, at the latest at `NotBefore` |
//! | `started_for` | `10min` | from Started to the end of the event |
//! | `cancelled_after` | never | cancelled that long after appearing, unless it is Started |
//! | `reschedule` | never | `{ after = "5min", notice = "15min" }`: a new `NotBefore` |
//! | `without_notice` | false | true: the event appears as Started |
//! | `approval_group` | none | the events of a group start early only when all of them are approved |
//!
//! The top level has `about`, `first_incarnation` (default 1) and the optional
//! `incarnation_reset = { after = "2min", to = 1 }`.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer};
use toml::Spanned;

use super::names;
use crate::suggest::nearest;

/// The most events in a scenario, including copies by `count`.
///
/// A placement group has at most 1000 VMs, so a document may have that many events (`docs/wire.md`, section 2).
pub const MAX_EVENTS: u32 = 1000;

/// The most names in `resources` of an event.
pub const MAX_RESOURCES: usize = 1000;

/// The longest duration in a scenario: 366 days.
pub const MAX_DURATION: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// What happens to the VMs of one document, from the first document to the end of the last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// A sentence for a reader who does not know Scheduled Events.
    pub about: String,
    /// `DocumentIncarnation` of the first document.
    pub first_incarnation: u64,
    /// When the incarnation starts again, as it may after 24 hours without a request (`docs/wire.md`, section 1).
    pub incarnation_reset: Option<IncarnationReset>,
    /// The events in document order, without copies by `count`.
    pub events: Vec<EventScript>,
}

/// A restart of `DocumentIncarnation`. The events stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncarnationReset {
    /// After the first document.
    pub after: Duration,
    /// The new incarnation.
    pub to: u64,
}

/// An event and its timing. All durations are at speed 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventScript {
    /// `EventType`.
    pub event_type: String,
    /// `EventSource`.
    pub event_source: String,
    /// `Description`, may be empty.
    pub description: String,
    /// `DurationInSeconds`; -1 is unknown.
    pub duration_in_seconds: i64,
    /// `Resources`, with placeholders.
    pub resources: Vec<String>,
    /// The number of such events.
    pub count: u32,
    /// From the first document to the first one with the event.
    pub appears: Duration,
    /// From appearing to `NotBefore`.
    pub notice: Duration,
    /// From the approval to Started.
    pub starts_after_approval: Duration,
    /// From Started to the end of the event.
    pub started_for: Duration,
    /// From appearing to a cancellation by Azure.
    pub cancelled_after: Option<Duration>,
    /// A change of `NotBefore`.
    pub reschedule: Option<Reschedule>,
    /// The event appears as Started, as after a hardware failure.
    pub without_notice: bool,
    /// The events of a group start early only when all of them are approved.
    pub approval_group: Option<String>,
}

/// A new `NotBefore` for a Scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reschedule {
    /// From appearing to the change.
    pub after: Duration,
    /// From the change to the new `NotBefore`.
    pub notice: Duration,
}

/// Why a text is not a scenario, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    line: usize,
    column: usize,
    message: String,
}

impl Scenario {
    /// Reads a scenario from TOML.
    ///
    /// # Errors
    ///
    /// Text that is not TOML, unknown members, values out of range, and members that contradict each other. The
    /// error has the line and column:
    ///
    /// ```
    /// use scheduled_events::replay::Scenario;
    ///
    /// let error = Scenario::parse("about = \"A test.\"\n[[event]]\nevent_typ = \"Freeze\"\n").unwrap_err();
    /// assert_eq!((error.line(), error.column()), (3, 1));
    /// assert!(error.message().contains("did you mean `event_type`"));
    /// ```
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let raw: RawScenario = toml::from_str(text).map_err(|error| {
            let message = with_suggestion(error.message());
            ScenarioError::at(text, error.span().map_or(0, |span| span.start), message)
        })?;
        raw.check().map_err(|(span, message)| ScenarioError::at(text, span.start, message))
    }
}

impl ScenarioError {
    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column in characters, from 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// What is wrong and how to correct it, without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    fn at(text: &str, offset: usize, message: String) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.bytes().filter(|&b| b == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ScenarioError {}

/// The minimum notice of an event type (`docs/wire.md`, section 3); for unknown types, the longest one.
fn default_notice(event_type: &str) -> Duration {
    Duration::from_secs(match event_type {
        "Preempt" => 30,
        "Terminate" => 5 * 60,
        "Redeploy" => 10 * 60,
        _ => 15 * 60,
    })
}

/// The position and the message of an error.
type CheckError = (Range<usize>, String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    about: Spanned<String>,
    #[serde(default = "one")]
    first_incarnation: u64,
    incarnation_reset: Option<RawReset>,
    event: Spanned<Vec<Spanned<RawEvent>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReset {
    after: DurationText,
    to: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEvent {
    event_type: Spanned<String>,
    event_source: Option<Spanned<String>>,
    #[serde(default)]
    description: String,
    duration_in_seconds: Option<Spanned<i64>>,
    resources: Option<Spanned<Vec<Spanned<String>>>>,
    count: Option<Spanned<u32>>,
    appears: Option<DurationText>,
    notice: Option<Spanned<DurationText>>,
    starts_after_approval: Option<Spanned<DurationText>>,
    started_for: Option<DurationText>,
    cancelled_after: Option<Spanned<DurationText>>,
    reschedule: Option<Spanned<RawReschedule>>,
    #[serde(default)]
    without_notice: bool,
    approval_group: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReschedule {
    after: DurationText,
    notice: DurationText,
}

/// A duration as text, such as `15min`.
#[derive(Clone, Copy)]
struct DurationText(Duration);

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DurationVisitor;
        impl de::Visitor<'_> for DurationVisitor {
            type Value = DurationText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration in quotes, such as \"15min\", \"30s\" or \"500ms\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<DurationText, E> {
                let duration = humantime::parse_duration(text).map_err(|error| {
                    E::custom(format_args!(
                        "`{text}` is not a duration ({error}): write one such as \"15min\", \"30s\" or \"500ms\""
                    ))
                })?;
                if duration > MAX_DURATION {
                    return Err(E::custom(format_args!("`{text}` is longer than 366 days: write a shorter duration")));
                }
                Ok(DurationText(duration))
            }
        }
        deserializer.deserialize_str(DurationVisitor)
    }
}

fn one() -> u64 {
    1
}

impl RawScenario {
    fn check(self) -> Result<Scenario, CheckError> {
        let about = self.about.as_ref().trim();
        if about.is_empty() {
            return Err((self.about.span(), "`about` is empty: describe in one sentence what happens".to_owned()));
        }
        if self.event.as_ref().is_empty() {
            return Err((self.event.span(), "the scenario has no events: add an [[event]] table".to_owned()));
        }
        let mut total: u32 = 0;
        let mut events = Vec::with_capacity(self.event.as_ref().len());
        for event in self.event.into_inner() {
            let span = event.span();
            let event = event.into_inner().check()?;
            total = total.saturating_add(event.count);
            if total > MAX_EVENTS {
                return Err((span, format!("more than {MAX_EVENTS} events: lower a `count` or remove events")));
            }
            events.push(event);
        }
        Ok(Scenario {
            about: about.to_owned(),
            first_incarnation: self.first_incarnation,
            incarnation_reset: self
                .incarnation_reset
                .map(|reset| IncarnationReset { after: reset.after.0, to: reset.to }),
            events,
        })
    }
}

impl RawEvent {
    fn check(self) -> Result<EventScript, CheckError> {
        self.check_words()?;
        self.check_timing()?;
        let count = self.count.as_ref().map_or(1, |count| *count.as_ref());
        let resources = self.checked_resources(count)?;
        let event_type = self.event_type.into_inner();
        Ok(EventScript {
            notice: self.notice.map_or_else(|| default_notice(&event_type), |notice| notice.into_inner().0),
            event_source: self.event_source.map_or_else(|| "Platform".to_owned(), Spanned::into_inner),
            description: self.description,
            duration_in_seconds: self.duration_in_seconds.map_or(-1, Spanned::into_inner),
            resources,
            count,
            appears: self.appears.map_or(Duration::ZERO, |appears| appears.0),
            starts_after_approval: self
                .starts_after_approval
                .map_or(Duration::from_secs(5), |delay| delay.into_inner().0),
            started_for: self.started_for.map_or(Duration::from_secs(600), |span| span.0),
            cancelled_after: self.cancelled_after.map(|after| after.into_inner().0),
            reschedule: self.reschedule.map(|reschedule| {
                let RawReschedule { after, notice } = reschedule.into_inner();
                Reschedule { after: after.0, notice: notice.0 }
            }),
            without_notice: self.without_notice,
            approval_group: self.approval_group.map(Spanned::into_inner),
            event_type,
        })
    }

    fn check_words(&self) -> Result<(), CheckError> {
        let words =
            [Some(("event_type", &self.event_type)), self.event_source.as_ref().map(|word| ("event_source", word))];
        for (member, word) in words.into_iter().flatten() {
            if word.as_ref().is_empty() {
                return Err((
                    word.span(),
                    format!("`{member}` is empty: write a word such as \"Freeze\" or \"Platform\""),
                ));
            }
        }
        if let Some(duration) = &self.duration_in_seconds
            && *duration.as_ref() < -1
        {
            return Err((
                duration.span(),
                "duration below -1: write -1 for unknown, 0 for no interruption, or a number of seconds".to_owned(),
            ));
        }
        Ok(())
    }

    /// Rejects members that contradict each other, so that every member has an effect.
    fn check_timing(&self) -> Result<(), CheckError> {
        if self.without_notice {
            let without_effect = [
                self.notice.as_ref().map(|it| ("notice", it.span())),
                self.starts_after_approval.as_ref().map(|it| ("starts_after_approval", it.span())),
                self.cancelled_after.as_ref().map(|it| ("cancelled_after", it.span())),
                self.reschedule.as_ref().map(|it| ("reschedule", it.span())),
                self.approval_group.as_ref().map(|it| ("approval_group", it.span())),
            ];
            if let Some((member, span)) = without_effect.into_iter().flatten().next() {
                return Err((
                    span,
                    format!(
                        "an event `without_notice` is never Scheduled, so `{member}` has no effect: remove one of the two"
                    ),
                ));
            }
            return Ok(());
        }
        let notice =
            self.notice.as_ref().map_or_else(|| default_notice(self.event_type.as_ref()), |notice| notice.as_ref().0);
        if let Some(reschedule) = &self.reschedule
            && reschedule.as_ref().after.0 >= notice
        {
            return Err((
                reschedule.span(),
                "the event starts at NotBefore, before it is rescheduled: make `after` shorter than `notice`"
                    .to_owned(),
            ));
        }
        if let Some(cancelled) = &self.cancelled_after {
            let last_notice = self.reschedule.as_ref().map_or(notice, |it| it.as_ref().after.0 + it.as_ref().notice.0);
            if cancelled.as_ref().0 >= last_notice {
                return Err((
                    cancelled.span(),
                    "the event starts at NotBefore, before it is cancelled: make `cancelled_after` shorter than `notice`".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn checked_resources(&self, count: u32) -> Result<Vec<String>, CheckError> {
        if let Some(count) = &self.count
            && !(1..=MAX_EVENTS).contains(count.as_ref())
        {
            return Err((count.span(), format!("`count` must be between 1 and {MAX_EVENTS}")));
        }
        let Some(resources) = &self.resources else {
            if let Some(span) = self.count.as_ref().map(Spanned::span)
                && count > 1
            {
                return Err((span, "all copies name the same VM: write `resources = [\"{peer:index}\"]`".to_owned()));
            }
            return Ok(vec!["{vm}".to_owned()]);
        };
        let names = resources.as_ref();
        if names.len() > MAX_RESOURCES {
            return Err((resources.span(), format!("more than {MAX_RESOURCES} names: remove some")));
        }
        for name in names {
            if name.as_ref().is_empty() {
                return Err((name.span(), "empty name: write \"{vm}\", \"{peer:1}\" or a VM's name".to_owned()));
            }
            if let Some(unknown) = names::unknown_placeholder(name.as_ref()) {
                return Err((
                    name.span(),
                    format!(
                        "unknown placeholder `{unknown}`: use {{vm}}, {{peer:N}} with a number, {{peer:index}} or {{index}}"
                    ),
                ));
            }
        }
        if count > 1 && !names.iter().any(|name| names::depends_on_index(name.as_ref())) {
            return Err((
                resources.span(),
                "all copies name the same VMs: use {peer:index} or {index} in a name".to_owned(),
            ));
        }
        Ok(names.iter().map(|name| name.as_ref().clone()).collect())
    }
}

/// Adds the nearest known name to serde's error about an unknown one.
fn with_suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field")
        && let Some(unknown) = quoted.next()
        && let Some(nearest) = nearest(unknown, quoted)
    {
        return format!("unknown member `{unknown}`: did you mean `{nearest}`? ({message})");
    }
    if message.starts_with("missing field `event`") {
        return "the scenario has no events: add an [[event]] table".to_owned();
    }
    if message.starts_with("missing field") {
        return format!("{message}: add it");
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> (usize, usize, String) {
        let error = Scenario::parse(text).expect_err(text);
        (error.line(), error.column(), error.message().to_owned())
    }

    fn event(members: &str) -> String {
        format!("about = \"A test.\"\n[[event]]\nevent_type = \"Freeze\"\n{members}\n")
    }

    #[test]
    fn the_default_notice_is_the_documented_minimum() {
        for (event_type, seconds) in
            [("Freeze", 900), ("Reboot", 900), ("Redeploy", 600), ("Preempt", 30), ("Terminate", 300), ("Unknown", 900)]
        {
            let text = format!("about = \"A test.\"\n[[event]]\nevent_type = \"{event_type}\"\n");
            let scenario = Scenario::parse(&text).expect(event_type);
            let event = &scenario.events[0];
            assert_eq!(event.notice, Duration::from_secs(seconds), "{event_type}");
            assert_eq!((event.duration_in_seconds, event.count), (-1, 1));
            assert_eq!((event.event_source.as_str(), event.description.as_str()), ("Platform", ""));
            assert_eq!((event.appears, event.started_for), (Duration::ZERO, Duration::from_secs(600)));
        }
    }

    #[test]
    fn parses_every_member() {
        let scenario = Scenario::parse(
            r#"
            about = "All of it."
            first_incarnation = 279
            incarnation_reset = { after = "2min", to = 1 }
            [[event]]
            event_type = "Terminate"
            event_source = "User"
            description = "text"
            duration_in_seconds = 0
            resources = ["{peer:index}", "other"]
            count = 3
            appears = "1s"
            notice = "10min"
            starts_after_approval = "0s"
            started_for = "500ms"
            cancelled_after = "6min"
            reschedule = { after = "5min", notice = "15min" }
            approval_group = "g"
            [[event]]
            event_type = "Reboot"
            without_notice = true
            "#,
        )
        .expect("valid");
        assert_eq!(scenario.first_incarnation, 279);
        assert_eq!(scenario.incarnation_reset, Some(IncarnationReset { after: Duration::from_secs(120), to: 1 }));
        let event = &scenario.events[0];
        assert_eq!((event.count, event.started_for), (3, Duration::from_millis(500)));
        assert_eq!(event.reschedule.map(|it| it.notice), Some(Duration::from_secs(900)));
        assert_eq!(event.cancelled_after, Some(Duration::from_secs(360)));
        assert_eq!(event.approval_group.as_deref(), Some("g"));
        assert!(scenario.events[1].without_notice);
    }

    #[test]
    fn errors_have_line_column_and_advice() {
        let cases: &[(&str, (usize, usize), &str)] = &[
            ("about = \"A test.\"\n", (1, 1), "add an [[event]]"),
            ("about = \"A test.\"\nevent = []\n", (2, 9), "add an [[event]]"),
            ("[[event]]\nevent_type = \"Freeze\"\n", (1, 1), "missing field `about`: add it"),
            ("about = \"  \"\n[[event]]\nevent_type = \"Freeze\"\n", (1, 9), "one sentence"),
            ("about = \"x\"\n[[event]]\n", (2, 1), "missing field `event_type`: add it"),
            ("about = \"x\n", (1, 11), ""),
            (&event("notise = \"1s\""), (4, 1), "did you mean `notice`?"),
            (&event("notice = 15"), (4, 10), "a duration in quotes, such as \"15min\""),
            (&event("notice = \"15 parsecs\""), (4, 10), "write one such as \"15min\""),
            (&event("notice = \"2years\""), (4, 10), "longer than 366 days"),
            (&event("without_notice = true\nnotice = \"1s\""), (5, 10), "`notice` has no effect"),
            (&event("cancelled_after = \"15min\""), (4, 19), "make `cancelled_after` shorter"),
            (&event("reschedule = { after = \"1h\", notice = \"1h\" }"), (4, 14), "make `after` shorter"),
            (&event("resources = [\"{vm}\", \"{pear:1}\"]"), (4, 22), "unknown placeholder `{pear:1}`"),
            (&event("resources = [\"\"]"), (4, 14), "empty name"),
            (&event("count = 0"), (4, 9), "between 1 and 1000"),
            (&event("count = 2"), (4, 9), "{peer:index}"),
            (&event("count = 2\nresources = [\"{vm}\"]"), (5, 13), "all copies name the same VMs"),
            (&event("duration_in_seconds = -2"), (4, 23), "-1 for unknown"),
            (&event("event_source = \"\""), (4, 16), "`event_source` is empty"),
        ];
        for (text, position, advice) in cases {
            let (line, column, message) = error_of(text);
            assert_eq!((line, column), *position, "{text}\n{message}");
            assert!(message.contains(advice), "{text}\n{message}");
        }
    }

    #[test]
    fn rejects_more_events_than_the_limit() {
        let one = "[[event]]\nevent_type = \"Freeze\"\ncount = 600\nresources = [\"{peer:index}\"]\n";
        let (line, _, message) = error_of(&format!("about = \"A test.\"\n{one}{one}"));
        assert!(message.contains("more than 1000 events"), "{message}");
        assert_eq!(line, 6);
    }

    #[test]
    fn columns_count_characters() {
        let (line, column, _) = error_of("about = \"ä\"\n[[event]]\nevent_type = \"é\"\ndescription = \"ü\" 1\n");
        assert_eq!(line, 4);
        assert_eq!(column, 19);
    }
}
