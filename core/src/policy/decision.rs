//! A decision about an event, and the reason for it.

use core::fmt;

use serde::{Serialize, Serializer};

use super::rule::Action;
use crate::event::Member;
use crate::time::UnixSeconds;

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
        let timeless = |decision: &Self| Self {
            time_left: None,
            act_from: None,
            ..*decision
        };
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
    /// The event has no `EventStatus`. It counts as announced, and may already run.
    StatusUnknown,
    /// The event has no `Resources`, or an empty list.
    NamesNoMachine,
    /// The event has started.
    AlreadyStarted,
    /// The event's status is neither `Scheduled` nor `Started`.
    NotScheduled,
    /// There is a problem in a member that decisions depend on: the event is not approved.
    Unreliable(Member),
    /// The event affects several machines, and another one approves it.
    AnotherLeads,
    /// The event affects several machines. It is prepared for, but not approved: nobody knows whether the other machines are
    /// ready. A gate, or a [`leader`](crate::Policy::leader) set explicitly, decides that.
    SeveralMachines,
    /// The event is [advice](crate::Event::is_advice), and no rule names its type.
    Advice,
    /// The event is advice, which is never approved, whatever the rule says.
    AdviceUnapproved,
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
            Self::StatusUnknown => "no EventStatus",
            Self::NamesNoMachine => "no VM in Resources",
            Self::AlreadyStarted => "already started",
            Self::NotScheduled => "not Scheduled",
            Self::AnotherLeads => "another VM leads",
            Self::SeveralMachines => "not approved: several VMs, set a gate or leader",
            Self::StartUnknown => "not approved: NotBefore unknown",
            Self::Advice => "advice: no rule names it",
            Self::AdviceUnapproved => "advice: never approved",
            Self::Unreliable(member) => return write!(f, "unreadable {member}"),
        })
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
