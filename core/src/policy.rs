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
    /// Which machine approves an event that affects several. `None` is [`Leader::FirstResource`] for rules with the action
    /// [`Action::Approve`]; with [`Action::Prepare`], such an event is prepared for and not approved, since nobody knows
    /// whether the other machines are ready.
    pub leader: Option<Leader>,
}

impl Policy {
    /// The preset that holds every event and never approves. It is the default.
    ///
    /// ```
    /// use scheduled_events_core::Policy;
    ///
    /// assert_eq!(Policy::default().rules(), Policy::observe().rules());
    /// assert!(Policy::observe().rules().is_empty());
    /// ```
    pub const fn observe() -> Self {
        Self { rules: heapless::Vec::new(), leader: None }
    }

    /// The preset modelled on Microsoft's published sample. For this machine's events only: approves those that a user
    /// initiated (rule 1) and freezes of less than nine seconds (rule 2). Holds all others. Unlike the sample, it approves an
    /// event of several machines on the first of them only, and holds an event that cannot be read completely.
    ///
    /// ```
    /// use scheduled_events_core::{Action, Policy};
    ///
    /// let policy = Policy::sample();
    /// assert_eq!(policy.rules().len(), 2);
    /// assert!(policy.rules().iter().all(|rule| rule.action == Action::Approve));
    /// assert_eq!(policy.rules()[1].max_duration, Some(8));
    /// ```
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

    /// Creates a policy with these rules, and without a [`leader`](Self::leader).
    ///
    /// # Errors
    /// [`TooManyRules`] for more than [`MAX_RULES`].
    pub fn new(rules: &[Rule]) -> Result<Self, TooManyRules> {
        let rules = heapless::Vec::from_slice(rules).map_err(|_| TooManyRules)?;
        Ok(Self { rules, leader: None })
    }

    /// The rules, in order.
    ///
    /// ```
    /// use scheduled_events_core::{Action, Policy, Rule};
    ///
    /// let policy = Policy::new(&[Rule::new(Action::Prepare)])?;
    /// assert_eq!(policy.rules()[0].action, Action::Prepare);
    /// # Ok::<(), scheduled_events_core::TooManyRules>(())
    /// ```
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Decides about an event at the time `now`, for the machine with these names. The event's notice is counted from
    /// `now`; a [`Session`](crate::Session) counts it from when it first saw this `NotBefore`.
    pub fn decide(&self, event: &Event<'_>, names: VmNames<'_>, now: UnixSeconds) -> Decision {
        self.decide_noticed(event, names, now, now)
    }

    /// Decides about an event whose `NotBefore` was first seen at the time `noticed`.
    pub(crate) fn decide_noticed(
        &self,
        event: &Event<'_>,
        names: VmNames<'_>,
        now: UnixSeconds,
        noticed: UnixSeconds,
    ) -> Decision {
        let start = event.not_before().moment();
        let time_left = start.map(|start| start.since(now));
        let decision =
            |action, rule, reason| Decision { action, rule, reason, approve_after: None, act_from: None, time_left };
        let hold = |rule, reason| decision(Action::Hold, rule, reason);

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
        let notice = start.map(|start| start.since(noticed));
        let Some((number, rule)) =
            (1..=u16::MAX).zip(&self.rules).find(|(_, rule)| rule.matches(event, event_type, mine, notice))
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
        if !approves {
            return decision(rule.action, Some(number), reason);
        }
        let is_shared = || event.resources().into_iter().nth(1).is_some();
        let (approve_after, reason) = match self.leader {
            // Nobody knows when this is early enough.
            _ if rule.prepare_before.is_some() && start.is_none() => (None, Reason::StartUnknown),
            None if rule.action == Action::Prepare && is_shared() => (None, Reason::SeveralMachines),
            leader => (leader.unwrap_or_default().approve_after(rank), reason),
        };
        if rule.action == Action::Approve && approve_after.is_none() {
            let reason = if reason == Reason::StartUnknown { reason } else { Reason::AnotherLeads };
            return hold(Some(number), reason);
        }
        let act_from = rule.prepare_before.zip(start).map(|(before, start)| start.minus(before));
        Decision { approve_after, act_from, ..decision(rule.action, Some(number), reason) }
    }
}

/// More than [`MAX_RULES`] rules.
///
/// ```
/// use scheduled_events_core::{Action, MAX_RULES, Policy, Rule, TooManyRules};
///
/// assert_eq!(Policy::new(&[Rule::new(Action::Hold); MAX_RULES + 1]).err(), Some(TooManyRules));
/// ```
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
    /// Creates a rule that matches every event of this machine.
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

    fn matches(&self, event: &Event<'_>, event_type: EventType<'_>, mine: bool, notice: Option<i64>) -> bool {
        let in_scope = match self.scope {
            Scope::Mine => mine,
            Scope::Others => !mine,
            Scope::Any => true,
        };
        in_scope
            && is_within(event.duration_in_seconds().map(i64::from), self.min_duration, self.max_duration)
            && is_within(notice, self.min_notice, self.max_notice)
            && self.event_types.matches(event_type)
            && self.sources.matches(event.event_source())
    }
}

