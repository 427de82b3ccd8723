//! The rules of `run`: which events stop the worker, and when.

use std::time::Duration;

use scheduled_events_core::{Action, EventKind, EventTypes, Policy, Rule, TooManyRules};

use crate::args::{OnAdvice, RunArgs};
use crate::config::load_policy;
use crate::error::CommandError;
use scheduled_events::limits::{RUN_NOTICE, RUN_SHORT_NOTICE};

/// The rules: `--policy`, or rules by which events of the types in `--stop-on` stop the worker.
pub(super) fn policy(args: &RunArgs) -> Result<Policy, CommandError> {
    let before = stop_before(args)?;
    let Some(file) = &args.policy else {
        return Policy::new(&stop_on(args, before)).map_err(usage);
    };
    let policy = load_policy(file, &args.config)?;
    let waits = |rule: &Rule| Rule {
        prepare_before: match rule.action {
            Action::Prepare => rule.prepare_before.or(before),
            _ => rule.prepare_before,
        },
        ..*rule
    };
    let rules: Vec<Rule> = policy.rules().iter().map(waits).collect();
    with_rules(&policy, &rules).map_err(usage)
}

/// The rules of `--stop-on`.
fn stop_on(args: &RunArgs, before: Option<u32>) -> Vec<Rule> {
    let at_once = Rule {
        event_types: EventTypes::of(&args.stop_on),
        ..Rule::new(Action::Prepare)
    };
    let waits = Rule {
        prepare_before: before,
        ..at_once
    };
    if before.is_none() || args.stop_before.is_some() {
        return vec![waits];
    }
    let short = Rule {
        max_notice: Some(RUN_SHORT_NOTICE - 1),
        ..at_once
    };
    vec![short, waits]
}

/// How many seconds before an event the worker is stopped; `None` for as soon as it is announced.
fn stop_before(args: &RunArgs) -> Result<Option<u32>, CommandError> {
    let before = match args.stop_before {
        Some(before) if before < args.grace => {
            return Err(CommandError::usage(
                "--stop-before is shorter than --grace, so the event would start before the worker has ended",
            ));
        }
        Some(before) => before,
        // The event is approved, so it starts once the worker is gone.
        None if args.approve => return Ok(None),
        None => args.grace.saturating_add(RUN_NOTICE),
    };
    Ok(Some(whole_seconds(before)))
}

/// Rounded up, since less time would be left otherwise.
fn whole_seconds(time: Duration) -> u32 {
    let begun = u64::from(time.subsec_nanos() > 0);
    u32::try_from(time.as_secs().saturating_add(begun)).unwrap_or(u32::MAX)
}

/// Adds the rule of `--on-advice stop`, after those of the user, which may name advice, too.
pub(super) fn with_advice(policy: Policy, on_advice: OnAdvice) -> Result<Policy, CommandError> {
    if on_advice != OnAdvice::Stop {
        return Ok(policy);
    }
    let rule = Rule {
        event_types: EventTypes::of(&[EventKind::SpotRebalanceRecommendation]),
        ..Rule::new(Action::Prepare)
    };
    with_rules(&policy, &[policy.rules(), &[rule]].concat()).map_err(usage)
}

fn with_rules(policy: &Policy, rules: &[Rule]) -> Result<Policy, TooManyRules> {
    let mut changed = Policy::new(rules)?;
    changed.leader = policy.leader;
    Ok(changed)
}

fn usage(error: TooManyRules) -> CommandError {
    CommandError::usage(error.to_string())
}

/// The types of events that end the machine and for which the policy stops the worker.
pub(super) fn ending_types(policy: &Policy) -> Vec<&'static str> {
    let stops = |kind| {
        policy
            .rules()
            .iter()
            .any(|rule| rule.action == Action::Prepare && rule.event_types.contains(kind))
    };
    let types = [
        (EventKind::Preempt, "Preempt"),
        (EventKind::Terminate, "Terminate"),
    ];
    types
        .into_iter()
        .filter(|(kind, _)| stops(*kind))
        .map(|(_, word)| word)
        .collect()
}
