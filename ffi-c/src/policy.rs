//! Policies: rules that decide what to do about an event.

use std::ffi::{CStr, c_char};

use scheduled_events_core::{
    Action, Decision, EventSources, EventTypes, Leader, MAX_RULES, Member, Policy, Reason, Rule,
    Scope, UnixSeconds, VmNames,
};

use crate::abi::pointers::{Flag, list, output, zero};
use crate::abi::struct_size::{Growing, sized};
use crate::abi::tagged::object;
use crate::boundary::{Result, boundary};
use crate::document::event::schedev_event;
use crate::document::member::member_number;
use crate::names::{schedev_names, with_names};
use crate::status::schedev_status::{self, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_TOO_MANY_RULES};

/// The maximum number of rules of a policy.
pub const SCHEDEV_RULES_MAX: usize = 32;

const _: () = assert!(SCHEDEV_RULES_MAX == MAX_RULES);

/// What to do about an event.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_action {
    /// Report it; never approve it.
    SCHEDEV_ACTION_HOLD = 0,
    /// Approve it now.
    SCHEDEV_ACTION_APPROVE = 1,
    /// Prepare for it, and approve it when the host reports that it is ready.
    SCHEDEV_ACTION_PREPARE = 2,
    /// Neither prepare nor approve it.
    SCHEDEV_ACTION_IGNORE = 3,
}

/// Whose events a rule matches.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_scope {
    /// Events whose Resources name this machine.
    SCHEDEV_SCOPE_MINE = 0,
    /// Events whose Resources do not.
    SCHEDEV_SCOPE_OTHERS = 1,
    /// All events.
    SCHEDEV_SCOPE_ANY = 2,
}

/// Which machine approves an event that names several machines. One approval is for all of them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_leader {
    /// Not set: SCHEDEV_LEADER_FIRST_RESOURCE for rules with SCHEDEV_ACTION_APPROVE. With SCHEDEV_ACTION_PREPARE, the event
    /// is prepared for and not approved, because nobody knows whether the other machines are ready.
    SCHEDEV_LEADER_NOT_SET = 0,
    /// Each machine after a delay: the i-th in Resources, from 0, waits i times take_over_after_seconds.
    SCHEDEV_LEADER_RANK = 1,
    /// Every machine.
    SCHEDEV_LEADER_EVERYONE = 2,
    /// The first machine in Resources. If it is down, the event starts at NotBefore.
    SCHEDEV_LEADER_FIRST_RESOURCE = 3,
}

/// Event types that a rule matches; combine them with |. 0 matches every type but advice.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The words are those of the document.
pub enum schedev_match_type {
    /// Every type but advice.
    SCHEDEV_MATCH_TYPE_ANY = 0,
    SCHEDEV_MATCH_TYPE_FREEZE = 1,
    SCHEDEV_MATCH_TYPE_REBOOT = 2,
    SCHEDEV_MATCH_TYPE_REDEPLOY = 4,
    SCHEDEV_MATCH_TYPE_PREEMPT = 8,
    SCHEDEV_MATCH_TYPE_TERMINATE = 16,
    /// Every other word.
    SCHEDEV_MATCH_TYPE_OTHER = 32,
    /// Advice, whatever its type. ANY and OTHER do not match it.
    SCHEDEV_MATCH_TYPE_SPOT_REBALANCE_RECOMMENDATION = 64,
}

/// Event sources that a rule matches; combine them with |. 0 matches every source, and events without one.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The words are those of the document.
pub enum schedev_match_source {
    SCHEDEV_MATCH_SOURCE_ANY = 0,
    SCHEDEV_MATCH_SOURCE_PLATFORM = 1,
    SCHEDEV_MATCH_SOURCE_USER = 2,
    /// Every other word.
    SCHEDEV_MATCH_SOURCE_OTHER = 4,
}

use schedev_action::*;
use schedev_leader::*;
use schedev_match_source::*;
use schedev_match_type::*;
use schedev_scope::*;

/// All bits that a rule may combine. A source bit of core more, for events without a source, has no name in C.
const MATCH_TYPE_ALL: u32 = 127;
const MATCH_SOURCE_ALL: u32 = 7;

