//! The words of enumerations, as documents and records have them.

use std::ffi::{CStr, c_char};

use crate::document::event::schedev_event_source::*;
use crate::document::event::schedev_event_status::*;
use crate::document::event::schedev_event_type::*;
use crate::policy::schedev_leader::*;
use crate::policy::schedev_reason::*;
use crate::policy::schedev_scope::*;
use crate::session::notified::schedev_notification_outcome::*;
use crate::session::schedev_gate_answer::*;
use crate::session::schedev_preparation::*;
use crate::session::step::schedev_gate_phase::*;
use crate::session::step::schedev_outcome_kind::*;
use crate::session::waiting::schedev_waits_for::*;
use crate::terminate::schedev_profile_rule::*;

/// A word with NULs after it. Tables of these, unlike tables of pointers, need no relocation, which takes more bytes than most
/// words.
type Word = [u8; 28];

const fn padded(word: &CStr) -> Word {
    let (bytes, mut padded, mut index) = (word.to_bytes(), [0; 28], 0);
    assert!(bytes.len() < padded.len(), "the word is too long");
    while index < bytes.len() {
        padded[index] = bytes[index];
        index += 1;
    }
    padded
}

/// The word of a number, or the one for all other numbers.
#[inline(never)] // The tables differ, but not the code.
fn word(words: &'static [(u32, Word)], number: u32, other: &'static CStr) -> *const c_char {
    let known = words.iter().find(|(known, _)| *known == number);
    known.map_or(other.as_ptr(), |(_, word)| word.as_ptr().cast())
}

static TYPES: [(u32, Word); 7] = [
    (SCHEDEV_EVENT_TYPE_NONE as u32, padded(c"none")),
    (SCHEDEV_EVENT_TYPE_FREEZE as u32, padded(c"Freeze")),
    (SCHEDEV_EVENT_TYPE_REBOOT as u32, padded(c"Reboot")),
    (SCHEDEV_EVENT_TYPE_REDEPLOY as u32, padded(c"Redeploy")),
    (SCHEDEV_EVENT_TYPE_PREEMPT as u32, padded(c"Preempt")),
    (SCHEDEV_EVENT_TYPE_TERMINATE as u32, padded(c"Terminate")),
    (
        SCHEDEV_EVENT_TYPE_SPOT_REBALANCE_RECOMMENDATION as u32,
        padded(c"SpotRebalanceRecommendation"),
    ),
];

/// Returns a schedev_event_type as a word, such as "Freeze".
///
/// @param event_type  a schedev_event_type, or any other number.
/// @return a static string; "other" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_event_type_word(event_type: u32) -> *const c_char {
    word(&TYPES, event_type, c"other")
}

static STATUSES: [(u32, Word); 4] = [
    (SCHEDEV_EVENT_STATUS_NONE as u32, padded(c"none")),
    (SCHEDEV_EVENT_STATUS_SCHEDULED as u32, padded(c"Scheduled")),
    (SCHEDEV_EVENT_STATUS_STARTED as u32, padded(c"Started")),
    (SCHEDEV_EVENT_STATUS_ADVISORY as u32, padded(c"Advisory")),
];

/// Returns a schedev_event_status as a word, such as "Scheduled".
///
/// @param status  a schedev_event_status, or any other number.
/// @return a static string; "other" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_event_status_word(status: u32) -> *const c_char {
    word(&STATUSES, status, c"other")
}

static SOURCES: [(u32, Word); 3] = [
    (SCHEDEV_EVENT_SOURCE_NONE as u32, padded(c"none")),
    (SCHEDEV_EVENT_SOURCE_PLATFORM as u32, padded(c"Platform")),
    (SCHEDEV_EVENT_SOURCE_USER as u32, padded(c"User")),
];

/// Returns a schedev_event_source as a word, such as "Platform".
///
/// @param source  a schedev_event_source, or any other number.
/// @return a static string; "other" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_event_source_word(source: u32) -> *const c_char {
    word(&SOURCES, source, c"other")
}

static SCOPES: [(u32, Word); 3] = [
    (SCHEDEV_SCOPE_MINE as u32, padded(c"mine")),
    (SCHEDEV_SCOPE_OTHERS as u32, padded(c"others")),
    (SCHEDEV_SCOPE_ANY as u32, padded(c"any")),
];

