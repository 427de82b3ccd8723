//! What to do about an event, by rules.

use std::ffi::{CStr, c_char};

use scheduled_events_core::{
    Action, Decision, EventKind, EventSources, EventTypes, Leader, MAX_RULES, Member, Policy, Reason, Rule, Scope,
    SourceKind, UnixSeconds,
};

use crate::boundary::{Result, boundary};
use crate::event::{core_event, schedev_event};
use crate::memory::{Flag, Grows, list, output, sized};
use crate::names::{schedev_names, with_names};
use crate::problem::member_number;
use crate::status::schedev_status::{self, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_TOO_MANY_RULES};

/// The most rules that a policy holds.
pub const SCHEDEV_RULES_MAX: usize = 32;

const _: () = assert!(SCHEDEV_RULES_MAX == MAX_RULES);

/// What is done about an event.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_action {
    /// Report it, never approve it.
    SCHEDEV_ACTION_HOLD = 0,
    /// Approve it at once.
    SCHEDEV_ACTION_APPROVE = 1,
    /// Prepare for it, and approve it once the host says that it is ready.
    SCHEDEV_ACTION_PREPARE = 2,
    /// Neither prepare nor approve; it is of no interest.
    SCHEDEV_ACTION_IGNORE = 3,
}

/// Whose events a rule matches.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_scope {
    /// Those whose Resources name this machine.
    SCHEDEV_SCOPE_MINE = 0,
    /// Those whose Resources do not.
    SCHEDEV_SCOPE_OTHERS = 1,
    /// All that the document announces.
    SCHEDEV_SCOPE_ANY = 2,
}

/// Who approves an event that names several machines, this one among them, since an approval lets it proceed for all.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_leader {
    /// The first machine in Resources. Nobody replaces it when it is dead; the event then starts at NotBefore.
    SCHEDEV_LEADER_FIRST_RESOURCE = 0,
    /// Each machine waits in turn: the i-th in Resources, from 0, waits i times take_over_after_seconds.
    SCHEDEV_LEADER_RANK = 1,
    /// Every machine approves for itself.
    SCHEDEV_LEADER_EVERYONE = 2,
}

/// The event types that a rule matches, to be joined with |. 0 is every type.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The words are the wire's own.
pub enum schedev_match_type {
    /// Every type.
    SCHEDEV_MATCH_TYPE_ANY = 0,
    SCHEDEV_MATCH_TYPE_FREEZE = 1,
    SCHEDEV_MATCH_TYPE_REBOOT = 2,
    SCHEDEV_MATCH_TYPE_REDEPLOY = 4,
    SCHEDEV_MATCH_TYPE_PREEMPT = 8,
    SCHEDEV_MATCH_TYPE_TERMINATE = 16,
    /// Every word beside those.
    SCHEDEV_MATCH_TYPE_OTHER = 32,
}

/// The event sources that a rule matches, to be joined with |. 0 is every source, and events that name none.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The words are the wire's own.
pub enum schedev_match_source {
    SCHEDEV_MATCH_SOURCE_ANY = 0,
    SCHEDEV_MATCH_SOURCE_PLATFORM = 1,
    SCHEDEV_MATCH_SOURCE_USER = 2,
    /// Every word beside those.
    SCHEDEV_MATCH_SOURCE_OTHER = 4,
}

use schedev_action::*;
use schedev_leader::*;
use schedev_match_source::*;
use schedev_match_type::*;
use schedev_scope::*;

const TYPES: [(schedev_match_type, EventKind); 6] = [
    (SCHEDEV_MATCH_TYPE_FREEZE, EventKind::Freeze),
    (SCHEDEV_MATCH_TYPE_REBOOT, EventKind::Reboot),
    (SCHEDEV_MATCH_TYPE_REDEPLOY, EventKind::Redeploy),
    (SCHEDEV_MATCH_TYPE_PREEMPT, EventKind::Preempt),
    (SCHEDEV_MATCH_TYPE_TERMINATE, EventKind::Terminate),
    (SCHEDEV_MATCH_TYPE_OTHER, EventKind::Other),
];

const SOURCES: [(schedev_match_source, SourceKind); 3] = [
    (SCHEDEV_MATCH_SOURCE_PLATFORM, SourceKind::Platform),
    (SCHEDEV_MATCH_SOURCE_USER, SourceKind::User),
    (SCHEDEV_MATCH_SOURCE_OTHER, SourceKind::Other),
];

