//! Compares the session with a naive model: every short sequence of stimuli, and many long ones.

mod model;

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use scheduled_events_core::{Action, Cause, Leader, Preparation, Scope, UnixMillis};

use crate::common::{Exchange, Host, OTHER, Setup, Spec, VM, event, invariants};
use model::{Model, PlainRule};

/// What happens to both from outside.
#[derive(Clone, Debug, PartialEq)]
enum Stimulus {
    Document(Vec<Spec>),
    EmptyBody,
    Failure,
    Prepared(usize, Preparation),
    Recovered,
    Posts(u16),
    NotBeforePasses,
    Restart,
    Names(Vec<&'static str>),
}

/// A session with its host, and the model.
#[derive(Clone)]
struct SessionAndModel<const N: usize> {
    host: Host<N>,
    model: Model,
    /// How many entries of the trace were compared.
    compared: usize,
}

impl<const N: usize> SessionAndModel<N> {
    fn new(rules: &[PlainRule], leader: Leader) -> Self {
        let mut host = Host::new(Setup::new(model::policy(rules, leader)));
        host.recovers = false;
        Self {
            host,
            model: Model::new(rules, leader, &[VM]),
            compared: 0,
        }
    }

    /// Applies the stimulus to both. Returns `None` if it is not applicable.
    fn apply(&mut self, stimulus: &Stimulus) -> Option<Result<(), String>> {
        use Stimulus::{Document, EmptyBody, Failure};
        if matches!(stimulus, Document(_) | EmptyBody | Failure) {
            self.host.advance_to_poll();
            if let Err(difference) = self.compare() {
                return Some(Err(difference));
            }
        }
        let Self { host, model, .. } = self;
        match stimulus {
            Document(events) => {
                model.document(events, host.now);
                host.serve(events);
            }
            EmptyBody => drop(host.serve_body("", &[])),
            Failure => drop(host.fail(Cause::Timeout)),
            Stimulus::Prepared(which, preparation) => {
                let id = host.preparing.get(*which)?.clone();
                model.prepared(&id, *preparation);
                host.prepared(&id, *preparation);
            }
            Stimulus::Recovered => {
                let (id, own) = host.recovering.first()?.clone();
                model.recovered(&id, own);
                host.recovery_ended(&id, own, true);
                host.run();
            }
            Stimulus::Posts(status) => host.post_status = Some(*status),
            Stimulus::NotBeforePasses => host.advance(1000),
            Stimulus::Restart => {
                host.restart();
                model.restarted();
                host.run();
            }
            Stimulus::Names(names) => {
                host.set_names(names);
                model.named(names);
            }
        }
        Some(self.compare())
    }

    fn compare(&mut self) -> Result<(), String> {
        let new = &self.host.trace[self.compared..];
        self.compared = self.host.trace.len();
        self.model.compare(new)?;
        // Requests are spaced, so only approvals due well before the next poll must have been posted.
        let settled = self.host.last_get.plus(900);
        if self.host.polling || self.host.now.plus(400) > settled {
            return Ok(());
        }
        self.model.overdue(UnixMillis(settled.0 - 400))
    }
}

/// Every sequence of up to `depth` stimuli, except redundant ones.
struct Sweep {
    alphabet: Vec<Stimulus>,
    depth: usize,
    rules: Vec<PlainRule>,
}

impl Sweep {
    /// Runs the sequences on two threads and returns their number.
    fn run(&self) -> usize {
        let halves = [0, 1].map(|half| {
            move |sweep: &Self| {
                let pair = SessionAndModel::<2>::new(&sweep.rules, Leader::FirstResource);
                let firsts = sweep.alphabet.iter().skip(half).step_by(2);
                firsts
                    .map(|first| sweep.follow(&pair, first, &mut Vec::new()))
                    .sum::<usize>()
            }
        });
        std::thread::scope(|scope| {
            let threads = halves.map(|half| scope.spawn(move || half(self)));
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        })
    }

    fn follow<'a>(
        &'a self,
        pair: &SessionAndModel<2>,
        next: &'a Stimulus,
        path: &mut Vec<&'a Stimulus>,
    ) -> usize {
        if Self::is_redundant(path, next) {
            return 0;
        }
        let mut pair = pair.clone();
        pair.host.clear();
        pair.compared = 0;
        let Some(agreed) = pair.apply(next) else {
            return 0;
        };
        path.push(next);
        if let Err(difference) = agreed {
            panic!("after {path:#?}: {difference}");
        }
        let mut count = 1;
        if path.len() < self.depth {
            count += self
                .alphabet
                .iter()
                .map(|next| self.follow(&pair, next, path))
                .sum::<usize>();
        }
        path.pop();
        count
    }

