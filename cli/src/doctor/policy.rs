//! The policy in a line: what it approves, what it prepares for, and that it does neither.

use scheduled_events_core::{Action, EventKind, EventTypes, Policy, Rule};

use super::finding::{Check, Finding};
use crate::args::WatchArgs;

const KINDS: [EventKind; 7] = [
    EventKind::Freeze,
    EventKind::Reboot,
    EventKind::Redeploy,
    EventKind::Preempt,
    EventKind::Terminate,
    EventKind::SpotRebalanceRecommendation,
    EventKind::Other,
];

/// What the policy does.
pub(super) fn check_policy(args: &WatchArgs, policy: &Policy) -> Finding {
    Finding::ok(
        Check::Policy,
        format!(
            "{}: {}",
            args.policy.policy,
            in_words(policy, args.gate.is_some())
        ),
    )
}

fn in_words(policy: &Policy, has_gate: bool) -> String {
    let approves = types(policy, Action::Approve);
    let prepares = types(policy, Action::Prepare);
    if approves.is_empty() && prepares.is_empty() {
        return "never approves, and prepares for nothing".to_owned();
    }
    let mut parts = Vec::new();
    if !approves.is_empty() {
        parts.push(format!("approves {}", approves.join(", ")));
    }
    if !prepares.is_empty() {
        parts.push(format!(
            "prepares for {}, and approves then",
            prepares.join(", ")
        ));
        if policy.leader.is_none() && !has_gate {
            parts.push(
                "events of several machines are prepared for and not approved: no gate, no leader"
                    .to_owned(),
            );
        }
    }
    parts.join("; ")
}

/// The types of the rules with this action, each once.
fn types(policy: &Policy, action: Action) -> Vec<String> {
    let mut types: Vec<String> = Vec::new();
    for rule in policy.rules().iter().filter(|rule| rule.action == action) {
        let limited = if is_limited(rule) {
            " with conditions"
        } else {
            ""
        };
        let kinds = KINDS.into_iter();
        let words: Vec<_> = if rule.event_types == EventTypes::ANY {
            vec!["any type"]
        } else {
            kinds
                .filter(|kind| rule.event_types.contains(*kind))
                .map(EventKind::word)
                .collect()
        };
        for word in words {
            let text = format!("{word}{limited}");
            if !types.contains(&text) {
                types.push(text);
            }
        }
    }
    types
}

/// Whether the rule has conditions besides the type.
fn is_limited(rule: &Rule) -> bool {
    let plain = Rule::new(rule.action);
    (
        rule.sources,
        rule.min_duration,
        rule.max_duration,
        rule.min_notice,
        rule.max_notice,
    ) != (
        plain.sources,
        plain.min_duration,
        plain.max_duration,
        plain.min_notice,
        plain.max_notice,
    )
}

#[cfg(test)]
mod tests {
    use scheduled_events::policy_file::parse;

    use super::*;

    #[test]
    fn policies_are_in_words() {
        assert_eq!(
            in_words(&Policy::observe(), false),
            "never approves, and prepares for nothing"
        );
        assert_eq!(
            in_words(&Policy::sample(), false),
            "approves any type with conditions, Freeze with conditions"
        );
        let drain =
            parse("[[rule]]\nevent = [\"Reboot\", \"Redeploy\"]\naction = \"prepare\"\n").unwrap();
        assert_eq!(
            in_words(&drain, true),
            "prepares for Reboot, Redeploy, and approves then"
        );
        assert!(in_words(&drain, false).ends_with("no gate, no leader"));
    }
}