/// One rule. It matches where everything that it names matches; a zeroed rule holds every event of this machine.
/// The layout is fixed: a later version that can match more will have another struct beside this one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_rule {
    /// A schedev_action: what it does.
    pub action: u32,
    /// A schedev_scope: whose events it matches.
    pub scope: u32,
    /// schedev_match_type, joined with |.
    pub event_types: u32,
    /// schedev_match_source, joined with |.
    pub event_sources: u32,
    /// The shortest interruption that it matches, this one included, if has_min_duration. An unknown duration never
    /// matches a range.
    pub min_duration_seconds: u32,
    /// The longest interruption that it matches, this one included, if has_max_duration.
    pub max_duration_seconds: u32,
    /// Whether there is a shortest interruption.
    pub has_min_duration: Flag,
    /// Whether there is a longest interruption.
    pub has_max_duration: Flag,
}

impl schedev_rule {
    const ZERO: Self = Self {
        action: SCHEDEV_ACTION_HOLD as u32,
        scope: SCHEDEV_SCOPE_MINE as u32,
        event_types: SCHEDEV_MATCH_TYPE_ANY as u32,
        event_sources: SCHEDEV_MATCH_SOURCE_ANY as u32,
        min_duration_seconds: 0,
        max_duration_seconds: 0,
        has_min_duration: Flag::new(false),
        has_max_duration: Flag::new(false),
    };

    fn to_core(self) -> Result<Rule> {
        let mut rule = Rule::new(match self.action {
            action if action == SCHEDEV_ACTION_HOLD as u32 => Action::Hold,
            action if action == SCHEDEV_ACTION_APPROVE as u32 => Action::Approve,
            action if action == SCHEDEV_ACTION_PREPARE as u32 => Action::Prepare,
            action if action == SCHEDEV_ACTION_IGNORE as u32 => Action::Ignore,
            _ => return Err(SCHEDEV_ERROR_ARGUMENT),
        });
        rule.scope = match self.scope {
            scope if scope == SCHEDEV_SCOPE_MINE as u32 => Scope::Mine,
            scope if scope == SCHEDEV_SCOPE_OTHERS as u32 => Scope::Others,
            scope if scope == SCHEDEV_SCOPE_ANY as u32 => Scope::Any,
            _ => return Err(SCHEDEV_ERROR_ARGUMENT),
        };
        if let Some(kinds) = named(self.event_types, TYPES.map(|(bit, kind)| (bit as u32, kind)))? {
            rule.event_types = EventTypes::of(kinds.get());
        }
        if let Some(kinds) = named(self.event_sources, SOURCES.map(|(bit, kind)| (bit as u32, kind)))? {
            rule.sources = EventSources::of(kinds.get());
        }
        rule.min_duration = self.has_min_duration.is_on().then_some(self.min_duration_seconds);
        rule.max_duration = self.has_max_duration.is_on().then_some(self.max_duration_seconds);
        Ok(rule)
    }
}

/// The kinds that a set of bits names.
struct Named<T, const N: usize> {
    kinds: [T; N],
    count: usize,
}

impl<T, const N: usize> Named<T, N> {
    fn get(&self) -> &[T] {
        self.kinds.get(..self.count).unwrap_or_default()
    }
}

fn named<T: Copy, const N: usize>(bits: u32, all: [(u32, T); N]) -> Result<Option<Named<T, N>>> {
    if bits == 0 {
        return Ok(None);
    }
    if bits & !all.iter().fold(0, |known, (bit, _)| known | bit) != 0 {
        return Err(SCHEDEV_ERROR_ARGUMENT);
    }
    let mut named = Named { kinds: all.map(|(_, kind)| kind), count: 0 };
    for (place, (_, kind)) in named.kinds.iter_mut().zip(all.iter().filter(|(bit, _)| bits & bit != 0)) {
        *place = *kind;
        named.count = named.count.saturating_add(1);
    }
    Ok(Some(named))
}