/// One rule. It matches an event if all its conditions do. Zero it first: a zeroed rule holds every event of this machine.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_rule {
    /// What to do: a schedev_action.
    pub action: u32,
    /// Whose events: a schedev_scope.
    pub scope: u32,
    /// Event types: schedev_match_type, combined with |.
    pub event_types: u32,
    /// Event sources: schedev_match_source, combined with |.
    pub event_sources: u32,
    /// The shortest duration, inclusive, if has_min_duration. An unknown duration never matches a range.
    pub min_duration_seconds: u32,
    /// The longest duration, inclusive, if has_max_duration.
    pub max_duration_seconds: u32,
    /// Whether there is a shortest duration.
    pub has_min_duration: Flag,
    /// Whether there is a longest duration.
    pub has_max_duration: Flag,
    /// The shortest notice, inclusive, if has_min_notice: the time from when this NotBefore was first seen until NotBefore.
    /// An unknown NotBefore never matches a range.
    pub min_notice_seconds: u32,
    /// The longest notice, inclusive, if has_max_notice.
    pub max_notice_seconds: u32,
    /// How long before NotBefore the event is prepared for or approved at the earliest, if has_prepare_before. If NotBefore
    /// is unknown, the event is prepared for and not approved.
    pub prepare_before_seconds: u32,
    /// Whether there is a shortest notice.
    pub has_min_notice: Flag,
    /// Whether there is a longest notice.
    pub has_max_notice: Flag,
    /// Whether there is an earliest time.
    pub has_prepare_before: Flag,
    /// For later versions: zero.
    pub reserved: [u32; 5],
}

impl schedev_rule {
    pub(crate) const ZERO: Self = Self {
        action: SCHEDEV_ACTION_HOLD as u32,
        scope: SCHEDEV_SCOPE_MINE as u32,
        event_types: SCHEDEV_MATCH_TYPE_ANY as u32,
        event_sources: SCHEDEV_MATCH_SOURCE_ANY as u32,
        min_duration_seconds: 0,
        max_duration_seconds: 0,
        has_min_duration: Flag::new(false),
        has_max_duration: Flag::new(false),
        min_notice_seconds: 0,
        max_notice_seconds: 0,
        prepare_before_seconds: 0,
        has_min_notice: Flag::new(false),
        has_max_notice: Flag::new(false),
        has_prepare_before: Flag::new(false),
        reserved: [0; 5],
    };

    fn to_core(self) -> Result<Rule> {
        zero(&self.reserved)?;
        let mut rule = Rule::new(core_action(self.action)?);
        rule.scope = match self.scope {
            scope if scope == SCHEDEV_SCOPE_MINE as u32 => Scope::Mine,
            scope if scope == SCHEDEV_SCOPE_OTHERS as u32 => Scope::Others,
            scope if scope == SCHEDEV_SCOPE_ANY as u32 => Scope::Any,
            _ => return Err(SCHEDEV_ERROR_ARGUMENT),
        };
        if self.event_types > MATCH_TYPE_ALL || self.event_sources > MATCH_SOURCE_ALL {
            return Err(SCHEDEV_ERROR_ARGUMENT);
        }
        // 0 matches everything.
        if let Some(bits) = u8::try_from(self.event_types)
            .ok()
            .filter(|bits| *bits != 0)
        {
            rule.event_types = EventTypes::from_bits(bits).ok_or(SCHEDEV_ERROR_ARGUMENT)?;
        }
        if let Some(bits) = u8::try_from(self.event_sources)
            .ok()
            .filter(|bits| *bits != 0)
        {
            rule.sources = EventSources::from_bits(bits).ok_or(SCHEDEV_ERROR_ARGUMENT)?;
        }
        rule.min_duration = self
            .has_min_duration
            .is_on()
            .then_some(self.min_duration_seconds);
        rule.max_duration = self
            .has_max_duration
            .is_on()
            .then_some(self.max_duration_seconds);
        rule.min_notice = self
            .has_min_notice
            .is_on()
            .then_some(self.min_notice_seconds);
        rule.max_notice = self
            .has_max_notice
            .is_on()
            .then_some(self.max_notice_seconds);
        rule.prepare_before = self
            .has_prepare_before
            .is_on()
            .then_some(self.prepare_before_seconds);
        Ok(rule)
    }
}

