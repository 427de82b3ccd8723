//! What `run` says about events of this machine.

use scheduled_events_core::{Action, EventKind, EventStatus, Reason, UnixSeconds};

use crate::output::format::duration;
use scheduled_events::record::EventRecord;

/// The type of an event.
pub(super) fn kind(event: &EventRecord) -> &str {
    event.event_type.as_deref().unwrap_or("an event")
}

/// Whether the event is advice, as core decides it.
fn is_advice(event: &EventRecord) -> bool {
    let kind = EventKind::SpotRebalanceRecommendation.word();
    event.event_type.as_deref() == Some(kind)
        || event.event_status.as_deref() == EventStatus::Advisory.text().as_str()
}

/// The event, and when it may start: `Reboot is announced, in 14 min 32 s`. `seconds_left` is the time
/// until then, if it is known.
pub(super) fn announced(event: &EventRecord, seconds_left: Option<i64>) -> String {
    let kind = kind(event);
    if is_advice(event) {
        return format!("{kind} is advice, and an eviction may follow at any time");
    }
    match seconds_left {
        Some(left @ 1..) => format!("{kind} is announced, in {}", duration(left.unsigned_abs())),
        Some(_) => format!("{kind} is announced, and due"),
        None => format!("{kind} is announced, for an unknown time"),
    }
}

/// The policy's decision about an event of this machine.
#[derive(Clone, Copy)]
pub(super) struct Decided {
    pub(super) action: Action,
    /// The number of the rule, from 1.
    pub(super) rule: Option<u16>,
    pub(super) reason: Reason,
}

/// What was configured, as far as a line depends on it.
pub(super) struct Configured {
    /// How many seconds before an event each rule prepares at the earliest.
    pub(super) waits: Vec<Option<u32>>,
    /// Whether `--stop-on` decides, not a `--policy`.
    pub(super) by_stop_on: bool,
    pub(super) approve: bool,
    /// Whether `--on-advice ignore` was given. Otherwise, advice is ignored because there is no checkpoint
    /// command.
    pub(super) ignores_advice: bool,
}

/// The line about an announced event for which the worker is not stopped now; `None` if it is, which
/// the supervisor reports.
pub(super) fn goes_on(
    event: &EventRecord,
    now: UnixSeconds,
    decided: Decided,
    configured: &Configured,
    worker_runs: bool,
) -> Option<String> {
    let left = event.not_before.map(|start| start.since(now));
    let rule = decided.rule.and_then(|number| number.checked_sub(1));
    let waits = rule
        .and_then(|index| *configured.waits.get(usize::from(index))?)
        .filter(|before| left.is_some_and(|left| left > i64::from(*before)));
    let stays = if worker_runs {
        "the worker goes on"
    } else {
        "it does not stop the worker"
    };
    let what = announced(event, left);
    let why = match (decided.action, decided.reason) {
        (Action::Prepare, _) => {
            let before = duration(u64::from(waits?));
            return Some(format!("{what}: {stays} until {before} before that"));
        }
        (Action::Approve, _) if configured.approve => {
            ", and the policy approves the event".to_owned()
        }
        (Action::Approve, _) => ", and nothing is approved without --approve".to_owned(),
        (_, Reason::Advice) if configured.ignores_advice => {
            ", since --on-advice says so".to_owned()
        }
        (_, Reason::Advice) => ", since there is no --checkpoint".to_owned(),
        (_, Reason::NoRule) if configured.by_stop_on => {
            ", since --stop-on does not name this type".to_owned()
        }
        (_, reason) => format!(": {reason}"),
    };
    Some(format!("{what}: {stays}{why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1000);

    fn event(event_type: &str, seconds_left: Option<i64>) -> EventRecord {
        EventRecord {
            event_type: Some(event_type.to_owned()),
            not_before: seconds_left.map(|left| UnixSeconds(NOW.0 + left)),
            ..EventRecord::default()
        }
    }

    fn configured(by_stop_on: bool) -> Configured {
        Configured {
            waits: vec![None, Some(38)],
            by_stop_on,
            approve: false,
            ignores_advice: false,
        }
    }

    #[test]
    fn each_decision_by_which_the_worker_goes_on_has_its_reason() {
        let (stop_on, policy) = (true, false);
        for (event, action, reason, by_stop_on, expected) in [
            (
                event("Freeze", Some(872)),
                Action::Hold,
                Reason::NoRule,
                stop_on,
                "Freeze is announced, in 14 min 32 s: the worker goes on, since --stop-on does not name this type",
            ),
            (
                event("Defrost", None),
                Action::Hold,
                Reason::NoRule,
                policy,
                "Defrost is announced, for an unknown time: the worker goes on: no rule matches",
            ),
            (
                event("Freeze", Some(0)),
                Action::Ignore,
                Reason::Rule,
                policy,
                "Freeze is announced, and due: the worker goes on: a rule matches",
            ),
            (
                event("Freeze", Some(60)),
                Action::Approve,
                Reason::Rule,
                policy,
                "Freeze is announced, in 1 min: the worker goes on, and nothing is approved without --approve",
            ),
            (
                event("Reboot", Some(7 * 86_400)),
                Action::Prepare,
                Reason::Rule,
                stop_on,
                "Reboot is announced, in 7 d: the worker goes on until 38 s before that",
            ),
            (
                event("SpotRebalanceRecommendation", None),
                Action::Hold,
                Reason::Advice,
                stop_on,
                "SpotRebalanceRecommendation is advice, and an eviction may follow at any time: \
                 the worker goes on, since there is no --checkpoint",
            ),
        ] {
            let decided = Decided {
                action,
                rule: Some(2),
                reason,
            };
            let line = goes_on(&event, NOW, decided, &configured(by_stop_on), true);
            assert_eq!(line.as_deref(), Some(expected));
        }
    }

    #[test]
    fn an_event_that_stops_the_worker_now_is_left_to_the_supervisor() {
        let decided = Decided {
            action: Action::Prepare,
            rule: Some(2),
            reason: Reason::Rule,
        };
        for left in [None, Some(38), Some(-1)] {
            let line = goes_on(
                &event("Preempt", left),
                NOW,
                decided,
                &configured(true),
                true,
            );
            assert_eq!(line, None);
        }
    }
}