/// Rules in order, of which the first that matches decides, and who of several machines speaks for all. Start from
/// SCHEDEV_POLICY_INIT, which is the policy that holds everything.
///
/// Some things no rule can change. An event that is not Scheduled is never approved, nor is one with a problem in a
/// member that decisions rest on, nor any while this machine's names are unknown; nor is another machine's Terminate.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_policy {
    /// sizeof(schedev_policy), which lets the struct grow.
    pub struct_size: usize,
    /// The rules, first to last; NULL where there are none.
    pub rules: *const schedev_rule,
    /// How many, at most SCHEDEV_RULES_MAX.
    pub rule_count: usize,
    /// A schedev_leader.
    pub leader: u32,
    /// For SCHEDEV_LEADER_RANK: the seconds to wait for each machine that stands before this one.
    pub take_over_after_seconds: u32,
}

// SAFETY: a pointer and numbers; there has been one version.
unsafe impl Grows for schedev_policy {
    const SIZES: &'static [usize] = &[size_of::<Self>()];
    const INIT: Self = Self {
        struct_size: size_of::<Self>(),
        rules: core::ptr::null(),
        rule_count: 0,
        leader: SCHEDEV_LEADER_FIRST_RESOURCE as u32,
        take_over_after_seconds: 0,
    };
}

/// A constant that C reads from any thread.
#[repr(transparent)]
struct Constant(schedev_policy);

// SAFETY: the policy and the rules that it points to are constants that nothing writes.
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

// A caller may copy a preset to a struct of its own header, so a preset never says that it is longer than the first
// version was.
static OBSERVE: Constant = Constant(schedev_policy { struct_size: schedev_policy::SIZES[0], ..schedev_policy::INIT });

static SAMPLE: Constant =
    Constant(schedev_policy { rules: SAMPLE_RULES.as_ptr(), rule_count: SAMPLE_RULES.len(), ..OBSERVE.0 });

/// The preset that never approves anything: every event is held.
///
/// @return a constant.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_policy_observe() -> *const schedev_policy {
    &raw const OBSERVE.0
}

/// The preset that does what Microsoft's published sample does: approve what a user started (rule 1) and freezes of less
/// than nine seconds (rule 2), of this machine only; hold the rest.
///
/// @return a constant.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_policy_sample() -> *const schedev_policy {
    &raw const SAMPLE.0
}

/// Core's policy for the one that C passed.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn core_policy(policy: *const schedev_policy) -> Result<Policy> {
    // SAFETY: the conventions of the header; the policy starts with its size.
    let policy = unsafe { sized(policy) }?;
    // SAFETY: the conventions of the header.
    let rules = unsafe { list(policy.rules, policy.rule_count) }?;
    if rules.len() > MAX_RULES {
        return Err(SCHEDEV_ERROR_TOO_MANY_RULES);
    }
    let mut known = [Rule::new(Action::Hold); MAX_RULES];
    for (place, rule) in known.iter_mut().zip(rules) {
        *place = rule.to_core()?;
    }
    let known = known.get(..rules.len()).unwrap_or_default();
    let mut known = Policy::new(known).map_err(|_| SCHEDEV_ERROR_TOO_MANY_RULES)?;
    known.leader = match policy.leader {
        leader if leader == SCHEDEV_LEADER_FIRST_RESOURCE as u32 => Leader::FirstResource,
        leader if leader == SCHEDEV_LEADER_RANK as u32 => {
            Leader::Rank { take_over_after: policy.take_over_after_seconds }
        }
        leader if leader == SCHEDEV_LEADER_EVERYONE as u32 => Leader::Everyone,
        _ => return Err(SCHEDEV_ERROR_ARGUMENT),
    };
    Ok(known)
}

/// Why a decision is as it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_reason {
    /// The rule is about events that a user started.
    SCHEDEV_REASON_USER_INITIATED = 1,
    /// The rule allows interruptions up to some length.
    SCHEDEV_REASON_SHORT_INTERRUPTION = 2,
    /// The rule matches.
    SCHEDEV_REASON_RULE = 3,
    /// This machine's event, but no rule matches.
    SCHEDEV_REASON_NO_RULE = 4,
    /// The policy has no rules at all.
    SCHEDEV_REASON_OBSERVING = 5,
    /// The event does not name this machine, and no rule is about such events.
    SCHEDEV_REASON_OTHER_MACHINE = 6,
    /// Another machine's deletion is that machine's to approve, whatever a rule says.
    SCHEDEV_REASON_OTHER_MACHINES_TERMINATE = 7,
    /// This machine's name is not known.
    SCHEDEV_REASON_NAME_UNKNOWN = 8,
    /// The event has no EventType.
    SCHEDEV_REASON_TYPE_UNKNOWN = 9,
    /// The event is under way.
    SCHEDEV_REASON_ALREADY_STARTED = 10,
    /// The event's status is absent, or a word that this library does not know.
    SCHEDEV_REASON_NOT_SCHEDULED = 11,
    /// A member that decisions rest on has a problem; the decision names it.
    SCHEDEV_REASON_UNRELIABLE = 12,
    /// The event names several machines, and another one approves for all.
    SCHEDEV_REASON_ANOTHER_LEADS = 13,
    /// A reason that this version of the header does not name.
    SCHEDEV_REASON_OTHER = 255,
}

