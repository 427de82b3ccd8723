//! Scenarios: what happens to a VM, written down as TOML.
//!
//! A scenario is a list of events, each with the course it takes. A small one:
//!
//! ```
//! use scheduled_events::replay::Scenario;
//!
//! let scenario = Scenario::parse(
//!     r#"
//!     about = "The host of this VM is serviced, which pauses it for nine seconds."
//!
//!     [[event]]
//!     event_type = "Freeze"
//!     description = "Host server is undergoing maintenance."
//!     duration_in_seconds = 9
//!     appears = "10s"       # after the first document a client gets
//!     notice = "15min"      # NotBefore minus the moment of appearing
//!     started_for = "10min" # from Started to gone
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
//! | `duration_in_seconds` | -1 | -1 is unknown, 0 no interruption |
//! | `resources` | `["{vm}"]` | names with the placeholders `{vm}`, `{peer:N}`, `{peer:index}`, `{index}` |
//! | `count` | 1 | so many such events at once, the copies numbered by `{index}` |
//! | `appears` | `0s` | after the first document that a client gets |
//! | `notice` | by type | from appearing to `NotBefore` |
//! | `starts_after_approval` | `5s` | from the approval to Started, never beyond `NotBefore` |
//! | `started_for` | `10min` | from Started to gone |
//! | `cancelled_after` | never | gone so long after appearing, unless it has started by then |
//! | `reschedule` | never | `{ after = "5min", notice = "15min" }`: a new `NotBefore`, once |
//! | `without_notice` | false | true: appears as Started |
//! | `approval_group` | none | events of one group start early only once all of them are approved |
//!
//! At the top stand `about`, `first_incarnation` (default 1) and, seldom,
//! `incarnation_reset = { after = "2min", to = 1 }`.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer};
use toml::Spanned;

use super::names;

/// The most events a scenario may hold, copies by `count` included.
///
/// A document of one availability set or placement group announces at most 1000 VMs (WIRE 2).
pub const MAX_EVENTS: u32 = 1000;

/// The most names one event may have in `resources`.
pub const MAX_RESOURCES: usize = 1000;

/// The longest duration a scenario may state: 366 days.
pub const MAX_DURATION: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// What happens to the VMs of one document, from the first document to the last event's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// One plain sentence for a person who has never heard of scheduled events.
    pub about: String,
    /// `DocumentIncarnation` of the first document.
    pub first_incarnation: u64,
    /// When the incarnation starts again, as it may after 24 hours without a request (WIRE 1).
    pub incarnation_reset: Option<IncarnationReset>,
    /// The events in document order, copies not yet made.
    pub events: Vec<EventScript>,
}

/// A fresh start of `DocumentIncarnation` while events go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncarnationReset {
    /// After the start of the playback.
    pub after: Duration,
    /// The incarnation from then on.
    pub to: u64,
}

/// One event's facts and the course it takes. All durations are at speed 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventScript {
    /// `EventType`.
    pub event_type: String,
    /// `EventSource`.
    pub event_source: String,
    /// `Description`, often empty.
    pub description: String,
    /// `DurationInSeconds`; -1 is unknown.
    pub duration_in_seconds: i64,
    /// `Resources`, placeholders not yet filled in.
    pub resources: Vec<String>,
    /// How many such events there are at once.
    pub count: u32,
    /// From the start of the playback to the event's first document.
    pub appears: Duration,
    /// From appearing to `NotBefore`.
    pub notice: Duration,
    /// From the approval to Started.
    pub starts_after_approval: Duration,
    /// From Started to gone.
    pub started_for: Duration,
    /// From appearing to a cancellation by Azure.
    pub cancelled_after: Option<Duration>,
    /// A change of `NotBefore` on the way.
    pub reschedule: Option<Reschedule>,
    /// Appears as Started, as after a hardware failure.
    pub without_notice: bool,
    /// None of the group starts on approval before all of it is approved.
    pub approval_group: Option<String>,
}

/// A new `NotBefore` for an event still Scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reschedule {
    /// From appearing to the change.
    pub after: Duration,
    /// From the change to the new `NotBefore`.
    pub notice: Duration,
}

/// Why a text is no scenario, and where.
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
    /// Whatever is not TOML, not a known member, out of range or at odds with another member, with
    /// the line and column of the first offence:
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

    /// What is wrong and what to do, without the position.
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

/// The shortest notice Microsoft documents for a type (WIRE 3); for unknown types, the longest of them.
fn default_notice(event_type: &str) -> Duration {
    Duration::from_secs(match event_type {
        "Preempt" => 30,
        "Terminate" => 5 * 60,
        "Redeploy" => 10 * 60,
        _ => 15 * 60,
    })
}

type Offence = (Range<usize>, String);

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
    after: Span,
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
    appears: Option<Span>,
    notice: Option<Spanned<Span>>,
    starts_after_approval: Option<Spanned<Span>>,
    started_for: Option<Span>,
    cancelled_after: Option<Spanned<Span>>,
    reschedule: Option<Spanned<RawReschedule>>,
    #[serde(default)]
    without_notice: bool,
    approval_group: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReschedule {
    after: Span,
    notice: Span,
}

