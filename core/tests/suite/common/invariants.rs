//! Checks of the invariants of a session on the trace of a host. Each check returns the first violation.

use std::collections::{HashMap, HashSet};

use scheduled_events_core::{
    Action, Change, GateAnswer, GatePhase, Preparation, Reason, Rule, Scope, UnixMillis,
};

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
                    ask(
                        id,
                        accepted.iter().find(|spec| spec.tracked_id() == *id),
                        &names,
                    )?;
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

/// 1. Advice is never approved, and no gate is asked to approve it; the gate is asked to prepare only if a rule names advice.
pub fn advice_is_never_approved(trace: &[Entry], setup: &Setup) -> CheckResult {
    let mut accepted: &[Spec] = &[];
    for entry in trace {
        let advice = |id: &String| {
            let mut specs = accepted.iter().filter(|spec| spec.tracked_id() == *id);
            specs.find(|spec| spec.is_advice())
        };
        let violation = match &entry.what {
            Exchange::Served(events) => {
                accepted = events;
                None
            }
            Exchange::Post(ids) => ids.iter().find_map(advice),
            Exchange::Decision(id, decision) if decision.action == Action::Approve => advice(id),
            Exchange::Decision(id, decision) if decision.approve_after.is_some() => advice(id),
            Exchange::Gate(id, GatePhase::Approve) | Exchange::LastCall(id) => advice(id),
            Exchange::Gate(id, GatePhase::Prepare) | Exchange::Prepare(id) => {
                advice(id).filter(|_| !setup.policy.names_advice())
            }
            _ => None,
        };
        if let Some(advice) = violation {
            return Err(format!("{:?} for {advice:?}", entry.what));
        }
    }
    Ok(())
}

