//! The policy in a line: what it approves, what it prepares for, and that it does neither.

use scheduled_events_core::Policy;

use super::check::{Check, Finding};
use crate::args::WatchArgs;
use crate::policy_words::PolicyWords;

/// What the policy does.
pub(super) fn check_policy(args: &WatchArgs, policy: &Policy) -> Finding {
    let words = PolicyWords::new(policy, args.gate.is_some(), None);
    Finding::ok(
        Check::Policy,
        format!("{}: {}", args.policy.policy, words.summary()),
    )
}
