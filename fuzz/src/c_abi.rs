//! Compares the C ABI with core on any input: documents and all their fields, decisions, approvals, a tracker, and a session
//! that gets the same calls as one of core.
//!
//! Memory has exactly the size that is passed, and buffers have a size that the input chooses, so that the sanitizer detects
//! every invalid access. Calling the C functions is unsafe; all pointers here are to live memory, as the header requires.

mod document;
mod run;
mod session;

use std::ffi::{CStr, c_char};

use arbitrary::{Result, Unstructured};
use scheduled_events_c_abi::schedev_status::{SCHEDEV_ERROR_BUFFER_TOO_SMALL, SCHEDEV_OK};
use scheduled_events_c_abi::{
    Flag, SCHEDEV_RULES_MAX, schedev_decision, schedev_decision_reason, schedev_names,
    schedev_policy, schedev_problem, schedev_problem_kind_word, schedev_rule, schedev_status,
    schedev_text, schedev_text_copy, schedev_tracked_event,
};
use scheduled_events_core::{
    Action, Decision, EventKind, EventSources, EventTypes, Leader, Member, Policy, Problem, Reason,
    Rule, Scope, SourceKind, TrackedEvent, TrackedStatus,
};

use crate::grammar::rarely;
pub use run::run;

/// The contents of memory before a function writes to it.
const UNWRITTEN: u8 = 0xa5;

/// Calls a function that writes to a buffer, and checks the conventions of the header.
fn check_buffer(
    expected: &[u8],
    capacity: usize,
    ends_with_nul: bool,
    call: impl FnOnce(*mut c_char, usize, *mut usize) -> schedev_status,
) {
    let mut buffer = vec![UNWRITTEN; capacity].into_boxed_slice();
    let mut needed = usize::MAX;
    let place = if capacity == 0 {
        core::ptr::null_mut()
    } else {
        buffer.as_mut_ptr().cast()
    };
    let status = call(place, capacity, &raw mut needed);
    assert_eq!(needed, expected.len());
    let mut rest = &*buffer;
    if capacity < expected.len() {
        assert_eq!(status, SCHEDEV_ERROR_BUFFER_TOO_SMALL);
    } else {
        assert_eq!(status, SCHEDEV_OK);
        rest = rest.strip_prefix(expected).expect("the result");
        if ends_with_nul {
            rest = rest.strip_prefix(&[0]).unwrap_or(rest);
            assert!(
                capacity == expected.len() || rest.len() == capacity - expected.len() - 1,
                "the NUL"
            );
        }
    }
    assert!(
        rest.iter().all(|&byte| byte == UNWRITTEN),
        "bytes after the result were changed"
    );
}

/// A capacity for a result of this length: too small, exact or larger.
fn capacity(u: &mut Unstructured<'_>, length: usize) -> Result<usize> {
    Ok(match u.int_in_range(0..=5_u8)? {
        0 => 0,
        1 => length.saturating_sub(1),
        2 => length,
        3 => length + 1,
        4 => u.int_in_range(0..=length)?,
        _ => length + u.int_in_range(0..=40_usize)?,
    })
}

/// A text of the C ABI, decoded.
fn text(text: schedev_text) -> String {
    let mut needed = 0;
    // SAFETY: the library returned the text, and its bytes are alive.
    let decoded = unsafe {
        let _ = schedev_text_copy(text, core::ptr::null_mut(), 0, &raw mut needed);
        let mut buffer = vec![UNWRITTEN; needed];
        assert_eq!(
            schedev_text_copy(text, buffer.as_mut_ptr().cast(), needed, &raw mut needed),
            SCHEDEV_OK
        );
        buffer
    };
    String::from_utf8(decoded).expect("UTF-8")
}

fn plain(text: &str) -> schedev_text {
    schedev_text {
        data: text.as_ptr().cast(),
        len: text.len(),
        escaped: Flag::new(false),
    }
}

/// A static string of the library.
fn word(word: *const c_char) -> &'static str {
    // SAFETY: static strings of the library end with NUL and live for ever.
    unsafe { CStr::from_ptr(word) }.to_str().expect("UTF-8")
}

fn some<T>(present: Flag, value: T) -> Option<T> {
    present.is_on().then_some(value)
}

/// The names of this machine for the C ABI.
struct Names {
    items: Box<[schedev_text]>,
    underscored: bool,
}