/// Whether a number is in a range whose bounds are inclusive. An unknown one is in no range that has a bound.
fn is_within(number: Option<i64>, min: Option<u32>, max: Option<u32>) -> bool {
    match (min, max) {
        (None, None) => true,
        _ => number.is_some_and(|number| {
            min.is_none_or(|min| i64::from(min) <= number) && max.is_none_or(|max| number <= i64::from(max))
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
///
/// ```
/// use scheduled_events_core::{EventKind, EventType, Text};
///
/// assert_eq!(EventKind::from(EventType::Preempt), EventKind::Preempt);
/// assert_eq!(EventKind::from(EventType::Other(Text::plain("Cool"))), EventKind::Other);
/// assert_eq!(EventKind::Preempt.word(), "Preempt");
/// ```
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
///
/// ```
/// use scheduled_events_core::{EventSource, SourceKind};
///
/// assert_eq!(SourceKind::from(EventSource::User), SourceKind::User);
/// assert_eq!(SourceKind::User.word(), "User");
/// ```
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
///
/// ```
/// use scheduled_events_core::{EventKind, EventTypes};
///
/// let set = EventTypes::of(&[EventKind::Freeze, EventKind::Reboot]);
/// assert!(set.contains(EventKind::Reboot) && !set.contains(EventKind::Preempt));
/// assert_eq!(set.bits(), 0b11);
/// assert_eq!(EventTypes::from_bits(0b11), Some(set));
/// assert_eq!(EventTypes::from_bits(0b100_0000), None);
/// ```
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

    /// The set as bits, from the lowest: Freeze, Reboot, Redeploy, Preempt, Terminate, any other type.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of these [`bits`](Self::bits); `None` for bits that have no meaning.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::ANY.0 == 0 { Some(Self(bits)) } else { None }
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
///
/// ```
/// use scheduled_events_core::{EventSources, SourceKind};
///
/// let set = EventSources::of(&[SourceKind::User]);
/// assert_eq!(set.bits(), 0b10);
/// assert_eq!(EventSources::from_bits(0b10), Some(set));
/// ```
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

    /// The set as bits, from the lowest: Platform, User, any other source, none.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of these [`bits`](Self::bits); `None` for bits that have no meaning.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::ANY.0 == 0 { Some(Self(bits)) } else { None }
    }

    fn matches(self, source: Option<EventSource<'_>>) -> bool {
        let bit = source.map_or(3, |source| SourceKind::from(source) as u8);
        self.0 & 1 << bit != 0
    }
}

/// What to do about an event, and why.
///
/// ```
/// use scheduled_events_core::{Action, Document, Policy, Reason, UnixSeconds, VmNames};
///
/// let body = br#"{"Events":[{"EventId":"a","EventType":"Freeze","EventStatus":"Scheduled","Resources":["vm"],
///     "NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","DurationInSeconds":5}]}"#;
/// let document = Document::parse(body)?;
/// let (event, names) = (document.events().next().unwrap(), VmNames::new(&["vm"]));
/// let decision = Policy::sample().decide(&event, names, UnixSeconds(1_649_715_418));
/// assert_eq!((decision.action, decision.rule), (Action::Approve, Some(2)));
/// assert_eq!(decision.reason, Reason::ShortInterruption);
/// assert_eq!((decision.approve_after, decision.time_left), (Some(0), Some(600)));
/// // A second later it is still the same decision.
/// assert!(decision.same_as(&Policy::sample().decide(&event, names, UnixSeconds(1_649_715_419))));
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
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
    /// The time before which the event is neither prepared for nor approved; `None` for no such time.
    #[serde(skip)]
    pub act_from: Option<UnixSeconds>,
    /// The seconds until `NotBefore`, negative after it; `None` if it is unknown.
    #[serde(skip)]
    pub time_left: Option<i64>,
}

impl Decision {
    /// Whether this decision equals `other`, apart from the times that follow from `NotBefore`.
    pub fn same_as(&self, other: &Self) -> bool {
        let timeless = |decision: &Self| Self { time_left: None, act_from: None, ..*decision };
        timeless(self) == timeless(other)
    }
}

/// The reason for a decision. It is displayed and serialized as a few words for people.
///
/// ```
/// use scheduled_events_core::{Member, Reason};
///
/// assert_eq!(Reason::NoRule.to_string(), "no rule matches");
/// assert_eq!(Reason::Unreliable(Member::EventType).to_string(), "unreadable EventType");
/// ```
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
    /// The event affects several machines. It is prepared for, but not approved: nobody knows whether the other machines are
    /// ready. A gate, or a [`leader`](Policy::leader) set explicitly, decides that.
    SeveralMachines,
    /// The rule says how long before `NotBefore` to act, and `NotBefore` is unknown: the event is not approved.
    StartUnknown,
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
            Self::SeveralMachines => "not approved: several VMs, set a gate or leader",
            Self::StartUnknown => "not approved: NotBefore unknown",
            Self::Unreliable(member) => return write!(f, "unreadable {member}"),
        })
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
