//! Scenario files: TOML and the rules by which a scenario is refused. `scenario` describes the
//! members.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use scheduled_events_core::terminate::NotBeforeTimeout;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use toml::Spanned;

use super::names;
use super::{
    ADVICE, EventScript, IncarnationReset, MAX_DURATION, MAX_EVENTS, MAX_RESOURCES, Reschedule,
    Scenario, ScenarioError, is_advice,
};
use crate::suggest::nearest;

impl Scenario {
    /// Reads a scenario from TOML.
    ///
    /// # Errors
    ///
    /// Text that is not TOML, unknown members, values out of range, and members that contradict
    /// each other. The error has the line and column:
    ///
    /// ```
    /// use scheduled_events_replay::Scenario;
    ///
    /// let error = Scenario::parse("about = \"A test.\"\n[[event]]\nevent_typ = \"Freeze\"\n").unwrap_err();
    /// assert_eq!((error.line(), error.column()), (3, 1));
    /// assert!(error.message().contains("did you mean `event_type`"));
    /// ```
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        parse(text).map_err(|(offset, message)| ScenarioError::at(text, offset, message))
    }
}

/// Parses the text of a scenario file. An error is the offset in the text, and a sentence.
fn parse(text: &str) -> Result<Scenario, (usize, String)> {
    let raw: RawScenario = toml::from_str(text).map_err(|error| {
        (
            error.span().map_or(0, |span| span.start),
            with_suggestion(error.message()),
        )
    })?;
    raw.check().map_err(|(span, message)| (span.start, message))
}

/// The minimum notice of an event type (`docs/inside/wire.md`, section 3); for unknown types, the longest
/// one.
fn default_notice(event_type: &str) -> Duration {
    Duration::from_secs(match event_type {
        "Preempt" => 30,
        "Terminate" => 5 * 60,
        "Redeploy" => 10 * 60,
        _ => 15 * 60,
    })
}

/// How long advice stays in the document: an assumption, since no source says how it ends.
const ADVICE_TIME: Duration = Duration::from_secs(10 * 60);

/// The position and the message of an error.
type CheckError = (Range<usize>, String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    about: Spanned<String>,
    #[serde(default = "one")]
    first_incarnation: u64,
    incarnation_reset: Option<RawReset>,
    not_before_timeout: Option<Spanned<String>>,
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
    event_status: Option<AnnouncedStatus>,
    event_source: Option<Spanned<String>>,
    #[serde(default)]
    description: String,
    duration_in_seconds: Option<Spanned<i64>>,
    resources: Option<Spanned<Vec<Spanned<String>>>>,
    count: Option<Spanned<u32>>,
    appears: Option<DurationText>,
    notice: Option<Spanned<DurationText>>,
    starts_after_approval: Option<Spanned<DurationText>>,
    starts_after: Option<Spanned<DurationText>>,
    started_for: Option<Spanned<DurationText>>,
    cancelled_after: Option<Spanned<DurationText>>,
    reschedule: Option<Spanned<RawReschedule>>,
    #[serde(default)]
    without_notice: bool,
    approval_group: Option<Spanned<String>>,
}

/// `EventStatus` until the event starts.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
enum AnnouncedStatus {
    Scheduled,
    Advisory,
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
                    return Err(E::custom(format_args!(
                        "`{text}` is longer than 366 days: write a shorter duration"
                    )));
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
            return Err((
                self.about.span(),
                "`about` is empty: describe in one sentence what happens".to_owned(),
            ));
        }
        if self.event.as_ref().is_empty() {
            return Err((
                self.event.span(),
                "the scenario has no events: add an [[event]] table".to_owned(),
            ));
        }
        let timeout = self
            .not_before_timeout
            .as_ref()
            .map(terminate_timeout)
            .transpose()?;
        let mut total: u32 = 0;
        let mut events = Vec::with_capacity(self.event.as_ref().len());
        for event in self.event.into_inner() {
            let span = event.span();
            let event = event.into_inner().check(timeout)?;
            total = total.saturating_add(event.count);
            if total > MAX_EVENTS {
                return Err((
                    span,
                    format!("more than {MAX_EVENTS} events: lower a `count` or remove events"),
                ));
            }
            events.push(event);
        }
        Ok(Scenario {
            about: about.to_owned(),
            first_incarnation: self.first_incarnation,
            incarnation_reset: self.incarnation_reset.map(|reset| IncarnationReset {
                after: reset.after.0,
                to: reset.to,
            }),
            events,
        })
    }
}

impl RawEvent {
    fn check(mut self, terminate: Option<NotBeforeTimeout>) -> Result<EventScript, CheckError> {
        self.check_words()?;
        if let Some(timeout) =
            terminate.filter(|_| self.event_type.as_ref() == "Terminate" && !self.without_notice)
        {
            let notice = DurationText(Duration::from_secs(timeout.as_seconds().into()));
            self.notice
                .get_or_insert(Spanned::new(self.event_type.span(), notice));
        }
        self.check_timing()?;
        let count = self.count.as_ref().map_or(1, |count| *count.as_ref());
        let resources = self.checked_resources(count)?;
        let (is_advisory, is_advice) = (self.is_advisory(), self.is_advice());
        let event_type = self.event_type.into_inner();
        Ok(EventScript {
            is_advisory,
            notice: self.notice.map_or_else(
                || default_notice(&event_type),
                |notice| notice.into_inner().0,
            ),
            event_source: self
                .event_source
                .map_or_else(|| "Platform".to_owned(), Spanned::into_inner),
            description: self.description,
            duration_in_seconds: self.duration_in_seconds.map_or(-1, Spanned::into_inner),
            resources,
            count,
            appears: self.appears.map_or(Duration::ZERO, |appears| appears.0),
            starts_after_approval: self
                .starts_after_approval
                .map_or(Duration::from_secs(5), |delay| delay.into_inner().0),
            starts_after: self.starts_after.map(|after| after.into_inner().0),
            started_for: self
                .started_for
                .map_or(Duration::from_secs(600), |span| span.into_inner().0),
            cancelled_after: self
                .cancelled_after
                .map(|after| after.into_inner().0)
                .or(is_advice.then_some(ADVICE_TIME)),
            reschedule: self.reschedule.map(|reschedule| {
                let RawReschedule { after, notice } = reschedule.into_inner();
                Reschedule {
                    after: after.0,
                    notice: notice.0,
                }
            }),
            without_notice: self.without_notice,
            approval_group: self.approval_group.map(Spanned::into_inner),
            event_type,
        })
    }

