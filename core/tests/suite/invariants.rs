//! The nine invariants as properties of random sequences of documents, failures, answers and restarts.

use std::time::Instant;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use scheduled_events_core::limits::ADVICE_UNSEEN_MAX_MS;
use scheduled_events_core::{
    Action, Cause, Change, Document, EventKind, EventTypes, GateAnswer, Leader, Policy,
    Preparation, Response, Rule, Scope, SnapshotError, Step, Tracker, UnixMillis, UnixSeconds,
    VmNames, WaitsFor,
};

use crate::common::invariants::{self, CheckResult};
use crate::common::{Exchange, Host, OTHER, START, Setup, Spec, VM, event};

/// Its capacity exceeds the number of events in any document.
type TestHost = Host<8>;

/// What happens to the session from outside.
#[derive(Clone, Debug)]
enum Op {
    Serve(Vec<Spec>),
    /// One event of the newest document changes.
    Modification(usize, Modification),
    Again,
    EmptyBody,
    Garbage(String),
    Status(u16),
    Fail,
    Prepared(usize, bool),
    Recovered,
    HostRecovers(bool),
    Posts(Option<u16>),
    Pass(u32),
    Restart,
    DieAfter(usize),
    Names(&'static [&'static str]),
    /// What the gate answers at once; `None` if it takes until [`Op::GateAnswered`].
    GateAnswers(Option<GateAnswer>),
    /// What the gate answers now, and whether a poll is in progress then.
    GateAnswered(GateAnswer, bool),
}