/// A list of rules; the first rule that matches an event decides about it. Initialise it with SCHEDEV_POLICY_INIT, which
/// has no rules and holds every event. The command `scheduled-events check --policy FILE.toml --as c` prints a policy file of the
/// command as a C header that defines one.
///
/// Whatever the rules, these are never approved: an event that is not Scheduled, an event with an invalid member that
/// decisions depend on, a Terminate of another machine, and any event while the names of this machine are unknown.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_policy {
    /// sizeof(schedev_policy).
    pub struct_size: usize,
    /// The rules, in order; NULL if there are none.
    pub rules: *const schedev_rule,
    /// The number of rules, at most SCHEDEV_RULES_MAX.
    pub rule_count: usize,
    /// A schedev_leader.
    pub leader: u32,
    /// For SCHEDEV_LEADER_RANK: the delay per machine before this one in Resources.
    pub take_over_after_seconds: u32,
}

// SAFETY: a pointer and integers.
unsafe impl Growing for schedev_policy {
    const INIT: Self = Self {
        struct_size: size_of::<Self>(),
        rules: core::ptr::null(),
        rule_count: 0,
        leader: SCHEDEV_LEADER_NOT_SET as u32,
        take_over_after_seconds: 0,
    };
}

/// A policy that C may read from any thread.
#[repr(transparent)]
struct Constant(schedev_policy);

// SAFETY: nothing writes to the policy or the rules that it points to.
unsafe impl Sync for Constant {}

static SAMPLE_RULES: [schedev_rule; 2] = [
    schedev_rule {
        action: SCHEDEV_ACTION_APPROVE as u32,
        event_sources: SCHEDEV_MATCH_SOURCE_USER as u32,
        ..schedev_rule::ZERO
    },
    schedev_rule {
        action: SCHEDEV_ACTION_APPROVE as u32,
        event_types: SCHEDEV_MATCH_TYPE_FREEZE as u32,
        max_duration_seconds: 8,
        has_max_duration: Flag::new(true),
        ..schedev_rule::ZERO
    },
];

static OBSERVE: Constant = Constant(schedev_policy::INIT);

static SAMPLE: Constant = Constant(schedev_policy {
    rules: SAMPLE_RULES.as_ptr(),
    rule_count: SAMPLE_RULES.len(),
    ..OBSERVE.0
});

/// Returns the preset that approves nothing: it has no rules, so that every event is held.
///
/// @return a static policy.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_policy_observe() -> *const schedev_policy {
    &raw const OBSERVE.0
}

/// Returns the preset that is based on Microsoft's published sample: it approves events that a user caused (rule 1) and
/// freezes of at most 8 seconds (rule 2), for this machine only, and holds everything else. It is stricter than the sample:
/// an event of several machines is approved by the first of them only, and one with an invalid member is held.
///
/// @return a static policy.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_policy_sample() -> *const schedev_policy {
    &raw const SAMPLE.0
}

/// Core's policy for one that C passed.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn core_policy(policy: *const schedev_policy) -> Result<Policy> {
    let policy: schedev_policy = checked!(sized(policy));
    let rules = checked!(list(policy.rules, policy.rule_count));
    if rules.len() > MAX_RULES {
        return Err(SCHEDEV_ERROR_TOO_MANY_RULES);
    }
    let mut storage = [Rule::new(Action::Hold); MAX_RULES];
    for (place, rule) in storage.iter_mut().zip(rules) {
        *place = rule.to_core()?;
    }
    let rules = storage.get(..rules.len()).unwrap_or_default();
    let mut core = Policy::new(rules).map_err(|_| SCHEDEV_ERROR_TOO_MANY_RULES)?;
    core.leader = match policy.leader {
        leader if leader == SCHEDEV_LEADER_NOT_SET as u32 => None,
        leader if leader == SCHEDEV_LEADER_RANK as u32 => Some(Leader::Rank {
            take_over_after: policy.take_over_after_seconds,
        }),
        leader if leader == SCHEDEV_LEADER_EVERYONE as u32 => Some(Leader::Everyone),
        leader if leader == SCHEDEV_LEADER_FIRST_RESOURCE as u32 => Some(Leader::FirstResource),
        _ => return Err(SCHEDEV_ERROR_ARGUMENT),
    };
    Ok(core)
}

