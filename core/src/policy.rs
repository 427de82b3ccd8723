//! What to do about an event, by rules.

use core::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::event::{Event, EventSource, EventStatus, EventType, Member};
use crate::names::VmNames;
use crate::time::UnixSeconds;

/// The most rules that a policy holds.
pub const MAX_RULES: usize = 32;

/// Rules in order, of which the first that matches decides, and who of several machines speaks for all.
///
/// Some things no rule can change. An event that is not `Scheduled` is never approved, nor is one with a problem in a
/// member that decisions rest on, nor any while this machine's name is unknown; nor is another machine's `Terminate`.
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
    /// Who approves an event that concerns several machines.
    pub leader: Leader,
}

impl Policy {
    /// The preset that never approves anything: every event is held. It is the default everywhere.
    pub const fn observe() -> Self {
        Self { rules: heapless::Vec::new(), leader: Leader::FirstResource }
    }

    /// The preset that does what Microsoft's published sample does: approve what a user started (rule 1) and freezes
    /// of less than nine seconds (rule 2), of this machine only; hold the rest.
    pub fn sample() -> Self {
        let user = Rule { sources: EventSources::of(&[SourceKind::User]), ..Rule::new(Action::Approve) };
        let short_freeze = Rule {
            event_types: EventTypes::of(&[EventKind::Freeze]),
            max_duration: Some(8),
            ..Rule::new(Action::Approve)
        };
        let mut policy = Self::observe();
        for rule in [user, short_freeze] {
            // There is room for two.
            let _ = policy.rules.push(rule);
        }
        policy
    }

    /// A policy of these rules, with the default leader.
    ///
    /// # Errors
    /// [`TooManyRules`] beyond [`MAX_RULES`].
    pub fn new(rules: &[Rule]) -> Result<Self, TooManyRules> {
        let rules = heapless::Vec::from_slice(rules).map_err(|_| TooManyRules)?;
        Ok(Self { rules, leader: Leader::default() })
    }

    /// The rules, first to last.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Decides about one event at the moment `now`, for the machine of these names.
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
        let approve_after = self.leader.waits(rank);
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
        write!(f, "a policy holds {MAX_RULES} rules at most")
    }
}

impl core::error::Error for TooManyRules {}

/// One rule: what it matches, and what it does. Durations are inclusive; an unknown duration never matches a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The event types that it matches.
    pub event_types: EventTypes,
    /// The event sources that it matches.
    pub sources: EventSources,
    /// The shortest interruption that it matches, in seconds.
    pub min_duration: Option<u32>,
    /// The longest interruption that it matches, in seconds.
    pub max_duration: Option<u32>,
    /// Whose events it matches.
    pub scope: Scope,
    /// What it does.
    pub action: Action,
}

impl Rule {
    /// A rule that matches every event of this machine.
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

/// What is done about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Approve it at once.
    Approve,
    /// Prepare for it, and approve it once the host says that it is ready.
    Prepare,
    /// Report it, never approve it.
    Hold,
    /// Neither prepare nor approve; it is of no interest.
    Ignore,
}

impl Action {
    /// The action as a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Prepare => "prepare",
            Self::Hold => "hold",
            Self::Ignore => "ignore",
        }
    }
}

/// Whose events a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Those whose `Resources` name this machine.
    #[default]
    Mine,
    /// Those whose `Resources` do not.
    Others,
    /// All that the document announces.
    Any,
}

/// Who approves an event that concerns several machines, since an approval lets it proceed for all of them.
///
/// It applies to events that name this machine; an event of other machines only, which a rule of scope `others` or
/// `any` matches, is approved without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Leader {
    /// The first machine in `Resources`. Nobody replaces it when it is dead; the event then starts at `NotBefore`.
    #[default]
    FirstResource,
    /// Each machine waits in turn: the i-th in `Resources`, counted from 0, waits i times this many seconds, so that a
    /// silent one is replaced.
    Rank {
        /// Seconds for each machine named before this one.
        take_over_after: u32,
    },
    /// Every machine approves for itself.
    Everyone,
}

impl Leader {
    /// The seconds after which this machine approves, counted from when it first saw the event; `None` for never.
    fn waits(self, rank: Option<usize>) -> Option<u32> {
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

/// The known event types, and one name for all others: what a rule can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // The words are the wire's own.
pub enum EventKind {
    Freeze,
    Reboot,
    Redeploy,
    Preempt,
    Terminate,
    /// Whatever word the wire uses beside those.
    Other,
}

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

/// The known event sources, and one name for all others: what a rule can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // The words are the wire's own.
pub enum SourceKind {
    Platform,
    User,
    /// Whatever word the wire uses beside those.
    Other,
}

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
    /// Every type, words that this crate does not know among them.
    pub const ANY: Self = Self(0b11_1111);

    /// Exactly these.
    pub fn of(kinds: &[EventKind]) -> Self {
        Self(kinds.iter().fold(0, |set, &kind| set | 1 << kind as u8))
    }

    fn matches(self, event_type: EventType<'_>) -> bool {
        self.0 & 1 << EventKind::from(event_type) as u8 != 0
    }
}

/// A set of event sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventSources(u8);

impl EventSources {
    /// Every source, and events that name none.
    pub const ANY: Self = Self(0b1111);

    /// Exactly these; an event that names no source is not among them.
    pub fn of(kinds: &[SourceKind]) -> Self {
        Self(kinds.iter().fold(0, |set, &kind| set | 1 << kind as u8))
    }

    fn matches(self, source: Option<EventSource<'_>>) -> bool {
        let bit = source.map_or(3, |source| SourceKind::from(source) as u8);
        self.0 & 1 << bit != 0
    }
}

/// What is done about an event, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What is done.
    pub action: Action,
    /// The rule that says so, counted from 1; `None` where no rule was asked.
    pub rule: Option<u16>,
    /// Why, for a person.
    pub reason: Reason,
    /// The seconds to wait, from when the event was first seen, before this machine approves it; `None` where it never
    /// does. With [`Action::Prepare`] the host must be ready too.
    #[serde(skip)]
    pub approve_after: Option<u32>,
    /// The seconds from now to `NotBefore`, negative once it has passed; `None` where it is unknown.
    #[serde(skip)]
    pub time_left: Option<i64>,
}

impl Decision {
    /// Whether this decision says the same as `other`, the time that is left aside.
    pub fn same_as(&self, other: &Self) -> bool {
        Self { time_left: None, ..*self } == Self { time_left: None, ..*other }
    }
}

/// Why a decision is as it is. Displayed and serialised as a few words for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The rule is about events that a user started.
    UserInitiated,
    /// The rule allows interruptions up to some length.
    ShortInterruption,
    /// The rule matches.
    Rule,
    /// This machine's event, but no rule matches.
    NoRule,
    /// The policy has no rules at all.
    Observing,
    /// The event does not name this machine, and no rule is about such events.
    OtherMachine,
    /// Another machine's deletion is that machine's to approve, whatever a rule says.
    OtherMachinesTerminate,
    /// This machine's name is not known.
    NameUnknown,
    /// The event has no `EventType`.
    TypeUnknown,
    /// The event is under way.
    AlreadyStarted,
    /// The event's status is absent, or a word that this crate does not know.
    NotScheduled,
    /// A member that decisions rest on has a problem.
    Unreliable(Member),
    /// The event names several machines, and another one approves for all.
    AnotherLeads,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::UserInitiated => "user-initiated",
            Self::ShortInterruption => "short interruption",
            Self::Rule => "the rule says so",
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