/// How an event changes from one document to the next.
#[derive(Clone, Debug)]
enum Modification {
    Vanish,
    Status(&'static str),
    Type(&'static str),
    NotBefore(i64),
    Duration(i64),
    Resources(&'static [&'static str]),
}

impl Modification {
    fn apply(self, events: &mut Vec<Spec>, which: usize) {
        let Some(which) = which.checked_rem(events.len()) else {
            return;
        };
        let spec = &mut events[which];
        match self {
            Self::Vanish => drop(events.remove(which)),
            Self::Status(status) => spec.status = Some(status),
            Self::Type(event_type) => spec.event_type = Some(event_type),
            Self::NotBefore(seconds) => spec.not_before = Some(seconds),
            Self::Duration(seconds) => spec.duration = Some(seconds),
            Self::Resources(resources) => spec.resources = resources.to_vec(),
        }
    }
}

const IDS: [&str; 5] = ["a", "b", "c", "d", "e"];
const RESOURCES: &[&[&str]] = &[&[VM], &[VM], &[OTHER], &[OTHER, VM], &[VM, OTHER], &[]];
const GATE_ANSWERS: &[GateAnswer] = &[
    GateAnswer::Open,
    GateAnswer::Open,
    GateAnswer::AnotherApproves,
    GateAnswer::Closed,
];
const NAMES: &[&[&str]] = &[&[VM], &[VM], &[], &[OTHER], &[VM, OTHER]];

fn specs() -> impl Strategy<Value = Spec> {
    let words = (
        select(
            &[
                "Freeze",
                "Reboot",
                "Preempt",
                "Terminate",
                "SpotRebalance",
                "SpotRebalanceRecommendation",
            ][..],
        ),
        select(
            &[
                Some("Scheduled"),
                Some("Scheduled"),
                Some("Scheduled"),
                Some("Started"),
                Some("Advisory"),
                Some("Queued"),
                None,
            ][..],
        ),
        select(RESOURCES),
        select(&[Some("Platform"), Some("User"), None][..]),
    );
    let numbers = (
        select(&[Some(900), Some(900), Some(30), Some(-5), None][..]),
        select(&[None, Some(-1), Some(0), Some(5), Some(30)][..]),
        proptest::option::weighted(
            0.1,
            select(
                &[
                    "EventId",
                    "EventType",
                    "EventStatus",
                    "EventSource",
                    "DurationInSeconds",
                    "Resources",
                    "NotBefore",
                ][..],
            ),
        ),
    );
    (select(&IDS[..]), words, numbers).prop_map(
        |(id, (event_type, status, resources, source), (not_before, duration, invalid))| Spec {
            status,
            not_before,
            source,
            duration,
            invalid,
            ..event(id).event_type(event_type).resources(resources)
        },
    )
}

fn documents() -> impl Strategy<Value = Vec<Spec>> {
    vec(specs(), 0..4).prop_map(|mut events| {
        let mut seen = std::collections::HashSet::new();
        events.retain(|spec| seen.insert(spec.id.clone()));
        events
    })
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let modification = prop_oneof![
        Just(Modification::Vanish),
        select(
            &[
                "Scheduled",
                "Scheduled",
                "Started",
                "Completed",
                "Canceled",
                "Advisory",
                "Queued"
            ][..]
        )
        .prop_map(Modification::Status),
        select(
            &[
                "Freeze",
                "Preempt",
                "Terminate",
                "SpotRebalanceRecommendation"
            ][..]
        )
        .prop_map(Modification::Type),
        (0..3_i64).prop_map(|hours| Modification::NotBefore(hours * 3600)),
        select(&[-1_i64, 5, 5, 30][..]).prop_map(Modification::Duration),
        select(RESOURCES).prop_map(Modification::Resources),
    ];
    let op = prop_oneof![
        3 => documents().prop_map(Op::Serve),
        6 => (0..3_usize, modification).prop_map(|(which, modification)| Op::Modification(which, modification)),
        4 => Just(Op::Again),
        1 => Just(Op::EmptyBody),
        1 => ".{0,20}".prop_map(Op::Garbage),
        1 => select(&[204_u16, 301, 304, 400, 404, 410, 429, 500, 503][..]).prop_map(Op::Status),
        1 => Just(Op::Fail),
        5 => (0..5_usize, any::<bool>()).prop_map(|(which, ready)| Op::Prepared(which, ready)),
        1 => Just(Op::Recovered),
        1 => any::<bool>().prop_map(Op::HostRecovers),
        2 => select(&[Some(200), Some(204), Some(400), Some(429), Some(500), None][..]).prop_map(Op::Posts),
        1 => (1..1200_u32).prop_map(Op::Pass),
        2 => Just(Op::Restart),
        2 => (0..6_usize).prop_map(Op::DieAfter),
        1 => select(NAMES).prop_map(Op::Names),
        1 => select(&[Some(GateAnswer::Open), Some(GateAnswer::Closed), None][..]).prop_map(Op::GateAnswers),
        5 => (select(GATE_ANSWERS), any::<bool>()).prop_map(|(answer, polling)| Op::GateAnswered(answer, polling)),
    ];
    vec(op, 1..40)
}

fn policies() -> impl Strategy<Value = Policy> {
    let rule = (
        select(vec![
            EventTypes::ANY,
            EventTypes::of(&[EventKind::Freeze]),
            EventTypes::of(&[EventKind::Preempt, EventKind::Terminate]),
            EventTypes::of(&[EventKind::SpotRebalanceRecommendation]),
            EventTypes::of(&[EventKind::Preempt, EventKind::SpotRebalanceRecommendation]),
        ]),
        select(&[None, None, Some(8)][..]),
        select(&[Scope::Mine, Scope::Mine, Scope::Any, Scope::Others][..]),
        select(
            &[
                Action::Approve,
                Action::Prepare,
                Action::Prepare,
                Action::Hold,
                Action::Ignore,
            ][..],
        ),
    )
        .prop_map(|(event_types, max_duration, scope, action)| Rule {
            event_types,
            max_duration,
            scope,
            ..Rule::new(action)
        });
    let leader = select(
        &[
            Leader::FirstResource,
            Leader::Everyone,
            Leader::Rank {
                take_over_after: 20,
            },
        ][..],
    );
    // An event that changes from `prepare` to `approve` during its preparation deserves many cases.
    let short = Rule {
        max_duration: Some(8),
        ..Rule::new(Action::Approve)
    };
    let rules =
        prop_oneof![3 => vec(rule, 1..4), 2 => Just(vec![short, Rule::new(Action::Prepare)])];
    (rules, leader).prop_map(|(rules, leader)| {
        let mut policy = Policy::new(&rules).unwrap();
        policy.leader = Some(leader);
        policy
    })
}

/// Performs the operations, then ends all events and completes everything in progress.
fn perform(policy: Policy, gate: bool, ops: Vec<Op>) -> Result<TestHost, TestCaseError> {
    let mut host = play(policy, gate, ops)?;
    finish(&mut host);
    Ok(host)
}

/// Performs the operations.
fn play(policy: Policy, gate: bool, ops: Vec<Op>) -> Result<TestHost, TestCaseError> {
    let mut host = TestHost::new(Setup {
        gate,
        ..Setup::new(policy)
    });
    host.gate_answer = None;
    let mut newest: Vec<Spec> = Vec::new();
    let mut body = String::from(r#"{"Events":[]}"#);
    host.serve_body(&body, &[]);
    for op in ops {
        let fails = matches!(
            op,
            Op::EmptyBody | Op::Garbage(_) | Op::Status(_) | Op::Fail
        );
        if fails {
            // Everything due before the poll happens first, restarts included.
            host.advance_to_poll();
        }
        let before = fails.then(|| host.snapshot());
        match op {
            Op::Serve(events) => {
                host.incarnation += 1;
                body = crate::common::document(host.incarnation, &events);
                newest = events;
                host.serve_body(&body, &newest);
            }
            Op::Modification(which, modification) => {
                host.incarnation += 1;
                modification.apply(&mut newest, which);
                body = crate::common::document(host.incarnation, &newest);
                host.serve_body(&body, &newest);
            }
            Op::Again => drop(host.serve_body(&body, &newest)),
            Op::EmptyBody => answer_poll(&mut host, 200, " "),
            Op::Garbage(garbage) => answer_poll(&mut host, 200, &garbage),
            Op::Status(status) => answer_poll(&mut host, status, r#"{"Events":[]}"#),
            Op::Fail => {
                host.polling = false;
                host.session.on_failure(Cause::Timeout, host.now);
            }
            Op::Prepared(which, ready) => {
                if let Some(id) = host
                    .preparing
                    .get(which % host.preparing.len().max(1))
                    .cloned()
                {
                    let preparation = if ready {
                        Preparation::Ready
                    } else {
                        [Preparation::Failed, Preparation::Abandoned][which % 2]
                    };
                    prop_assert!(host.prepared(&id, preparation));
                }
            }
            Op::Recovered => {
                if let Some((id, own)) = host.recovering.first().cloned() {
                    host.recovery_ended(&id, own, true);
                    host.run();
                }
            }
            Op::HostRecovers(at_once) => host.recovers = at_once,
            Op::Posts(status) => host.post_status = status,
            Op::Pass(seconds) => host.advance(seconds),
            Op::Restart => host.restart(),
            Op::DieAfter(steps) => host.dies_after_steps = Some(steps),
            Op::Names(names) => host.set_names(names),
            Op::GateAnswers(answer) => host.gate_answer = answer,
            Op::GateAnswered(answer, polling) => {
                if polling {
                    host.advance_to_poll();
                }
                if !host.asking.is_empty() {
                    host.answer_gate(answer);
                }
            }
        }
        // Invariant 6 in its strongest form: a failed poll does not change the state.
        prop_assert_eq!(
            before.is_none_or(|before| before == host.snapshot()),
            true,
            "a failed poll changed something"
        );
        host.run();
        nothing_waits_beyond_the_last_call(&host)?;
    }
    Ok(host)
}

/// Whatever the gate does, each event is prepared for once its last call has come, as counted here.
fn nothing_waits_beyond_the_last_call(host: &TestHost) -> Result<(), TestCaseError> {
    // Other names take effect with the next document.
    let is_known = |entry: &crate::common::Entry| match entry.what {
        Exchange::Served(_) => Some(true),
        Exchange::Named(_) => Some(false),
        _ => None,
    };
    if host.trace.iter().rev().find_map(is_known) != Some(true) {
        return Ok(());
    }
    for (event, waiting) in host.session.waiting(host.now) {
        // A question may still run that is not needed any more.
        let is_needed = waiting
            .decision
            .is_some_and(|decision| decision.action == Action::Prepare);
        if waiting.waits_for != WaitsFor::GateToPrepare
            || waiting.by_last_call
            || !is_needed
            || event.is_advice()
        {
            continue;
        }
        let is_sight = |entry: &&crate::common::Entry| {
            matches!(&entry.what, Exchange::Change(id, change)
            if *id == event.event_id().as_str() && matches!(change, Change::Scheduled | Change::Rescheduled))
        };
        // After a preparation that failed, the next one may ask the gate again.
        let is_last_call = |entry: &&crate::common::Entry| matches!(&entry.what, Exchange::LastCall(id) if *id == event.event_id().as_str());
        let last = |entry: &&crate::common::Entry| is_sight(entry) || is_last_call(entry);
        let Some(seen) = host.trace.iter().rev().find(last).filter(is_sight) else {
            continue;
        };
        let start = event
            .not_before()
            .map_or(seen.at.plus(600_000), UnixMillis::from);
        // The clock that `NotBefore` is compared with has whole seconds.
        let second = |time: UnixMillis| u64::try_from(time.0.div_euclid(1000)).unwrap();
        let notice = second(start).saturating_sub(second(seen.at));
        let before = if event.event_type() == "Preempt" || notice < 60 {
            notice
        } else {
            (notice / 2).min(300)
        };
        // A question has a second for its answer.
        let latest = start.0 - i64::try_from(before).unwrap() * 1000 + 2_000;
        let asked = waiting
            .since
            .map_or(i64::MIN, |since| UnixMillis::from(since).0 + 2_000);
        prop_assert!(
            host.now.0 <= latest.max(asked),
            "{event:?} waits for the gate since {}, now {}",
            seen.at.0,
            host.now.0
        );
    }
    Ok(())
}

fn answer_poll(host: &mut TestHost, status: u16, body: &str) {
    host.polling = false;
    host.session.on_response(
        &Response {
            status,
            body: body.as_bytes(),
            ..Response::default()
        },
        host.now,
    );
}

/// Completes everything in progress, and serves documents without events: for so long that they cannot be outdated.
fn finish<const N: usize>(host: &mut Host<N>) {
    host.dies_after_steps = None;
    host.recovers = true;
    for _ in 0..15 {
        for (id, own) in host.recovering.clone() {
            host.recovery_ended(&id, own, true);
        }
        for id in std::mem::take(&mut host.preparing) {
            host.ready(&id);
        }
        host.serve(&[]);
        // Then advice holds for an hour.
        if host.session.advice_unseen_since().is_some() {
            host.advance(ADVICE_UNSEEN_MAX_MS / 1_000);
        }
    }
}

/// A session that tracks fewer events continues from any state, unless too much is pending, with all that keeps the machine
/// out of service.
#[test]
fn a_smaller_session_continues_from_any_snapshot() {
    let config = cases(800);
    proptest!(config, |(policy in policies(), ops in ops())| {
        let host = play(policy, false, ops)?;
        let snapshot = host.snapshot();
        let mut small = Host::<2>::new(host.setup.clone());
        (small.now, small.last_get) = (host.now, host.now);
        let restored = small.session.restore(&snapshot);
        if host.session.events().count() <= 2 {
            prop_assert_eq!(restored, Ok(()));
        }
        match restored {
            Ok(()) => {
                prop_assert_eq!(small.session.out_of_service_since(), host.session.out_of_service_since());
                // What it writes can be restored, too.
                small.restart();
                finish(&mut small);
                prop_assert!(small.session.is_idle());
                prop_assert_eq!(small.session.out_of_service_since(), None);
            }
            Err(error) => prop_assert_eq!(error, SnapshotError::TooManyEvents),
        }
    });
}

/// Orders that random ones have once in 100,000 times.
#[test]
fn rare_orders_hold() {
    let freeze = |id: &str| event(id).event_type("Freeze");
    let others = Rule {
        scope: Scope::Others,
        ..Rule::new(Action::Prepare)
    };
    // An event does not name this machine, is absent, and does not name it again.
    let absent_meanwhile = vec![
        Op::Serve(vec![freeze("a")]),
        Op::Restart,
        Op::Serve(vec![]),
        Op::Names(&["vm_10"]),
        Op::Serve(vec![freeze("c"), freeze("b"), freeze("a")]),
        Op::Serve(vec![]),
        Op::Serve(vec![freeze("a").not_before(30)]),
    ];
    // It is announced 59.3 seconds before its start.
    let a_minute_before = vec![
        Op::GateAnswers(Some(GateAnswer::Closed)),
        Op::Serve(vec![]),
        Op::Garbage("x".into()),
        Op::Serve(vec![]),
        Op::Serve(vec![]),
        Op::Restart,
        Op::Serve(vec![freeze("a")]),
        Op::Pass(835),
        Op::Serve(vec![]),
        Op::Serve(vec![]),
        Op::Serve(vec![event("a").event_type("Terminate")]),
        Op::Again,
        Op::Again,
        Op::GateAnswered(GateAnswer::Open, true),
    ];
    // With it, advice counts, which a service may leave out of some documents.
    let advice = Rule {
        event_types: EventTypes::of(&[EventKind::SpotRebalanceRecommendation]),
        ..Rule::new(Action::Approve)
    };
    // The first preparation, by the last call, fails.
    let fails = vec![
        Op::Serve(vec![freeze("b").duration(0)]),
        Op::GateAnswered(GateAnswer::Open, false),
        Op::Again,
        Op::Serve(vec![freeze("b").duration(30)]),
        Op::Pass(600),
        Op::Prepared(0, false),
    ];
    let short = Rule {
        max_duration: Some(8),
        ..Rule::new(Action::Approve)
    };
    for (rules, ops) in [
        (vec![others, advice], absent_meanwhile),
        (vec![Rule::new(Action::Prepare)], a_minute_before),
        (vec![short, Rule::new(Action::Prepare)], fails),
    ] {
        let mut policy = Policy::new(&rules).unwrap();
        policy.leader = Some(Leader::FirstResource);
        let host = perform(policy, true, ops).unwrap();
        let setup = Setup {
            names: vec![VM],
            ..host.setup.clone()
        };
        invariants::all(&host.trace, &setup).unwrap();
    }
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Checks the invariant on the traces of many random sequences.
fn check(invariant: impl Fn(&[crate::common::Entry], &Setup) -> CheckResult) {
    let config = cases(800);
    proptest!(config, |(policy in policies(), gate: bool, ops in ops())| {
        let host = perform(policy, gate, ops)?;
        let setup = Setup { names: vec![VM], ..host.setup.clone() };
        invariant(&host.trace, &setup).map_err(TestCaseError::fail)?;
    });
}

#[test]
fn invariant_1_only_an_event_last_seen_scheduled_is_approved() {
    check(invariants::only_scheduled_events_are_approved);
}

#[test]
fn invariant_1_advice_is_never_approved() {
    check(invariants::advice_is_never_approved);
}

#[test]
fn invariant_2_only_own_events_are_approved_unless_a_rule_covers_others() {
    check(invariants::only_own_events_are_approved);
}

#[test]
fn invariant_3_an_approved_event_is_never_posted_again() {
    check(invariants::no_event_is_approved_twice);
}

#[test]
fn invariant_3_a_failed_approval_is_repeated_while_the_event_is_scheduled() {
    let failures = vec(
        select(&[Some(400), Some(429), Some(500), Some(503), None][..]),
        1..8,
    );
    let config = cases(100);
    proptest!(config, |(failures in failures, count in 1_usize..5)| {
        let mut host = TestHost::new(Setup::new(Policy::new(&[Rule::new(Action::Approve)]).unwrap()));
        let events: Vec<_> = IDS[..count].iter().map(|id| event(id)).collect();
        for status in &failures {
            host.post_status = *status;
            host.serve(&events);
        }
        let posts = |host: &TestHost| host.trace.iter().filter(|entry| matches!(entry.what, crate::common::Exchange::Post(_))).count();
        // An event that has started is not approved any more; the others are.
        host.post_status = Some(200);
        let mut events = events;
        events[0] = event(IDS[0]).started();
        for _ in 0..15 {
            host.serve(&events);
        }
        for spec in &events[1..] {
            let approved = host.session.events().any(|known| known.event_id().as_str() == spec.id && known.is_approved());
            prop_assert!(approved, "{} was not approved in the end", spec.id);
        }
        let before = posts(&host);
        for _ in 0..15 {
            host.serve(&events);
        }
        prop_assert_eq!(posts(&host), before);
        invariants::only_scheduled_events_are_approved(&host.trace, &host.setup).map_err(TestCaseError::fail)?;
        invariants::no_event_is_approved_twice(&host.trace, &host.setup).map_err(TestCaseError::fail)?;
    });
}

#[test]
fn invariant_4_no_approval_before_ready_or_after_failed() {
    check(invariants::unprepared_events_are_not_approved);
}

/// An event that another machine had for two documents was over for this one, and what was answered before counts no more.
#[test]
fn invariant_4_an_event_that_returns_from_another_machine_starts_anew() {
    let approves_short = Rule {
        max_duration: Some(8),
        scope: Scope::Mine,
        ..Rule::new(Action::Approve)
    };
    let policy = Policy::new(&[
        approves_short,
        Rule {
            scope: Scope::Mine,
            ..Rule::new(Action::Prepare)
        },
    ])
    .unwrap();
    let lasting = |duration| Spec {
        duration: Some(duration),
        ..event("b")
    };
    let ops = vec![
        Op::Serve(vec![lasting(30)]),
        Op::Prepared(0, false),
        Op::Modification(0, Modification::Resources(&[OTHER])),
        Op::Again,
        Op::Pass(2_500),
        Op::Again,
        Op::Serve(vec![lasting(0)]),
    ];
    let host = perform(policy, false, ops).unwrap();
    let setup = Setup {
        names: vec![VM],
        ..host.setup.clone()
    };
    let is_approved = host
        .trace
        .iter()
        .any(|entry| matches!(entry.what, crate::common::Exchange::Post(_)));
    assert!(is_approved, "its rule approves it as it is now");
    invariants::unprepared_events_are_not_approved(&host.trace, &setup).unwrap();
}

#[test]
fn invariant_4_the_gate_opens_before_each_preparation_and_approval() {
    check(invariants::the_gate_opens_first);
}

#[test]
fn invariant_5_an_event_with_a_problem_is_never_approved() {
    check(invariants::invalid_events_are_not_approved);
}

#[test]
fn invariant_6_only_a_document_ends_an_event() {
    check(invariants::only_a_document_ends_an_event);
}

#[test]
fn invariant_7_changes_are_reported_in_a_legal_order_and_once() {
    check(invariants::changes_are_in_order);
}

#[test]
fn invariant_8_each_preparation_is_recovered_from_once() {
    check(invariants::each_preparation_is_recovered_from_once);
}

/// Passes the bytes to everything that takes bytes.
fn consume(input: &[u8]) {
    if let Ok(document) = Document::parse(input) {
        let names = VmNames::new(&[VM]);
        let mut tracker = Tracker::<4>::new();
        let _ = tracker.observe(&document, names, UnixSeconds(0), |_, _| ());
        let _ = (document.problems().count(), document.events().len());
    }
    let mut session = Setup::new(Policy::sample()).session::<4>();
    let _ = session.restore(input);
    for _ in 0..30 {
        if let Step::Get { .. } = session.take_step(START) {
            session.on_response(
                &Response {
                    status: 200,
                    body: input,
                    ..Response::default()
                },
                START,
            );
        }
    }
}

#[test]
fn invariant_9_no_input_causes_a_panic() {
    let json = "[\\[\\]{}\":,a1\\\\u \\-.e]{0,40}";
    let cut =
        (documents(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(events, at, byte)| {
            let mut bytes = crate::common::document(1, &events).into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes
        });
    let inputs = prop_oneof![
        vec(any::<u8>(), 0..200),
        json.prop_map(String::into_bytes),
        cut,
        any::<String>().prop_map(Into::into)
    ];
    let config = cases(1500);
    proptest!(config, |(input in inputs)| consume(&input));
}

#[test]
fn invariant_9_a_modified_snapshot_is_refused() {
    let config = cases(200);
    proptest!(config, |(policy in policies(), ops in ops(), at in any::<prop::sample::Index>(), byte: u8)| {
        let host = perform(policy, false, ops)?;
        let mut snapshot = host.snapshot();
        let at = at.index(snapshot.len());
        let unchanged = snapshot[at] == byte;
        snapshot[at] = byte;
        let mut session = host.setup.session::<8>();
        prop_assert_eq!(session.restore(&snapshot).is_ok(), unchanged);
        prop_assert!(session.restore(&snapshot[..at]).is_err());
        prop_assert_eq!(session.events().count(), 0);
    });
}

#[test]
fn invariant_9_nesting_does_not_use_stack() {
    let run = || {
        for open in ["[", "{\"Events\":", "{\"Events\":[", "{\"a\":[{\"b\":"] {
            let _ = Document::parse(open.repeat(500_000).as_bytes());
        }
    };
    std::thread::Builder::new()
        .stack_size(96 * 1024)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
}

/// A quadratic reader would take eight times as long for eight times the events as for an eighth of them eight times. The
/// shortest of many runs is compared, and they go on until the comparison holds, since a busy machine makes single runs as
/// long as it likes: both have the same work, so that it interrupts both as often.
#[test]
fn invariant_9_time_is_linear_in_the_input() {
    let names = VmNames::new(&[VM]);
    let body_of = |count: usize, spec: &dyn Fn(usize) -> Spec| {
        crate::common::document(1, &(0..count).map(spec).collect::<Vec<_>>())
    };
    let read = |body: &str| {
        let document = Document::parse(body.as_bytes()).unwrap();
        let mut tracker = Tracker::<64>::new();
        let _ = tracker.observe(&document, names, UnixSeconds(0), |_, _| ());
        let mut session = Setup::new(Policy::sample()).session::<64>();
        assert!(matches!(session.take_step(START), Step::Get { .. }));
        session.on_response(
            &Response {
                status: 200,
                body: body.as_bytes(),
                ..Response::default()
            },
            START,
        );
    };
    let seconds = |body: &str, times: u32| {
        let begin = Instant::now();
        (0..times).for_each(|_| read(body));
        begin.elapsed().as_secs_f64()
    };
    let others = |n: usize| event(&format!("id-{n}")).resources(&[OTHER]);
    let own =
        |n: usize| event(&format!("id-{n}")).not_before(1_000_000 - i64::try_from(n).unwrap());
    let same = |_: usize| event("same");
    for (about, spec) in [
        ("others", &others as &dyn Fn(usize) -> Spec),
        ("own", &own),
        ("the same", &same),
    ] {
        let (few, many) = (body_of(250, spec), body_of(2000, spec));
        let (mut short, mut long) = (f64::MAX, f64::MAX);
        let linear = (0..100).any(|run| {
            (short, long) = (short.min(seconds(&few, 8)), long.min(seconds(&many, 1)));
            run >= 2 && long < short * 4.0
        });
        assert!(
            linear,
            "{about}: the events of eight documents take {} times as long in one",
            long / short
        );
    }
}
