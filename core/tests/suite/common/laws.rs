//! The invariants of a session, as questions to what a host wrote down. Each tells the first breach.

use std::collections::{HashMap, HashSet};

use scheduled_events_core::{Action, Change, Preparation, Reason, Rule, Scope, UnixMillis};

use super::{Entry, Setup, Spec, What};

pub type Verdict = Result<(), String>;

/// Asks about each approval, given the newest document that was believed since the start.
fn each_approval(
    trace: &[Entry],
    mut ask: impl FnMut(&str, Option<&Spec>, &[&'static str]) -> Verdict,
    setup: &Setup,
) -> Verdict {
    let mut names = setup.names.clone();
    let mut believed: &[Spec] = &[];
    for entry in trace {
        match &entry.what {
            What::Served(events) => believed = events,
            What::Restarted => believed = &[],
            What::Named(new) => names.clone_from(new),
            What::Post(ids) => {
                for id in ids {
                    ask(id, believed.iter().find(|spec| spec.kept_id() == *id), &names)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// 1. Only an event last seen `Scheduled` is approved.
pub fn only_scheduled_ones(trace: &[Entry], setup: &Setup) -> Verdict {
    let ask = |id: &str, spec: Option<&Spec>, _: &[_]| match spec {
        Some(spec) if spec.is_scheduled() => Ok(()),
        _ => Err(format!("{id} approved, last seen as {spec:?}")),
    };
    each_approval(trace, ask, setup)
}

/// 2. Only one whose `Resources` name this machine, unless a rule extends to others; a `Terminate` never.
pub fn only_own_ones(trace: &[Entry], setup: &Setup) -> Verdict {
    let extends = setup.policy.rules().iter().any(|rule: &Rule| rule.scope != Scope::Mine);
    let ask = |id: &str, spec: Option<&Spec>, names: &[_]| match spec {
        Some(spec) if spec.names(names) => Ok(()),
        Some(spec) if extends && !names.is_empty() && spec.event_type != Some("Terminate") => Ok(()),
        _ => Err(format!("{id} approved by {names:?}, which is {spec:?}")),
    };
    each_approval(trace, ask, setup)
}

/// 3. After a 2xx an id is never posted again; after a failure not at once.
pub fn never_twice(trace: &[Entry], _: &Setup) -> Verdict {
    let mut approved = HashSet::new();
    let mut refused: HashMap<&String, UnixMillis> = HashMap::new();
    for entry in trace {
        match &entry.what {
            What::Approved(ids) => approved.extend(ids),
            What::Refused(ids) => refused.extend(ids.iter().map(|id| (id, entry.at))),
            What::Restarted => refused.clear(),
            What::Change(id, change) if change.is_end() => drop(refused.remove(id)),
            What::Post(ids) => {
                for id in ids {
                    if approved.contains(id) {
                        return Err(format!("{id} posted again after its approval"));
                    }
                    if refused.get(id).is_some_and(|since| entry.at.millis_since(*since) < 500) {
                        return Err(format!("{id} posted again at once"));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// 4. Never before the host said ready when the action is `prepare`, and never after it said failed.
pub fn only_when_ready(trace: &[Entry], _: &Setup) -> Verdict {
    let mut actions: HashMap<&String, Action> = HashMap::new();
    let mut answers: HashMap<&String, Preparation> = HashMap::new();
    for entry in trace {
        match &entry.what {
            What::Change(id, Change::Scheduled | Change::StartedWithoutNotice) | What::Prepare(id) => {
                answers.remove(id);
            }
            What::Prepared(id, answer) => drop(answers.insert(id, *answer)),
            What::Decision(id, decision) => drop(actions.insert(id, decision.action)),
            What::Post(ids) => {
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

/// 5. An event with a problem in a member that decisions rest on is held.
pub fn odd_ones_are_held(trace: &[Entry], setup: &Setup) -> Verdict {
    const RESTED_ON: [&str; 6] =
        ["EventId", "EventType", "EventStatus", "EventSource", "DurationInSeconds", "Resources"];
    let odd = |spec: &Spec| spec.odd.is_some_and(|member| RESTED_ON.contains(&member));
    let mut believed: &[Spec] = &[];
    for entry in trace {
        match &entry.what {
            What::Served(events) => believed = events,
            What::Decision(id, decision)
                if believed.iter().any(|spec| spec.kept_id() == *id && odd(spec))
                    && !(decision.action == Action::Hold && matches!(decision.reason, Reason::Unreliable(_))) =>
            {
                return Err(format!("{id} is odd, and decided as {decision:?}"));
            }
            _ => {}
        }
    }
    each_approval(
        trace,
        |id, spec, _| if spec.is_some_and(odd) { Err(format!("{id} approved, an odd one")) } else { Ok(()) },
        setup,
    )
}

/// 6. Only a document that does not hold an event ends it.
pub fn only_a_document_ends(trace: &[Entry], _: &Setup) -> Verdict {
    let mut believed: Option<&[Spec]> = None;
    for entry in trace {
        match &entry.what {
            What::Served(events) => believed = Some(events),
            What::Change(id, change) if change.is_end() => {
                let there = |events: &&[Spec]| events.iter().any(|spec| spec.kept_id() == *id && spec.is_live());
                if believed.as_ref().is_none_or(there) {
                    return Err(format!("{id}: {change}, but no document said so"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// 7. Each event's changes come in a legal order, exactly once.
pub fn changes_in_order(trace: &[Entry], _: &Setup) -> Verdict {
    // By event: whether it has started, while it lives.
    let mut lives: HashMap<&String, bool> = HashMap::new();
    for entry in trace {
        let What::Change(id, change) = &entry.what else { continue };
        let legal = match (change, lives.get(id)) {
            (Change::Scheduled, None) => lives.insert(id, false).is_none(),
            (Change::StartedWithoutNotice, None | Some(false)) | (Change::Started, Some(false)) => {
                lives.insert(id, true);
                true
            }
            (Change::Rescheduled, Some(started)) => !started,
            (Change::Updated, Some(_)) => true,
            (Change::Completed | Change::Ended, Some(_)) | (Change::Cancelled, Some(false)) => {
                lives.remove(id).is_some()
            }
            _ => false,
        };
        if !legal {
            return Err(format!("{id}: {change} is out of order at {:?}", entry.at));
        }
    }
    if lives.is_empty() { Ok(()) } else { Err(format!("{lives:?} never ended")) }
}

/// 8. `recover` is said exactly once for every event that `prepare` was said for; after the event, and never otherwise.
///
/// A restart before the host's answer repeats both.
pub fn recovers_once(trace: &[Entry], _: &Setup) -> Verdict {
    #[derive(Default, Debug)]
    #[allow(clippy::struct_excessive_bools)] // What has been said so far.
    struct Life {
        prepared: bool,
        preparing: bool,
        answered: bool,
        gone: bool,
        recovering: bool,
    }
    let mut lives: HashMap<&String, Life> = HashMap::new();
    for entry in trace {
        let breach = |what: &str, id: &str| Err(format!("{id}: {what} at {:?}", entry.at));
        match &entry.what {
            What::Change(id, Change::Scheduled | Change::StartedWithoutNotice) => {
                if lives.get(id).is_some_and(|life| life.gone && life.prepared) {
                    return breach("a new life before the recovery from the last", id);
                }
                lives.entry(id).or_default();
            }
            What::Change(id, change) if change.is_end() => {
                if lives.get(id).is_some_and(|life| life.prepared) {
                    lives.entry(id).or_default().gone = true;
                } else {
                    lives.remove(id);
                }
            }
            What::Prepare(id) => {
                let life = lives.entry(id).or_default();
                if life.preparing || life.answered || life.gone {
                    return breach("prepared for twice, or too late", id);
                }
                life.prepared = true;
                life.preparing = true;
            }
            What::Prepared(id, _) => {
                let life = lives.entry(id).or_default();
                life.preparing = false;
                life.answered = true;
            }
            What::Recover(id) => match lives.get_mut(id) {
                Some(life) if life.prepared && life.gone && !life.recovering && !life.preparing => {
                    life.recovering = true;
                }
                life => return breach(&format!("recovered from out of order, {life:?}"), id),
            },
            What::Recovered(id) => drop(lives.remove(id)),
            What::Restarted => {
                for life in lives.values_mut() {
                    life.preparing = false;
                    life.recovering = false;
                }
            }
            _ => {}
        }
    }
    match lives.iter().find(|(_, life)| life.prepared) {
        Some((id, life)) => Err(format!("{id} was never recovered from: {life:?}")),
        None => Ok(()),
    }
}

/// Every law, for tests that look at something else in the first place.
pub fn all(trace: &[Entry], setup: &Setup) -> Verdict {
    [
        only_scheduled_ones,
        only_own_ones,
        never_twice,
        only_when_ready,
        odd_ones_are_held,
        only_a_document_ends,
        changes_in_order,
        recovers_once,
    ]
    .into_iter()
    .try_for_each(|law| law(trace, setup))
}