use schedev_reason::*;

/// The reasons with their words; `Unreliable` once for each member that can be meant.
const REASONS: [(schedev_reason, Reason, &CStr); 18] = [
    (SCHEDEV_REASON_USER_INITIATED, Reason::UserInitiated, c"user-initiated"),
    (SCHEDEV_REASON_SHORT_INTERRUPTION, Reason::ShortInterruption, c"short interruption"),
    (SCHEDEV_REASON_RULE, Reason::Rule, c"a rule matches"),
    (SCHEDEV_REASON_NO_RULE, Reason::NoRule, c"no rule matches"),
    (SCHEDEV_REASON_OBSERVING, Reason::Observing, c"the policy only observes"),
    (SCHEDEV_REASON_OTHER_MACHINE, Reason::OtherMachine, c"another VM's event"),
    (SCHEDEV_REASON_OTHER_MACHINES_TERMINATE, Reason::OtherMachinesTerminate, c"another VM's Terminate"),
    (SCHEDEV_REASON_NAME_UNKNOWN, Reason::NameUnknown, c"VM name unknown"),
    (SCHEDEV_REASON_TYPE_UNKNOWN, Reason::TypeUnknown, c"no EventType"),
    (SCHEDEV_REASON_ALREADY_STARTED, Reason::AlreadyStarted, c"already started"),
    (SCHEDEV_REASON_NOT_SCHEDULED, Reason::NotScheduled, c"not Scheduled"),
    (SCHEDEV_REASON_UNRELIABLE, Reason::Unreliable(Member::EventId), c"unreadable EventId"),
    (SCHEDEV_REASON_UNRELIABLE, Reason::Unreliable(Member::EventType), c"unreadable EventType"),
    (SCHEDEV_REASON_UNRELIABLE, Reason::Unreliable(Member::EventStatus), c"unreadable EventStatus"),
    (SCHEDEV_REASON_UNRELIABLE, Reason::Unreliable(Member::EventSource), c"unreadable EventSource"),
    (SCHEDEV_REASON_UNRELIABLE, Reason::Unreliable(Member::DurationInSeconds), c"unreadable DurationInSeconds"),
    (SCHEDEV_REASON_UNRELIABLE, Reason::Unreliable(Member::Resources), c"unreadable Resources"),
    (SCHEDEV_REASON_ANOTHER_LEADS, Reason::AnotherLeads, c"another VM leads"),
];

fn member_of(reason: Reason) -> Option<Member> {
    if let Reason::Unreliable(member) = reason { Some(member) } else { None }
}

/// What is done about an event, and why.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_decision {
    /// A schedev_action.
    pub action: u32,
    /// A schedev_reason. schedev_decision_reason() puts it into words.
    pub reason: u32,
    /// For SCHEDEV_REASON_UNRELIABLE the schedev_member concerned.
    pub member: u32,
    /// The number of the rule that says so, from 1; 0 where no rule was asked.
    pub rule: u32,
    /// The seconds to wait, from when the event was first seen, before this machine approves it, if has_approve_after.
    /// With SCHEDEV_ACTION_PREPARE the host must be ready too.
    pub approve_after_seconds: u32,
    /// Whether this machine ever approves the event.
    pub has_approve_after: Flag,
    /// Whether the time that is left is known.
    pub has_time_left: Flag,
    /// The seconds from now to NotBefore, negative once it has passed, if has_time_left.
    pub time_left_seconds: i64,
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
        time_left_seconds: 0,
    };

    pub(crate) fn of(decision: &Decision) -> Self {
        let reason = REASONS.iter().find(|(_, reason, _)| *reason == decision.reason);
        let action = match decision.action {
            Action::Approve => SCHEDEV_ACTION_APPROVE,
            Action::Prepare => SCHEDEV_ACTION_PREPARE,
            Action::Hold => SCHEDEV_ACTION_HOLD,
            Action::Ignore => SCHEDEV_ACTION_IGNORE,
        };
        Self {
            action: action as u32,
            reason: reason.map_or(SCHEDEV_REASON_OTHER, |(number, ..)| *number) as u32,
            member: member_of(decision.reason).map_or(0, |member| member_number(Some(member))),
            rule: decision.rule.map_or(0, u32::from),
            approve_after_seconds: decision.approve_after.unwrap_or(0),
            has_approve_after: Flag::new(decision.approve_after.is_some()),
            has_time_left: Flag::new(decision.time_left.is_some()),
            time_left_seconds: decision.time_left.unwrap_or(0),
        }
    }
}