impl Names {
    fn new(names: &[&'static str], underscored: bool) -> Self {
        Self {
            items: names.iter().map(|name| plain(name)).collect(),
            underscored,
        }
    }

    fn c(&self) -> schedev_names {
        schedev_names {
            items: self.items.as_ptr(),
            count: self.items.len(),
            underscored: Flag::new(self.underscored),
            reserved: [0; 2],
        }
    }
}

/// One policy for the C ABI and for core.
#[derive(Clone)]
struct Policies {
    rules: Box<[schedev_rule]>,
    leader: (u32, u32),
    core: Policy,
}

impl Policies {
    fn choose(u: &mut Unstructured<'_>) -> Result<Self> {
        let count = if rarely(u, 32)? {
            SCHEDEV_RULES_MAX
        } else {
            u.int_in_range(0..=3)?
        };
        let mut both = Vec::new();
        for _ in 0..count {
            both.push(rule(u)?);
        }
        let core: Vec<_> = both.iter().map(|(_, core)| *core).collect();
        let mut core = Policy::new(&core).unwrap();
        let leader = (u.int_in_range(0..=3)?, u.int_in_range(0..=90)?);
        core.leader = match leader {
            (0, _) => None,
            (1, seconds) => Some(Leader::Rank {
                take_over_after: seconds,
            }),
            (2, _) => Some(Leader::Everyone),
            _ => Some(Leader::FirstResource),
        };
        Ok(Self {
            rules: both.into_iter().map(|(c, _)| c).collect(),
            leader,
            core,
        })
    }

    fn c(&self) -> schedev_policy {
        schedev_policy {
            struct_size: size_of::<schedev_policy>(),
            rules: if self.rules.is_empty() {
                core::ptr::null()
            } else {
                self.rules.as_ptr()
            },
            rule_count: self.rules.len(),
            leader: self.leader.0,
            take_over_after_seconds: self.leader.1,
        }
    }
}

/// One rule for the C ABI and for core.
fn rule(u: &mut Unstructured<'_>) -> Result<(schedev_rule, Rule)> {
    let kinds = [
        EventKind::Freeze,
        EventKind::Reboot,
        EventKind::Redeploy,
        EventKind::Preempt,
        EventKind::Terminate,
        EventKind::Other,
        EventKind::SpotRebalanceRecommendation,
    ];
    let sources = [SourceKind::Platform, SourceKind::User, SourceKind::Other];
    let actions = [
        Action::Hold,
        Action::Approve,
        Action::Prepare,
        Action::Ignore,
    ];
    let (action, scope) = (u.choose_index(4)?, u.choose_index(3)?);
    let types: u32 = if rarely(u, 2)? {
        u.int_in_range(1..=127)?
    } else {
        0
    };
    let from: u32 = if rarely(u, 3)? {
        u.int_in_range(1..=7)?
    } else {
        0
    };
    let mut core = Rule::new(actions[action]);
    core.scope = [Scope::Mine, Scope::Others, Scope::Any][scope];
    if types != 0 {
        let named: Vec<_> = (0..7)
            .filter(|bit| types >> bit & 1 != 0)
            .map(|bit| kinds[bit])
            .collect();
        core.event_types = EventTypes::of(&named);
    }
    if from != 0 {
        let named: Vec<_> = (0..3)
            .filter(|bit| from >> bit & 1 != 0)
            .map(|bit| sources[bit])
            .collect();
        core.sources = EventSources::of(&named);
    }
    core.min_duration = if rarely(u, 4)? {
        Some(u.int_in_range(0..=10)?)
    } else {
        None
    };
    core.max_duration = if rarely(u, 4)? {
        Some(u.int_in_range(0..=10)?)
    } else {
        None
    };
    core.min_notice = if rarely(u, 8)? {
        Some(u.int_in_range(0..=900)?)
    } else {
        None
    };
    core.max_notice = if rarely(u, 8)? {
        Some(u.int_in_range(0..=900)?)
    } else {
        None
    };
    core.prepare_before = if rarely(u, 8)? {
        Some(u.int_in_range(0..=900)?)
    } else {
        None
    };
    let c = schedev_rule {
        action: u32::try_from(action).unwrap(),
        scope: u32::try_from(scope).unwrap(),
        event_types: types,
        event_sources: from,
        min_duration_seconds: core.min_duration.unwrap_or(0),
        max_duration_seconds: core.max_duration.unwrap_or(0),
        has_min_duration: Flag::new(core.min_duration.is_some()),
        has_max_duration: Flag::new(core.max_duration.is_some()),
        min_notice_seconds: core.min_notice.unwrap_or(0),
        max_notice_seconds: core.max_notice.unwrap_or(0),
        prepare_before_seconds: core.prepare_before.unwrap_or(0),
        has_min_notice: Flag::new(core.min_notice.is_some()),
        has_max_notice: Flag::new(core.max_notice.is_some()),
        has_prepare_before: Flag::new(core.prepare_before.is_some()),
        reserved: [0; 5],
    };
    Ok((c, core))
}

/// A decision of either side.
#[derive(Debug, PartialEq)]
struct DecisionView {
    action: u32,
    rule: u32,
    reason: String,
    member: u32,
    approve_after: Option<u32>,
    act_from: Option<i64>,
    time_left: Option<i64>,
}

impl DecisionView {
    fn core(decision: &Decision) -> Self {
        Self {
            action: match decision.action {
                Action::Hold => 0,
                Action::Approve => 1,
                Action::Prepare => 2,
                Action::Ignore => 3,
            },
            rule: decision.rule.map_or(0, u32::from),
            reason: decision.reason.to_string(),
            member: if let Reason::Unreliable(member) = decision.reason {
                number_of(member)
            } else {
                0
            },
            approve_after: decision.approve_after,
            act_from: decision.act_from.map(|from| from.0),
            time_left: decision.time_left,
        }
    }