    /// Whether a shorter sequence, or one in another order, covers this one.
    fn is_redundant(path: &[&Stimulus], next: &Stimulus) -> bool {
        use Stimulus::{Document, EmptyBody, Failure, NotBeforePasses, Posts, Recovered, Restart};
        let is_failed_poll = |stimulus: &Stimulus| matches!(stimulus, EmptyBody | Failure);
        let posts = |stimulus: &Stimulus| matches!(stimulus, Posts(_));
        let last = path.last();
        match next {
            // At the start there is no state to lose.
            EmptyBody | Failure | Restart | Recovered if path.is_empty() => true,
            EmptyBody | Failure => last.is_some_and(|last| is_failed_poll(last)),
            Restart => last.is_some_and(|last| **last == Restart || posts(last)),
            Posts(status) => {
                let before = path.iter().rev().find_map(|stimulus| match stimulus {
                    Posts(status) => Some(*status),
                    _ => None,
                });
                before.unwrap_or(200) == *status || last.is_some_and(|last| is_failed_poll(last))
            }
            NotBeforePasses => path.contains(&next),
            Document(_) | Stimulus::Prepared(..) | Recovered | Stimulus::Names(_) => false,
        }
    }
}

fn other_stimuli() -> Vec<Stimulus> {
    vec![
        Stimulus::EmptyBody,
        Stimulus::Failure,
        Stimulus::Prepared(0, Preparation::Ready),
        Stimulus::Prepared(0, Preparation::Abandoned),
        Stimulus::Recovered,
        Stimulus::Posts(500),
        Stimulus::Posts(200),
        Stimulus::NotBeforePasses,
        Stimulus::Restart,
    ]
}

/// The event in each state that a document can show.
fn states(spec: &Spec) -> [Vec<Spec>; 4] {
    [
        vec![],
        vec![spec.clone()],
        vec![spec.clone().started()],
        vec![spec.clone().status("Queued")],
    ]
}

fn one_event(action: Action, depth: usize) -> Sweep {
    let documents = states(&event("a")).map(Stimulus::Document);
    Sweep {
        alphabet: [documents.to_vec(), other_stimuli()].concat(),
        depth,
        rules: vec![PlainRule::all(action)],
    }
}

#[test]
fn every_short_sequence_for_one_event_with_preparation() {
    println!("{} sequences", one_event(Action::Prepare, 6).run());
}

#[test]
fn every_longer_sequence_of_fewer_stimuli() {
    let [absent, scheduled, started, _] = states(&event("a")).map(Stimulus::Document);
    let (ready, restart) = (Stimulus::Prepared(0, Preparation::Ready), Stimulus::Restart);
    let (failure, recovered) = (Stimulus::Failure, Stimulus::Recovered);
    let alphabet = vec![
        absent,
        scheduled,
        started,
        ready,
        restart,
        failure,
        recovered,
        Stimulus::Posts(500),
    ];
    let sweep = Sweep {
        alphabet,
        depth: 7,
        rules: vec![PlainRule::all(Action::Prepare)],
    };
    println!("{} sequences", sweep.run());
}

#[test]
fn every_short_sequence_for_one_event_with_approval() {
    println!("{} sequences", one_event(Action::Approve, 6).run());
}

#[test]
fn every_short_sequence_for_two_events() {
    let (a, b) = (event("a"), event("b").event_type("Freeze").duration(5));
    let mut alphabet = other_stimuli();
    alphabet.retain(|stimulus| {
        use Stimulus::{EmptyBody, NotBeforePasses};
        !matches!(stimulus, EmptyBody | NotBeforePasses | Stimulus::Posts(200))
    });
    for a in &states(&a)[..3] {
        for b in &states(&b)[..3] {
            alphabet.push(Stimulus::Document([a.clone(), b.clone()].concat()));
        }
    }
    let short = PlainRule {
        max_duration: Some(8),
        ..PlainRule::all(Action::Approve)
    };
    let sweep = Sweep {
        alphabet,
        depth: 5,
        rules: vec![short, PlainRule::all(Action::Prepare)],
    };
    println!("{} sequences", sweep.run());
}