/// Why a decision was made.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_reason {
    /// The rule is for events that a user caused.
    SCHEDEV_REASON_USER_INITIATED = 1,
    /// The rule has a maximum duration, and the event is shorter.
    SCHEDEV_REASON_SHORT_INTERRUPTION = 2,
    /// The rule matches.
    SCHEDEV_REASON_RULE = 3,
    /// This machine's event, but no rule matches.
    SCHEDEV_REASON_NO_RULE = 4,
    /// The policy has no rules.
    SCHEDEV_REASON_OBSERVING = 5,
    /// The event does not name this machine, and no rule matches.
    SCHEDEV_REASON_OTHER_MACHINE = 6,
    /// It is a Terminate of another machine.
    SCHEDEV_REASON_OTHER_MACHINES_TERMINATE = 7,
    /// The names of this machine are unknown.
    SCHEDEV_REASON_NAME_UNKNOWN = 8,
    /// The event has no EventType.
    SCHEDEV_REASON_TYPE_UNKNOWN = 9,
    /// The event has started.
    SCHEDEV_REASON_ALREADY_STARTED = 10,
    /// The event has an EventStatus that this library does not know.
    SCHEDEV_REASON_NOT_SCHEDULED = 11,
    /// A member that decisions depend on is invalid, so that the event is not approved; see the decision's member.
    SCHEDEV_REASON_UNRELIABLE = 12,
    /// The event names several machines, and another one approves it.
    SCHEDEV_REASON_ANOTHER_LEADS = 13,
    /// The event names several machines. It is prepared for and not approved, because nobody knows whether the others are
    /// ready. A gate, or the policy's leader, decides that.
    SCHEDEV_REASON_SEVERAL_MACHINES = 14,
    /// The rule has prepare_before_seconds, and NotBefore is unknown: the event is not approved.
    SCHEDEV_REASON_START_UNKNOWN = 15,
    /// The event has no EventStatus: it is not approved. It counts as announced, and may already run.
    SCHEDEV_REASON_STATUS_UNKNOWN = 16,
    /// The event has no Resources, or an empty list.
    SCHEDEV_REASON_NAMES_NO_MACHINE = 17,
    /// The event is advice, and no rule names its type.
    SCHEDEV_REASON_ADVICE = 18,
    /// The event is advice, which is never approved, whatever the rule says.
    SCHEDEV_REASON_ADVICE_UNAPPROVED = 19,
    /// A reason that this version of the header does not name.
    SCHEDEV_REASON_OTHER = 255,
}

use schedev_reason::*;

