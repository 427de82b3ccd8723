//! Scenarios: the events of a VM, as a TOML file.
//!
//! A scenario is a list of events and their timing. For example:
//!
//! ```
//! use scheduled_events_replay::Scenario;
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
//! # Ok::<(), scheduled_events_replay::ScenarioError>(())
//! ```
//!
//! | Member of `[[event]]` | Default | Meaning |
//! |---|---|---|
//! | `event_type` | none, required | `Freeze`, `Reboot`, `Redeploy`, `Preempt`, `Terminate`, or any other word |
//! | `event_status` | by type | until it is Started: `Scheduled`, or `Advisory` for advice |
//! | `event_source` | `Platform` | `Platform`, `User`, or any other word |
//! | `description` | empty | |
//! | `duration_in_seconds` | -1 | -1: unknown, 0: no interruption |
//! | `resources` | `["{vm}"]` | names with the placeholders `{vm}`, `{peer:N}`, `{peer:index}`, `{index}` |
//! | `count` | 1 | the number of such events; `{index}` is the number of the copy |
//! | `appears` | `0s` | after the first document |
//! | `notice` | by type | from appearing to `NotBefore` |
//! | `starts_after_approval` | `5s` | from the approval to Started, at the latest at `NotBefore` |
//! | `starts_after` | never | from appearing to Started without an approval: by another VM, say |
//! | `started_for` | `10min` | from Started to the end of the event |
//! | `cancelled_after` | never | cancelled that long after appearing, unless it is Started |
//! | `reschedule` | never | `{ after = "5min", notice = "15min" }`: a new `NotBefore` |
//! | `without_notice` | false | true: the event appears as Started |
//! | `approval_group` | none | the events of a group start early only when all of them are approved |
//!
//! An event of type `SpotRebalanceRecommendation` or status `Advisory` is advice
//! (`docs/inside/wire.md`, section 7): it has no `NotBefore` and never starts, so it has only the
//! members about its contents, `appears`, and `cancelled_after`, by default `10min`.
//!
//! The top level has `about`, `first_incarnation` (default 1) and the optional `incarnation_reset =
//! { after = "2min", to = 1 }`. `not_before_timeout = "PT10M"` is the time-out in the scale set's
//! model, from 5 to 15 minutes; every `Terminate` event without a `notice` of its own has it.

// `file` reads such a file and `text` writes it, `names` are the placeholders, `builtin` the
// scenarios that are part of the program, and `recording` converts the records of a watcher to a
// scenario.

mod builtin;
mod file;
pub(crate) mod names;
mod recording;
mod text;

use std::fmt;
use std::time::Duration;

pub use builtin::LoadError;
pub use recording::{Recording, RecordingError};

/// The most events in a scenario, including copies by `count`.
///
/// A placement group has at most 1000 VMs, so a document may have that many events (`docs/inside/wire.md`,
/// section 2).
pub const MAX_EVENTS: u32 = 1000;

/// The most names in `resources` of an event.
pub const MAX_RESOURCES: usize = 1000;

/// The longest duration in a scenario: 366 days.
pub const MAX_DURATION: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The events of the VMs of one document, from the first document to the end of the last event.
///
/// ```
/// use scheduled_events_replay::Scenario;
///
/// let scenario = Scenario::parse("about = \"A reboot.\"\n[[event]]\nevent_type = \"Reboot\"\n")?;
/// assert_eq!((scenario.about.as_str(), scenario.first_incarnation), ("A reboot.", 1));
/// assert!(Scenario::load("user-reboot").is_ok());
/// assert!(Scenario::load("no-such-file.toml").is_err());
/// assert!(Scenario::builtins().any(|(name, _)| name == "user-reboot"));
/// assert_eq!(Scenario::nearest("user-rebot"), Some("user-reboot"));
/// assert_eq!(Scenario::suggestion("user-rebot"), "did you mean \"user-reboot\"? `scenarios` lists all scenarios");
/// assert!(Scenario::builtin_source("user-reboot").is_some_and(|toml| toml.contains("[[event]]")));
/// # Ok::<(), scheduled_events_replay::ScenarioError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// A sentence for a reader who does not know Scheduled Events.
    pub about: String,
    /// `DocumentIncarnation` of the first document.
    pub first_incarnation: u64,
    /// When the incarnation starts again, as it may after 24 hours without a request
    /// (`docs/inside/wire.md`, section 1).
    pub incarnation_reset: Option<IncarnationReset>,
    /// The events in document order, without copies by `count`.
    pub events: Vec<EventScript>,
}

