//! A rule: which events it matches, and what to do about them.

use super::kinds::{EventSources, EventTypes};
use crate::event::{Event, Member};
use crate::time::UnixSeconds;
use crate::words::words;

/// A rule: which events it matches, and the action for them. Durations are inclusive. An unknown duration never matches a
/// range.
///
/// ```
/// use scheduled_events_core::{Action, EventKind, EventTypes, Rule};
///
/// // Prepare for reboots, but not before 20 minutes ahead of them.
/// let rule = Rule {
///     event_types: EventTypes::of(&[EventKind::Reboot]),
///     prepare_before: Some(20 * 60),
///     ..Rule::new(Action::Prepare)
/// };
/// assert!(!rule.event_types.contains(EventKind::Freeze));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The types of the events that it matches.
    pub event_types: EventTypes,
    /// The sources of the events that it matches.
    pub sources: EventSources,
    /// The shortest interruption that it matches, in seconds.
    pub min_duration: Option<u32>,
    /// The longest interruption that it matches, in seconds.
    pub max_duration: Option<u32>,
    /// The shortest notice that it matches, in seconds: the time from when this `NotBefore` was first seen until
    /// `NotBefore`. An unknown one never matches a range.
    pub min_notice: Option<u32>,
    /// The longest notice that it matches, in seconds.
    pub max_notice: Option<u32>,
    /// How many seconds before `NotBefore` the event is prepared for or approved at the earliest; `None` for no limit. With
    /// an unknown `NotBefore`, the event is prepared for and not approved.
    pub prepare_before: Option<u32>,
    /// Whose events it matches.
    pub scope: Scope,
    /// The action for the events that it matches.
    pub action: Action,
}

impl Rule {
    /// Creates a rule that matches every event of this machine but advice.
    pub const fn new(action: Action) -> Self {
        Self {
            event_types: EventTypes::ANY,
            sources: EventSources::ANY,
            min_duration: None,
            max_duration: None,
            min_notice: None,
            max_notice: None,
            prepare_before: None,
            scope: Scope::Mine,
            action,
        }
    }

    /// Whether it matches this event. A condition on something that cannot be read does not.
    pub(super) fn matches(&self, event: &Event<'_>, mine: bool, notice: Option<i64>) -> bool {
        let in_scope = match self.scope {
            Scope::Mine => mine,
            Scope::Others => !mine,
            Scope::Any => true,
        };
        in_scope
            && is_within(
                event.duration_in_seconds().map(i64::from),
                self.min_duration,
                self.max_duration,
            )
            && is_within(notice, self.min_notice, self.max_notice)
            && self.event_types.matches(event)
            && self.matches_source(event)
    }

    fn matches_source(&self, event: &Event<'_>) -> bool {
        if event.has_problem(Member::EventSource) {
            return self.sources == EventSources::ANY;
        }
        self.sources.matches(event.event_source())
    }

    /// The time before which an event that starts at `start` is neither prepared for nor approved.
    pub(super) fn act_from(&self, start: Option<UnixSeconds>) -> Option<UnixSeconds> {
        let (before, start) = self.prepare_before.zip(start)?;
        Some(start.minus(before))
    }
}

/// Whether a number is in a range whose bounds are inclusive. An unknown one is in no range that has a bound.
fn is_within(number: Option<i64>, min: Option<u32>, max: Option<u32>) -> bool {
    match (min, max) {
        (None, None) => true,
        _ => number.is_some_and(|number| {
            min.is_none_or(|min| i64::from(min) <= number)
                && max.is_none_or(|max| number <= i64::from(max))
        }),
    }
}

/// What to do about an event.
///
/// ```
/// use scheduled_events_core::{Action, Document, Policy, UnixSeconds, VmNames};
///
/// let body = br#"{"Events":[{"EventId":"a","EventType":"Reboot","EventStatus":"Scheduled","Resources":["vm"],
///     "EventSource":"User"}]}"#;
/// let document = Document::parse(body)?;
/// let event = document.events().next().unwrap();
/// let decision = Policy::sample().decide(&event, VmNames::new(&["vm"]), UnixSeconds(0));
/// assert_eq!(decision.action, Action::Approve);
/// assert_eq!(decision.action.word(), "approve");
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Approve it.
    Approve,
    /// Prepare for it, and approve it when the host is ready.
    Prepare,
    /// Report it, but never approve it.
    Hold,
    /// Do nothing.
    Ignore,
}

words!(Action {
    Approve => "approve",
    Prepare => "prepare",
    Hold => "hold",
    Ignore => "ignore",
});

/// Whose events a rule matches.
///
/// ```
/// use scheduled_events_core::{Action, Rule, Scope};
///
/// // A controller that takes other machines out of a load balancer.
/// let rule = Rule { scope: Scope::Others, ..Rule::new(Action::Prepare) };
/// assert_eq!(rule.scope.word(), "others");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scope {
    /// Events whose `Resources` name this machine.
    #[default]
    Mine,
    /// Events whose `Resources` do not name this machine.
    Others,
    /// All events.
    Any,
}

words!(Scope {
    Mine => "mine",
    Others => "others",
    Any => "any",
});

/// Which machine approves an event that affects several machines: an approval starts the event for all of them.
///
/// This applies to events that name this machine. An event of other machines only, matched by a rule with the scope
/// `others` or `any`, is approved immediately.
///
/// ```
/// use scheduled_events_core::{Action, Document, Leader, Policy, Rule, UnixSeconds, VmNames};
///
/// let body = br#"{"Events":[{"EventId":"a","EventType":"Reboot","EventStatus":"Scheduled","Resources":["web_0","web_1"]}]}"#;
/// let document = Document::parse(body)?;
/// let event = document.events().next().unwrap();
/// let mut policy = Policy::new(&[Rule::new(Action::Approve)])?;
/// policy.leader = Some(Leader::Rank { take_over_after: 30 });
/// // The second machine approves if the first one has not done so after 30 seconds.
/// let decision = policy.decide(&event, VmNames::new(&["web_1"]), UnixSeconds(0));
/// assert_eq!(decision.approve_after, Some(30));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Leader {
    /// The first machine in `Resources`. If it is down, nobody approves, and the event starts at `NotBefore`.
    #[default]
    FirstResource,
    /// Each machine waits for those before it: the i-th in `Resources`, counted from 0, waits i times this long. A machine
    /// that is down is replaced by the next one.
    Rank {
        /// Seconds to wait for each machine before this one.
        take_over_after: u32,
    },
    /// Every machine approves without waiting for others.
    Everyone,
}

impl Leader {
    /// How many seconds [`Rank`](Self::Rank) waits for each machine unless it says so.
    pub const TAKE_OVER_AFTER: u32 = 30;

    /// How many seconds after it first saw the event this machine approves it; `None` for never.
    pub(super) fn approve_after(self, rank: Option<usize>) -> Option<u32> {
        let Some(rank) = rank else { return Some(0) };
        match self {
            Self::FirstResource => (rank == 0).then_some(0),
            Self::Rank { take_over_after } => {
                Some(take_over_after.saturating_mul(u32::try_from(rank).unwrap_or(u32::MAX)))
            }
            Self::Everyone => Some(0),
        }
    }
}
