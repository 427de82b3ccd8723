//! Checks of the invariants of a session on the trace of a host. Each check returns the first violation.

use std::collections::{HashMap, HashSet};

use scheduled_events_core::{Action, Change, Preparation, Reason, Rule, Scope, UnixMillis};

use super::{Entry, Exchange, Setup, Spec};

pub type CheckResult = Result<(), String>;

/// Calls `ask` for each approval, with the event in the newest accepted document since the start.
fn each_approval(
    trace: &[Entry],
    mut ask: impl FnMut(&str, Option<&Spec>, &[&'static str]) -> CheckResult,
    setup: &Setup,
) -> CheckResult {
    let mut names = setup.names.clone();
    let mut accepted: &[Spec] = &[];
    for entry in trace {
        match &entry.what {
            Exchange::Served(events) => accepted = events,
            Exchange::Restarted => accepted = &[],
            Exchange::Named(new) => names.clone_from(new),
            Exchange::Post(ids) => {
                for id in ids {
                    ask(id, accepted.iter().find(|spec| spec.tracked_id() == *id), &names)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// 1. Only an event last seen `Scheduled` is approved.
pub fn only_scheduled_events_are_approved(trace: &[Entry], setup: &Setup) -> CheckResult {
    let ask = |id: &str, spec: Option<&Spec>, _: &[_]| match spec {
        Some(spec) if spec.is_scheduled() => Ok(()),
        _ => Err(format!("{id} approved, last seen as {spec:?}")),
    };
    each_approval(trace, ask, setup)
}

/// 2. Only an event whose `Resources` name this machine is approved, unless a rule covers others; another machine's
///    `Terminate` never is.
pub fn only_own_events_are_approved(trace: &[Entry], setup: &Setup) -> CheckResult {
    let covers_others = setup.policy.rules().iter().any(|rule: &Rule| rule.scope != Scope::Mine);
    let ask = |id: &str, spec: Option<&Spec>, names: &[_]| match spec {
        Some(spec) if spec.names(names) => Ok(()),
        Some(spec) if covers_others && !names.is_empty() && spec.event_type != Some("Terminate") => Ok(()),
        _ => Err(format!("{id} approved by {names:?}, which is {spec:?}")),
    };
    each_approval(trace, ask, setup)
}

/// 3. After a 2xx an id is never posted again; after a failure, not immediately.
pub fn no_event_is_approved_twice(trace: &[Entry], _: &Setup) -> CheckResult {
    let mut approved = HashSet::new();
    let mut refused: HashMap<&String, UnixMillis> = HashMap::new();
    for entry in trace {
        match &entry.what {
            Exchange::Approved(ids) => approved.extend(ids),
            Exchange::Refused(ids) => refused.extend(ids.iter().map(|id| (id, entry.at))),
            Exchange::Restarted => refused.clear(),
            Exchange::Change(id, change) if change.is_end() => drop(refused.remove(id)),
            Exchange::Post(ids) => {
                for id in ids {
                    if approved.contains(id) {
                        return Err(format!("{id} posted again after its approval"));
                    }
                    if refused.get(id).is_some_and(|since| entry.at.millis_since(*since) < 500) {
                        return Err(format!("{id} posted again immediately"));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// 4. An event with the action `prepare` is approved only after the host reported ready, and never after it reported
///    failed.
pub fn unprepared_events_are_not_approved(trace: &[Entry], _: &Setup) -> CheckResult {
    let mut actions: HashMap<&String, Action> = HashMap::new();
    let mut answers: HashMap<&String, Preparation> = HashMap::new();
    for entry in trace {
        match &entry.what {
            Exchange::Change(id, Change::Scheduled | Change::StartedWithoutNotice) | Exchange::Prepare(id) => {
                answers.remove(id);
            }
            Exchange::Prepared(id, answer) => drop(answers.insert(id, *answer)),
            Exchange::Decision(id, decision) => drop(actions.insert(id, decision.action)),
            Exchange::Post(ids) => {
                for id in ids {
                    let answer = answers.get(id);
                    match actions.get(id) {
                        Some(Action::Approve) if answer != Some(&Preparation::Failed) => {}
                        Some(Action::Prepare) if answer == Some(&Preparation::Ready) => {}
                        action => return Err(format!("{id} approved with {action:?} and {answer:?}")),
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// 5. An event with a problem in a member that decisions depend on is held.
pub fn invalid_events_are_held(trace: &[Entry], setup: &Setup) -> CheckResult {
    const RELEVANT: [&str; 6] =
        ["EventId", "EventType", "EventStatus", "EventSource", "DurationInSeconds", "Resources"];
    let invalid = |spec: &Spec| spec.invalid.is_some_and(|member| RELEVANT.contains(&member));
    let mut accepted: &[Spec] = &[];
    for entry in trace {
        match &entry.what {
            Exchange::Served(events) => accepted = events,
            Exchange::Decision(id, decision)
                if accepted.iter().any(|spec| spec.tracked_id() == *id && invalid(spec))
                    && !(decision.action == Action::Hold && matches!(decision.reason, Reason::Unreliable(_))) =>
            {
                return Err(format!("{id} is invalid, but decided as {decision:?}"));
            }
            _ => {}
        }
    }
    each_approval(
        trace,
        |id, spec, _| if spec.is_some_and(invalid) { Err(format!("{id} approved, but invalid")) } else { Ok(()) },
        setup,
    )
}

/// 6. An event ends only by a document that does not contain it.
pub fn only_a_document_ends_an_event(trace: &[Entry], _: &Setup) -> CheckResult {
    let mut accepted: Option<&[Spec]> = None;
    for entry in trace {
        match &entry.what {
            Exchange::Served(events) => accepted = Some(events),
            Exchange::Change(id, change) if change.is_end() => {
                let is_present =
                    |events: &&[Spec]| events.iter().any(|spec| spec.tracked_id() == *id && spec.is_open());
                if accepted.as_ref().is_none_or(is_present) {
                    return Err(format!("{id}: {change}, but the newest document contains it"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// 7. The changes of each event are reported in a legal order, each once.
pub fn changes_are_in_order(trace: &[Entry], _: &Setup) -> CheckResult {
    // For each event that has not ended: whether it has started.
    let mut events: HashMap<&String, bool> = HashMap::new();
    for entry in trace {
        let Exchange::Change(id, change) = &entry.what else { continue };
        let legal = match (change, events.get(id)) {
            (Change::Scheduled, None) => events.insert(id, false).is_none(),
            (Change::StartedWithoutNotice, None | Some(false)) | (Change::Started, Some(false)) => {
                events.insert(id, true);
                true
            }
            (Change::Rescheduled, Some(started)) => !started,
            (Change::Updated, Some(_)) => true,
            (Change::Completed | Change::Ended, Some(_)) | (Change::Cancelled, Some(false)) => {
                events.remove(id).is_some()
            }
            _ => false,
        };
        if !legal {
            return Err(format!("{id}: {change} is out of order at {:?}", entry.at));
        }
    }
    if events.is_empty() { Ok(()) } else { Err(format!("{events:?} never ended")) }
}

/// 8. `recover` is issued exactly once for each event that `prepare` was issued for, after its end, and never otherwise. A
///    restart before the host's answer repeats both.
pub fn each_preparation_is_recovered_from_once(trace: &[Entry], _: &Setup) -> CheckResult {
    #[derive(Default, Debug)]
    #[allow(clippy::struct_excessive_bools)] // They are independent of each other.
    struct EventState {
        prepared: bool,
        preparing: bool,
        answered: bool,
        gone: bool,
        recovering: bool,
    }
    let mut events: HashMap<&String, EventState> = HashMap::new();
    for entry in trace {
        let violation = |what: &str, id: &str| Err(format!("{id}: {what} at {:?}", entry.at));
        match &entry.what {
            Exchange::Change(id, Change::Scheduled | Change::StartedWithoutNotice) => {
                if events.get(id).is_some_and(|event| event.gone && event.prepared) {
                    return violation("new before the recovery", id);
                }
                events.entry(id).or_default();
            }
            Exchange::Change(id, change) if change.is_end() => {
                if events.get(id).is_some_and(|event| event.prepared) {
                    events.entry(id).or_default().gone = true;
                } else {
                    events.remove(id);
                }
            }
            Exchange::Prepare(id) => {
                let event = events.entry(id).or_default();
                if event.preparing || event.answered || event.gone {
                    return violation("prepared for twice or too late", id);
                }
                event.prepared = true;
                event.preparing = true;
            }
            Exchange::Prepared(id, _) => {
                let event = events.entry(id).or_default();
                event.preparing = false;
                event.answered = true;
            }
            Exchange::Recover(id) => match events.get_mut(id) {
                Some(event) if event.prepared && event.gone && !event.recovering && !event.preparing => {
                    event.recovering = true;
                }
                event => return violation(&format!("recovered from in this state: {event:?}"), id),
            },
            Exchange::Recovered(id) => drop(events.remove(id)),
            Exchange::Restarted => {
                for event in events.values_mut() {
                    event.preparing = false;
                    event.recovering = false;
                }
            }
            _ => {}
        }
    }
    match events.iter().find(|(_, event)| event.prepared) {
        Some((id, event)) => Err(format!("{id} was never recovered from: {event:?}")),
        None => Ok(()),
    }
}

/// Checks all invariants, for tests of other properties.
pub fn all(trace: &[Entry], setup: &Setup) -> CheckResult {
    [
        only_scheduled_events_are_approved,
        only_own_events_are_approved,
        no_event_is_approved_twice,
        unprepared_events_are_not_approved,
        invalid_events_are_held,
        only_a_document_ends_an_event,
        changes_are_in_order,
        each_preparation_is_recovered_from_once,
    ]
    .into_iter()
    .try_for_each(|check| check(trace, setup))
}
