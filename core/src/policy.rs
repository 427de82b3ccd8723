//! Policies: rules that decide what to do about an event.

use core::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::event::{Event, EventSource, EventStatus, EventType, Member};
use crate::names::VmNames;
use crate::time::UnixSeconds;
use crate::words::words;

/// The largest number of rules in a policy.
pub const MAX_RULES: usize = 32;

/// A list of rules, and which machine approves an event that affects several. The first rule that matches decides.
///
/// Some events are held whatever the rules: those that are not `Scheduled`, those with a problem in a member that
/// decisions depend on, all events while the names of this machine are unknown, and another machine's `Terminate`.
///
/// ```
/// use scheduled_events_core::{Action, Document, EventKind, EventTypes, Policy, Rule, UnixSeconds, VmNames};
///
/// let body = br#"{"Events":[{"EventId":"a","EventType":"Preempt","EventStatus":"Scheduled","Resources":["vm"]}]}"#;
/// let document = Document::parse(body)?;
/// let event = document.events().next().unwrap();
///
/// let drain = Rule { event_types: EventTypes::of(&[EventKind::Preempt]), ..Rule::new(Action::Prepare) };
/// let policy = Policy::new(&[drain])?;
/// let decision = policy.decide(&event, VmNames::new(&["vm"]), UnixSeconds(0));
/// assert_eq!((decision.action, decision.rule), (Action::Prepare, Some(1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Policy {
    rules: heapless::Vec<Rule, MAX_RULES>,
    /// Which machine approves an event that affects several.
    pub leader: Leader,
}

impl Policy {
    /// The preset that holds every event and never approves. It is the default.
    pub const fn observe() -> Self {
        Self { rules: heapless::Vec::new(), leader: Leader::FirstResource }
    }

    /// The preset modelled on Microsoft's published sample. For this machine's events only: approves those that a user
    /// initiated (rule 1) and freezes of less than nine seconds (rule 2). Holds all others. Unlike the sample, it approves an
    /// event of several machines on the first of them only, and holds an event that cannot be read completely.
    pub fn sample() -> Self {
        let user = Rule { sources: EventSources::of(&[SourceKind::User]), ..Rule::new(Action::Approve) };
        let short_freeze = Rule {
            event_types: EventTypes::of(&[EventKind::Freeze]),
            max_duration: Some(8),
            ..Rule::new(Action::Approve)
        };
        let mut policy = Self::observe();
        for rule in [user, short_freeze] {
            // The list has this capacity.
            let _ = policy.rules.push(rule);
        }
        policy
    }

    /// Creates a policy with these rules and the default leader.
    ///
    /// # Errors
    /// [`TooManyRules`] for more than [`MAX_RULES`].
    pub fn new(rules: &[Rule]) -> Result<Self, TooManyRules> {
        let rules = heapless::Vec::from_slice(rules).map_err(|_| TooManyRules)?;
        Ok(Self { rules, leader: Leader::default() })
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Decides about an event at the time `now`, for the machine with these names.
    pub fn decide(&self, event: &Event<'_>, names: VmNames<'_>, now: UnixSeconds) -> Decision {
        let time_left = event.not_before().moment().map(|start| start.since(now));
        let hold = |rule, reason| Decision { action: Action::Hold, rule, reason, approve_after: None, time_left };

        if let Some(member) = event.unreliable_member() {
            return hold(None, Reason::Unreliable(member));
        }
        match event.event_status() {
            Some(EventStatus::Scheduled) => {}
            Some(EventStatus::Started) => return hold(None, Reason::AlreadyStarted),
            Some(EventStatus::Other(_)) | None => return hold(None, Reason::NotScheduled),
        }
        let rank = names.rank(event);
        if names.is_unknown() {
            return hold(None, Reason::NameUnknown);
        }
        let Some(event_type) = event.event_type() else {
            return hold(None, Reason::TypeUnknown);
        };

        let mine = rank.is_some();
        let Some((number, rule)) =
            (1..=u16::MAX).zip(&self.rules).find(|(_, rule)| rule.matches(event, event_type, mine))
        else {
            return hold(
                None,
                match mine {
                    _ if self.rules.is_empty() => Reason::Observing,
                    true => Reason::NoRule,
                    false => Reason::OtherMachine,
                },
            );
        };
        let approves = matches!(rule.action, Action::Approve | Action::Prepare);
        if approves && event_type == EventType::Terminate && !mine {
            return hold(Some(number), Reason::OtherMachinesTerminate);
        }
        let reason = if rule.sources == EventSources::of(&[SourceKind::User]) {
            Reason::UserInitiated
        } else if rule.max_duration.is_some() {
            Reason::ShortInterruption
        } else {
            Reason::Rule
        };
        let approve_after = self.leader.approve_after(rank);
        match rule.action {
            Action::Approve if approve_after.is_none() => hold(Some(number), Reason::AnotherLeads),
            Action::Approve | Action::Prepare => {
                Decision { action: rule.action, rule: Some(number), reason, approve_after, time_left }
            }
            Action::Hold | Action::Ignore => {
                Decision { action: rule.action, rule: Some(number), reason, approve_after: None, time_left }
            }
        }
    }
}

/// More than [`MAX_RULES`] rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRules;

impl fmt::Display for TooManyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "too many rules: the maximum is {MAX_RULES}")
    }
}

