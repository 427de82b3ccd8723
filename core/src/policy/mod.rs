//! Policies: rules that decide what to do about an event.

mod decision;
mod kinds;
mod rule;
mod serde_form;

use core::fmt;

use serde::{Deserialize, Serialize};

pub use decision::{Decision, Reason};
pub use kinds::{EventKind, EventSources, EventTypes, SourceKind};
pub use rule::{Action, Leader, Rule, Scope};

use crate::event::{Event, EventStatus, EventType};
use crate::names::VmNames;
use crate::time::UnixSeconds;

/// The largest number of rules in a policy.
pub const MAX_RULES: usize = 32;

/// A list of rules, and which machine approves an event that affects several. The first rule that matches decides.
///
/// Some events are held whatever the rules: those with another status than `Scheduled`, those that name no machine, all events
/// while the names of this machine are unknown, and another machine's `Terminate`. [Advice](Event::is_advice) matches only rules that
/// name `SpotRebalanceRecommendation`, and is never approved. An event with a problem in a member that
/// decisions depend on, or without a type or a status, is matched with what can be read, and never approved.
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
///
/// Its serde form has the words of the policy file, and is checked:
///
/// ```
/// use scheduled_events_core::Policy;
///
/// let json = r#"{"rule":[{"event":["Freeze"],"max_duration":"8s","action":"approve"}],"leader":"everyone"}"#;
/// let policy: Policy = serde_json::from_str(json)?;
/// assert_eq!(policy.rules()[0].max_duration, Some(8));
/// assert_eq!(serde_json::to_string(&policy)?, json);
/// assert!(serde_json::from_str::<Policy>(&json.replace("approve", "aprove")).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    #[serde(rename = "rule", default)]
    rules: heapless::Vec<Rule, MAX_RULES>,
    /// Which machine approves an event that affects several. `None` is [`Leader::FirstResource`] for rules with the action
    /// [`Action::Approve`]; with [`Action::Prepare`], such an event is prepared for and not approved, since nobody knows
    /// whether the other machines are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
        Self {
            rules: heapless::Vec::new(),
            leader: None,
        }
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
        let user = Rule {
            sources: EventSources::of(&[SourceKind::User]),
            ..Rule::new(Action::Approve)
        };
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
        Ok(Self {
            rules,
            leader: None,
        })
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

    /// Whether a rule names advice, so that documents are needed that have it.
    ///
    /// ```
    /// use scheduled_events_core::{Action, EventKind, EventTypes, Policy, Rule};
    ///
    /// let event_types = EventTypes::of(&[EventKind::SpotRebalanceRecommendation]);
    /// let policy = Policy::new(&[Rule { event_types, ..Rule::new(Action::Prepare) }])?;
    /// assert!(policy.names_advice() && !Policy::sample().names_advice());
    /// # Ok::<(), scheduled_events_core::TooManyRules>(())
    /// ```
    pub fn names_advice(&self) -> bool {
        let advice = EventKind::SpotRebalanceRecommendation;
        self.rules
            .iter()
            .any(|rule| rule.event_types.contains(advice))
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
        let decision = |action, rule, reason| Decision {
            action,
            rule,
            reason,
            approve_after: None,
            act_from: None,
            time_left,
        };
        let hold = |rule, reason| decision(Action::Hold, rule, reason);

        // What cannot be read forbids approving, never preparing.
        let unreliable = event.unreliable_member().map(Reason::Unreliable);
        let is_advice = event.is_advice();
        let stopped = match event.event_status() {
            // It never starts, whatever its status.
            Some(status) if is_advice && !status.is_over() => None,
            Some(EventStatus::Started) => Some(Reason::AlreadyStarted),
            Some(EventStatus::Advisory | EventStatus::Other(_)) => Some(Reason::NotScheduled),
            // Without a status it counts as announced, and may already run.
            Some(EventStatus::Scheduled) | None => None,
        };
        let unnamed = names.is_unknown().then_some(Reason::NameUnknown);
        if let Some(reason) = stopped.or(unnamed) {
            return hold(None, unreliable.unwrap_or(reason));
        }
        let event_type = event.event_type();
        let doubt = unreliable
            .or_else(|| event_type.is_none().then_some(Reason::TypeUnknown))
            .or_else(|| {
                let has_none = event.event_status().is_none();
                has_none.then_some(Reason::StatusUnknown)
            });
        let names_none = event.resources().into_iter().next().is_none();
        let rank = names.rank(event);
        let mine = rank.is_some();
        let notice = start.map(|start| start.since(noticed));
        let Some((number, rule)) = (1..=u16::MAX)
            .zip(&self.rules)
            .find(|(_, rule)| !names_none && rule.matches(event, mine, notice))
        else {
            let reason = match mine {
                _ if self.rules.is_empty() => Reason::Observing,
                true if is_advice => Reason::Advice,
                true => Reason::NoRule,
                false if names_none => Reason::NamesNoMachine,
                false => Reason::OtherMachine,
            };
            return hold(None, doubt.unwrap_or(reason));
        };
        let approves = matches!(rule.action, Action::Approve | Action::Prepare);
        if approves && event_type == Some(EventType::Terminate) && !mine {
            return hold(Some(number), Reason::OtherMachinesTerminate);
        }
        let doubt = doubt.or((is_advice && approves).then_some(Reason::AdviceUnapproved));
        if let Some(reason) = doubt {
            if rule.action == Action::Approve {
                return hold(is_advice.then_some(number), reason);
            }
            return Decision {
                act_from: rule.act_from(start),
                ..decision(rule.action, Some(number), reason)
            };
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
        let (approve_after, reason) = match self.leader {
            // Nobody knows when this is early enough.
            _ if rule.prepare_before.is_some() && start.is_none() => (None, Reason::StartUnknown),
            None if rule.action == Action::Prepare && event.resources().are_several() => {
                (None, Reason::SeveralMachines)
            }
            leader => (leader.unwrap_or_default().approve_after(rank), reason),
        };
        if rule.action == Action::Approve && approve_after.is_none() {
            let reason = if reason == Reason::StartUnknown {
                reason
            } else {
                Reason::AnotherLeads
            };
            return hold(Some(number), reason);
        }
        Decision {
            approve_after,
            act_from: rule.act_from(start),
            ..decision(rule.action, Some(number), reason)
        }
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