/// 2. Only an event whose `Resources` name this machine is approved, unless a rule covers others; another machine's
///    `Terminate` never is.
pub fn only_own_events_are_approved(trace: &[Entry], setup: &Setup) -> CheckResult {
    let covers_others = setup
        .policy
        .rules()
        .iter()
        .any(|rule: &Rule| rule.scope != Scope::Mine);
    let ask = |id: &str, spec: Option<&Spec>, names: &[_]| match spec {
        Some(spec) if spec.names(names) => Ok(()),
        Some(spec)
            if covers_others && !names.is_empty() && spec.event_type != Some("Terminate") =>
        {
            Ok(())
        }
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
                    if refused
                        .get(id)
                        .is_some_and(|since| entry.at.millis_since(*since) < 500)
                    {
                        return Err(format!("{id} posted again immediately"));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whose events are open, as a document after the other shows it.
#[derive(Default)]
struct Owners {
    /// For each event that named this machine: since when it does not any more.
    own: HashMap<String, Option<UnixMillis>>,
}

impl Owners {
    /// Applies a document. Returns the events that are not this machine's any more.
    fn apply(&mut self, events: &[Spec], names: &[&str], at: UnixMillis) -> Vec<String> {
        if names.is_empty() {
            return Vec::new();
        }
        let mut left = Vec::new();
        // The documents must follow each other.
        for (id, since) in &mut self.own {
            if !events.iter().any(|spec| spec.tracked_id() == *id) {
                *since = None;
            }
        }
        for spec in events.iter().filter(|spec| spec.is_open()) {
            let id = spec.tracked_id();
            if spec.names(names) {
                self.own.insert(id, None);
            } else if spec.invalid != Some("Resources")
                && !spec.resources.is_empty()
                && let Some(since) = self.own.get_mut(&id)
                && at.millis_since(*since.get_or_insert(at)) >= 2000
            {
                self.own.remove(&id);
                left.push(id);
            }
        }
        left
    }

    /// A restart forgets since when an event does not name this machine.
    fn restarted(&mut self) {
        self.own.values_mut().for_each(|since| *since = None);
    }

    fn is_own(&self, id: &String) -> bool {
        self.own.contains_key(id)
    }
}

/// 4. An event with the action `prepare` is approved only after the host reported ready for the event as it is, never after
///    it reported failed for it, and not while this machine is back in service.
pub fn unprepared_events_are_not_approved(trace: &[Entry], setup: &Setup) -> CheckResult {
    let interruption = |spec: &Spec| {
        let is_valid = |member| spec.invalid != Some(member);
        (
            spec.event_type.filter(|_| is_valid("EventType")),
            spec.duration
                .filter(|&seconds| seconds != -1 && is_valid("DurationInSeconds"))
                .unwrap_or(i64::MAX),
        )
    };
    let is_readable = |spec: &Spec| spec.invalid.is_none_or(|member| member == "NotBefore");
    let mut actions: HashMap<&String, Action> = HashMap::new();
    let mut answers: HashMap<String, Preparation> = HashMap::new();
    let mut known: HashMap<String, (Option<&str>, i64)> = HashMap::new();
    let mut names = setup.names.clone();
    let (mut owners, mut in_service, mut others_out) = (Owners::default(), true, HashSet::new());
    for entry in trace {
        match &entry.what {
            Exchange::Named(new) => names.clone_from(new),
            Exchange::Served(events) => {
                // An event that left this machine is over for it, whatever was answered.
                for id in owners.apply(events, &names, entry.at) {
                    answers.remove(&id);
                }
                in_service &= !owners.own.keys().any(|id| others_out.remove(id));
                known.retain(|id, _| events.iter().any(|spec| spec.tracked_id() == *id));
                for spec in events {
                    let (id, new) = (spec.tracked_id(), interruption(spec));
                    // What an event is when it is first seen counts, and then what can be read of it.
                    let before = *known.entry(id.clone()).or_insert(new);
                    if !is_readable(spec) || !(spec.is_scheduled() || spec.is_advice()) {
                        continue;
                    }
                    known.insert(id.clone(), new);
                    // A type that could not be read may have been this one.
                    let is_other = before.0.is_some() && before.0 != new.0;
                    if is_other || before.1 < new.1 {
                        answers.remove(&id);
                    }
                }
            }
            Exchange::Change(
                id,
                Change::Scheduled | Change::Advised | Change::StartedWithoutNotice,
            ) => {
                answers.remove(id);
            }
            Exchange::Prepare(id) => {
                answers.remove(id);
                if owners.is_own(id) {
                    in_service = false;
                } else {
                    others_out.insert(id.clone());
                }
            }
            Exchange::Change(id, change) if change.is_end() => drop(owners.own.remove(id)),
            Exchange::Prepared(id, answer) => drop(answers.insert(id.clone(), *answer)),
            Exchange::Decision(id, decision) => drop(actions.insert(id, decision.action)),
            Exchange::Recovered(_, true) => in_service = true,
            Exchange::RecoveredOther(id, true) => drop(others_out.remove(id)),
            Exchange::Post(ids) => {
                for id in ids {
                    let answer = answers.get(id);
                    match actions.get(id) {
                        Some(Action::Approve)
                            if matches!(answer, None | Some(Preparation::Ready)) => {}
                        Some(Action::Prepare) if answer == Some(&Preparation::Ready) => {
                            if in_service && owners.is_own(id) {
                                return Err(format!(
                                    "{id} approved while the machine is in service"
                                ));
                            }
                        }
                        action => {
                            return Err(format!("{id} approved with {action:?} and {answer:?}"));
                        }
                    }
                }
            }
            Exchange::Restarted => owners.restarted(),
            _ => {}
        }
    }
    Ok(())
}

/// 4. With a gate, a preparation is issued only after the gate opened for the event as it is, or after the last call. An event is
///    approved only after the gate opened for that, after the last call also for the preparation, and only after a poll that began
///    after the answer. Each attempt to approve asks again.
pub fn the_gate_opens_first(trace: &[Entry], setup: &Setup) -> CheckResult {
    if !setup.gate {
        return Ok(());
    }
    let mut polls = 0;
    let mut may_prepare = HashSet::new();
    // The last call came since the event changed, and the machine prepared by it.
    let (mut last_call, mut by_last_call) = (HashSet::new(), HashSet::new());
    let mut actions: HashMap<&String, Action> = HashMap::new();
    // The number of polls that had begun at the answer, and whether a later one showed the event.
    let mut may_approve: HashMap<&String, (u32, bool)> = HashMap::new();
    for entry in trace {
        match &entry.what {
            Exchange::Get(_) => polls += 1,
            Exchange::Served(events) => {
                for (id, (answered, confirmed)) in &mut may_approve {
                    *confirmed |=
                        polls > *answered && events.iter().any(|spec| spec.tracked_id() == **id);
                }
            }
            Exchange::GateAnswered(id, GatePhase::Prepare, GateAnswer::Open) => {
                may_prepare.insert(id);
                by_last_call.remove(id);
            }
            Exchange::LastCall(id) => drop(last_call.insert(id)),
            Exchange::GateAnswered(id, GatePhase::Approve, GateAnswer::Open) => {
                may_approve.insert(id, (polls, false));
            }
            Exchange::Change(id, _) => {
                may_prepare.remove(id);
                last_call.remove(id);
                may_approve.remove(id);
            }
            Exchange::Decision(id, decision) => drop(actions.insert(id, decision.action)),
            Exchange::Prepare(id) if may_prepare.contains(id) => drop(by_last_call.remove(id)),
            Exchange::Prepare(id) if last_call.contains(id) => drop(by_last_call.insert(id)),
            Exchange::Prepare(id) => {
                return Err(format!("{id} is prepared for, and the gate is closed"));
            }
            Exchange::Post(ids) => {
                for id in ids {
                    if by_last_call.contains(id) && actions.get(id) == Some(&Action::Prepare) {
                        return Err(format!(
                            "{id} approved after the last call, and the gate has not opened since"
                        ));
                    }
                    match may_approve.remove(id) {
                        Some((_, true)) => {}
                        answer => {
                            return Err(format!(
                                "{id} approved after {answer:?} from the gate, now poll {polls}"
                            ));
                        }
                    }
                }
            }
            Exchange::Restarted => {
                may_prepare.clear();
                last_call.clear();
                may_approve.clear();
            }
            _ => {}
        }
    }
    Ok(())
}

/// 5. An event with a problem in a member that decisions depend on is never approved.
pub fn invalid_events_are_not_approved(trace: &[Entry], setup: &Setup) -> CheckResult {
    const RELEVANT: [&str; 6] = [
        "EventId",
        "EventType",
        "EventStatus",
        "EventSource",
        "DurationInSeconds",
        "Resources",
    ];
    let invalid = |spec: &Spec| {
        spec.invalid
            .is_some_and(|member| RELEVANT.contains(&member))
    };
    let mut accepted: &[Spec] = &[];
    for entry in trace {
        match &entry.what {
            Exchange::Served(events) => accepted = events,
            Exchange::Decision(id, decision)
                if accepted
                    .iter()
                    .any(|spec| spec.tracked_id() == *id && invalid(spec))
                    && !(decision.action != Action::Approve
                        && decision.approve_after.is_none()
                        && matches!(
                            decision.reason,
                            Reason::Unreliable(_) | Reason::OtherMachinesTerminate
                        )) =>
            {
                return Err(format!("{id} is invalid, but decided as {decision:?}"));
            }
            _ => {}
        }
    }
    each_approval(
        trace,
        |id, spec, _| {
            if spec.is_some_and(invalid) {
                Err(format!("{id} approved, but invalid"))
            } else {
                Ok(())
            }
        },
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
                let is_present = |events: &&[Spec]| {
                    events
                        .iter()
                        .any(|spec| spec.tracked_id() == *id && spec.is_open())
                };
                if accepted.as_ref().is_none_or(is_present) {
                    return Err(format!(
                        "{id}: {change}, but the newest document contains it"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// 7. The changes of each event are reported in a legal order, each once.
pub fn changes_are_in_order(trace: &[Entry], _: &Setup) -> CheckResult {
    // For each event that has not ended: whether it has started; and which of them are advice.
    let mut events: HashMap<&String, bool> = HashMap::new();
    let mut advice: HashSet<&String> = HashSet::new();
    for entry in trace {
        let Exchange::Change(id, change) = &entry.what else {
            continue;
        };
        let is_advice = advice.contains(id);
        let legal = match (change, events.get(id)) {
            (Change::Advised, None | Some(false)) => {
                events.insert(id, false);
                advice.insert(id)
            }
            (Change::Scheduled, Some(false)) => advice.remove(id),
            (Change::Scheduled, None) => events.insert(id, false).is_none(),
            (Change::AdviceWithdrawn, Some(false)) => {
                events.remove(id);
                advice.remove(id)
            }
            (Change::Started | Change::Completed | Change::Cancelled | Change::Ended, _)
                if is_advice =>
            {
                false
            }
            (Change::StartedWithoutNotice, None | Some(false)) | (Change::Started, Some(false)) => {
                advice.remove(id);
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
    if events.is_empty() {
        Ok(())
    } else {
        Err(format!("{events:?} never ended"))
    }
}

/// 8. After `prepare` was issued, this machine is recovered exactly once, when nothing keeps it out of service any more, and
///    never before; another machine once its event is over. A restart repeats what had not ended.
pub fn each_preparation_is_recovered_from_once(trace: &[Entry], setup: &Setup) -> CheckResult {
    let mut names = setup.names.clone();
    let mut owners = Owners::default();
    // The open events of this machine that were prepared for, and those of any machine that have started.
    let (mut prepared, mut started) = (HashSet::new(), HashSet::new());
    // Preparations and recoveries that run, and other machines that are out of service, by their events.
    let (mut running, mut recovering, mut others_out) =
        (HashSet::new(), HashSet::new(), HashSet::new());
    // The open events of other machines that were prepared for.
    let mut others_prepared: HashSet<String> = HashSet::new();
    let mut gone = HashSet::new();
    let mut ended: HashSet<String> = HashSet::new();
    // Whether the machine is out of service, and whether it was when the newest document was read.
    let (mut is_out, mut was_out, mut is_read) = (false, false, false);
    let mut recovers = false;
    for entry in trace {
        let violation = |what: &str, id: &str| Err(format!("{id}: {what} at {:?}", entry.at));
        match &entry.what {
            Exchange::Named(new) => names.clone_from(new),
            Exchange::Served(events) => {
                (is_read, was_out) = (true, is_out);
                for id in owners.apply(events, &names, entry.at) {
                    prepared.remove(&id);
                    if is_out {
                        ended.insert(id);
                    }
                }
                for id in owners.own.keys().filter(|id| others_out.remove(*id)) {
                    is_out = true;
                    // One that has returned may not have been prepared for again.
                    if others_prepared.remove(id) {
                        prepared.insert(id.clone())
                    } else {
                        ended.insert(id.clone())
                    };
                }
            }
            Exchange::Change(id, change) if change.is_end() => {
                prepared.remove(id);
                others_prepared.remove(id);
                started.remove(id);
                gone.insert(id.clone());
                if owners.own.remove(id).is_some() && was_out {
                    ended.insert(id.clone());
                }
            }
            Exchange::Change(id, change) => {
                gone.remove(id);
                if matches!(change, Change::Started | Change::StartedWithoutNotice) {
                    started.insert(id.clone());
                }
            }
            Exchange::Prepare(id) => {
                if !running.insert(id.clone()) || gone.contains(id) {
                    return violation("prepared for twice or too late", id);
                }
                if owners.is_own(id) {
                    if recovers {
                        return violation("prepared for while a recovery runs", id);
                    }
                    is_out = true;
                    prepared.insert(id.clone());
                } else {
                    others_out.insert(id.clone());
                    others_prepared.insert(id.clone());
                }
            }
            Exchange::Prepared(id, _) | Exchange::Cancel(id) => drop(running.remove(id)),
            Exchange::CancelRecovery(_) => recovers = false,
            Exchange::CancelRecoveryOther(id) => drop(recovering.remove(id)),
            Exchange::Recover(id, ids) => {
                let keeps_out = || {
                    owners
                        .own
                        .keys()
                        .find(|own| prepared.contains(*own) || started.contains(*own))
                };
                let mut expected: Vec<_> = ended.iter().cloned().collect();
                expected.sort();
                if recovers || !running.is_subset(&others_out) {
                    return violation("recovered from twice or too early", id);
                }
                if !is_out || !is_read {
                    return violation("recovered from, but not out of service", id);
                }
                if let Some(other) = keeps_out() {
                    return violation(
                        &format!("recovered from, but {other} keeps the machine out"),
                        id,
                    );
                }
                if *ids != expected || !ids.contains(id) {
                    return violation(
                        &format!("recovered from for {ids:?}, expected {expected:?}"),
                        id,
                    );
                }
                recovers = true;
            }
            Exchange::RecoverOther(id)
                if (!others_out.contains(id)
                    || !recovering.insert(id.clone())
                    || running.contains(id)) =>
            {
                return violation("another machine recovered too early or twice", id);
            }
            Exchange::Recovered(_, done) => {
                recovers = false;
                if *done {
                    is_out = false;
                    ended.clear();
                }
            }
            Exchange::RecoveredOther(id, done) => {
                recovering.remove(id);
                if *done {
                    others_out.remove(id);
                }
            }
            Exchange::Restarted => {
                owners.restarted();
                running.clear();
                recovering.clear();
                (recovers, is_read) = (false, false);
            }
            _ => {}
        }
    }
    if is_out || !others_out.is_empty() {
        return Err(format!("never recovered: {ended:?}, others {others_out:?}"));
    }
    Ok(())
}

/// Checks all invariants, for tests of other properties.
pub fn all(trace: &[Entry], setup: &Setup) -> CheckResult {
    [
        only_scheduled_events_are_approved,
        advice_is_never_approved,
        only_own_events_are_approved,
        no_event_is_approved_twice,
        unprepared_events_are_not_approved,
        the_gate_opens_first,
        invalid_events_are_not_approved,
        only_a_document_ends_an_event,
        changes_are_in_order,
        each_preparation_is_recovered_from_once,
    ]
    .into_iter()
    .try_for_each(|check| check(trace, setup))
}