impl core::error::Error for TooManyRules {}

/// A rule: which events it matches, and the action for them. Durations are inclusive. An unknown duration never matches a
/// range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The types of the events that it matches.
    pub event_types: EventTypes,
    /// The sources of the events that it matches.
    pub sources: EventSources,
    /// The shortest interruption that it matches, in seconds.
    pub min_duration: Option<u32>,
    /// The longest interruption that it matches, in seconds.
    pub max_duration: Option<u32>,
    /// Whose events it matches.
    pub scope: Scope,
    /// The action for the events that it matches.
    pub action: Action,
}

impl Rule {
    /// Creates a rule that matches every event of this machine.
    pub const fn new(action: Action) -> Self {
        Self {
            event_types: EventTypes::ANY,
            sources: EventSources::ANY,
            min_duration: None,
            max_duration: None,
            scope: Scope::Mine,
            action,
        }
    }

    fn matches(&self, event: &Event<'_>, event_type: EventType<'_>, mine: bool) -> bool {
        let in_scope = match self.scope {
            Scope::Mine => mine,
            Scope::Others => !mine,
            Scope::Any => true,
        };
        let in_range = match (self.min_duration, self.max_duration) {
            (None, None) => true,
            (min, max) => event
                .duration_in_seconds()
                .is_some_and(|seconds| min.is_none_or(|min| min <= seconds) && max.is_none_or(|max| seconds <= max)),
        };
        in_scope && in_range && self.event_types.matches(event_type) && self.sources.matches(event.event_source())
    }
}

/// What to do about an event.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// How many seconds after it first saw the event this machine approves it; `None` for never.
    fn approve_after(self, rank: Option<usize>) -> Option<u32> {
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

/// The type of an event, as a rule names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // These are Azure's words.
pub enum EventKind {
    Freeze,
    Reboot,
    Redeploy,
    Preempt,
    Terminate,
    /// Any other type.
    Other,
}

words!(EventKind {
    Freeze => "Freeze",
    Reboot => "Reboot",
    Redeploy => "Redeploy",
    Preempt => "Preempt",
    Terminate => "Terminate",
    Other => "Other",
});

impl From<EventType<'_>> for EventKind {
    fn from(event_type: EventType<'_>) -> Self {
        match event_type {
            EventType::Freeze => Self::Freeze,
            EventType::Reboot => Self::Reboot,
            EventType::Redeploy => Self::Redeploy,
            EventType::Preempt => Self::Preempt,
            EventType::Terminate => Self::Terminate,
            EventType::Other(_) => Self::Other,
        }
    }
}