/// Returns a schedev_scope as a word, such as "mine".
///
/// @param scope  a schedev_scope, or any other number.
/// @return a static string; "unknown" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_scope_word(scope: u32) -> *const c_char {
    word(&SCOPES, scope, c"unknown")
}

static LEADERS: [(u32, Word); 4] = [
    (SCHEDEV_LEADER_NOT_SET as u32, padded(c"not-set")),
    (SCHEDEV_LEADER_RANK as u32, padded(c"rank")),
    (SCHEDEV_LEADER_EVERYONE as u32, padded(c"everyone")),
    (
        SCHEDEV_LEADER_FIRST_RESOURCE as u32,
        padded(c"first-resource"),
    ),
];

/// Returns a schedev_leader as a word, such as "first-resource".
///
/// @param leader  a schedev_leader, or any other number.
/// @return a static string; "unknown" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_leader_word(leader: u32) -> *const c_char {
    word(&LEADERS, leader, c"unknown")
}

static REASONS: [(u32, Word); 19] = [
    (
        SCHEDEV_REASON_USER_INITIATED as u32,
        padded(c"user-initiated"),
    ),
    (
        SCHEDEV_REASON_SHORT_INTERRUPTION as u32,
        padded(c"short-interruption"),
    ),
    (SCHEDEV_REASON_RULE as u32, padded(c"rule")),
    (SCHEDEV_REASON_NO_RULE as u32, padded(c"no-rule")),
    (SCHEDEV_REASON_OBSERVING as u32, padded(c"observing")),
    (
        SCHEDEV_REASON_OTHER_MACHINE as u32,
        padded(c"other-machine"),
    ),
    (
        SCHEDEV_REASON_OTHER_MACHINES_TERMINATE as u32,
        padded(c"other-machines-terminate"),
    ),
    (SCHEDEV_REASON_NAME_UNKNOWN as u32, padded(c"name-unknown")),
    (SCHEDEV_REASON_TYPE_UNKNOWN as u32, padded(c"type-unknown")),
    (
        SCHEDEV_REASON_ALREADY_STARTED as u32,
        padded(c"already-started"),
    ),
    (
        SCHEDEV_REASON_NOT_SCHEDULED as u32,
        padded(c"not-scheduled"),
    ),
    (SCHEDEV_REASON_UNRELIABLE as u32, padded(c"unreliable")),
    (
        SCHEDEV_REASON_ANOTHER_LEADS as u32,
        padded(c"another-leads"),
    ),
    (
        SCHEDEV_REASON_SEVERAL_MACHINES as u32,
        padded(c"several-machines"),
    ),
    (
        SCHEDEV_REASON_START_UNKNOWN as u32,
        padded(c"start-unknown"),
    ),
    (
        SCHEDEV_REASON_STATUS_UNKNOWN as u32,
        padded(c"status-unknown"),
    ),
    (
        SCHEDEV_REASON_NAMES_NO_MACHINE as u32,
        padded(c"names-no-machine"),
    ),
    (SCHEDEV_REASON_ADVICE as u32, padded(c"advice")),
    (
        SCHEDEV_REASON_ADVICE_UNAPPROVED as u32,
        padded(c"advice-unapproved"),
    ),
];

/// Returns a schedev_reason as a word, such as "no-rule".
///
/// @param reason  a schedev_reason, or any other number.
/// @return a static string; "other" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_reason_word(reason: u32) -> *const c_char {
    word(&REASONS, reason, c"other")
}

static OUTCOMES: [(u32, Word); 7] = [
    (SCHEDEV_OUTCOME_DOCUMENT as u32, padded(c"document")),
    (SCHEDEV_OUTCOME_UNCHANGED as u32, padded(c"unchanged")),
    (SCHEDEV_OUTCOME_STALE as u32, padded(c"stale")),
    (SCHEDEV_OUTCOME_POLL_FAILED as u32, padded(c"poll-failed")),
    (SCHEDEV_OUTCOME_APPROVED as u32, padded(c"approved")),
    (
        SCHEDEV_OUTCOME_APPROVAL_FAILED as u32,
        padded(c"approval-failed"),
    ),
    (SCHEDEV_OUTCOME_UNEXPECTED as u32, padded(c"unexpected")),
];