/// A restart of `DocumentIncarnation`. The events stay.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::Scenario;
///
/// let scenario = Scenario::parse(
///     r#"
///     about = "A test."
///     incarnation_reset = { after = "2min", to = 1 }
///     [[event]]
///     event_type = "Freeze"
///     "#,
/// )?;
/// let reset = scenario.incarnation_reset.unwrap();
/// assert_eq!((reset.after, reset.to), (Duration::from_secs(120), 1));
/// # Ok::<(), scheduled_events_replay::ScenarioError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncarnationReset {
    /// After the first document.
    pub after: Duration,
    /// The new incarnation.
    pub to: u64,
}

/// An event and its timing. All durations are at speed 1.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::Scenario;
///
/// let scenario = Scenario::builtin("preempt").unwrap();
/// let event = &scenario.events[0];
/// assert_eq!((event.event_type.as_str(), event.notice), ("Preempt", Duration::from_secs(30)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventScript {
    /// `EventType`.
    pub event_type: String,
    /// Whether `EventStatus` is `Advisory` in place of Scheduled.
    pub is_advisory: bool,
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
    /// From appearing to Started, whatever is approved.
    pub starts_after: Option<Duration>,
    /// From Started to the end of the event.
    pub started_for: Duration,
    /// From appearing to a cancellation by Azure. Advice always has it.
    pub cancelled_after: Option<Duration>,
    /// A change of `NotBefore`.
    pub reschedule: Option<Reschedule>,
    /// The event appears as Started, as after a hardware failure.
    pub without_notice: bool,
    /// The events of a group start early only when all of them are approved.
    pub approval_group: Option<String>,
}

impl EventScript {
    /// Whether it is advice: see [`EventFacts::is_advice`](crate::document::EventFacts::is_advice).
    ///
    /// ```
    /// use scheduled_events_replay::Scenario;
    ///
    /// let events = Scenario::builtin("rebalance").unwrap().events;
    /// assert!(events[0].is_advice() && !events[1].is_advice()); // advice, then a Preempt
    /// ```
    pub fn is_advice(&self) -> bool {
        is_advice(&self.event_type, self.is_advisory)
    }
}

/// The `EventType` of advice.
pub(crate) const ADVICE: &str = "SpotRebalanceRecommendation";

/// Whether an event of this type, and of this status before it starts, is advice.
pub(crate) fn is_advice(event_type: &str, is_advisory: bool) -> bool {
    is_advisory || event_type == ADVICE
}

/// A new `NotBefore` for a Scheduled event.
///
/// ```
/// use std::time::Duration;
///
/// use scheduled_events_replay::Scenario;
///
/// let scenario = Scenario::parse(
///     r#"
///     about = "A test."
///     [[event]]
///     event_type = "Reboot"
///     reschedule = { after = "5min", notice = "15min" }
///     "#,
/// )?;
/// let reschedule = scenario.events[0].reschedule.unwrap();
/// assert_eq!((reschedule.after, reschedule.notice), (Duration::from_secs(300), Duration::from_secs(900)));
/// # Ok::<(), scheduled_events_replay::ScenarioError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reschedule {
    /// From appearing to the change.
    pub after: Duration,
    /// From the change to the new `NotBefore`.
    pub notice: Duration,
}