/// The source of an event, as a rule names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // These are Azure's words.
pub enum SourceKind {
    Platform,
    User,
    /// Any other source.
    Other,
}

words!(SourceKind {
    Platform => "Platform",
    User => "User",
    Other => "Other",
});

impl From<EventSource<'_>> for SourceKind {
    fn from(source: EventSource<'_>) -> Self {
        match source {
            EventSource::Platform => Self::Platform,
            EventSource::User => Self::User,
            EventSource::Other(_) => Self::Other,
        }
    }
}

/// A set of event types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventTypes(u8);

impl EventTypes {
    /// Every type, including unknown ones.
    pub const ANY: Self = Self(0b11_1111);

    /// Exactly these types.
    pub fn of(kinds: &[EventKind]) -> Self {
        Self(kinds.iter().fold(0, |set, &kind| set | 1 << kind as u8))
    }

    /// Whether events of this type are among them.
    pub const fn contains(self, kind: EventKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    fn matches(self, event_type: EventType<'_>) -> bool {
        self.contains(EventKind::from(event_type))
    }
}

/// A set of event sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventSources(u8);

impl EventSources {
    /// Every source, including unknown ones, and events without a source.
    pub const ANY: Self = Self(0b1111);

    /// Exactly these sources. An event without a source does not match.
    pub fn of(kinds: &[SourceKind]) -> Self {
        Self(kinds.iter().fold(0, |set, &kind| set | 1 << kind as u8))
    }

    fn matches(self, source: Option<EventSource<'_>>) -> bool {
        let bit = source.map_or(3, |source| SourceKind::from(source) as u8);
        self.0 & 1 << bit != 0
    }
}

/// What to do about an event, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// The rule that matches, counted from 1; `None` if no rule decided.
    pub rule: Option<u16>,
    /// Why.
    pub reason: Reason,
    /// How many seconds after it first saw the event this machine approves it; `None` if it never does. With
    /// [`Action::Prepare`], the host must also be ready.
    #[serde(skip)]
    pub approve_after: Option<u32>,
    /// The seconds until `NotBefore`, negative after it; `None` if it is unknown.
    #[serde(skip)]
    pub time_left: Option<i64>,
}

impl Decision {
    /// Whether this decision equals `other`, apart from `time_left`.
    pub fn same_as(&self, other: &Self) -> bool {
        Self { time_left: None, ..*self } == Self { time_left: None, ..*other }
    }
}

/// The reason for a decision. It is displayed and serialized as a few words for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A rule for events that a user initiated matches.
    UserInitiated,
    /// A rule with a maximum duration matches.
    ShortInterruption,
    /// Another rule matches.
    Rule,
    /// The event affects this machine, and no rule matches.
    NoRule,
    /// The policy has no rules.
    Observing,
    /// The event does not affect this machine, and no rule matches.
    OtherMachine,
    /// The event is the `Terminate` of another machine, which only that machine may approve.
    OtherMachinesTerminate,
    /// The name of this machine is unknown.
    NameUnknown,
    /// The event has no `EventType`.
    TypeUnknown,
    /// The event has started.
    AlreadyStarted,
    /// The event's status is missing or unknown.
    NotScheduled,
    /// There is a problem in a member that decisions depend on.
    Unreliable(Member),
    /// The event affects several machines, and another one approves it.
    AnotherLeads,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::UserInitiated => "user-initiated",
            Self::ShortInterruption => "short interruption",
            Self::Rule => "a rule matches",
            Self::NoRule => "no rule matches",
            Self::Observing => "the policy only observes",
            Self::OtherMachine => "another VM's event",
            Self::OtherMachinesTerminate => "another VM's Terminate",
            Self::NameUnknown => "VM name unknown",
            Self::TypeUnknown => "no EventType",
            Self::AlreadyStarted => "already started",
            Self::NotScheduled => "not Scheduled",
            Self::AnotherLeads => "another VM leads",
            Self::Unreliable(member) => return write!(f, "unreadable {member}"),
        })
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