/// A duration written as text, such as `15min`.
#[derive(Clone, Copy)]
struct Span(Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration in quotes, such as \"15min\", \"30s\" or \"500ms\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                let duration = humantime::parse_duration(text).map_err(|error| {
                    E::custom(format_args!(
                        "`{text}` is not a duration ({error}): write one such as \"15min\", \"30s\" or \"500ms\""
                    ))
                })?;
                if duration > MAX_DURATION {
                    return Err(E::custom(format_args!("`{text}` is longer than 366 days: write a shorter duration")));
                }
                Ok(Span(duration))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

fn one() -> u64 {
    1
}

impl RawScenario {
    fn check(self) -> Result<Scenario, Offence> {
        let about = self.about.as_ref().trim();
        if about.is_empty() {
            return Err((self.about.span(), "`about` is empty: say in one sentence what happens".to_owned()));
        }
        if self.event.as_ref().is_empty() {
            return Err((self.event.span(), "a scenario without events: add an [[event]] table".to_owned()));
        }
        let mut total: u32 = 0;
        let mut events = Vec::with_capacity(self.event.as_ref().len());
        for event in self.event.into_inner() {
            let span = event.span();
            let event = event.into_inner().check()?;
            total = total.saturating_add(event.count);
            if total > MAX_EVENTS {
                return Err((
                    span,
                    format!("this makes more than {MAX_EVENTS} events: lower a `count` or leave events out"),
                ));
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
    fn check(self) -> Result<EventScript, Offence> {
        self.check_words()?;
        self.check_course()?;
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

    fn check_words(&self) -> Result<(), Offence> {
        let words =
            [Some(("event_type", &self.event_type)), self.event_source.as_ref().map(|word| ("event_source", word))];
        for (member, word) in words.into_iter().flatten() {
            if word.as_ref().is_empty() {
                return Err((
                    word.span(),
                    format!("`{member}` is empty: name one, such as \"Freeze\" or \"Platform\""),
                ));
            }
        }
        if let Some(duration) = &self.duration_in_seconds
            && *duration.as_ref() < -1
        {
            return Err((
                duration.span(),
                "a duration below -1: write -1 for unknown, 0 for no interruption, or seconds".to_owned(),
            ));
        }
        Ok(())
    }

    /// Members that contradict each other, so that a scenario never holds something without effect.
    fn check_course(&self) -> Result<(), Offence> {
        if self.without_notice {
            let useless = [
                self.notice.as_ref().map(|it| ("notice", it.span())),
                self.starts_after_approval.as_ref().map(|it| ("starts_after_approval", it.span())),
                self.cancelled_after.as_ref().map(|it| ("cancelled_after", it.span())),
                self.reschedule.as_ref().map(|it| ("reschedule", it.span())),
                self.approval_group.as_ref().map(|it| ("approval_group", it.span())),
            ];
            if let Some((member, span)) = useless.into_iter().flatten().next() {
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
                "rescheduled only after its NotBefore, when it has started: make `after` shorter than `notice`"
                    .to_owned(),
            ));
        }
        if let Some(cancelled) = &self.cancelled_after {
            let last_notice = self.reschedule.as_ref().map_or(notice, |it| it.as_ref().after.0 + it.as_ref().notice.0);
            if cancelled.as_ref().0 >= last_notice {
                return Err((
                    cancelled.span(),
                    "cancelled only after its NotBefore, when it has started: make `cancelled_after` shorter than `notice`".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn checked_resources(&self, count: u32) -> Result<Vec<String>, Offence> {
        if let Some(count) = &self.count
            && !(1..=MAX_EVENTS).contains(count.as_ref())
        {
            return Err((count.span(), format!("`count` must be between 1 and {MAX_EVENTS}")));
        }
        let Some(resources) = &self.resources else {
            if let Some(span) = self.count.as_ref().map(Spanned::span)
                && count > 1
            {
                return Err((span, "several events for one VM: give `resources = [\"{peer:index}\"]`".to_owned()));
            }
            return Ok(vec!["{vm}".to_owned()]);
        };
        let names = resources.as_ref();
        if names.len() > MAX_RESOURCES {
            return Err((resources.span(), format!("more than {MAX_RESOURCES} names: leave some out")));
        }
        for name in names {
            if name.as_ref().is_empty() {
                return Err((name.span(), "an empty name: write \"{vm}\", \"{peer:1}\" or a VM's name".to_owned()));
            }
            if let Some(unknown) = names::unknown_placeholder(name.as_ref()) {
                return Err((
                    name.span(),
                    format!(
                        "`{unknown}` is no placeholder: use {{vm}}, {{peer:N}} with a number, {{peer:index}} or {{index}}"
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

/// Adds the nearest known name to serde's complaint about an unknown one.
fn with_suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field")
        && let Some(unknown) = quoted.next()
        && let Some(nearest) = super::nearest(unknown, quoted)
    {
        return format!("unknown member `{unknown}`: did you mean `{nearest}`? ({message})");
    }
    if message.starts_with("missing field `event`") {
        return "a scenario without events: add an [[event]] table".to_owned();
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
    fn defaults_follow_the_documented_notice_times() {
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
    fn every_member_is_read() {
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
    fn errors_carry_line_column_and_advice() {
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
            (&event("resources = [\"{vm}\", \"{pear:1}\"]"), (4, 22), "`{pear:1}` is no placeholder"),
            (&event("resources = [\"\"]"), (4, 14), "an empty name"),
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
    fn too_many_events_are_refused() {
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