/// The reasons and their messages; `Unreliable` once for each member that decisions depend on.
const REASONS: [(schedev_reason, Reason, &CStr); 24] = [
    (
        SCHEDEV_REASON_USER_INITIATED,
        Reason::UserInitiated,
        c"user-initiated",
    ),
    (
        SCHEDEV_REASON_SHORT_INTERRUPTION,
        Reason::ShortInterruption,
        c"short interruption",
    ),
    (SCHEDEV_REASON_RULE, Reason::Rule, c"a rule matches"),
    (SCHEDEV_REASON_NO_RULE, Reason::NoRule, c"no rule matches"),
    (
        SCHEDEV_REASON_OBSERVING,
        Reason::Observing,
        c"the policy only observes",
    ),
    (
        SCHEDEV_REASON_OTHER_MACHINE,
        Reason::OtherMachine,
        c"another VM's event",
    ),
    (
        SCHEDEV_REASON_OTHER_MACHINES_TERMINATE,
        Reason::OtherMachinesTerminate,
        c"another VM's Terminate",
    ),
    (
        SCHEDEV_REASON_NAME_UNKNOWN,
        Reason::NameUnknown,
        c"VM name unknown",
    ),
    (
        SCHEDEV_REASON_TYPE_UNKNOWN,
        Reason::TypeUnknown,
        c"no EventType",
    ),
    (
        SCHEDEV_REASON_ALREADY_STARTED,
        Reason::AlreadyStarted,
        c"already started",
    ),
    (
        SCHEDEV_REASON_NOT_SCHEDULED,
        Reason::NotScheduled,
        c"not Scheduled",
    ),
    (
        SCHEDEV_REASON_UNRELIABLE,
        Reason::Unreliable(Member::EventId),
        c"unreadable EventId",
    ),
    (
        SCHEDEV_REASON_UNRELIABLE,
        Reason::Unreliable(Member::EventType),
        c"unreadable EventType",
    ),
    (
        SCHEDEV_REASON_UNRELIABLE,
        Reason::Unreliable(Member::EventStatus),
        c"unreadable EventStatus",
    ),
    (
        SCHEDEV_REASON_UNRELIABLE,
        Reason::Unreliable(Member::EventSource),
        c"unreadable EventSource",
    ),
    (
        SCHEDEV_REASON_UNRELIABLE,
        Reason::Unreliable(Member::DurationInSeconds),
        c"unreadable DurationInSeconds",
    ),
    (
        SCHEDEV_REASON_UNRELIABLE,
        Reason::Unreliable(Member::Resources),
        c"unreadable Resources",
    ),
    (
        SCHEDEV_REASON_ANOTHER_LEADS,
        Reason::AnotherLeads,
        c"another VM leads",
    ),
    (
        SCHEDEV_REASON_SEVERAL_MACHINES,
        Reason::SeveralMachines,
        c"not approved: several VMs, set a gate or leader",
    ),
    (
        SCHEDEV_REASON_START_UNKNOWN,
        Reason::StartUnknown,
        c"not approved: NotBefore unknown",
    ),
    (
        SCHEDEV_REASON_STATUS_UNKNOWN,
        Reason::StatusUnknown,
        c"no EventStatus",
    ),
    (
        SCHEDEV_REASON_NAMES_NO_MACHINE,
        Reason::NamesNoMachine,
        c"no VM in Resources",
    ),
    (
        SCHEDEV_REASON_ADVICE,
        Reason::Advice,
        c"advice: no rule names it",
    ),
    (
        SCHEDEV_REASON_ADVICE_UNAPPROVED,
        Reason::AdviceUnapproved,
        c"advice: never approved",
    ),
];

fn unreliable_member(reason: Reason) -> Option<Member> {
    if let Reason::Unreliable(member) = reason {
        Some(member)
    } else {
        None
    }
}

/// What to do about an event, and why.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_decision {
    /// A schedev_action.
    pub action: u32,
    /// A schedev_reason. schedev_decision_reason() returns it as a message.
    pub reason: u32,
    /// For SCHEDEV_REASON_UNRELIABLE: the invalid schedev_member.
    pub member: u32,
    /// The number of the rule that matched, from 1; 0 if none did.
    pub rule: u32,
    /// How long this machine waits before it approves the event, counted from when it first saw the event, if
    /// has_approve_after. With SCHEDEV_ACTION_PREPARE the host must be ready, too.
    pub approve_after_seconds: u32,
    /// Whether this machine approves the event.
    pub has_approve_after: Flag,
    /// Whether time_left_seconds is known.
    pub has_time_left: Flag,
    /// Whether there is an earliest time.
    pub has_act_from: Flag,
    /// The seconds from now to NotBefore, if has_time_left. Negative after NotBefore.
    pub time_left_seconds: i64,
    /// The time before which the event is neither prepared for nor approved, in seconds since 1970-01-01T00:00:00Z, if
    /// has_act_from.
    pub act_from_seconds: i64,
    /// For later versions: zero.
    pub reserved: [u64; 3],
}

impl schedev_decision {
    pub(crate) const NONE: Self = Self {
        action: SCHEDEV_ACTION_HOLD as u32,
        reason: 0,
        member: 0,
        rule: 0,
        approve_after_seconds: 0,
        has_approve_after: Flag::new(false),
        has_time_left: Flag::new(false),
        has_act_from: Flag::new(false),
        time_left_seconds: 0,
        act_from_seconds: 0,
        reserved: [0; 3],
    };