    fn c(decision: &schedev_decision) -> Self {
        Self {
            action: decision.action,
            rule: decision.rule,
            // SAFETY: the decision is a plain struct.
            reason: word(unsafe { schedev_decision_reason(decision) }).to_owned(),
            member: decision.member,
            approve_after: some(decision.has_approve_after, decision.approve_after_seconds),
            act_from: some(decision.has_act_from, decision.act_from_seconds),
            time_left: some(decision.has_time_left, decision.time_left_seconds),
        }
    }
}

/// The number of a member in the header.
fn number_of(member: Member) -> u32 {
    match member {
        Member::EventId => 1,
        Member::EventStatus => 2,
        Member::EventType => 3,
        Member::ResourceType => 4,
        Member::Resources => 5,
        Member::NotBefore => 6,
        Member::Description => 7,
        Member::EventSource => 8,
        Member::DurationInSeconds => 9,
        Member::DocumentIncarnation => 10,
        Member::Events => 11,
        _ => panic!("a member that the header does not name: {member}"),
    }
}

/// A problem of either side.
#[derive(Debug, PartialEq)]
struct ProblemView {
    event: Option<usize>,
    member: u32,
    kind: &'static str,
    offset: usize,
}

impl ProblemView {
    fn core(problem: &Problem) -> Self {
        Self {
            event: problem.event,
            member: problem.member.map_or(0, number_of),
            kind: problem.kind.word(),
            offset: problem.offset,
        }
    }

    fn c(problem: &schedev_problem) -> Self {
        Self {
            event: some(problem.has_event, problem.event_index),
            member: problem.member,
            kind: word(schedev_problem_kind_word(problem.kind)),
            offset: problem.offset,
        }
    }
}

/// A tracked event of either side.
#[derive(Clone, Debug, PartialEq)]
struct TrackedView {
    id: String,
    event_type: String,
    not_before: Option<i64>,
    duration: Option<u32>,
    status: u32,
    mine: Option<bool>,
    approved: bool,
}

impl TrackedView {
    fn core(event: &TrackedEvent) -> Self {
        Self {
            id: event.event_id().as_str().to_owned(),
            event_type: event.event_type().to_owned(),
            not_before: event.not_before().map(|moment| moment.0),
            duration: event.duration_in_seconds(),
            status: match event.status() {
                TrackedStatus::Scheduled => 1,
                TrackedStatus::Started => 2,
                TrackedStatus::Advisory => 3,
                TrackedStatus::Unclear => 255,
            },
            mine: event.mine(),
            approved: event.is_approved(),
        }
    }

    fn c(event: &schedev_tracked_event) -> Self {
        Self {
            id: text(event.event_id),
            event_type: text(event.event_type_text),
            not_before: some(event.has_not_before, event.not_before_seconds),
            duration: some(event.has_duration, event.duration_seconds),
            status: event.event_status,
            mine: some(event.has_mine, event.mine.is_on()),
            approved: event.approved.is_on(),
        }
    }
}