/// Why a text is not a scenario, and where.
///
/// ```
/// use scheduled_events_replay::Scenario;
///
/// let error = Scenario::parse("about = \"A test.\"\n[[event]]\nevent_type = 7\n").unwrap_err();
/// assert_eq!((error.line(), error.column()), (3, 14));
/// assert_eq!(error.to_string(), format!("3:14: {}", error.message()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    line: usize,
    column: usize,
    message: String,
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

    /// The error and how to correct it, without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The error at a byte of the text.
    pub(crate) fn at(text: &str, offset: usize, message: String) -> Self {
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
        for (event_type, seconds) in [
            ("Freeze", 900),
            ("Reboot", 900),
            ("Redeploy", 600),
            ("Preempt", 30),
            ("Terminate", 300),
            ("Unknown", 900),
        ] {
            let text = format!("about = \"A test.\"\n[[event]]\nevent_type = \"{event_type}\"\n");
            let scenario = Scenario::parse(&text).expect(event_type);
            let event = &scenario.events[0];
            assert_eq!(event.notice, Duration::from_secs(seconds), "{event_type}");
            assert_eq!((event.duration_in_seconds, event.count), (-1, 1));
            assert_eq!(
                (event.event_source.as_str(), event.description.as_str()),
                ("Platform", "")
            );
            assert_eq!(
                (event.appears, event.started_for),
                (Duration::ZERO, Duration::from_secs(600))
            );
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
            event_type = "Redeploy"
            event_source = "User"
            description = "text"
            duration_in_seconds = 0
            resources = ["{peer:index}", "other"]
            count = 3
            appears = "1s"
            notice = "10min"
            starts_after_approval = "0s"
            starts_after = "9min"
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
        assert_eq!(
            scenario.incarnation_reset,
            Some(IncarnationReset {
                after: Duration::from_secs(120),
                to: 1
            })
        );
        let event = &scenario.events[0];
        assert_eq!(
            (event.count, event.started_for),
            (3, Duration::from_millis(500))
        );
        assert_eq!(
            event.reschedule.map(|it| it.notice),
            Some(Duration::from_secs(900))
        );
        assert_eq!(event.cancelled_after, Some(Duration::from_secs(360)));
        assert_eq!(event.starts_after, Some(Duration::from_secs(540)));
        assert_eq!(event.approval_group.as_deref(), Some("g"));
        assert!(scenario.events[1].without_notice);
    }

    #[test]
    fn errors_have_line_column_and_advice() {
        let cases: &[(&str, (usize, usize), &str)] = &[
            ("about = \"A test.\"\n", (1, 1), "add an [[event]]"),
            (
                "about = \"A test.\"\nevent = []\n",
                (2, 9),
                "add an [[event]]",
            ),
            (
                "[[event]]\nevent_type = \"Freeze\"\n",
                (1, 1),
                "missing field `about`: add it",
            ),
            (
                "about = \"  \"\n[[event]]\nevent_type = \"Freeze\"\n",
                (1, 9),
                "one sentence",
            ),
            (
                "about = \"x\"\n[[event]]\n",
                (2, 1),
                "missing field `event_type`: add it",
            ),
            ("about = \"x\n", (1, 11), ""),
            (&event("notise = \"1s\""), (4, 1), "did you mean `notice`?"),
            (
                &event("notice = 15"),
                (4, 10),
                "a duration in quotes, such as \"15min\"",
            ),
            (
                &event("notice = \"15 parsecs\""),
                (4, 10),
                "write one such as \"15min\"",
            ),
            (
                &event("notice = \"2years\""),
                (4, 10),
                "longer than 366 days",
            ),
            (
                &event("without_notice = true\nnotice = \"1s\""),
                (5, 10),
                "`notice` has no effect",
            ),
            (
                &event("without_notice = true\nstarts_after = \"1s\""),
                (5, 16),
                "`starts_after` has no effect",
            ),
            (
                &event("starts_after = \"15min\""),
                (4, 16),
                "make `starts_after` shorter",
            ),
            (
                &event("cancelled_after = \"15min\""),
                (4, 19),
                "make `cancelled_after` shorter",
            ),
            (
                &event("reschedule = { after = \"1h\", notice = \"1h\" }"),
                (4, 14),
                "make `after` shorter",
            ),
            (
                &event("resources = [\"{vm}\", \"{pear:1}\"]"),
                (4, 22),
                "unknown placeholder `{pear:1}`",
            ),
            (&event("resources = [\"\"]"), (4, 14), "empty name"),
            (&event("count = 0"), (4, 9), "between 1 and 1000"),
            (&event("count = 2"), (4, 9), "{peer:index}"),
            (
                &event("count = 2\nresources = [\"{vm}\"]"),
                (5, 13),
                "all copies name the same VMs",
            ),
            (
                &event("duration_in_seconds = -2"),
                (4, 23),
                "-1 for unknown",
            ),
            (
                &event("event_source = \"\""),
                (4, 16),
                "`event_source` is empty",
            ),
        ];
        for (text, position, advice) in cases {
            let (line, column, message) = error_of(text);
            assert_eq!((line, column), *position, "{text}\n{message}");
            assert!(message.contains(advice), "{text}\n{message}");
        }
    }

    #[test]
    fn advice_has_only_the_members_that_have_an_effect() {
        let of = |members: &str| {
            format!(
                "about = \"A test.\"\n[[event]]\nevent_type = \"SpotRebalanceRecommendation\"\n{members}\n"
            )
        };
        let event = |text: &str| {
            let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{text}{error}"));
            scenario.events[0].clone()
        };
        let usual = event(&of(""));
        assert!(usual.is_advice() && usual.is_advisory);
        assert_eq!(usual.cancelled_after, Some(Duration::from_secs(600)));
        let scheduled = event(&of(
            "event_status = \"Scheduled\"\ncancelled_after = \"1h\"",
        ));
        assert!(scheduled.is_advice() && !scheduled.is_advisory);
        assert_eq!(scheduled.cancelled_after, Some(Duration::from_secs(3600)));
        assert!(event(&super::tests::event("event_status = \"Advisory\"")).is_advice());
        assert!(!event(&super::tests::event("event_status = \"Scheduled\"")).is_advice());
        for member in [
            "notice = \"1s\"",
            "starts_after_approval = \"1s\"",
            "starts_after = \"1s\"",
            "started_for = \"1s\"",
            "reschedule = { after = \"1s\", notice = \"1s\" }",
            "approval_group = \"g\"",
            "without_notice = true",
        ] {
            let (_, _, message) = error_of(&of(member));
            let name = member.split(' ').next().unwrap_or_default();
            assert!(
                message.contains(&format!("`{name}` has no effect")),
                "{message}"
            );
        }
        let (line, column, message) = error_of(&of("event_status = \"Started\""));
        assert_eq!((line, column), (4, 16), "{message}");
    }

    #[test]
    fn a_terminate_has_the_notice_of_a_scale_set() {
        let text = |top: &str, event: &str| {
            format!("about = \"A test.\"\n{top}\n[[event]]\nevent_type = \"Terminate\"\n{event}\n")
        };
        let notice = |top: &str, event: &str| {
            let scenario =
                Scenario::parse(&text(top, event)).unwrap_or_else(|error| panic!("{error}"));
            scenario.events[0].notice.as_secs()
        };
        assert_eq!(notice("", ""), 300);
        assert_eq!(notice("not_before_timeout = \"PT7M30S\"", ""), 450);
        assert_eq!(
            notice("not_before_timeout = \"PT10M\"", "notice = \"1h\""),
            3600
        );
        for (top, position, expected) in [
            (
                "not_before_timeout = \"PT4M\"",
                (2, 22),
                "(at-least-5-minutes)",
            ),
            (
                "not_before_timeout = \"PT16M\"",
                (2, 22),
                "(at-most-15-minutes)",
            ),
            (
                "not_before_timeout = \"10min\"",
                (2, 22),
                "(iso-8601-duration)",
            ),
        ] {
            let (line, column, message) = error_of(&text(top, ""));
            assert_eq!((line, column), position, "{message}");
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn rejects_more_events_than_the_limit() {
        let one =
            "[[event]]\nevent_type = \"Freeze\"\ncount = 600\nresources = [\"{peer:index}\"]\n";
        let (line, _, message) = error_of(&format!("about = \"A test.\"\n{one}{one}"));
        assert!(message.contains("more than 1000 events"), "{message}");
        assert_eq!(line, 6);
    }

    #[test]
    fn columns_count_characters() {
        let (line, column, _) =
            error_of("about = \"ä\"\n[[event]]\nevent_type = \"é\"\ndescription = \"ü\" 1\n");
        assert_eq!(line, 4);
        assert_eq!(column, 19);
    }
}