    pub(crate) fn from_core(decision: &Decision) -> Self {
        let reason = REASONS
            .iter()
            .find(|(_, reason, _)| *reason == decision.reason);
        let action = ACTIONS
            .iter()
            .find(|(_, action, _)| *action == decision.action);
        Self {
            action: action.map_or(SCHEDEV_ACTION_HOLD, |(number, ..)| *number) as u32,
            reason: reason.map_or(SCHEDEV_REASON_OTHER, |(number, ..)| *number) as u32,
            member: unreliable_member(decision.reason)
                .map_or(0, |member| member_number(Some(member))),
            rule: decision.rule.map_or(0, u32::from),
            approve_after_seconds: decision.approve_after.unwrap_or(0),
            has_approve_after: Flag::new(decision.approve_after.is_some()),
            has_time_left: Flag::new(decision.time_left.is_some()),
            has_act_from: Flag::new(decision.act_from.is_some()),
            time_left_seconds: decision.time_left.unwrap_or(0),
            act_from_seconds: decision.act_from.map_or(0, |from| from.0),
            reserved: [0; 3],
        }
    }

    /// Core's action; `None` if it has no name here.
    pub(crate) fn core_action(&self) -> Option<Action> {
        core_action(self.action).ok()
    }

    /// Core's reason; `None` if it has no name here.
    pub(crate) fn core_reason(&self) -> Option<Reason> {
        self.reason_entry().map(|(_, reason, _)| *reason)
    }

    fn reason_entry(&self) -> Option<&'static (schedev_reason, Reason, &'static CStr)> {
        REASONS.iter().find(|(number, reason, _)| {
            *number as u32 == self.reason
                && unreliable_member(*reason)
                    .is_none_or(|member| member_number(Some(member)) == self.member)
        })
    }
}

/// The actions and their words.
const ACTIONS: [(schedev_action, Action, &CStr); 4] = [
    (SCHEDEV_ACTION_HOLD, Action::Hold, c"hold"),
    (SCHEDEV_ACTION_APPROVE, Action::Approve, c"approve"),
    (SCHEDEV_ACTION_PREPARE, Action::Prepare, c"prepare"),
    (SCHEDEV_ACTION_IGNORE, Action::Ignore, c"ignore"),
];

fn core_action(number: u32) -> Result<Action> {
    let known = ACTIONS.iter().find(|(known, ..)| *known as u32 == number);
    known
        .map(|(_, action, _)| *action)
        .ok_or(SCHEDEV_ERROR_ARGUMENT)
}

/// Decides what to do about an event.
///
/// @param policy       the policy: your own, schedev_policy_observe() or schedev_policy_sample().
/// @param event        the event.
/// @param names        the names of this machine; NULL if they are unknown, and then every event is held.
/// @param now_seconds  the time, in seconds since 1970-01-01T00:00:00Z. time_left_seconds is counted from it, and so is the
///                     notice that rules match; a session counts the notice from when it first saw this NotBefore.
/// @param decision     receives the decision.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the policy has an invalid struct_size or
///         unknown constants, or if the event is not initialised; SCHEDEV_ERROR_TOO_MANY_RULES;
///         SCHEDEV_ERROR_TOO_MANY_NAMES; SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_UTF8.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_decide(
    policy: *const schedev_policy,
    event: *const schedev_event,
    names: *const schedev_names,
    now_seconds: i64,
    decision: *mut schedev_decision,
) -> schedev_status {
    boundary(|| {
        let (policy, view, output) = (
            checked!(core_policy(policy)),
            checked!(object(event)),
            checked!(output(decision)),
        );
        let decide =
            |names: VmNames<'_>| policy.decide(&view.event, names, UnixSeconds(now_seconds));
        output.write(schedev_decision::from_core(&checked!(with_names(
            names, decide
        ))));
        Ok(())
    })
}

/// Returns the reason of a decision as a message for people, such as "short interruption".
///
/// @param decision  the decision; NULL has no reason.
/// @return a static string; empty if there is no reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_decision_reason(
    decision: *const schedev_decision,
) -> *const c_char {
    // SAFETY: by the conventions of the header it is NULL or points to a decision.
    let Some(decision) = (unsafe { decision.as_ref() }) else {
        return c"".as_ptr();
    };
    decision
        .reason_entry()
        .map_or(c"", |(_, _, message)| message)
        .as_ptr()
}