/// Returns a schedev_outcome_kind as a word, such as "poll-failed".
///
/// @param kind  a schedev_outcome_kind, or any other number.
/// @return a static string; "other" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_outcome_kind_word(kind: u32) -> *const c_char {
    word(&OUTCOMES, kind, c"other")
}

static PREPARATIONS: [(u32, Word); 3] = [
    (SCHEDEV_PREPARATION_READY as u32, padded(c"ready")),
    (SCHEDEV_PREPARATION_FAILED as u32, padded(c"failed")),
    (SCHEDEV_PREPARATION_ABANDONED as u32, padded(c"abandoned")),
];

/// Returns a schedev_preparation as a word, such as "ready".
///
/// @param preparation  a schedev_preparation, or any other number.
/// @return a static string; "unknown" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_preparation_word(preparation: u32) -> *const c_char {
    word(&PREPARATIONS, preparation, c"unknown")
}

static PHASES: [(u32, Word); 2] = [
    (SCHEDEV_GATE_PHASE_PREPARE as u32, padded(c"prepare")),
    (SCHEDEV_GATE_PHASE_APPROVE as u32, padded(c"approve")),
];

/// Returns a schedev_gate_phase as a word, such as "approve".
///
/// @param phase  a schedev_gate_phase, or any other number.
/// @return a static string; "unknown" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_gate_phase_word(phase: u32) -> *const c_char {
    word(&PHASES, phase, c"unknown")
}

static ANSWERS: [(u32, Word); 3] = [
    (SCHEDEV_GATE_ANSWER_OPEN as u32, padded(c"open")),
    (
        SCHEDEV_GATE_ANSWER_ANOTHER_APPROVES as u32,
        padded(c"another-approves"),
    ),
    (SCHEDEV_GATE_ANSWER_CLOSED as u32, padded(c"closed")),
];

/// Returns a schedev_gate_answer as a word, such as "open".
///
/// @param answer  a schedev_gate_answer, or any other number.
/// @return a static string; "unknown" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_gate_answer_word(answer: u32) -> *const c_char {
    word(&ANSWERS, answer, c"unknown")
}

static WAITS_FOR: [(u32, Word); 14] = [
    (SCHEDEV_WAITS_FOR_DOCUMENT as u32, padded(c"document")),
    (SCHEDEV_WAITS_FOR_DUE_TIME as u32, padded(c"due-time")),
    (
        SCHEDEV_WAITS_FOR_GATE_TO_PREPARE as u32,
        padded(c"gate-to-prepare"),
    ),
    (SCHEDEV_WAITS_FOR_PREPARATION as u32, padded(c"preparation")),
    (
        SCHEDEV_WAITS_FOR_GATE_TO_APPROVE as u32,
        padded(c"gate-to-approve"),
    ),
    (SCHEDEV_WAITS_FOR_TURN as u32, padded(c"turn")),
    (SCHEDEV_WAITS_FOR_APPROVAL as u32, padded(c"approval")),
    (SCHEDEV_WAITS_FOR_START as u32, padded(c"start")),
    (
        SCHEDEV_WAITS_FOR_START_UNAPPROVED as u32,
        padded(c"start-unapproved"),
    ),
    (
        SCHEDEV_WAITS_FOR_START_UNPREPARED as u32,
        padded(c"start-unprepared"),
    ),
    (
        SCHEDEV_WAITS_FOR_CANCELLED_COMMAND as u32,
        padded(c"cancelled-command"),
    ),
    (SCHEDEV_WAITS_FOR_END as u32, padded(c"end")),
    (SCHEDEV_WAITS_FOR_WITHDRAWAL as u32, padded(c"withdrawal")),
    (SCHEDEV_WAITS_FOR_RECOVERY as u32, padded(c"recovery")),
];

/// Returns a schedev_waits_for as a word, such as "gate-to-prepare".
///
/// @param waits_for  a schedev_waits_for, or any other number.
/// @return a static string; "other" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_waits_for_word(waits_for: u32) -> *const c_char {
    word(&WAITS_FOR, waits_for, c"other")
}

static NOTIFICATION_OUTCOMES: [(u32, Word); 3] = [
    (
        SCHEDEV_NOTIFICATION_OUTCOME_APPLIED as u32,
        padded(c"applied"),
    ),
    (
        SCHEDEV_NOTIFICATION_OUTCOME_IGNORED as u32,
        padded(c"ignored"),
    ),
    (
        SCHEDEV_NOTIFICATION_OUTCOME_UNTRACKED as u32,
        padded(c"untracked"),
    ),
];