    fn is_advisory(&self) -> bool {
        let by_type = self.event_type.as_ref() == ADVICE;
        self.event_status
            .map_or(by_type, |status| status == AnnouncedStatus::Advisory)
    }

    fn is_advice(&self) -> bool {
        is_advice(self.event_type.as_ref(), self.is_advisory())
    }

    fn check_words(&self) -> Result<(), CheckError> {
        let words = [
            Some(("event_type", &self.event_type)),
            self.event_source
                .as_ref()
                .map(|word| ("event_source", word)),
        ];
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
        let of_notice = [
            self.notice.as_ref().map(|it| ("notice", it.span())),
            self.starts_after_approval
                .as_ref()
                .map(|it| ("starts_after_approval", it.span())),
            self.starts_after
                .as_ref()
                .map(|it| ("starts_after", it.span())),
            self.reschedule.as_ref().map(|it| ("reschedule", it.span())),
            self.approval_group
                .as_ref()
                .map(|it| ("approval_group", it.span())),
        ];
        let of_notice = of_notice.into_iter().flatten();
        if self.is_advice() {
            let of_start = [
                self.without_notice
                    .then(|| ("without_notice", self.event_type.span())),
                self.started_for
                    .as_ref()
                    .map(|it| ("started_for", it.span())),
            ];
            let without_effect = of_notice.chain(of_start.into_iter().flatten()).next();
            return without_effect.map_or(Ok(()), |(member, span)| {
                let message = format!(
                    "advice has no NotBefore and never starts, so `{member}` has no effect: remove it; `cancelled_after` ends advice"
                );
                Err((span, message))
            });
        }
        if self.without_notice {
            let cancelled = self.cancelled_after.as_ref();
            let cancelled = cancelled.map(|it| ("cancelled_after", it.span()));
            return of_notice.chain(cancelled).next().map_or(Ok(()), |(member, span)| {
                let message = format!(
                    "an event `without_notice` is never Scheduled, so `{member}` has no effect: remove one of the two"
                );
                Err((span, message))
            });
        }
        let notice = self.notice.as_ref().map_or_else(
            || default_notice(self.event_type.as_ref()),
            |notice| notice.as_ref().0,
        );
        if let Some(reschedule) = &self.reschedule
            && reschedule.as_ref().after.0 >= notice
        {
            return Err((
                reschedule.span(),
                "the event starts at NotBefore, before it is rescheduled: make `after` shorter than `notice`"
                    .to_owned(),
            ));
        }
        if let Some(starts) = &self.starts_after
            && starts.as_ref().0 >= notice
            && self.reschedule.is_none()
        {
            return Err((
                starts.span(),
                "the event starts at NotBefore anyway: make `starts_after` shorter than `notice`"
                    .to_owned(),
            ));
        }
        if let Some(cancelled) = &self.cancelled_after {
            let last_notice = self
                .reschedule
                .as_ref()
                .map_or(notice, |it| it.as_ref().after.0 + it.as_ref().notice.0);
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
            return Err((
                count.span(),
                format!("`count` must be between 1 and {MAX_EVENTS}"),
            ));
        }
        let Some(resources) = &self.resources else {
            if let Some(span) = self.count.as_ref().map(Spanned::span)
                && count > 1
            {
                return Err((
                    span,
                    "all copies name the same VM: write `resources = [\"{peer:index}\"]`"
                        .to_owned(),
                ));
            }
            return Ok(vec!["{vm}".to_owned()]);
        };
        let names = resources.as_ref();
        if names.len() > MAX_RESOURCES {
            return Err((
                resources.span(),
                format!("more than {MAX_RESOURCES} names: remove some"),
            ));
        }
        for name in names {
            if name.as_ref().is_empty() {
                return Err((
                    name.span(),
                    "empty name: write \"{vm}\", \"{peer:1}\" or a VM's name".to_owned(),
                ));
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
        if count > 1
            && !names
                .iter()
                .any(|name| names::depends_on_index(name.as_ref()))
        {
            return Err((
                resources.span(),
                "all copies name the same VMs: use {peer:index} or {index} in a name".to_owned(),
            ));
        }
        Ok(names.iter().map(|name| name.as_ref().clone()).collect())
    }
}

/// The time-out of a scale set's model.
fn terminate_timeout(text: &Spanned<String>) -> Result<NotBeforeTimeout, CheckError> {
    NotBeforeTimeout::parse(text.as_ref())
        .map_err(|rule| (text.span(), format!("{} ({rule})", rule.message())))
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