/// Returns a schedev_action as a word, such as "approve".
///
/// @param action  a schedev_action, or any other number.
/// @return a static string; "unknown" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_action_word(action: u32) -> *const c_char {
    let known = ACTIONS.iter().find(|(number, ..)| *number as u32 == action);
    known.map_or(c"unknown", |(_, _, word)| word).as_ptr()
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::{EventKind, SourceKind};

    use super::*;

    #[test]
    fn bits_are_those_of_core() {
        let types: [(schedev_match_type, EventKind); 7] = [
            (SCHEDEV_MATCH_TYPE_FREEZE, EventKind::Freeze),
            (SCHEDEV_MATCH_TYPE_REBOOT, EventKind::Reboot),
            (SCHEDEV_MATCH_TYPE_REDEPLOY, EventKind::Redeploy),
            (SCHEDEV_MATCH_TYPE_PREEMPT, EventKind::Preempt),
            (SCHEDEV_MATCH_TYPE_TERMINATE, EventKind::Terminate),
            (SCHEDEV_MATCH_TYPE_OTHER, EventKind::Other),
            (
                SCHEDEV_MATCH_TYPE_SPOT_REBALANCE_RECOMMENDATION,
                EventKind::SpotRebalanceRecommendation,
            ),
        ];
        for (bit, kind) in types {
            let rule = schedev_rule {
                event_types: bit as u32,
                ..schedev_rule::ZERO
            };
            assert_eq!(
                rule.to_core().map(|rule| rule.event_types),
                Ok(EventTypes::of(&[kind]))
            );
        }
        let sources: [(schedev_match_source, SourceKind); 3] = [
            (SCHEDEV_MATCH_SOURCE_PLATFORM, SourceKind::Platform),
            (SCHEDEV_MATCH_SOURCE_USER, SourceKind::User),
            (SCHEDEV_MATCH_SOURCE_OTHER, SourceKind::Other),
        ];
        for (bit, kind) in sources {
            let rule = schedev_rule {
                event_sources: bit as u32,
                ..schedev_rule::ZERO
            };
            assert_eq!(
                rule.to_core().map(|rule| rule.sources),
                Ok(EventSources::of(&[kind]))
            );
        }
        for (types, sources) in [(128, 0), (256, 0), (0, 8), (0, u32::MAX)] {
            let rule = schedev_rule {
                event_types: types,
                event_sources: sources,
                ..schedev_rule::ZERO
            };
            assert_eq!(rule.to_core().unwrap_err(), SCHEDEV_ERROR_ARGUMENT);
        }
    }

    #[test]
    fn presets_are_those_of_core() {
        // SAFETY: the presets are valid policies.
        unsafe {
            assert_eq!(core_policy(schedev_policy_sample()), Ok(Policy::sample()));
            assert_eq!(core_policy(schedev_policy_observe()), Ok(Policy::observe()));
        }
    }

    #[test]
    fn reasons_are_those_of_core() {
        for (number, reason, words) in REASONS {
            let decision = Decision {
                action: Action::Hold,
                rule: None,
                reason,
                approve_after: None,
                act_from: Some(UnixSeconds(7)),
                time_left: None,
            };
            let shown = schedev_decision::from_core(&decision);
            assert_eq!(shown.reason, number as u32);
            assert_eq!(
                (shown.has_act_from.is_on(), shown.act_from_seconds),
                (true, 7)
            );
            assert_eq!(words.to_str().unwrap(), reason.to_string());
            // SAFETY: the decision is a plain struct, and the text ends with NUL.
            let printed = unsafe { CStr::from_ptr(schedev_decision_reason(&raw const shown)) };
            assert_eq!(printed, words);
        }
    }

    #[test]
    fn words_are_those_of_core() {
        assert!(
            Action::ALL
                .iter()
                .all(|all| ACTIONS.iter().any(|(_, action, _)| action == all))
        );
        for (_, action, word) in ACTIONS {
            assert_eq!(word.to_str(), Ok(action.word()));
        }
    }
}