/// Decides about one event.
///
/// @param policy       the policy; schedev_policy_sample() and schedev_policy_observe() are there to be used.
/// @param event        the event.
/// @param names        the names of this machine; NULL where they are unknown, and then every event is held.
/// @param now_seconds  the time, in seconds since 1970-01-01T00:00:00Z; only the time that is left depends on it.
/// @param decision     receives the decision.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a policy that has a wrong struct_size or unknown
///         constants, or an event that was not initialised; SCHEDEV_ERROR_TOO_MANY_RULES; SCHEDEV_ERROR_TOO_MANY_NAMES;
///         SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_UTF8.
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
        // SAFETY: the conventions of the header.
        unsafe {
            let (policy, event, place) = (core_policy(policy)?, core_event(event)?, output(decision)?);
            let decision = with_names(names, |names| policy.decide(event, names, UnixSeconds(now_seconds)))?;
            place.write(schedev_decision::of(&decision));
        }
        Ok(())
    })
}

/// A decision's reason, in a few words for a person: "short interruption".
///
/// @param decision  the decision; NULL has no reason.
/// @return a constant text that ends with NUL; empty where there is no reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_decision_reason(decision: *const schedev_decision) -> *const c_char {
    // SAFETY: the conventions of the header: it is NULL, or points to a decision.
    let Some(decision) = (unsafe { decision.as_ref() }) else { return c"".as_ptr() };
    let words = REASONS.iter().find(|(number, reason, _)| {
        *number as u32 == decision.reason
            && member_of(*reason).is_none_or(|member| member_number(Some(member)) == decision.member)
    });
    words.map_or(c"", |(_, _, words)| words).as_ptr()
}

/// A schedev_action as a word: "approve".
///
/// @param action  a schedev_action, or any other number.
/// @return a constant text that ends with NUL; "unknown" for a number that has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_action_word(action: u32) -> *const c_char {
    match action {
        action if action == SCHEDEV_ACTION_HOLD as u32 => c"hold",
        action if action == SCHEDEV_ACTION_APPROVE as u32 => c"approve",
        action if action == SCHEDEV_ACTION_PREPARE as u32 => c"prepare",
        action if action == SCHEDEV_ACTION_IGNORE as u32 => c"ignore",
        _ => c"unknown",
    }
    .as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let decision = Decision { action: Action::Hold, rule: None, reason, approve_after: None, time_left: None };
            let shown = schedev_decision::of(&decision);
            assert_eq!(shown.reason, number as u32);
            assert_eq!(words.to_str().unwrap(), reason.to_string());
            // SAFETY: the decision is a plain struct, and the text ends with NUL.
            assert_eq!(unsafe { CStr::from_ptr(schedev_decision_reason(&raw const shown)) }, words);
        }
    }

    #[test]
    fn words_are_those_of_core() {
        for (number, action) in [
            (SCHEDEV_ACTION_HOLD, Action::Hold),
            (SCHEDEV_ACTION_APPROVE, Action::Approve),
            (SCHEDEV_ACTION_PREPARE, Action::Prepare),
            (SCHEDEV_ACTION_IGNORE, Action::Ignore),
        ] {
            // SAFETY: the words end with NUL.
            let word = unsafe { CStr::from_ptr(schedev_action_word(number as u32)) };
            assert_eq!(word.to_str(), Ok(action.word()));
        }
    }
}