#[test]
fn every_short_sequence_for_an_own_event_and_one_of_another_machine() {
    let (a, b) = (event("a"), event("b").resources(&[OTHER]));
    let mut alphabet = other_stimuli();
    for a in &states(&a)[..2] {
        for b in &states(&b)[..3] {
            alphabet.push(Stimulus::Document([a.clone(), b.clone()].concat()));
        }
    }
    let any = PlainRule {
        scope: Scope::Any,
        ..PlainRule::all(Action::Prepare)
    };
    let sweep = Sweep {
        alphabet,
        depth: 4,
        rules: vec![any],
    };
    println!("{} sequences", sweep.run());
}

fn specs() -> impl Strategy<Value = Spec> {
    let resources: &'static [&'static [&'static str]] =
        &[&[VM], &[VM], &[OTHER], &[OTHER, VM], &[VM, OTHER], &[]];
    let invalid = select(
        &[
            "EventType",
            "EventSource",
            "DurationInSeconds",
            "EventStatus",
        ][..],
    );
    (
        select(&["a", "b", "c", "d", "e", "f", "g"][..]),
        select(&["Freeze", "Preempt", "Terminate"][..]),
        select(
            &[
                "Scheduled",
                "Scheduled",
                "Scheduled",
                "Started",
                "Queued",
                "Completed",
                "Canceled",
            ][..],
        ),
        select(resources),
        select(&[None, Some(-1), Some(5), Some(30)][..]),
        select(&[Some(900), Some(1200), None][..]),
        proptest::option::weighted(0.05, invalid),
    )
        .prop_map(
            |(id, event_type, status, resources, duration, not_before, invalid)| Spec {
                not_before,
                duration,
                invalid,
                ..event(id)
                    .event_type(event_type)
                    .status(status)
                    .resources(resources)
            },
        )
}

fn stimuli() -> impl Strategy<Value = Vec<Stimulus>> {
    let document = vec(specs(), 0..7).prop_map(|mut events| {
        let mut seen = std::collections::HashSet::new();
        events.retain(|spec| seen.insert(spec.id.clone()));
        Stimulus::Document(events)
    });
    let names = select(vec![
        vec![VM],
        vec![VM],
        vec![],
        vec![OTHER],
        vec![OTHER, VM],
    ])
    .prop_map(Stimulus::Names);
    let stimulus = prop_oneof![6 => document, 8 => select(other_stimuli()), 1 => names];
    vec(stimulus, 10..80)
}

fn rules() -> impl Strategy<Value = Vec<PlainRule>> {
    let rule = (
        select(&[None, Some("Freeze"), Some("Preempt")][..]),
        select(&[None, Some(8)][..]),
        select(&[Scope::Mine, Scope::Any, Scope::Others][..]),
        select(
            &[
                Action::Approve,
                Action::Prepare,
                Action::Hold,
                Action::Ignore,
            ][..],
        ),
    );
    let rule = rule.prop_map(|(event_type, max_duration, scope, action)| PlainRule {
        event_type,
        max_duration,
        scope,
        action,
    });
    vec(rule, 0..4)
}

#[test]
fn long_sequences_for_many_events() {
    let leader = select(
        &[
            Leader::FirstResource,
            Leader::Everyone,
            Leader::Rank { take_over_after: 3 },
        ][..],
    );
    let config = ProptestConfig {
        cases: 600,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(rules in rules(), leader in leader, stimuli in stimuli())| {
        let mut pair = SessionAndModel::<8>::new(&rules, leader);
        let setup = pair.host.setup.clone();
        for stimulus in &stimuli {
            pair.apply(stimulus).unwrap_or(Ok(())).map_err(TestCaseError::fail)?;
        }
        for invariant in [
            invariants::only_scheduled_events_are_approved,
            invariants::only_own_events_are_approved,
            invariants::no_event_is_approved_twice,
            invariants::unprepared_events_are_not_approved,
            invariants::invalid_events_are_not_approved,
            invariants::only_a_document_ends_an_event,
        ] {
            invariant(&pair.host.trace, &setup).map_err(TestCaseError::fail)?;
        }
    });
}

/// Serves the events twice, so that the slots of gone events are free, and checks that own events are tracked first, those
/// with the earliest deadlines, and that the others are counted.
fn check_capacity<const N: usize>(
    host: &mut Host<N>,
    events: &[Spec],
) -> Result<(), TestCaseError> {
    let untracked = |host: &Host<N>| {
        host.trace.iter().rev().find_map(|entry| match entry.what {
            Exchange::Untracked(untracked) => Some(untracked),
            _ => None,
        })
    };
    let prepared: Vec<_> = host.preparing.clone();
    host.serve(events);
    host.serve(events);
    let followed: Vec<_> = host
        .session
        .events()
        .map(|event| event.event_id().to_string())
        .collect();
    let (followed, left): (Vec<_>, Vec<_>) =
        events.iter().partition(|spec| followed.contains(&spec.id));
    for id in prepared
        .iter()
        .filter(|id| events.iter().any(|spec| spec.id == **id))
    {
        prop_assert!(
            followed.iter().any(|spec| spec.id == *id),
            "{} was evicted during its preparation",
            id
        );
    }
    let own = |specs: &[&Spec]| specs.iter().filter(|spec| spec.names(&[VM])).count();
    let others = |specs: &[&Spec]| specs.iter().filter(|spec| !spec.names(&[VM])).count();
    let reported = untracked(host).unwrap_or_default();
    prop_assert_eq!(
        (reported.own, reported.others),
        (own(&left), others(&left)),
        "wrong count"
    );
    prop_assert!(
        left.is_empty() || followed.len() == N,
        "events are not tracked although there is capacity"
    );
    if host.setup.policy.rules().is_empty() {
        prop_assert!(
            own(&left) == 0 || others(&followed) == 0,
            "an own event was evicted for another machine's"
        );
        let deadlines = |specs: &[&Spec]| -> Vec<_> {
            specs
                .iter()
                .filter(|spec| spec.names(&[VM]))
                .map(|spec| spec.not_before.unwrap())
                .collect()
        };
        let latest_kept = deadlines(&followed).into_iter().max();
        let earliest_left = deadlines(&left).into_iter().min();
        prop_assert!(
            earliest_left.is_none() || latest_kept <= earliest_left,
            "{:?} {:?}",
            latest_kept,
            earliest_left
        );
    }
    Ok(())
}

#[test]
fn more_events_than_the_capacity() {
    let resources: &'static [&'static [&'static str]] = &[&[VM], &[OTHER], &[OTHER, VM]];
    let spec = (0..9_usize, select(resources), 1..9_i64).prop_map(|(id, resources, hours)| {
        event(&format!("e{id}"))
            .resources(resources)
            .not_before(hours * 3600)
    });
    let documents = vec(vec(spec, 0..9), 1..12);
    let config = ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(documents in documents, prepares: bool)| {
        let rules: &[_] = if prepares { &[PlainRule::all(Action::Prepare)] } else { &[] };
        let mut host = Host::<3>::new(Setup::new(model::policy(rules, Leader::Everyone)));
        for mut events in documents {
            let mut seen = std::collections::HashSet::new();
            events.retain(|spec| seen.insert(spec.id.clone()));
            // Answered before the next document, so that gone events are forgotten.
            for id in host.preparing.clone().into_iter().step_by(2) {
                host.ready(&id);
            }
            for id in host.preparing.clone() {
                if !events.iter().any(|spec| spec.id == id) {
                    host.ready(&id);
                }
            }
            check_capacity(&mut host, &events)?;
        }
    });
}

/// Found by long sequences: the event of another machine was prepared for while this machine was recovered, and then named it.
#[test]
fn an_event_that_names_this_machine_during_its_recovery_is_prepared_for_again() {
    let rules = [PlainRule {
        scope: Scope::Any,
        ..PlainRule::all(Action::Prepare)
    }];
    let (freeze, preempt) = (
        event("e").event_type("Freeze"),
        event("d").event_type("Preempt"),
    );
    let others = Stimulus::Document(vec![preempt.clone().resources(&[OTHER])]);
    let own = Stimulus::Document(vec![preempt]);
    let ready = Stimulus::Prepared(0, Preparation::Ready);
    for order in [
        [own.clone(), ready.clone(), ready.clone()],
        [ready.clone(), own, ready],
    ] {
        let mut pair = SessionAndModel::<8>::new(&rules, Leader::FirstResource);
        for stimulus in [Stimulus::Document(vec![freeze.clone()]), others.clone()]
            .iter()
            .chain(&order)
        {
            pair.apply(stimulus).unwrap_or(Ok(())).unwrap();
        }
        pair.host.advance(500);
        assert!(
            pair.host
                .trace
                .iter()
                .any(|entry| entry.what == Exchange::CancelRecovery("e".into()))
        );
    }
}