/// Returns a schedev_notification_outcome as a word, such as "applied".
///
/// @param outcome  a schedev_notification_outcome, or any other number.
/// @return a static string; "other" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_notification_outcome_word(outcome: u32) -> *const c_char {
    word(&NOTIFICATION_OUTCOMES, outcome, c"other")
}

static PROFILE_RULES: [(u32, Word); 6] = [
    (
        SCHEDEV_PROFILE_RULE_ISO_8601_DURATION as u32,
        padded(c"iso-8601-duration"),
    ),
    (
        SCHEDEV_PROFILE_RULE_AT_LEAST_5_MINUTES as u32,
        padded(c"at-least-5-minutes"),
    ),
    (
        SCHEDEV_PROFILE_RULE_AT_MOST_15_MINUTES as u32,
        padded(c"at-most-15-minutes"),
    ),
    (
        SCHEDEV_PROFILE_RULE_EXACTLY_15_MINUTES as u32,
        padded(c"exactly-15-minutes"),
    ),
    (
        SCHEDEV_PROFILE_RULE_NOT_ON_SPOT as u32,
        padded(c"not-on-spot"),
    ),
    (
        SCHEDEV_PROFILE_RULE_COMPUTE_API_VERSION as u32,
        padded(c"compute-api-version"),
    ),
];

/// Returns a schedev_profile_rule as a word, such as "at-least-5-minutes".
///
/// @param rule  a schedev_profile_rule, or any other number.
/// @return a static string; "other" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_profile_rule_word(rule: u32) -> *const c_char {
    word(&PROFILE_RULES, rule, c"other")
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::terminate::ProfileRule;
    use scheduled_events_core::{
        EventKind, GateAnswer, GatePhase, NotificationOutcome, Scope, SourceKind, WaitsFor,
    };

    use super::*;

    fn all(words: &'static [(u32, Word)]) -> Vec<&'static str> {
        words
            .iter()
            .map(|(_, word)| CStr::from_bytes_until_nul(word).unwrap().to_str().unwrap())
            .collect()
    }

    #[test]
    fn words_are_those_of_core() {
        let kinds = [
            EventKind::Freeze,
            EventKind::Reboot,
            EventKind::Redeploy,
            EventKind::Preempt,
            EventKind::Terminate,
            EventKind::SpotRebalanceRecommendation,
        ];
        assert_eq!(all(&TYPES)[1..], kinds.map(EventKind::word));
        assert_eq!(
            all(&SOURCES)[1..],
            [SourceKind::Platform, SourceKind::User].map(SourceKind::word)
        );
        assert_eq!(
            all(&SCOPES),
            [Scope::Mine, Scope::Others, Scope::Any].map(Scope::word)
        );
        assert_eq!(
            all(&PHASES),
            [GatePhase::Prepare, GatePhase::Approve].map(GatePhase::word)
        );
        let answers = [
            GateAnswer::Open,
            GateAnswer::AnotherApproves,
            GateAnswer::Closed,
        ];
        assert_eq!(all(&ANSWERS), answers.map(GateAnswer::word));
        assert_eq!(
            all(&NOTIFICATION_OUTCOMES),
            NotificationOutcome::ALL.map(NotificationOutcome::word)
        );
        assert_eq!(all(&WAITS_FOR), WaitsFor::ALL.map(WaitsFor::word));
        assert_eq!(all(&PROFILE_RULES), ProfileRule::ALL.map(ProfileRule::word));
    }

    #[test]
    fn other_numbers_have_a_word_too() {
        // SAFETY: the words end with NUL.
        let word = |word| unsafe { CStr::from_ptr(word) }.to_str().unwrap();
        assert_eq!(
            word(schedev_event_type_word(SCHEDEV_EVENT_TYPE_REBOOT as u32)),
            "Reboot"
        );
        assert_eq!(
            word(schedev_event_type_word(SCHEDEV_EVENT_TYPE_OTHER as u32)),
            "other"
        );
        assert_eq!(word(schedev_leader_word(99)), "unknown");
        assert_eq!(
            word(schedev_reason_word(SCHEDEV_REASON_START_UNKNOWN as u32)),
            "start-unknown"
        );
    }
}
